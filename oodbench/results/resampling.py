"""Raw scores in, bootstrap draws of metrics out.

A draw counts how often each image of a test split is in a sample of as many images, with replacement. The counts
follow from the digest of the images and from nothing else: methods, seeds, settings and metrics meet the same draws of
the same images, so that any two columns of draws are paired, and a repetition gives the same bits on any machine.

An accuracy is linear in the counts. AUROC is bilinear, in those of ID and of OOD images, and is replaced by its
projection, the sum of what each side changes alone; DeLong's variance is that of the projection. What is left out has
a share of about 1 / images in the variance, and a draw costs a product of matrices in place of a sort. FPR95 is exact:
only the images near the threshold are counted one by one. Every other metric is computed from the images drawn, which
is slow: it has FEWER draws.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodbench.results.metrics import Scored, evaluate
from oodbench.seeds import derive

DRAWS = 10_000
FEWER = 200
BLOCK = 32  # draws at a time: their counts of 36,000 images fit in a processor's cache
ACCURACIES = {"covariate_acc": "covariate", "id_acc": "id"}
DETECTION = ("fpr95", "auroc")
TARGET = 0.05  # the share of ID images that FPR95 flags

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


def splits_of(metric: str) -> tuple[str, ...]:
    """The test splits that a metric depends on; all of them for one that has no fast way."""
    if metric in ACCURACIES:
        return (ACCURACIES[metric],)
    return ("id", "semantic") if metric in DETECTION else ("id", "covariate", "semantic")


def values(raw: Raw) -> dict[str, float]:
    """Every metric, of all images."""
    return evaluate(**{name: split.scored for name, split in raw.items()})


def resample(cells: Mapping[str, Sequence[Raw]], draws: int = DRAWS) -> dict[str, Floats]:
    """For each metric, of cells that have it: a row for each draw and a column for each cell."""
    found, feeds = {}, []
    for metric, having in cells.items():
        if metric in FAST:
            found[metric], own = FAST[metric](having, draws)
            feeds += own
        else:
            found[metric] = np.stack([_any_metric(cell, metric, min(draws, FEWER)) for cell in having], axis=1)
    _run(feeds, draws)
    return found


def counts(digest: str, rows: int, draws: int) -> Iterator[tuple[slice, Floats]]:
    """How often each image is in each draw; whole numbers, as floats for products of matrices."""
    random = np.random.default_rng(derive("images", digest))
    for start in range(0, draws, BLOCK):
        block = np.empty((min(BLOCK, draws - start), rows))
        for drawn in block:
            drawn[:] = np.bincount(random.integers(0, rows, rows), minlength=rows)
        yield slice(start, start + len(block)), block


@dataclass(frozen=True, eq=False)
class _Feed:
    """Who wants the counts of some splits, one of each cell."""

    splits: Sequence[Split]
    consumer_of: Callable[[list[int]], Consumer]  # for the cells of these numbers, whose images are the same
    waits: bool = False  # for all those that do not


def _run(feeds: Sequence[_Feed], draws: int) -> None:
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


def _accuracies(name: str, cells: Sequence[Raw], draws: int) -> tuple[Floats, list[_Feed]]:
    found = np.empty((draws, len(cells)))
    splits = [cell[name] for cell in cells]

    def consumer_of(some: list[int]) -> Consumer:
        correct = np.stack([splits[i].correct for i in some], axis=1).astype(np.float64)

        def consume(which: slice, drawn: Floats) -> None:
            found[which, some] = drawn @ correct / len(correct)

        return consume

    return found, [_Feed(splits, consumer_of)]


def _auroc(cells: Sequence[Raw], draws: int) -> tuple[Floats, list[_Feed]]:
    """Sums of whole numbers, so that neither the order of a sum nor the number of threads changes a bit."""
    pairs = [2.0 * cell["id"].rows * cell["semantic"].rows for cell in cells]
    wins = [_half_wins(cell) for cell in cells]
    found = np.tile([-own["id"].sum() / count for own, count in zip(wins, pairs, strict=True)], (draws, 1))

    def feed(name: str) -> _Feed:
        def consumer_of(some: list[int]) -> Consumer:
            own = np.stack([wins[i][name] for i in some], axis=1)
            scale = np.array([pairs[i] for i in some])

            def consume(which: slice, drawn: Floats) -> None:
                found[which, some] += drawn @ own / scale

            return consume

        return _Feed([cell[name] for cell in cells], consumer_of, waits=name == "semantic")

    return found, [feed("id"), feed("semantic")]


def _half_wins(cell: Raw) -> dict[str, Floats]:
    """For each ID image twice the number of OOD images that outscore it, ties once; for each OOD image the reverse."""
    id_scores, ood_scores = cell["id"].scored.scores, cell["semantic"].scored.scores
    below = {"id": _twice_rank(id_scores, ood_scores), "semantic": _twice_rank(ood_scores, id_scores)}
    return {"id": 2.0 * len(ood_scores) - below["id"], "semantic": below["semantic"]}


def _twice_rank(scores: Array, among: Array) -> Floats:
    ascending = np.sort(among)
    both = np.searchsorted(ascending, scores, "left") + np.searchsorted(ascending, scores, "right")
    return both.astype(np.float64)


class _Thresholds:
    """The highest ID score that FPR95 leaves unflagged, for each draw.

    Whoever is flagged next to it, ID or not, the threshold is above this score and below what comes next.
    """

    def __init__(self, id_scores: Array, draws: int) -> None:
        self.order = np.argsort(id_scores, kind="stable")[::-1]
        descending = id_scores[self.order]
        self.ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))  # last row of each run of ties
        self.scores = descending[self.ends]  # distinct
        self.unflagged = np.empty(draws, dtype=np.int64)  # place in `scores`; their number where all are flagged
        expected = TARGET * len(id_scores)
        self.window = self._groups(expected + 8 * expected**0.5 + 10)

    def _groups(self, rows: float) -> int:
        """How many distinct scores it takes for at least so many rows."""
        return min(int(np.searchsorted(self.ends, rows)) + 1, len(self.ends))

    def consume(self, which: slice, drawn: Floats) -> None:
        while True:
            flagged = _running(drawn, self.order[: self.ends[self.window - 1] + 1])[:, self.ends[: self.window]]
            unflagged = _first_unflagged(flagged, drawn.shape[1])
            if self.window == len(self.ends) or unflagged.max() < self.window:
                self.unflagged[which] = unflagged
                return
            self.window = self._groups(2.0 * self.ends[self.window - 1])  # an unlikely draw


def _running(drawn: Floats, order: NDArray[np.int64]) -> Floats:
    return np.cumsum(np.take(drawn, order, axis=1), axis=1)


def _first_unflagged(flagged: Floats, rows: int) -> NDArray[np.int64]:
    """`flagged` ID images down to each distinct score: how many of these scores FPR95's threshold flags.

    Of the shares next to the target below and above it the nearer, of equals the larger, as in `Curve.fpr95`.
    """
    lines, last = np.arange(len(flagged)), flagged.shape[1] - 1
    below = np.count_nonzero(flagged / rows <= TARGET, axis=1)
    larger = flagged[lines, np.minimum(below, last)]
    smaller = np.where(below > 0, flagged[lines, np.maximum(below - 1, 0)], 0)
    takes_larger = np.abs(larger / rows - TARGET) <= np.abs(smaller / rows - TARGET)
    return np.where(takes_larger, np.count_nonzero(flagged <= larger[:, None], axis=1), below)


def _fpr95(cells: Sequence[Raw], draws: int) -> tuple[Floats, list[_Feed]]:
    found = np.empty((draws, len(cells)))
    thresholds = [_Thresholds(cell["id"].scored.scores, draws) for cell in cells]
    ood_splits = [cell["semantic"] for cell in cells]

    def counted(some: list[int]) -> Consumer:
        return _each(_missed(ood_splits[i].scored.scores, thresholds[i], found[:, i]) for i in some)

    first = _Feed([cell["id"] for cell in cells], lambda some: _each(thresholds[i].consume for i in some))
    return found, [first, _Feed(ood_splits, counted, waits=True)]


def _each(consumers: Iterable[Consumer]) -> Consumer:
    every = list(consumers)

    def consume(which: slice, drawn: Floats) -> None:
        for consumer in every:
            consumer(which, drawn)

    return consume


def _missed(ood_scores: Array, thresholds: _Thresholds, found: Floats) -> Consumer:
    """The share of the OOD images drawn that are not above the threshold of the draw."""
    order = np.argsort(ood_scores)
    missed_below = np.append(np.searchsorted(ood_scores[order], thresholds.scores, "right"), 0)  # 0: all flagged
    places = missed_below[thresholds.unflagged]  # how many of the ascending scores are missed, in each draw
    always, ever = places.min(), places.max()
    surely = np.zeros(len(order))
    surely[order[:always]] = 1

    def consume(which: slice, drawn: Floats) -> None:
        further = np.zeros((len(drawn), ever - always + 1))
        np.cumsum(np.take(drawn, order[always:ever], axis=1), axis=1, out=further[:, 1:])
        missed = drawn @ surely + further[np.arange(len(drawn)), places[which] - always]
        found[which] = missed / len(order)

    return consume


def _any_metric(cell: Raw, metric: str, draws: int) -> Floats:
    """From the very images that are drawn. Covariate images that are copies of the ID images are drawn with them."""
    streams = {name: split.digest for name, split in cell.items()}
    labels = [cell[name].scored.labels for name in ("id", "covariate")]
    if labels[0] is not None and labels[1] is not None and np.array_equal(labels[0], labels[1]):
        streams["covariate"] = streams["id"]
    drawn = {
        name: np.concatenate([block for _, block in counts(streams[name], split.rows, draws)]).astype(np.int64)
        for name, split in cell.items()
    }
    found = np.empty(draws)
    for i in range(draws):
        sample = {name: _repeated(split.scored, drawn[name][i]) for name, split in cell.items()}
        found[i] = evaluate(**sample).get(metric, np.nan)
    return found


def _repeated(scored: Scored, times: NDArray[np.int64]) -> Scored:
    arrays = {name: np.repeat(array, times) for name, array in vars(scored).items() if array is not None}
    return replace(scored, **arrays)


FAST: dict[str, Callable[[Sequence[Raw], int], tuple[Floats, list[_Feed]]]] = {
    **{name: partial(_accuracies, split) for name, split in ACCURACIES.items()},
    "auroc": _auroc,
    "fpr95": _fpr95,
}
