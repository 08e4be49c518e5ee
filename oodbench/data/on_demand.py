"""Images that are made when they are read, in place of an array of them. Knows nothing of how they are made."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class OnDemand:
    """Rows that a function makes of their numbers. Indexing chooses among them and makes nothing."""

    make: Callable[[np.ndarray], np.ndarray]  # row numbers to images
    each: tuple[int, int, int]  # the shape of an image: channels, height, width
    rows: np.ndarray
    dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (len(self.rows), *self.each)

    def __getitem__(self, chosen: Any) -> "OnDemand":
        """By a slice, row numbers or a mask."""
        rows = self.rows[chosen]
        if rows.ndim != 1:
            raise TypeError("images are chosen by a slice, a list of numbers or a mask")
        return replace(self, rows=rows)

    def then(self, step: Callable[[np.ndarray, np.ndarray], np.ndarray], channels: int) -> "OnDemand":
        """The same images, with something done to them after they are made, which leaves other channels."""
        return replace(self, make=lambda rows: step(self.make(rows), rows), each=(channels, *self.each[1:]))

    def read(self) -> np.ndarray:
        return self.make(self.rows) if len(self.rows) else np.empty(self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("images are made into a new array")
        return self.read().astype(dtype or self.dtype, copy=False)
