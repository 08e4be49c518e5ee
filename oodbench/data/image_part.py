"""The images that play one part in a setting."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodbench import digests


@dataclass(frozen=True)
class ImagePart:
    """Some images with their labels, and which rows of which data set they are."""

    whole: Any  # uint8, M x C x H x W: a memory-mapped array, or Pictures that are decoded when they are read
    chosen: np.ndarray  # which images of it
    labels: np.ndarray
    rows: np.ndarray
    origin: str  # data set, and what was done to it
    domains: np.ndarray | None = None  # numbers of the data set's domains, if it has any
    content: str = ""  # a fingerprint, where the origin does not tell two sets apart: folders may share a name

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def images(self) -> Any:
        """Copied when asked for and not before: a run never holds what it does not use."""
        return self.whole[self.chosen]

    def take(self, some: Any) -> "ImagePart":
        domains = None if self.domains is None else self.domains[some]
        return replace(self, chosen=self.chosen[some], labels=self.labels[some], rows=self.rows[some], domains=domains)

    @property
    def digest(self) -> str:
        """Of the origin and the rows, in order; stored with results, which know folders by name alone."""
        return digests.of_bytes(self.origin.encode(), self.rows.astype("<i8").tobytes())

    @property
    def key(self) -> str:
        """Of the content too: two parts with one key hold the same pixels, whatever their sets are called."""
        return digests.of_text(f"{self.digest} {self.content}") if self.content else self.digest
