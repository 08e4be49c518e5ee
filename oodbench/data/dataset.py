"""Data sets: named uint8 images with labels, a source and a fingerprint. Families of files are in `sets`."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oodbench import digests
from oodbench.errors import UserError, unknown


@dataclass(frozen=True)
class Rows:
    """Some rows of a data set."""

    rows: np.ndarray  # their numbers in it
    labels: np.ndarray  # int64
    domains: np.ndarray | None  # int64: numbers of the set's domains, if it has any


class Dataset(ABC):
    """Where a data set's files are and how they are read. The first docstring line is what `oodbench list` shows."""

    name: ClassVar[str]
    has_test_part: ClassVar[bool]  # an official division into "train" and "test"
    source: ClassVar[str]
    mean: ClassVar[tuple[float, ...]]  # of the training pixels in [0, 1], per channel
    std: ClassVar[tuple[float, ...]]
    made_from: ClassVar[str | None] = None  # another data set
    class_names: tuple[str, ...] = ()  # where they are known, in the order of the labels
    domains: tuple[str, ...] = ()  # where the same classes come in several looks
    domain_of: np.ndarray  # int64 per row, where there are domains

    @abstractmethod
    def files(self) -> list[Path]:
        """The files everything is read from."""

    @abstractmethod
    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images, labels, and for each row whether it is of the test part."""

    @cached_property
    def fingerprint(self) -> str:
        """Of the files' content, wherever they lie."""
        return digests.of_pieces(hashlib.sha256(path.read_bytes()).digest() for path in self.files())

    @cached_property
    def _loaded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.load()

    def labels(self) -> np.ndarray:
        """Of every row, without reading images where that can be helped."""
        return self._loaded[1]

    def in_test(self) -> np.ndarray:
        """Of every row, whether it is of the test part."""
        return self._loaded[2]

    def arrays(self, size: int | None) -> tuple[Any, np.ndarray, np.ndarray]:
        """Images of a side length (default: their own), labels, and which rows are of the test part."""
        images, labels, in_test = self._loaded
        if size is not None and size != images.shape[-1]:
            own = f"{images.shape[-2]}x{images.shape[-1]}"
            raise UserError(f"'{self.name}' has images of {own}, the suite needs {size}x{size}; choose another set")
        return images, labels, in_test

    def part(
        self, test: bool | None, classes: Sequence[int] | None = None, domains: Sequence[str] | None = None
    ) -> Rows:
        """Train (False), test (True) or all rows (None), of some classes and domains; labels count within those."""
        labels, in_test = self.labels(), self.in_test()
        chosen = np.ones(len(labels), dtype=bool) if test is None else in_test == test
        if classes is not None:
            chosen &= np.isin(labels, classes)
        if domains is not None:
            for name in domains:
                if name not in self.domains:
                    raise unknown(f"domain of '{self.name}'", name, self.domains)
            chosen &= np.isin(self.domain_of, [self.domains.index(name) for name in domains])
        rows = np.flatnonzero(chosen)
        chosen_labels = labels[rows]
        if classes is not None:
            chosen_labels = np.searchsorted(np.sort(classes), chosen_labels)
        return Rows(rows, chosen_labels.astype(np.int64), self.domain_of[rows] if self.domains else None)
