"""A kind of corruption: its constants, what it draws for one image and what it does to many.

The draws of an image follow from (kind, severity, row) alone, so a subset, in any order, gets the pixels of the whole.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodbench.data.corruptions._streams import Streams
from oodbench.errors import UserError

Draw = Callable[[np.random.Generator, int, Any], tuple[Any, ...]]  # from an image's generator, its side, the constants
PIXELS = 256 * 32 * 32  # of the images that are corrupted at a time


@dataclass(frozen=True)
class Kind:
    """function(images, severity, rows): uint8 N x 3 x S x S to the same, `rows` the images' numbers in their data set.

    `apply(images, constants, *draws)` may return what is beyond 0..255 or between two gray levels: that is cut off.
    """

    name: str
    small: Sequence[Any]  # constants for severities 1 to 5 at 32x32 (CIFAR-10-C)
    large: Sequence[Any]  # and at 200x200 to 256x256 (ImageNet-C, whose images are 224x224)
    apply: Callable[..., np.ndarray]
    draw: Draw | None = None

    def __call__(self, images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
        if images.dtype != np.uint8 or images.ndim != 4 or len(images) != len(rows):
            raise ValueError(f"needs uint8 images N x 3 x S x S and N rows, not {images.dtype} {images.shape}")
        constants = self.constants(images.shape[1:], severity)
        corrupted = np.empty(images.shape, dtype=np.uint8)
        for part in _parts(images):
            draws = self.draws(rows[part], severity, images.shape[-1])
            corrupted[part] = cut(self.apply(np.ascontiguousarray(images[part]), constants, *draws))
        return corrupted

    def constants(self, shape: tuple[int, ...], severity: int) -> Any:
        """For images of this shape."""
        channels, height, width = shape
        if channels != 3 or height != width or not (width == 32 or 200 <= width <= 256):
            raise UserError(
                f"cannot apply '{self.name}' to images of {channels} x {height} x {width}; "
                "it takes color images (3 channels) of 32x32, or of 200x200 to 256x256"
            )
        if severity not in range(1, 6):
            raise UserError(f"'{self.name}' has no severity {severity}; choose 1 to 5")
        return (self.small if width == 32 else self.large)[severity - 1]

    def draws(self, rows: np.ndarray, severity: int, side: int) -> list[np.ndarray]:
        """What is random about these rows: some arrays, in each one entry per row."""
        if self.draw is None:
            return []
        constants = self.constants((3, side, side), severity)
        streams = Streams("cifar-c", self.name, severity)
        return [np.stack(e) for e in zip(*(self.draw(streams.of(row), side, constants) for row in rows), strict=True)]


def _parts(images: np.ndarray) -> Iterator[slice]:
    """Few images at a time, so that memory stays flat and the processor's cache holds most of what is computed on."""
    size = PIXELS // math.prod(images.shape[2:])
    return (slice(start, start + size) for start in range(0, len(images), size))


def cut(values: np.ndarray) -> np.ndarray:
    """As uint8: clipped, and truncated, not rounded, as in the published files."""
    if values.dtype == np.uint8:
        return values
    return np.clip(values, 0, 255).astype(np.uint8)
