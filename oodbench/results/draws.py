"""Which images a bootstrap draws, and who counts them.

A draw counts how often each image of a test split is in a sample of as many images, with replacement. The counts
follow from the digest of the images and from nothing else: methods, seeds, settings and metrics meet the same draws of
the same images, so that any two columns of draws are paired, and a repetition gives the same bits on any machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodbench.results.metrics import Scored
from oodbench.seeds import derive

BLOCK = 2**20  # counts at a time: they fit in a processor's cache
CHUNK = 2**14  # random rows at a time

Array = NDArray[Any]
Floats = NDArray[np.float64]
Consumer = Callable[[slice, Floats], None]  # some of the draws, and the counts: a row for each draw


@dataclass(frozen=True, eq=False)
class Split:
    """What a method says of the images of a test split; equal digests are equal images in equal order."""

    digest: str
    scored: Scored

    @property
    def rows(self) -> int:
        return len(self.scored.scores)

    @property
    def correct(self) -> NDArray[np.bool_]:
        return self.scored.predictions == self.scored.labels


Raw = Mapping[str, Split]  # the test splits of one method and seed, by name


def counts(digest: str, rows: int, draws: int) -> Iterator[tuple[slice, Floats]]:
    """How often each image is in each draw; whole numbers, as floats for products of matrices."""
    random = np.random.default_rng(derive("images", digest))
    size, chunk = max(1, BLOCK // rows), max(1, CHUNK // rows)
    for start in range(0, draws, size):
        block = np.empty((min(size, draws - start), rows))
        for first in range(0, len(block), chunk):
            some = block[first : first + chunk]
            places = random.integers(0, rows, some.shape) + rows * np.arange(len(some))[:, None]
            some[:] = np.bincount(places.ravel(), minlength=some.size).reshape(some.shape)
        yield slice(start, start + len(block)), block


@dataclass(frozen=True, eq=False)
class Feed:
    """Who wants the counts of some splits, one of each cell."""

    splits: Sequence[Split]
    consumer_of: Callable[[list[int]], Consumer]  # for the cells of these numbers, whose images are the same
    waits: bool = False  # for all those that do not


def run(feeds: Sequence[Feed], draws: int) -> None:
    """Counts of each set of images are drawn once, for all metrics."""
    for waits in (False, True):
        groups: dict[tuple[str, int], list[Consumer]] = {}
        for feed in feeds:
            if feed.waits == waits:
                for images, cells in _by_images(feed.splits).items():
                    groups.setdefault(images, []).append(feed.consumer_of(cells))
        for (digest, rows), consumers in groups.items():
            for which, block in counts(digest, rows, draws):
                for consumer in consumers:
                    consumer(which, block)


def _by_images(splits: Sequence[Split]) -> dict[tuple[str, int], list[int]]:
    groups: dict[tuple[str, int], list[int]] = {}
    for i, split in enumerate(splits):
        groups.setdefault((split.digest, split.rows), []).append(i)
    return groups


def each_of(consumers: Iterable[Consumer]) -> Consumer:
    every = list(consumers)

    def consume(which: slice, drawn: Floats) -> None:
        for consumer in every:
            consumer(which, drawn)

    return consume
