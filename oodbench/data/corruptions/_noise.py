"""Noise that acts on each value by itself, so that it is known by the probability that level v becomes at most level o.

One uniform draw per value then decides, whatever the distribution; a table decides most of them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, pdtr

LEVELS = np.arange(256)
BEFORE, AFTER = LEVELS[:, None], LEVELS[None, :]
GUIDE_BITS = 12


@dataclass(frozen=True)
class Noise:
    """Turns clean levels and 32 random bits for each into noisy levels."""

    steps: np.ndarray  # v + P(at most o | v), flat, which puts it in ascending order
    guide: np.ndarray  # the new level for v and the first bits; -1 - (the lowest possible) if these leave several

    @classmethod
    def of(cls, cumulative: np.ndarray) -> "Noise":
        """From P(at most o | v), 256 rows of 256."""
        cumulative[:, 255] = 1
        bins = 1 << GUIDE_BITS
        position = np.ceil(cumulative[:, :255] * bins).astype(int)  # the first bin wholly above the level
        counts = np.bincount((position + (bins + 1) * BEFORE).ravel(), minlength=256 * (bins + 1))
        counts = counts.reshape(256, bins + 1)
        lowest = counts.cumsum(axis=1)[:, :-1].astype(np.int16)
        guide = np.where(counts[:, 1:] > 0, -1 - lowest, lowest)
        return cls((BEFORE + cumulative).ravel(), guide.ravel())

    def __call__(self, images: np.ndarray, bits: np.ndarray) -> np.ndarray:
        clean, bits = images.ravel(), bits.ravel()
        bins = (bits >> (32 - GUIDE_BITS)).astype(np.int32) + (clean.astype(np.int32) << GUIDE_BITS)
        levels = self.guide[bins]
        undecided = np.flatnonzero(levels < 0)
        row = clean[undecided].astype(int)
        draw = row + (bits[undecided] + 0.5) / 2**32
        at = 256 * row - 1 - levels[undecided]
        at += self.steps[at] < draw
        far = np.flatnonzero(self.steps[at] < draw)  # few: mostly two levels are left to choose from
        at[far] = np.searchsorted(self.steps, draw[far])
        levels[undecided] = at - 256 * row
        return levels.astype(np.uint8).reshape(images.shape)


@lru_cache(maxsize=2)
def gaussian(sigma: float) -> Noise:
    """v + 255 N(0, sigma), truncated: at most o is less than o + 1."""
    return Noise.of(ndtr((AFTER + 1 - BEFORE) / (255 * sigma)))


@lru_cache(maxsize=2)
def speckle(sigma: float) -> Noise:
    """v + v N(0, sigma)."""
    return Noise.of(ndtr(((AFTER + 1) / np.maximum(BEFORE, 1e-9) - 1) / sigma))


@lru_cache(maxsize=2)
def shot(photons: int) -> Noise:
    """Poisson with as many photons at white."""
    level = (np.arange(photons + 1) / photons * 255).astype(int)  # of each count
    largest = np.searchsorted(level, AFTER, side="right") - 1
    return Noise.of(pdtr(largest, photons * BEFORE / 255))


@lru_cache(maxsize=2)
def impulse(share: float) -> Noise:
    """0 or 255 instead, in equal parts."""
    return Noise.of(share / 2 + (1 - share) * (AFTER >= BEFORE))


def random_bits(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Unsigned numbers of which every bit is random, the same on every machine."""
    count = math.prod(shape)
    words = generator.bit_generator.random_raw(-(-count * np.dtype(dtype).itemsize // 8))
    return words.astype("<u8", copy=False).view(dtype)[:count].reshape(shape)
