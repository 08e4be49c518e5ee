"""Files written whole or not at all, locks that end with the process that holds them, and files that users name."""

import errno
import json
import os
import socket
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from oodbench.errors import UserError

# What file systems answer that have no locks: Lustre without `flock`, NFS without its lock service, some of FUSE.
UNLOCKABLE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}

TEXT_LIMIT = 2 * 2**20  # bytes of a text that a user writes: a hundred times the largest suite
WEIGHTS_LIMIT = 32 * 2**30  # bytes of a file of weights, which is read into memory


class CannotWrite(UserError):
    """A full disk, or a folder that is closed to us: no fault of any method."""


class NoLocks(OSError):
    """The file system has no locks, so nobody can tell whether another process is at work."""


class NoLocksWarning(UserWarning):
    """Work goes on without locks; only the user knows whether this is the one process in the folder."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    host: str
    pid: int
    started: str  # when it took the lock: UTC, ISO 8601


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file that appears under its name only when complete and on disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch.save hides a full disk in its own
        if not isinstance(cause, OSError):
            raise
        raise CannotWrite(
            f"cannot write '{path}': {cause.strerror}; free space, fix permissions or choose another folder"
        ) from None


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


@contextmanager
def claim(path: Path, wait: bool) -> Iterator[bool]:
    """Hold `path` while inside, so that processes that share a folder divide the work; False if another holds it.

    The system lets go when the process ends, however it ends. Where the file system has no locks the claim is granted
    with a `NoLocksWarning`, once for each folder.
    """
    with ExitStack() as held:
        try:
            mine = held.enter_context(locked(path, wait))
        except NoLocks:
            warnings.warn(
                f"the file system of '{path.parent}' has no locks, so processes that share this folder would do the "
                "same work twice; run one process per folder",
                NoLocksWarning,
                stacklevel=3,
            )
            mine = True
        except OSError as error:
            raise CannotWrite(
                f"cannot write '{path}': {error.strerror}; choose another folder with --results"
            ) from None
        yield mine


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """The lock alone: False if another holds it, `NoLocks` where there is none, any other OSError as it is.

    Its folder is made if need be. While it is held, a file beside it says by whom, for `holder`; not the file itself,
    which Windows lets nobody else read.
    """
    lock = FileLock(path, fallback_to_soft=False)  # a soft lock would outlive a process that is killed
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        pass
    except OSError as error:
        if error.errno in UNLOCKABLE:
            raise NoLocks(error.errno, error.strerror) from None
        raise
    if not lock.is_locked:
        yield False
        return
    this, note = _this_process(), _note(path)
    with suppress(OSError):  # a full disk: the lock holds all the same
        note.write_bytes(json.dumps(asdict(this)).encode())
    try:
        yield True
    finally:
        if os.getpid() == this.pid:  # a forked child leaves by here too, and the lock is its parent's
            with suppress(OSError):
                note.unlink()
            lock.release()


def holder(path: Path) -> Holder | None:
    """Who holds a lock; None if nobody does, or if what the holder wrote cannot be read."""
    try:
        noted = Holder(**json.loads(_note(path).read_bytes()))
        if [type(value) for value in vars(noted).values()] != [str, int, str] or not path.exists():
            return None
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    with suppress(OSError), locked(path, wait=False) as free:  # what cannot be tried is believed
        return None if free else noted  # a process that was killed leaves its note behind
    return noted


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.holder")


def _this_process() -> Holder:
    return Holder(socket.gethostname(), os.getpid(), datetime.now(timezone.utc).isoformat(timespec="seconds"))


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file of the user's, to be read: OSError, with words for the user, for whatever is no regular file.

    The file that was opened is the one that is looked at, and opening waits for nobody: a FIFO has no end and perhaps
    no writer, a device may be endless.
    """
    waits_for_nobody = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, os.O_RDONLY | waits_for_nobody)
    except ValueError:  # NUL, or letters that no file system here has
        raise OSError(errno.EINVAL, "no file can have such a name") from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "Not a regular file")
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
