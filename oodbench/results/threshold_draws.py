"""Draws of what the threshold of FPR95 flags and leaves unflagged; only images near it are counted one by one.

FPR95 itself is exact. Of covariate images those above the highest unflagged ID score count as flagged; the threshold
lies between that score and the next one of an ID or OOD image, and a covariate image between the two is unflagged.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from oodbench.results.draws import Array, Consumer, Feed, Floats, Raw, Split, each_of

TARGET = 0.05  # the share of ID images that FPR95 flags


def missed(cells: Sequence[Raw], draws: int) -> tuple[Floats, list[Feed]]:
    """FPR95: the share of OOD images that are not flagged."""

    def figure(counted: "_Unflagged", which: slice, drawn: Floats) -> Floats:
        return counted.all(which, drawn) / drawn.shape[1]

    return _figures(cells, draws, "semantic", figure)


def flagged(cells: Sequence[Raw], draws: int) -> tuple[Floats, list[Feed]]:
    """The share of covariate images that are."""

    def figure(counted: "_Unflagged", which: slice, drawn: Floats) -> Floats:
        return 1 - counted.all(which, drawn) / drawn.shape[1]

    return _figures(cells, draws, "covariate", figure)


def accepted_accuracy(cells: Sequence[Raw], draws: int) -> tuple[Floats, list[Feed]]:
    """The share of correct predictions among covariate images that are not; no number where all are."""

    def figure(counted: "_Unflagged", which: slice, drawn: Floats) -> Floats:
        unflagged, correct = counted.all(which, drawn), counted.correct(which, drawn)
        return np.divide(correct, unflagged, out=np.full(len(drawn), np.nan), where=unflagged > 0)

    return _figures(cells, draws, "covariate", figure)


def _figures(
    cells: Sequence[Raw], draws: int, name: str, figure: Callable[["_Unflagged", slice, Floats], Floats]
) -> tuple[Floats, list[Feed]]:
    """The thresholds from the ID images of all draws first, then a figure of another split."""
    found = np.empty((draws, len(cells)))
    thresholds = [_Thresholds(cell["id"].scored.scores, draws) for cell in cells]

    def consumer(i: int) -> Consumer:
        counted = _Unflagged(cells[i][name], thresholds[i])

        def consume(which: slice, drawn: Floats) -> None:
            found[which, i] = figure(counted, which, drawn)

        return consume

    first = Feed([cell["id"] for cell in cells], lambda some: each_of(thresholds[i].consume for i in some))
    then = Feed([cell[name] for cell in cells], lambda some: each_of(map(consumer, some)), waits=True)
    return found, [first, then]


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
            self.window = self._groups(2.0 * self.ends[self.window - 1] + 1)  # an unlikely draw


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


class _Unflagged:
    """How many of the images drawn from a split are not above the threshold of the draw."""

    def __init__(self, split: Split, thresholds: _Thresholds) -> None:
        self.split = split
        self.order = np.argsort(split.scored.scores)
        ascending = split.scored.scores[self.order]
        upto = np.append(np.searchsorted(ascending, thresholds.scores, "right"), 0)  # 0: all are flagged
        self.places = upto[thresholds.unflagged]  # how many of the ascending scores, in each draw
        self.always, self.ever = self.places.min(), self.places.max()

    def all(self, which: slice, drawn: Floats) -> Floats:
        return self._count(which, drawn, np.ones(self.split.rows))

    def correct(self, which: slice, drawn: Floats) -> Floats:
        return self._count(which, drawn, self.split.correct.astype(np.float64))

    def _count(self, which: slice, drawn: Floats, weights: Floats) -> Floats:
        surely, near = self.order[: self.always], self.order[self.always : self.ever]
        of_surely = np.zeros(len(weights))
        of_surely[surely] = weights[surely]
        further = np.zeros((len(drawn), len(near) + 1))
        np.cumsum(np.take(drawn, near, axis=1) * weights[near], axis=1, out=further[:, 1:])
        found: Floats = drawn @ of_surely + further[np.arange(len(drawn)), self.places[which] - self.always]
        return found
