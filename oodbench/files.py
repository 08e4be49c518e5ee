"""Files written whole or not at all, locks that end with the process that holds them, and files that users name."""

import errno
import json
import os
import re
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from types import NoneType
from typing import IO

from filelock import FileLock, Timeout

from oodbench.errors import UserError

if sys.platform != "win32":
    import fcntl

# What file systems answer that have no locks: Lustre without `flock`, NFS without its lock service, some of FUSE.
UNLOCKABLE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}

# A temporary file names the file it becomes and the host that writes it.
HOST = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname())[:40]
TEMPORARY = re.compile(r"\..{1,40}\.oodbench-([A-Za-z0-9_-]{0,40})\.[a-z0-9_]{8}\.tmp", re.DOTALL)
DAY = 86_400  # seconds
leader: int | None = None  # of a worker, the process that started it


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
    epoch: int | None = None  # that it is at, where it has said so
    epochs: int | None = None
    leader: int | None = None  # the process that started it, if it is a worker

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def is_of_this_run(self) -> bool:
        """Whether it is this process, or another worker of the process that started this one."""
        return self.is_here and (self.pid == os.getpid() or (leader is not None and self.leader == leader))

    def since(self) -> str:
        """When it took the lock, for people: a time of day here, and how long ago."""
        try:
            started = datetime.fromisoformat(self.started).astimezone()
        except (ValueError, OverflowError, OSError):  # a note that another program wrote
            return self.started
        now = datetime.now().astimezone()
        minutes = max(0, round((now - started).total_seconds() / 60))
        ago = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
        return f"{started:{'%H:%M' if started.date() == now.date() else '%Y-%m-%d %H:%M'}} ({ago} ago)"


Listener = Callable[[Holder | None], object]  # hears who holds what one waits for, where that is known


def write_atomically(path: Path, write: Callable[[IO[bytes]], object], followed: bool = False) -> None:
    """Let `write` fill a file that appears under its name only when complete and on disk.

    If it is followed by another in the same folder, its name is brought to disk with that one's.
    """
    with _cannot_write(path):
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")  # a device, say, which would be replaced
        try:
            _write_once(path, write)
        except FileNotFoundError:  # the temporary file was swept in a moment when nothing said whose it is
            _write_once(path, write)
        if not followed:
            _sync_folder(path.parent)


def check_writable(folder: Path) -> int:
    """Make the folder if need be, and a file in it that is gone again; the time by the clock of its file system."""
    path = folder / ".writable"
    with _cannot_write(path), _temporary(path) as (_, name):
        return os.stat(name).st_mtime_ns


def is_since(path: Path, moment: int) -> bool:
    """Whether a file is there and was written at that time or later."""
    try:
        return path.stat().st_mtime_ns >= moment
    except OSError:
        return False


def sweep(paths: Iterable[Path]) -> None:
    """Delete, of these files, what killed processes left: temporary files and notes of who holds a lock.

    A temporary file is locked while a process writes it. Some network file systems have locks that count on one host
    alone, so files of other hosts stay for a day; where there are no locks, all stay.
    """
    for path in paths:
        lock = path.with_name(path.name[1:].removesuffix(".holder"))
        with suppress(OSError):  # gone meanwhile, or not ours to delete
            if is_abandoned(path):
                path.unlink()
            elif path == _note(lock) and lock.suffix == ".lock" and lock.exists():
                with locked(lock, wait=False):  # whoever can take the lock deletes the note when letting go
                    pass


def is_abandoned(path: Path) -> bool:
    """Whether it is a temporary file that a killed process left."""
    ours = TEMPORARY.fullmatch(path.name)
    if ours is None or (ours[1] != HOST and time.time() - path.stat().st_mtime <= DAY):
        return False
    with open(path, "rb+") as file:
        return _hold(file)


def _write_once(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    with _temporary(path) as (file, name):
        write(file)
        file.flush()
        os.fsync(file.fileno())
        if os.name == "nt":  # which renames no open file; elsewhere it is held until it has its name
            file.close()
        os.chmod(name, 0o666 & ~umask())
        os.replace(name, path)


@contextmanager
def _temporary(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """A file beside `path` and its name: held while inside, gone afterwards unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.oodbench-{HOST}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            _hold(file)
            yield file, name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _hold(file: IO[bytes]) -> bool:
    """Lock an open file until it is closed; False if another process has it or the file system has no locks."""
    if sys.platform != "win32":  # where to have a file open is to hold it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _sync_folder(folder: Path) -> None:
    """Bring a new name in a folder to disk, where a folder can be opened and synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _cannot_write(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch.save hides a full disk in its own
        if not isinstance(cause, OSError):
            raise
        raise CannotWrite(
            f"cannot write '{path}': {cause.strerror}; free space, fix permissions or choose another folder"
        ) from None


def write_text(path: Path, text: str, followed: bool = False) -> None:
    write_bytes(path, text.encode(), followed)


def write_bytes(path: Path, content: bytes, followed: bool = False) -> None:
    write_atomically(path, lambda file: file.write(content), followed)


def umask() -> int:
    """Of this process; it can only be read by setting it."""
    current = os.umask(0)
    os.umask(current)
    return current


@contextmanager
def claim(path: Path, wait: bool, waiting: Listener | None = None) -> Iterator[bool]:
    """Hold `path` while inside, so that processes that share a folder divide the work; False if another holds it.

    The system lets go when the process ends, however it ends. Where the file system has no locks the claim is granted
    with a `NoLocksWarning`, once for each folder. While one waits, `waiting` is called now and then.
    """
    with ExitStack() as held:
        try:
            mine = held.enter_context(locked(path, wait, waiting))
        except NoLocks:
            _warn_of_no_locks(path.parent)
            mine = True
        except OSError as error:
            raise CannotWrite(
                f"cannot write '{path}': {error.strerror}; choose another folder with --results"
            ) from None
        yield mine


@cache
def _warn_of_no_locks(folder: Path) -> None:
    """Once, whatever filters for warnings there are: a run asks for many locks."""
    warnings.warn(
        f"the file system of '{folder}' has no locks, so processes that share this folder would do the same work "
        "twice; run one process per folder, or divide the work with --shard I/N (docs/scale.md)",
        NoLocksWarning,
        stacklevel=2,
    )


@contextmanager
def locked(path: Path, wait: bool, waiting: Listener | None = None) -> Iterator[bool]:
    """The lock alone: False if another holds it, `NoLocks` where there is none, any other OSError as it is.

    Its folder is made if need be. While it is held, a file beside it says by whom, for `holder`; not the file itself,
    which Windows lets nobody else read.
    """
    lock = FileLock(path, fallback_to_soft=False)  # a soft lock would outlive a process that is killed
    try:
        lock.acquire(blocking=wait, cancel_check=_telling(path, waiting) if waiting else None)
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


def _telling(path: Path, waiting: Listener) -> Callable[[], bool]:
    """Called at every look at a lock; tells who has it after a second, after a minute, and each time after twice that.

    It never says that one should give up.
    """
    began, due = time.monotonic(), 1.0

    def look() -> bool:
        nonlocal due
        if time.monotonic() - began >= due:
            due = max(60.0, 2 * due)
            waiting(noted(path))
        return False

    return look


def holder(path: Path) -> Holder | None:
    """Who holds a lock; None if nobody does, or if what the holder wrote cannot be read."""
    said = noted(path)
    if said is None or not path.exists():
        return None
    with suppress(OSError), locked(path, wait=False) as free:  # what cannot be tried is believed
        return None if free else said  # a process that was killed leaves its note behind
    return said


def note_epoch(path: Path, epoch: int, epochs: int) -> None:
    """Say how far the work under a lock is; only of a lock that this process holds, and only if that can be written."""
    held, this = noted(path), _this_process()
    if held is not None and (held.host, held.pid) == (this.host, this.pid):
        said = json.dumps(asdict(replace(held, epoch=epoch, epochs=epochs))).encode()
        with suppress(OSError):
            _write_once(_note(path), lambda file: file.write(said))


def noted(path: Path) -> Holder | None:
    """Who wrote that it holds a lock; it may have been killed since."""
    try:
        said = Holder(**json.loads(_note(path).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    kinds = [type(value) for value in vars(said).values()]
    return said if kinds[:3] == [str, int, str] and {*kinds[3:]} <= {int, NoneType} else None


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.holder")


def _this_process() -> Holder:
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Holder(socket.gethostname(), os.getpid(), started, leader=leader)
