"""Data sets that are fetched or added once, and then read from the data folder."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodbench.data import npy, store
from oodbench.data.dataset import Dataset
from oodbench.data.download import Url
from oodbench.data.sources import SILENT, Listener, Source, Unavailable, checksum
from oodbench.data.store import Decoded
from oodbench.data.untrusted.archives import is_archive, unpack
from oodbench.errors import UserError


@dataclass(frozen=True)
class Layout:
    """One way the files of a set lie in a folder."""

    files: tuple[str, ...]  # what it looks for, as a user would write it
    read: Callable[[Path], Decoded | None]  # None if the files are not there; UserError if they are and are broken


def missing(name: str) -> UserError:
    return UserError(f"the data set '{name}' is not in '{store.data_folder()}'; get it with: oodbench data get {name}")


def existing(path: Path, name: str) -> Path:
    """What the user gave for a set, if it is there."""
    try:
        exists = path.exists()
    except OSError:  # a name too long, a folder that is closed to us
        exists = False
    if not exists:
        raise UserError(f"there is no file or folder '{path}'; give the archive or folder of '{name}'")
    return path


def unofficial(path: Path, name: str, deviation: str) -> UserError:
    return UserError(
        f"'{path}' is not the official content of '{name}' ({deviation}); nothing is stored. Get the official files, "
        "or add --force to use these"
    )


class Obtained(ABC):
    """What `oodbench data` asks of anything that lies in the data folder."""

    name: ClassVar[str]
    sources: ClassVar[tuple[Source, ...]] = ()

    @abstractmethod
    def is_there(self) -> bool:
        """Whether it can be read; UserError if it is there and damaged."""

    @abstractmethod
    def state(self) -> tuple[str, str]:
        """A word for what is there (missing, broken, present, verified, differs), and the details."""

    @abstractmethod
    def summary(self, entry: store.Entry) -> str:
        """What was got or added, in a few words."""

    @abstractmethod
    def take(self, path: Path, work: Path, source: str, official_only: bool = False) -> Callable[[], store.Entry]:
        """Read and check an archive or folder, `work` being free for what is unpacked; what then stores it.

        `official_only`: refuse what could be used and is not the official content, as far as that is known.
        """

    def stored_paths(self) -> list[Path]:
        """The files and folders that oodbench keeps of it, whether or not they are whole."""
        left = [path for source in self.sources if isinstance(source, Url) for path in source.left()]
        return [path for path in (store.data_folder() / self.name, *left) if path.exists()]

    def get(self, listener: Listener = SILENT, expected: str | None = None) -> store.Entry:
        """Fetch from the first source that can be had, decode, check and store; `expected`: the sha256 of the file."""
        if not self.sources:
            self.is_there()  # what the user has to put right comes before that it cannot be fetched

        def note(text: str) -> None:
            listener.tell(f"{self.name}: {text}")

        reasons, sources = [], self._sources(expected)
        for source in sources:
            note(source.describe())
            with store.working_folder() as work:
                try:
                    delivery = source.fetch(work, Listener(listener.progress, note))
                    save = self.take(delivery.path, work / "unpacked", delivery.origin)
                    delivery.accept()
                except (Unavailable, UserError) as error:
                    reason = str(error).replace(f"{work}{os.sep}", "")  # gone when this is read
                    # The advice has the address, unless it is one of several.
                    reasons.append(reason if len(sources) > 1 else reason.removeprefix(f"{source.describe()} "))
                    note(reason)
                    continue
                entry = save()
                if isinstance(source, Url):
                    source.forget()
                return entry
        tried = "; ".join(reasons) or "oodbench knows no address of it"
        by_hand = [each for source in self.sources for each in source.by_hand()]
        advice = f"fetch by hand {' or '.join(by_hand)}, then" if by_hand else "add what you have"
        raise UserError(f"cannot get '{self.name}' ({tried}); {advice}: oodbench data add {self.name} PATH")

    def _sources(self, expected: str | None) -> Sequence[Source]:
        if expected is None:
            return self.sources
        demanding = [replace(source, expected=expected) for source in self.sources if isinstance(source, Url)]
        if len(demanding) != 1 or len(self.sources) != 1:
            raise UserError(
                f"'{self.name}' does not come as one file from one address, which --expect-sha256 is for; leave it out"
            )
        return demanding

    def add(self, path: Path, expected: str | None = None, official_only: bool = False) -> store.Entry:
        """Take what the user has: an archive or a folder in any known layout; `expected`: the sha256 of an archive."""
        existing(path, self.name)
        source = f"added from {path.name}"
        if expected is not None:
            if not path.is_file():
                raise UserError(
                    f"'{path}' is not one file, which --expect-sha256 is for; give the archive, or leave it out"
                )
            actual = checksum(path, "sha256")
            if actual != expected:
                raise UserError(
                    f"'{path}' has sha256 {actual}, and --expect-sha256 demands {expected}; nothing is stored"
                )
            source += f" (sha256 {actual}, as demanded)"
        with store.working_folder() as work:
            return self.take(path, work / "unpacked", source, official_only)()


class Fetched(Obtained, Dataset):
    """A set that does not come with a package."""

    source = "the data folder"


class Stored(Fetched):
    """A set with a list of sources and of layouts; `official` is the fingerprint of its official content."""

    rows: ClassVar[tuple[int, int]]  # of the train and the test part
    shape: ClassVar[tuple[int, int, int]]
    num_classes: ClassVar[int]
    official: ClassVar[str | None] = None

    @abstractmethod
    def layouts(self) -> tuple[Layout, ...]:
        """In the order they are tried."""

    def files(self) -> list[Path]:
        return [store.data_folder() / self.name / "images.npy"]

    @cached_property
    def fingerprint(self) -> str:
        entry = store.entry(self.name)
        if entry is None:
            raise missing(self.name)
        return entry.fingerprint

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        decoded = store.load(self.name)
        return decoded.images, decoded.labels, decoded.in_test

    def is_there(self) -> bool:
        if store.entry(self.name) is None:
            return False
        store.load(self.name)
        return True

    def state(self) -> tuple[str, str]:
        folder = store.data_folder() / self.name
        try:
            entry = store.entry(self.name)
            if entry is None:
                return "missing", f"not in {folder}; get it with: oodbench data get {self.name}"
            if store.fingerprint(store.load(self.name)) != entry.fingerprint:
                return "broken", f"{folder} has changed; get it again: oodbench data get {self.name}"
        except UserError as error:
            return "broken", str(error)
        if self.official is None:
            word = "present"
        else:
            word = "verified" if entry.fingerprint == self.official else "differs"
        return word, f"{entry.rows:,} images, {entry.fingerprint}, {entry.provenance}, in {folder}"

    def summary(self, entry: store.Entry) -> str:
        verdict = ""
        if self.official is not None:
            verdict = ", verified" if entry.fingerprint == self.official else ": NOT the official content"
        return f"{entry.rows:,} images, {entry.fingerprint}{verdict}"

    def take(self, path: Path, work: Path, source: str, official_only: bool = False) -> Callable[[], store.Entry]:
        decoded = self.decode(path, work)
        if official_only and self.official is not None:
            actual = store.fingerprint(decoded)
            if actual != self.official:
                raise unofficial(path, self.name, f"its fingerprint is {actual}, the official one {self.official}")
        return partial(self._save, decoded, source)

    def _save(self, decoded: Decoded, source: str) -> store.Entry:
        entry = store.save(self.name, decoded, source)
        for known in ("fingerprint", "_loaded"):  # of what was there before
            self.__dict__.pop(known, None)
        return entry

    def _layouts(self) -> tuple[Layout, ...]:
        """Its own, and arrays, which every set may come as."""
        files = (
            Layout(tuple(f"{name}.npy" for name in names), partial(npy.read_folder, names=names, shape=self.shape))
            for names in npy.NAMES
        )
        return (*self.layouts(), *files, Layout(("an .npz of these",), partial(npy.read_npz_in, shape=self.shape)))

    def decode(self, path: Path, work: Path) -> Decoded:
        """The set in a folder or an archive, which is unpacked into `work`."""
        looked = " or ".join(", ".join(layout.files) for layout in self._layouts())
        if path.is_dir():
            return self._search(path, looked)
        if path.suffix == ".npz":
            decoded = npy.read_npz(path, self.shape)
            if decoded is None:
                raise UserError(f"'{path}' holds no array of '{self.name}': looked for {looked}")
            self._check(decoded, path)
            return decoded
        if is_archive(path):
            work.mkdir()
            try:
                unpack(path, work)
                return self._search(work, looked)
            except UserError as error:
                raise UserError(str(error).replace(str(work), str(path))) from None
        plain = path.name.removesuffix(".gz").replace(".", "-")
        if plain not in (
            name.removesuffix("[.gz]").replace(".", "-") for layout in self._layouts() for name in layout.files
        ):
            raise UserError(
                f"'{path}' is neither an archive (tar, zip) that can be read nor a file of '{self.name}': {looked}"
            )
        return self._search(path.parent, looked)

    def _search(self, home: Path, looked: str) -> Decoded:
        """From the first folder that holds the set whole; rather, where sets share names of files, the official one."""
        another: Decoded | None = None
        problem: UserError | None = None
        for folder in [home, *sorted(path for path in home.rglob("*") if path.is_dir())]:
            for layout in self._layouts():
                try:
                    decoded = layout.read(folder)
                    if decoded is None:
                        continue
                    self._check(decoded, folder)
                except UserError as error:
                    problem = problem or error
                    continue
                if self.official is None or store.fingerprint(decoded) == self.official:
                    return decoded
                another = another or decoded
        if another is not None:
            return another
        raise problem or UserError(
            f"'{home}' does not hold '{self.name}': looked for {looked} in it and the folders below"
        )

    def _check(self, decoded: Decoded, path: Path) -> None:
        counts = (int((~decoded.in_test).sum()), int(decoded.in_test.sum()))
        if counts != self.rows:
            expected = f"{self.rows[0]:,} training and {self.rows[1]:,} test images"
            raise UserError(f"'{path}' holds {counts[0]:,} and {counts[1]:,} images; '{self.name}' has {expected}")
        if decoded.images.shape[1:] != self.shape or decoded.images.dtype != np.uint8:
            raise UserError(
                f"'{path}' holds images of shape {decoded.images.shape[1:]}; '{self.name}' has {self.shape}"
            )
        wrong = decoded.labels[(decoded.labels < 0) | (decoded.labels >= self.num_classes)]
        if len(wrong):
            last = self.num_classes - 1
            raise UserError(f"'{path}' holds the label {wrong[0]}; '{self.name}' has labels 0 to {last}")
