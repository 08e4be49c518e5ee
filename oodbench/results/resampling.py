"""Raw scores in, bootstrap draws of metrics out; `draws` says which images they are of.

An accuracy is linear in the counts of images. AUROC is bilinear, in those of ID and of OOD images, and is replaced by
its projection, the sum of what each side changes alone; DeLong's variance is that of the projection. What is left out
has a share of about 1 / images in the variance, and a draw costs a product of matrices in place of a sort. What depends
on the threshold of FPR95 is in `threshold_draws`. Every other metric is computed from the images drawn, which is slow:
it has FEWER draws.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from oodbench.results import threshold_draws
from oodbench.results.draws import Array, Consumer, Feed, Floats, Raw, counts, run
from oodbench.results.metrics import Scored, calibration_error, evaluate

DRAWS = 10_000
FEWER = 200
ACCURACIES = {"covariate_acc": "covariate", "id_acc": "id"}
CALIBRATION = {"covariate_ece": "covariate", "id_ece": "id"}
DETECTION = ("fpr95", "auroc", "aupr_in", "aupr_out", "fpr95_ood_positive")


def splits_of(metric: str) -> tuple[str, ...]:
    """The test splits that a metric depends on."""
    one = {**ACCURACIES, **CALIBRATION}.get(metric)
    if one is not None:
        return (one,)
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
    with _threads().limit(limits=1, user_api="blas"):  # on such small products further ones wait, and spin
        run(feeds, draws)
    return found


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def _accuracies(name: str, cells: Sequence[Raw], draws: int) -> tuple[Floats, list[Feed]]:
    found = np.empty((draws, len(cells)))
    splits = [cell[name] for cell in cells]

    def consumer_of(some: list[int]) -> Consumer:
        correct = np.stack([splits[i].correct for i in some], axis=1).astype(np.float64)

        def consume(which: slice, drawn: Floats) -> None:
            found[which, some] = drawn @ correct / len(correct)

        return consume

    return found, [Feed(splits, consumer_of)]


def _auroc(kept: Sequence[str], cells: Sequence[Raw], draws: int) -> tuple[Floats, list[Feed]]:
    """Sums of whole numbers, so that neither the order of a sum nor the number of threads changes a bit."""
    pairs = [2.0 * sum(cell[name].rows for name in kept) * cell["semantic"].rows for cell in cells]
    wins = [_half_wins(cell, kept) for cell in cells]
    totals = [sum(own[name].sum() for name in kept) for own in wins]
    found = np.tile([-total / count for total, count in zip(totals, pairs, strict=True)], (draws, 1))

    def feed(name: str) -> Feed:
        def consumer_of(some: list[int]) -> Consumer:
            own = np.stack([wins[i][name] for i in some], axis=1)
            scale = np.array([pairs[i] for i in some])

            def consume(which: slice, drawn: Floats) -> None:
                found[which, some] += drawn @ own / scale

            return consume

        return Feed([cell[name] for cell in cells], consumer_of, waits=name == "semantic")

    return found, [*map(feed, kept), feed("semantic")]


def _half_wins(cell: Raw, kept: Sequence[str]) -> dict[str, Floats]:
    """For an image to keep twice the number of OOD images that outscore it, ties once; for an OOD image the reverse."""
    ood_scores = cell["semantic"].scored.scores
    wins = {name: 2.0 * len(ood_scores) - _twice_rank(cell[name].scored.scores, ood_scores) for name in kept}
    every = np.concatenate([cell[name].scored.scores for name in kept])
    return {**wins, "semantic": _twice_rank(ood_scores, every)}


def _twice_rank(scores: Array, among: Array) -> Floats:
    ascending = np.sort(among)
    both = np.searchsorted(ascending, scores, "left") + np.searchsorted(ascending, scores, "right")
    return both.astype(np.float64)


def _any_metric(cell: Raw, metric: str, draws: int) -> Floats:
    """From the very images that are drawn."""
    used = {name: cell[name] for name in (splits_of(metric) if metric in CALIBRATION else cell)}
    drawn = {
        name: np.concatenate([block for _, block in counts(split.digest, split.rows, draws)]).astype(np.int64)
        for name, split in used.items()
    }
    found = np.empty(draws)
    for i in range(draws):
        found[i] = _metric({name: _repeated(split.scored, drawn[name][i]) for name, split in used.items()}, metric)
    return found


def _metric(sample: Mapping[str, Scored], metric: str) -> float:
    """No number where these images have none."""
    if metric not in CALIBRATION:
        return evaluate(**sample).get(metric, np.nan)
    rows = sample[CALIBRATION[metric]]
    assert rows.confidence is not None and rows.labels is not None  # or the cell had no such metric
    return calibration_error(rows.confidence, rows.predictions, rows.labels)


def _repeated(scored: Scored, times: NDArray[np.int64]) -> Scored:
    arrays = {name: np.repeat(array, times) for name, array in vars(scored).items() if array is not None}
    return replace(scored, **arrays)


FAST: dict[str, Callable[[Sequence[Raw], int], tuple[Floats, list[Feed]]]] = {
    **{name: partial(_accuracies, split) for name, split in ACCURACIES.items()},
    "auroc": partial(_auroc, ("id",)),
    "auroc_full": partial(_auroc, ("id", "covariate")),
    "fpr95": threshold_draws.missed,
    "covariate_flagged": threshold_draws.flagged,
    "accepted_acc": threshold_draws.accepted_accuracy,
}
