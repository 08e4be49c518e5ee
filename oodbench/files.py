"""Files written whole or not at all, and claims that end with the process that made them."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from oodbench.errors import UserError

try:
    import fcntl
except ImportError:  # Windows: two processes may then do the same work, but still never harm each other's files
    fcntl = None  # type: ignore[assignment]


class CannotWrite(UserError):
    """A full disk, or a folder that is closed to us: no fault of any method."""


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

    The system lets go when the process ends, however it ends.
    """
    if fcntl is None:
        yield True
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115
    except OSError as error:
        raise CannotWrite(f"cannot write '{path}': {error.strerror}; choose another folder with --results") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            pass
        yield True
