"""Corrupted copies as their makers publish them, which are preferred to those that `corruptions` makes.

D. Hendrycks and T. Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, 2019;
N. Mu and J. Gilmer, MNIST-C: A Robustness Benchmark for Computer Vision, 2019.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodbench import digests
from oodbench.data import npy, store
from oodbench.data.download import Url
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sets.idx import MNIST
from oodbench.data.store import Decoded
from oodbench.data.stored import Fetched, Stored, missing
from oodbench.data.untrusted.archives import is_archive, unpack
from oodbench.data.untrusted.arrays import map_npy
from oodbench.errors import UserError


@dataclass(frozen=True)
class Official:
    """The published copies of one kind and severity."""

    name: str  # of the set of files
    images: np.ndarray  # uint8, N x C x H x W, memory-mapped
    rows: np.ndarray  # the rows of the clean data set that they are copies of, in ascending order
    fingerprint: str  # of the kind, all severities


def official(id_dataset: str, kind: str, severity: int) -> Official | None:
    """None if the data set has no published copies, or they are not in the data folder."""
    for files in (CIFAR10C(), MNISTC()):
        if files.clean.name == id_dataset:
            return files.published(kind, severity)
    return None


class _Files(Fetched):
    """A set stored kind by kind, each as a data set of its own: what is there of one does not depend on the others."""

    has_test_part = True
    clean: ClassVar[type[Stored]]
    kinds: ClassVar[tuple[str, ...]]
    severities: ClassVar[int]
    looked_for: ClassVar[str]

    @abstractmethod
    def find(self, folder: Path) -> dict[str, Callable[[], Decoded]]:
        """What reads each kind that lies in a folder, once everything that does not need all pixels is checked."""

    @abstractmethod
    def clean_rows(self) -> np.ndarray:
        """The rows of the clean data set that one severity holds copies of."""

    def files(self) -> list[Path]:
        return [store.data_folder() / self.name / kind / "images.npy" for kind in self._there()]

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise UserError(f"'{self.name}' holds copies for the corruptions of '{self.clean.name}'; name that data set")

    @cached_property
    def fingerprint(self) -> str:
        there = self._there()
        if not there:
            raise missing(self.name)
        return digests.of_text(repr({kind: each.fingerprint for kind, each in there.items()}))

    def _there(self) -> dict[str, store.Entry]:
        if not (store.data_folder() / self.name).is_dir():
            return {}
        entries = {kind: store.entry(f"{self.name}/{kind}") for kind in self.kinds}
        return {kind: entry for kind, entry in entries.items() if entry is not None}

    def is_there(self) -> bool:
        return bool(self._there())

    def state(self) -> tuple[str, str]:
        folder = store.data_folder() / self.name
        try:
            there = self._there()
            for kind, entry in there.items():
                if store.fingerprint(store.load(f"{self.name}/{kind}")) != entry.fingerprint:
                    return "broken", f"{folder / kind} has changed; get it again: oodbench data get {self.name}"
        except UserError as error:
            return "broken", str(error)
        if not there:
            return "missing", f"not in {folder}; get it with: oodbench data get {self.name}"
        count = f"{len(there)} of {len(self.kinds)} kinds"
        provenance = next(iter(there.values())).provenance
        return "present" if len(there) == len(self.kinds) else "partial", f"{count}, {provenance}, in {folder}"

    def summary(self, entry: store.Entry) -> str:
        return f"{entry.rows:,} images, {entry.fingerprint}; {len(self._there())} of {len(self.kinds)} kinds are there"

    def take(self, path: Path, work: Path, source: str, official_only: bool = False) -> Callable[[], store.Entry]:
        home = path
        if path.is_file() and is_archive(path):
            work.mkdir()
            unpack(path, home := work)
        elif path.is_file():
            if path.suffix != ".npy":
                raise UserError(f"'{path}' is neither an archive (tar, zip) that can be read nor {self.looked_for}")
            home = path.parent
        readers: dict[str, Callable[[], Decoded]] = {}
        try:
            for folder in [home, *sorted(below for below in home.rglob("*") if below.is_dir())]:
                readers = {**self.find(folder), **readers}
        except UserError as error:
            raise UserError(str(error).replace(str(work), str(path))) from None
        if not readers:
            raise UserError(
                f"'{path}' does not hold '{self.name}': looked for {self.looked_for} in it and the folders below"
            )
        return partial(self._save, readers, source)

    def _save(self, readers: dict[str, Callable[[], Decoded]], source: str) -> store.Entry:
        rows = sum(store.save(f"{self.name}/{kind}", read(), source).rows for kind, read in readers.items())
        self.__dict__.pop("fingerprint", None)  # of what was there before
        return store.Entry(self.fingerprint, source, rows)

    def published(self, kind: str, severity: int) -> Official | None:
        piece = f"{self.name}/{kind}"
        if kind not in self.kinds or not 1 <= severity <= self.severities:
            return None
        entry = store.entry(piece)
        if entry is None:
            return None
        copies, rows = store.load(piece), self.clean_rows()
        place = store.data_folder() / piece
        if len(copies.labels) != self.severities * len(rows):
            raise UserError(f"'{place}' has {len(copies.labels):,} images; get it again: oodbench data get {self.name}")
        self.check_labels(copies.labels, str(place))  # the clean set may have come, or changed, since
        part = slice((severity - 1) * len(rows), severity * len(rows))
        return Official(self.name, copies.images[part], rows, entry.fingerprint)

    def check_labels(self, labels: np.ndarray, where: str) -> None:
        """They are those of the clean set, once per severity; whatever is known without it, if it is not there."""
        wrong = labels[(labels < 0) | (labels >= self.clean.num_classes)]
        if len(wrong):
            last = self.clean.num_classes - 1
            raise UserError(f"'{where}' holds the label {wrong[0]}; '{self.clean.name}' has labels 0 to {last}")
        repeated = labels.reshape(self.severities, -1)
        if (repeated != repeated[0]).any():
            raise UserError(f"'{where}' has other labels at other severities; it is not in the official order")
        if store.entry(self.clean.name) is not None:
            different = int((repeated[0] != store.load(self.clean.name).labels[self.clean_rows()]).sum())
            if different:
                raise UserError(
                    f"'{where}' has other labels than '{self.clean.name}' in {different:,} of {repeated.shape[1]:,} "
                    f"rows; it is mislabeled or not in the official order: get it again"
                )

    def _images(self, path: Path, rows: int) -> np.ndarray:
        """Mapped and checked to be as many as they must."""
        images = map_npy(path)
        npy.check_images(images.shape, images.dtype, self.clean.shape, str(path))
        if len(images) != rows:
            raise UserError(f"'{path}' holds {len(images):,} images; '{self.name}' has {rows:,} there: get it again")
        return images


class CIFAR10C(_Files):
    """Published CIFAR-10-C: the CIFAR-10 test images under 19 corruptions at five severities."""

    name = "cifar10-c-files"
    clean = CIFAR10
    mean, std = CIFAR10.mean, CIFAR10.std
    severities = 5
    kinds = (
        *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
        *("defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "zoom_blur"),
        *("snow", "frost", "fog", "spatter", "brightness"),
        *("contrast", "saturate", "elastic_transform", "pixelate", "jpeg_compression"),
    )
    looked_for = "labels.npy and <kind>.npy, such as fog.npy,"
    sources = (Url("https://zenodo.org/records/2535967/files/CIFAR-10-C.tar", "56bf5dcef84df0e2308c6dcbcbbd8499"),)

    def clean_rows(self) -> np.ndarray:
        train, test = self.clean.rows
        return np.arange(train, train + test)

    def find(self, folder: Path) -> dict[str, Callable[[], Decoded]]:
        paths = {kind: folder / f"{kind}.npy" for kind in self.kinds if (folder / f"{kind}.npy").is_file()}
        if not paths:
            return {}
        named = folder / "labels.npy"
        if not named.is_file():
            raise UserError(
                f"'{folder}' lacks 'labels.npy', which belongs to {', '.join(p.name for p in paths.values())}"
            )
        rows = self.severities * len(self.clean_rows())
        labels = npy.as_labels(map_npy(named), rows, str(named))
        self.check_labels(labels, str(named))
        return {kind: self._reader(path, labels) for kind, path in paths.items()}

    def _reader(self, path: Path, labels: np.ndarray) -> Callable[[], Decoded]:
        images = self._images(path, len(labels))
        self._check_order(images, path)
        in_test = np.ones(len(labels), dtype=bool)
        return lambda: Decoded(npy.as_images(images, self.clean.shape, str(path)), labels, in_test)

    def _check_order(self, images: np.ndarray, path: Path) -> None:
        """One file of labels serves all kinds, so a shuffled kind is only seen by its images: a copy resembles its own
        original more than another.
        """
        if store.entry(self.clean.name) is None:
            return
        rows = self.clean_rows()
        some = np.arange(min(200, len(rows)))
        originals = _standardised(store.load(self.clean.name).images[rows[some]])
        for severity in range(self.severities):
            copies = npy.as_images(images[severity * len(rows) + some], self.clean.shape, str(path))
            gain = (_standardised(copies) * (originals - np.roll(originals, 1, axis=0))).sum(axis=1)
            # Measured on all kinds and severities: over 30 standard errors in order, under 4 in 3,800 other orders.
            if gain.mean() <= 10 * gain.std() / np.sqrt(len(gain)):
                raise UserError(
                    f"'{path}' does not hold copies of the test images of '{self.clean.name}' in their order; "
                    "get it again"
                )


def _standardised(images: np.ndarray) -> np.ndarray:
    """Rows of pixels with mean 0 and length 1."""
    pixels = images.reshape(len(images), -1).astype(np.float32)
    pixels -= pixels.mean(axis=1, keepdims=True)
    return pixels / np.maximum(np.linalg.norm(pixels, axis=1, keepdims=True), 1e-6)


class MNISTC(_Files):
    """Published MNIST-C: all MNIST images under 15 corruptions, and unchanged."""

    name = "mnist-c-files"
    clean = MNIST
    mean, std = MNIST.mean, MNIST.std
    severities = 1
    kinds = (
        *("shot_noise", "impulse_noise", "glass_blur", "motion_blur", "shear", "scale", "rotate", "translate"),
        *("brightness", "stripe", "fog", "spatter", "dotted_line", "zigzag", "canny_edges", "identity"),
    )
    looked_for = "<kind>/{train,test}_{images,labels}.npy, such as fog/train_images.npy,"
    sources = (Url("https://zenodo.org/records/3239543/files/mnist_c.zip", "4b34b33045869ee6d424616cd3a65da3"),)
    FILES = npy.NAMES[0]

    def clean_rows(self) -> np.ndarray:
        return np.arange(sum(self.clean.rows))

    def find(self, folder: Path) -> dict[str, Callable[[], Decoded]]:
        kind = folder.resolve().name
        if kind not in self.kinds or not npy.holds_arrays(folder, self.FILES):
            return {}
        paths = [folder / f"{name}.npy" for name in self.FILES]
        images = [self._images(path, rows) for path, rows in zip(paths[::2], self.clean.rows, strict=True)]
        labels = [
            npy.as_labels(map_npy(path), len(part), str(path)) for path, part in zip(paths[1::2], images, strict=True)
        ]
        self.check_labels(np.concatenate(labels), str(folder))

        def read() -> Decoded:
            train, test = (
                (npy.as_images(part, self.clean.shape, str(folder)), of_part)
                for part, of_part in zip(images, labels, strict=True)
            )
            return Decoded.of([train], [test])

        return {kind: read}
