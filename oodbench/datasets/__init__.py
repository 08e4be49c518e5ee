"""Data sets: named uint8 images with labels, a source and a fingerprint. One module per family of files."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class Images:
    """Rows of a data set in memory."""

    images: np.ndarray  # uint8, N x C x H x W
    labels: np.ndarray  # int64, N
    rows: np.ndarray  # their numbers in the data set


class Dataset(ABC):
    """Where a data set's files are and how they are read. The first docstring line is what `oodbench list` shows."""

    name: ClassVar[str]
    has_test_part: ClassVar[bool]  # an official division into "train" and "test"
    source: ClassVar[str]
    mean: ClassVar[tuple[float, ...]]  # of the training pixels in [0, 1], per channel
    std: ClassVar[tuple[float, ...]]

    @abstractmethod
    def files(self) -> list[Path]:
        """The files everything is read from."""

    @abstractmethod
    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images, labels, and for each row whether it is of the test part."""

    @cached_property
    def fingerprint(self) -> str:
        """Of the files' content, wherever they lie."""
        digest = hashlib.sha256()
        for path in self.files():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:16]

    @cached_property
    def _loaded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.load()

    def part(self, test: bool | None, classes: list[int] | None = None) -> Images:
        """Train (False), test (True) or all rows (None), of some classes; labels count within those classes."""
        images, labels, in_test = self._loaded
        chosen = np.ones(len(labels), dtype=bool) if test is None else in_test == test
        if classes is not None:
            chosen &= np.isin(labels, classes)
        rows = np.flatnonzero(chosen)
        kept = labels[rows]
        if classes is not None:
            kept = np.searchsorted(np.sort(classes), kept)
        return Images(images[rows], kept.astype(np.int64), rows)
