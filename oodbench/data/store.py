"""The data folder: every decoded set as one memory-mapped uint8 file, with its fingerprint and where it came from."""

import errno
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np

from oodbench import digests, files
from oodbench.errors import UserError
from oodbench.files import NoLocks, locked, write_atomically

FORMAT = 1
LOCK = "lock"  # in a working folder: held by the process that works there, and by nobody once that is killed

Labelled = tuple[np.ndarray, np.ndarray]  # images and their labels


def data_folder() -> Path:
    """`OODBENCH_DATA`, or the platform's cache folder."""
    given = os.environ.get("OODBENCH_DATA")
    try:
        if given:
            return Path(given).expanduser()
        return _cache_folder().expanduser() / "oodbench"
    except RuntimeError:
        if given:
            raise UserError(f"OODBENCH_DATA is '{given}', and there is no such user; set it to a folder") from None
        raise UserError("this user has no home folder; set OODBENCH_DATA to a folder") from None


def _cache_folder() -> Path:
    """The platform's."""
    if sys.platform == "darwin":
        return Path("~/Library/Caches")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")


@dataclass(frozen=True)
class Decoded:
    """A data set as arrays, before it is stored."""

    images: np.ndarray  # uint8, N x C x H x W
    labels: np.ndarray  # int64, N
    in_test: np.ndarray  # bool, N

    @classmethod
    def of(cls, train: Sequence[Labelled], test: Sequence[Labelled]) -> "Decoded":
        """From the pieces of the train part and of the test part, which are images with their labels."""
        pieces = [*train, *test]
        labels = np.concatenate([labels for _, labels in pieces]).astype(np.int64)
        train_rows = sum(len(labels) for _, labels in train)
        return cls(np.concatenate([images for images, _ in pieces]), labels, np.arange(len(labels)) >= train_rows)


@dataclass(frozen=True)
class Entry:
    """What the store says about a set without opening it."""

    fingerprint: str
    source: str
    rows: int
    format: int = FORMAT

    @property
    def provenance(self) -> str:
        """For a sentence: added by the user, or from an address or a package."""
        return self.source if self.source.startswith("added ") else f"from {self.source}"


def fingerprint(decoded: Decoded) -> str:
    """Of pixels, labels and parts: the same whatever files they came from."""
    images = decoded.images
    some_at_a_time = (images[start : start + 4096] for start in range(0, len(images), 4096))
    pixels = (np.ascontiguousarray(some).data for some in some_at_a_time)
    rest = decoded.labels.astype("<i8").tobytes(), decoded.in_test.astype(np.uint8).tobytes()
    return digests.of_pieces(itertools.chain([repr(images.shape).encode()], pixels, rest))


def _again(name: str) -> str:
    """The command that puts a set right; one that is stored in pieces is named `set/piece`."""
    return f"oodbench data get {name.partition('/')[0]}"


def entry(name: str) -> Entry | None:
    """What is stored under a name; None if nothing is, UserError if it is damaged."""
    path = data_folder() / name / "meta.json"
    try:
        values = json.loads(path.read_bytes())
        stored = Entry(**values)
        if [type(value) for value in vars(stored).values()] != [str, str, int, int]:
            raise TypeError("a value of another type")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, OSError, RecursionError):
        raise UserError(f"'{path}' is damaged; get the set again: {_again(name)}") from None
    if stored.format != FORMAT:
        raise UserError(f"'{path}' was written by another oodbench; get the set again: {_again(name)}")
    return stored


def load(name: str) -> Decoded:
    """The stored arrays, memory-mapped: a second start is immediate."""
    stored, folder = entry(name), data_folder() / name
    if stored is None:
        raise UserError(f"the data set '{name}' is not in '{data_folder()}'; get it with: {_again(name)}")
    try:
        images = _array(folder / "images.npy", np.uint8, 4)
        labels = _array(folder / "labels.npy", np.int64, 1)
        in_test = _array(folder / "in_test.npy", np.bool_, 1)
    except Damaged as error:
        raise UserError(f"'{folder}' is damaged ({error}); get the set again: {_again(name)}") from None
    if not len(images) == len(labels) == len(in_test) == stored.rows:
        raise UserError(f"'{folder}' is damaged (its files differ in length); get it again: {_again(name)}")
    return Decoded(images, np.array(labels), np.array(in_test))


class Damaged(Exception):
    """A file of the store cannot be read, and why."""


def _array(path: Path, dtype: type | None = None, dimensions: int | None = None) -> np.ndarray:
    """Memory-mapped."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header raises nearly anything
        raise Damaged(f"{path.name}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(array, np.ndarray) or (dimensions is not None and array.ndim != dimensions):
        raise Damaged(f"{path.name} holds something else")
    if dtype is not None and array.dtype != dtype:
        raise Damaged(f"{path.name} holds something else")
    return array


def _write_array(to: Path | IO[bytes], array: np.ndarray) -> None:
    try:
        np.save(to, array)
    except OSError as error:
        if error.strerror is None:  # on a full disk numpy says how much of it went, and not why
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({error})") from None
        raise


def save(name: str, decoded: Decoded, source: str) -> Entry:
    """Store a set; what was there before stays until the new one is complete."""
    fresh_entry = Entry(fingerprint(decoded), source, len(decoded.images))
    home = data_folder()
    with working_folder() as work:
        fresh = work / name
        try:
            fresh.mkdir(parents=True)
            _write_array(fresh / "images.npy", decoded.images)
            _write_array(fresh / "labels.npy", decoded.labels.astype(np.int64))
            _write_array(fresh / "in_test.npy", decoded.in_test.astype(bool))
            (fresh / "meta.json").write_text(json.dumps(asdict(fresh_entry), indent=1))
            (home / name).parent.mkdir(exist_ok=True)
            put(name, work)
        except OSError as error:
            raise UserError(
                f"cannot write '{home / name}': {error.strerror}; free space or set OODBENCH_DATA"
            ) from None
    return fresh_entry


def put(name: str, work: Path) -> None:
    """A set from the working folder to its place. What was there goes with that folder, or back if this fails."""
    fresh, place = work / name, data_folder() / name
    for attempt in range(100):
        before = work / f"before{attempt}" / name
        before.parent.mkdir(parents=True)
        try:
            with suppress(FileNotFoundError):
                os.replace(place, before)
            os.replace(fresh, place)
            return
        except BaseException as error:
            # Another process may have put the same set there between the two steps; then once more.
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST) and attempt < 99:
                continue
            with suppress(OSError):
                os.replace(before, place)
            raise


def remove(paths: Sequence[Path]) -> None:
    """Delete files and folders of the data folder; each is gone at once, whoever looks."""
    with working_folder() as work:
        for number, path in enumerate(paths):
            try:
                os.replace(path, work / str(number))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UserError(f"cannot delete '{path}': {error.strerror}; fix its permissions") from None


def cached_file(name: str, version: str) -> Path:
    """Where `cached_array` has an array, or will have it."""
    # The folder is called as the first version called it, so that what took hours to compute is still found.
    return data_folder() / "kept" / f"{name}-{digests.of_text(version)[:12]}.npy"


def cached_array(name: str, version: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """An array made once and then memory-mapped, under a name; another version takes the place of the old one."""
    path = cached_file(name, version)
    try:
        return _array(path)
    except Damaged:  # or not there: made again
        array = make()
    write_atomically(path, lambda file: _write_array(file, array))
    for old in path.parent.glob(f"{name}-{'[0-9a-f]' * 12}.npy"):
        if old != path:
            old.unlink(missing_ok=True)
    return array


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder beside the sets, on the same disk, gone afterwards; or, if the process is killed, at the next call."""
    home = data_folder()
    with ExitStack() as held:
        try:
            home.mkdir(parents=True, exist_ok=True)
            _sweep(home)
            work = _new_folder(home, held)
        except OSError as error:
            raise UserError(
                f"cannot write the data folder '{home}': {error.strerror}; set OODBENCH_DATA to another"
            ) from None
        held.callback(_delete, work)
        yield work


def _new_folder(home: Path, held: ExitStack) -> Path:
    """With a lock in it, as long as there are locks."""
    while True:
        work = Path(tempfile.mkdtemp(dir=home, prefix=".work-"))
        held.callback(_delete, work)  # after unlocking: Windows deletes no locked file
        try:
            mine = held.enter_context(locked(work / LOCK, wait=False))
        except NoLocks:  # where nobody sweeps
            return work
        except (FileNotFoundError, FileExistsError):  # swept by another process before it was locked
            continue
        if mine and work.exists():
            return work


def abandoned() -> list[Path]:
    """Working folders and temporary files that killed processes left in the data folder."""
    home = data_folder()
    return sorted(path for path in [*home.glob(".work-*"), *_hidden(home)] if _is_abandoned(path))


def _is_abandoned(path: Path) -> bool:
    with suppress(OSError):  # gone meanwhile, or without locks, where nobody knows whether its process lives
        if not path.is_dir():
            return files.is_abandoned(path)
        with locked(path / LOCK, wait=False) as free:
            return free
    return False


def _hidden(home: Path) -> Iterator[Path]:
    return (path for pattern in (".*", "*/.*") for path in home.glob(pattern) if path.is_file())


def sweep() -> None:
    """Delete what killed processes left in the data folder."""
    with suppress(UserError, OSError):  # a folder that cannot be named or read holds nothing of ours
        home = data_folder()
        _sweep(home)
        files.sweep(_hidden(home))


def _sweep(home: Path) -> None:
    """Delete the working folders of processes that were killed."""
    for left in home.glob(".work-*"):
        with suppress(OSError):  # it is not ours to delete, or without locks nobody knows whether its process lives
            with locked(left / LOCK, wait=False) as abandoned:
                if not abandoned:
                    continue
                # Killed between its two steps, `put` leaves a set here that is nowhere else.
                for meta in list(left.glob("before*/**/meta.json")):
                    place = home.joinpath(*meta.parent.relative_to(left).parts[1:])
                    if not place.exists():
                        os.replace(meta.parent, place)
                _delete(left)
            if os.name == "nt":  # which deletes no file that is locked; elsewhere it may be another's by now
                (left / LOCK).unlink()
                left.rmdir()


def _delete(folder: Path) -> None:
    """What lies in it first: once its lock is gone, another process may lock it anew."""
    with suppress(OSError):
        for inner in folder.iterdir():
            shutil.rmtree(inner, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
