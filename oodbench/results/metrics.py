"""Accuracy and OOD-detection metrics, all detection metrics from one sort of the scores.

Conventions: OOD is positive, a higher score is more OOD, a row is flagged when its score is at or above
the threshold, and rates are in [0, 1]. Two figures go by the name FPR95 and must not be mixed: `fpr95` is
the share of OOD missed when about 5 % of ID is flagged (SCONE, WOODS), `fpr95_ood_positive` the share of ID
flagged when at least 95 % of OOD is (OpenOOD, pytorch-ood).

This module knows nothing about models or datasets: it sees scores, predictions, confidences and labels.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Metric:
    """How a table shows and reads one value of `evaluate`."""

    name: str
    title: str
    higher_is_better: bool
    summary: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("covariate_acc", "OOD Acc.", True, "share of covariate-shifted images classified correctly"),
        Metric("id_acc", "ID Acc.", True, "share of ID images classified correctly"),
        Metric("fpr95", "FPR", False,
               "share of semantic OOD images missed at the threshold where the share of ID images flagged is closest "
               "to 5 % (SCONE, WOODS)"),
        Metric("auroc", "AUROC", True,
               "probability that a semantic OOD image scores higher than an ID image; a tie counts half"),
        Metric("aupr_in", "AUPR-in", True,
               "average precision (step-wise) with ID as the positive class, on negated scores"),
        Metric("aupr_out", "AUPR-out", True, "average precision (step-wise) with semantic OOD as the positive class"),
        Metric("fpr95_ood_positive", "FPR (OOD pos.)", False,
               "share of ID images flagged at the threshold that flags at least 95 % of semantic OOD images "
               "(OpenOOD, pytorch-ood)"),
        Metric("auroc_full", "AUROC (full)", True, "AUROC with covariate-shifted images counted as ID"),
        Metric("fpr95_full", "FPR (full)", False,
               "FPR (SCONE, WOODS) with covariate-shifted images counted as ID"),
        Metric("covariate_flagged", "Cov. flagged", False,
               "share of covariate-shifted images flagged at the FPR threshold"),
        Metric("accepted_acc", "Acc. accepted", True,
               "accuracy on the covariate-shifted images that are not flagged at the FPR threshold"),
        Metric("id_ece", "ID ECE", False, "expected calibration error on ID images, 15 bins"),
        Metric("covariate_ece", "Cov. ECE", False, "expected calibration error on covariate-shifted images, 15 bins"),
    )
}  # fmt: skip
BINS = 15  # of confidences, as in Guo et al., On Calibration of Modern Neural Networks, 2017


@dataclass(frozen=True, eq=False)
class Curve:
    """Counts of ID (`fps`) and OOD (`tps`) rows flagged at each distinct threshold, highest first.

    The first entry is infinite, a threshold above every score, where nothing is flagged; the last flags every row.
    """

    thresholds: NDArray[np.float64]
    fps: NDArray[np.int64]
    tps: NDArray[np.int64]

    def fpr95(self) -> float:
        """Share of OOD missed at the threshold whose share of ID flagged is nearest .05.

        Equals, to the last bit, what the released code reads off scikit-learn's `det_curve`. Its rule that
        the result is 1 if the nearest share exceeds .10 needs no branch: flagging nothing, which misses all
        OOD, is then nearer to .05. (Before scikit-learn 1.7 the curve lacked that point.)
        """
        return float((self.tps[-1] - self.tps[self._nearest_5_percent]) / self.tps[-1])

    def fpr95_threshold(self) -> float:
        """The threshold of `fpr95`; infinite where that flags nothing."""
        return float(self.thresholds[self._nearest_5_percent])

    @cached_property
    def _nearest_5_percent(self) -> int:
        """The entry whose share of ID flagged is nearest .05."""
        fpr = self.fps[::-1] / self.fps[-1]
        # argmin takes the first of equals: thresholds ascend, as in det_curve, so the one missing least OOD.
        return len(fpr) - 1 - int(np.argmin(np.abs(fpr - 0.05)))

    def fpr95_ood_positive(self) -> float:
        """Share of ID flagged at the highest threshold that flags at least 95 % of OOD."""
        return float(self.fps[np.argmax(self.tps / self.tps[-1] >= 0.95)] / self.fps[-1])

    def auroc(self) -> float:
        """Share of (ID, OOD) pairs in which OOD scores higher; ties count half."""
        # Trapezoids in whole half-pairs: the sum is exact and only the division rounds.
        half_pairs = np.sum(np.diff(self.fps) * (self.tps[1:] + self.tps[:-1]))
        return float(half_pairs / (2 * self.fps[-1] * self.tps[-1]))

    def aupr_out(self) -> float:
        """Average precision with OOD positive."""
        return _average_precision(self.tps, self.fps)

    def aupr_in(self) -> float:
        """Average precision with ID positive on the negated score."""
        # Read from the lowest score up, the rows not yet flagged are those that -score puts first.
        return _average_precision(self.fps[-1] - self.fps[::-1], self.tps[-1] - self.tps[::-1])


def curve(id_scores: ArrayLike, ood_scores: ArrayLike) -> Curve:
    """Sort all scores once, descending, and count what each distinct threshold flags."""
    id_rows, ood_rows = _checked("ID", id_scores), _checked("OOD", ood_scores)
    scores = np.concatenate([id_rows, ood_rows])
    order = np.argsort(scores)[::-1]
    scores = scores[order]
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # last row of each run of ties
    tps = np.cumsum(order >= len(id_rows), dtype=np.int64)[ends]
    fps = ends + 1 - tps
    return Curve(np.append(np.inf, scores[ends]), fps=np.append(0, fps), tps=np.append(0, tps))


def fpr95(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    return curve(id_scores, ood_scores).fpr95()


def fpr95_ood_positive(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    return curve(id_scores, ood_scores).fpr95_ood_positive()


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    return curve(id_scores, ood_scores).auroc()


def aupr_out(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    return curve(id_scores, ood_scores).aupr_out()


def aupr_in(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    return curve(id_scores, ood_scores).aupr_in()


def detection(id_scores: ArrayLike, ood_scores: ArrayLike) -> dict[str, float]:
    """The five detection metrics, from one sort."""
    return _detection(curve(id_scores, ood_scores))


def _detection(c: Curve) -> dict[str, float]:
    return {
        "fpr95": c.fpr95(),
        "auroc": c.auroc(),
        "aupr_in": c.aupr_in(),
        "aupr_out": c.aupr_out(),
        "fpr95_ood_positive": c.fpr95_ood_positive(),
    }


def accuracy(predictions: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows predicted correctly, every row counting the same."""
    predicted, true = np.asarray(predictions), np.asarray(labels)
    if predicted.shape != true.shape:
        raise ValueError(
            f"predictions have shape {predicted.shape} and labels {true.shape}; give one label for each prediction"
        )
    if true.size == 0:
        raise ValueError("there are no predictions; give at least one")
    return float(np.mean(predicted == true))


def calibration_error(confidence: ArrayLike, predictions: ArrayLike, labels: ArrayLike) -> float:
    """Expected calibration error: mean |accuracy - confidence| of the bins, each weighted by its rows.

    Bins are equally wide, without their lower and with their upper edge; the first takes a confidence of 0 too.
    """
    confident = np.asarray(confidence, dtype=np.float64)
    correct = np.asarray(predictions) == np.asarray(labels)
    if confident.shape != correct.shape or confident.size == 0:
        raise ValueError(f"confidences have shape {confident.shape}; give one for each of {correct.size} rows")
    bins = np.searchsorted(np.arange(1, BINS) / BINS, confident)
    # A bin's weight cancels the number of rows that its two means are divided by.
    return math.fsum(np.abs(np.bincount(bins, correct - confident))) / correct.size


@dataclass(frozen=True, eq=False)
class Scored:
    """What a method says of one set of rows; `labels` is None for rows of no known class."""

    scores: NDArray[Any]
    predictions: NDArray[Any]
    labels: NDArray[Any] | None = None
    confidence: NDArray[Any] | None = None  # in the prediction; None of raw scores that were stored without


def evaluate(id: Scored, covariate: Scored | None = None, semantic: Scored | None = None) -> dict[str, float]:
    """Every metric of METRICS that can be known, in that order; the `_full` ones count covariate rows as ID.

    Without semantic rows, where only generalization is measured, no score is thresholded: accuracies and calibration.
    Without covariate rows, where only detection is, nothing of them. Without confidences no calibration. Where every
    covariate row is flagged no accuracy of the accepted ones.
    """
    labels = [_labels(rows) for rows in (id, covariate) if rows is not None]
    id_scores = _checked("ID", id.scores)
    values = {"id_acc": accuracy(id.predictions, labels[0])}
    if covariate is not None:
        _checked("covariate", covariate.scores)
        values = {"covariate_acc": accuracy(covariate.predictions, labels[1]), **values}
    if semantic is not None:
        semantic_scores = _checked("semantic", semantic.scores)
        c = curve(id_scores, semantic_scores)
        values |= _detection(c)
        if covariate is not None:
            values |= _beside_shift(c, id_scores, covariate, semantic_scores)
    values |= _calibration("id_ece", id)
    return values if covariate is None else values | _calibration("covariate_ece", covariate)


def _labels(rows: Scored) -> NDArray[Any]:
    if rows.labels is None:
        raise ValueError("ID and covariate images need labels; only semantic images may have none")
    return rows.labels


def _beside_shift(
    c: Curve, id_scores: NDArray[np.float64], covariate: Scored, semantic_scores: NDArray[np.float64]
) -> dict[str, float]:
    """What detection does to covariate rows, and they to it; `c` is the curve without them."""
    covariate_scores = _checked("covariate", covariate.scores)
    full = curve(np.concatenate([id_scores, covariate_scores]), semantic_scores)
    accepted = covariate_scores < c.fpr95_threshold()
    values = {
        "auroc_full": full.auroc(),
        "fpr95_full": full.fpr95(),
        "covariate_flagged": float(np.mean(~accepted)),
    }
    if accepted.any():
        correct = np.equal(covariate.predictions, _labels(covariate))
        values["accepted_acc"] = float(np.sum(accepted & correct) / np.sum(accepted))
    return values


def _calibration(name: str, rows: Scored) -> dict[str, float]:
    """Nothing where the confidence was not stored, or is no number since the logits were none."""
    if rows.confidence is None or rows.labels is None or not np.isfinite(rows.confidence).all():
        return {}
    return {name: calibration_error(rows.confidence, rows.predictions, rows.labels)}


def _average_precision(positives: NDArray[np.int64], negatives: NDArray[np.int64]) -> float:
    """Precision at each threshold weighted by the recall gained there; both counts start at 0."""
    precision = positives[1:] / (positives[1:] + negatives[1:])
    # Dividing last keeps a perfect score at exactly 1, where a sum of rounded recalls can pass it.
    return float(np.sum(np.diff(positives) * precision) / positives[-1])


def _checked(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(scores, dtype=np.float64)
    if rows.ndim != 1:
        raise ValueError(f"{name} scores have shape {rows.shape}; give one number per row")
    if rows.size == 0:
        raise ValueError(f"{name} scores are empty; a metric needs at least one row")
    bad = np.count_nonzero(~np.isfinite(rows))
    if bad:
        raise ValueError(f"{bad} of {rows.size} {name} scores are NaN or infinite; give finite ones")
    return rows
