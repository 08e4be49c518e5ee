"""Files that a user names: regular ones, of a bounded size. Reading one never waits, and never fills the memory."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from oodbench.errors import UserError

TEXT_LIMIT = 2 * 2**20  # bytes of a text that a user writes: a hundred times the largest suite
WEIGHTS_LIMIT = 32 * 2**30  # bytes of a file of weights, which is read into memory


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file of the user's, to be read: OSError, with words for the user, for whatever is no regular file.

    The file that was opened is the one that is looked at, and opening waits for nobody: a FIFO has no end and perhaps
    no writer, a device may be endless.
    """
    waits_for_nobody = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, os.O_RDONLY | waits_for_nobody)
    except ValueError:  # NUL, or letters that no file system here has
        raise OSError(errno.EINVAL, "no file can have such a name", path) from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            reason = os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "Not a regular file"
            raise OSError(errno.EINVAL, reason, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def blocks(path: str | os.PathLike[str], most: int) -> Iterator[bytes]:
    """The content of a file of the user's that may have so many bytes; OSError as `open_regular`."""
    with open_regular(path) as file:
        length, read = os.fstat(file.fileno()).st_size, 0
        while length <= most and (block := file.read(2**20)):
            read += len(block)
            length = max(length, read)  # a file may grow, and those of /proc are longer than they say
            yield block
        if length > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    return b"".join(blocks(path, most))


def read_text(path: Path, language: str) -> str:
    """A text that a user wrote: a suite, a request, a method."""
    try:
        return read_regular(path, TEXT_LIMIT).decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}; check the name and its permissions") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file; expected {language} in UTF-8") from None


def user_path(text: str) -> Path:
    """A path as a user writes it, with a folder for `~`."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UserError(f"nobody knows the home folder in '{text}'; write the path out, from / on") from None
