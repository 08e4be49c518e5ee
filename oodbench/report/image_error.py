"""The error that other test images would make in a rate, as a variance: for numbers whose scores nobody has.

Both sides of a comparison read much the same images, so it is counted once.
"""

import math
from dataclasses import dataclass

from scipy.special import ndtri

FLAGGED = 0.05  # the share of ID images that the threshold of FPR flags


@dataclass(frozen=True)
class Images:
    """How many of each kind were measured on."""

    id: int
    covariate: int
    semantic: int
    mixed: int | None = None


def variance(metric: str, rate: float, images: Images) -> float:
    if metric == "auroc":
        return hanley_mcneil(rate, images.semantic, images.id)
    if metric == "fpr95":
        return missed(rate, images.semantic, images.id)
    rows = {"id_acc": images.id, "covariate_acc": images.covariate, "out_share": images.mixed}[metric]
    return binomial(rate, rows or images.id)


def binomial(rate: float, rows: int) -> float:
    return max(rate * (1 - rate), 0.0) / rows


def hanley_mcneil(auroc: float, positives: int, negatives: int) -> float:
    """J. Hanley, B. McNeil, The Meaning and Use of the Area under a ROC Curve, Radiology 1982."""
    both_positive, both_negative = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    within = (positives - 1) * (both_positive - auroc**2) + (negatives - 1) * (both_negative - auroc**2)
    return (auroc * (1 - auroc) + within) / (positives * negatives)


def missed(rate: float, semantic: int, id_rows: int) -> float:
    """Of FPR: the error of its semantic images, and that of a threshold read off the ID images.

    How much more the share missed moves than the share flagged is taken from two normal distributions of equal width.
    """
    if not 0 < rate < 1:
        return 0.0
    slope = math.exp((float(ndtri(FLAGGED)) ** 2 - float(ndtri(rate)) ** 2) / 2)  # of the two densities
    return binomial(rate, semantic) + slope**2 * binomial(FLAGGED, id_rows)
