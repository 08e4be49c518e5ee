"""One metric of one method by seeds and images in; mean, interval and p-value out.

A number varies with the training (seeds) and with the test images. Seeds of a setting share their test images, or draw
them by lot from one pool. Let s² be the variance over n seeds. It holds what training does, and what images do as far
as seeds do not share them; it cannot hold what shared images do to all seeds alike. That is the covariance over images
between two seeds, C, from bootstrap draws in which all seeds meet the same images. So

    Var(mean over seeds) = s²/n + C,

neither of the two counted twice. Where seeds have test images of their own by lot, two lots of a share f of the pool
have a share f of their images in common. Which ones is not known, and f times the variance over images stands in.
Degrees of freedom are Satterthwaite's: n - 1 where training rules, many where images do; and no interval is narrower
than that of seeds alone. A hierarchical bootstrap (seeds, then images) would be the alternative; with three seeds its
intervals are far too narrow, for it has no t. It only says how often one method ranks above another.

One seed: an interval over images, exact for accuracies, and it leaves out training. No raw scores: t over seeds alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oodbench.results import significance
from oodbench.results.resampling import DRAWS
from oodbench.seeds import derive

Kind = Literal["seeds and images", "images", "seeds"]  # what an interval covers


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % interval, rates."""

    mean: float
    low: float
    high: float
    kind: Kind
    seeds: int

    @property
    def margin(self) -> float:
        """Half of its width: what stands after ±."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, eq=False)
class Sample:
    """A value for each seed, and how it varies with images: of a metric, a difference, or a mean over settings."""

    values: dict[int, float]  # by seed, ascending
    draws: NDArray[np.float64] | None = None  # a row for each draw of the images, a column for each seed
    overlap: float = 0.0  # the share of images that two seeds have in common, where each has its own by lot
    correct: tuple[NDArray[np.bool_], ...] = ()  # of an accuracy: which images are classified correctly, for each seed
    images: tuple[str, ...] = ()  # which images these are, for each seed

    @property
    def mean(self) -> float:
        return fmean(self.values.values())

    @property
    def content(self) -> tuple[object, ...]:
        """Equal where nothing tells two samples apart, such as accuracies of one network under two scorers."""
        return tuple(self.values.items()), None if self.draws is None else self.draws.tobytes()

    @property
    def is_zero(self) -> bool:
        """Of a difference: the two are the same, and there is nothing to test."""
        return not any(self.values.values()) and (self.draws is None or not self.draws.any())

    def varying(self, draws: NDArray[np.float64]) -> "Sample":
        """With draws of the images, moved so that their mean is the value.

        Fewer different images make some metrics larger, calibration errors above all, and so every draw is biased.
        A draw that has no such number, since all images are flagged say, counts as the mean.
        """
        has_number = np.isfinite(draws)
        means = np.mean(draws, axis=0, where=has_number)
        return replace(self, draws=np.where(has_number, draws - means, 0) + list(self.values.values()))

    def of(self, seeds: Iterable[int]) -> "Sample":
        """Those of its seeds that are among these."""
        wanted = set(seeds)
        places = [i for i, seed in enumerate(self.values) if seed in wanted]
        return replace(
            self,
            values={seed: value for seed, value in self.values.items() if seed in wanted},
            draws=None if self.draws is None else self.draws[:, places],
            correct=tuple(self.correct[i] for i in places) if self.correct else (),
            images=tuple(self.images[i] for i in places) if self.images else (),
        )

    def minus(self, other: "Sample") -> "Sample":
        """Of the same seeds."""
        values = {seed: value - other.values[seed] for seed, value in self.values.items()}
        draws = None if self.draws is None or other.draws is None else self.draws - other.draws
        return Sample(values, draws, max(self.overlap, other.overlap))


def mean_of(samples: Sequence[Sample]) -> Sample:
    """Of the same seeds."""
    values = {seed: fmean(each.values[seed] for each in samples) for seed in samples[0].values}
    drawn = [each.draws for each in samples if each.draws is not None]
    draws = sum(drawn[1:], start=drawn[0]) / len(drawn) if len(drawn) == len(samples) else None
    return Sample(values, draws, max(each.overlap for each in samples))


def interval_of_rate(sample: Sample) -> Interval | None:
    """None for one seed without raw scores, of which nothing is known but the value."""
    found = interval(sample)
    if found is not None and found.kind == "images" and sample.correct:
        low, high = significance.clopper_pearson(int(sample.correct[0].sum()), len(sample.correct[0]))
        return replace(found, low=low, high=high)
    return None if found is None else replace(found, low=_as_rate(found.low), high=_as_rate(found.high))


def _as_rate(value: float) -> float:
    """Draws of a perfect detector may lie above 1 by a rounding error, and both ends with them."""
    return min(max(value, 0.0), 1.0)


def interval(sample: Sample) -> Interval | None:
    """Of a mean or a difference; None where there is nothing to judge it by."""
    if len(sample.values) == 1:
        if sample.draws is None:
            return None
        tails = [significance.LEVEL / 2, 1 - significance.LEVEL / 2]
        low, high = (float(each) for each in np.quantile(sample.draws[:, 0], tails))
        return Interval(sample.mean, low, high, "images", 1)
    errors = standard_errors(sample)
    if sample.draws is None and errors[0][0] == 0:
        return None  # seeds that agree to the last digit, of a few images say, are no proof of precision
    margin = max(significance.t_quantile(degrees) * error for error, degrees in errors)
    kind: Kind = "seeds" if sample.draws is None else "seeds and images"
    return Interval(sample.mean, sample.mean - margin, sample.mean + margin, kind, len(sample.values))


def standard_errors(sample: Sample) -> list[tuple[float, float]]:
    """Over seeds, and over seeds and images, each with its degrees of freedom; of two seeds or more."""
    values = list(sample.values.values())
    of_seeds = float(np.var(values, ddof=1)) / len(values)
    total = of_seeds + common_variance(sample)
    degrees = (len(values) - 1) * (total / of_seeds) ** 2 if of_seeds > 0 else math.inf
    return [(math.sqrt(of_seeds), len(values) - 1), (math.sqrt(total), degrees)]


def common_variance(sample: Sample) -> float:
    """What images give all seeds alike: the mean covariance between two seeds."""
    if sample.draws is None:
        return 0.0
    covariances = np.cov(sample.draws, rowvar=False)
    count = len(covariances)
    own = float(np.trace(covariances)) / count
    between = max((float(covariances.sum()) - count * own) / (count * (count - 1)), 0.0)
    return between + sample.overlap * max(own - between, 0.0)


def p_value(sample: Sample, other: Sample) -> float | None:
    """That two methods, under the same seeds, are equally good; None where there is nothing to judge them by.

    Under one seed, over images alone: McNemar's for accuracies, and else the bootstrap's. Where no draw of that is on
    the other side of zero, so that p is less than the draws can tell, a normal distribution of their deviation tells
    it: with dozens of scorers, Holm's correction asks for a p that no number of draws in a table reaches.
    """
    difference = sample.minus(other)
    found = interval(difference)
    if found is None:
        return None
    if found.kind != "images":
        return max(significance.t_test(difference.mean, *each) for each in standard_errors(difference))
    if sample.correct and other.correct and sample.images == other.images:
        (first,), (second,) = sample.correct, other.correct
        return significance.mcnemar(int(np.sum(first & ~second)), int(np.sum(second & ~first)))
    assert difference.draws is not None
    drawn = difference.draws[:, 0]
    fewer = min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0))
    counted = float(min(1.0, 2 * (fewer + 1) / (len(drawn) + 1)))
    if fewer:
        return counted
    return min(counted, significance.t_test(difference.mean, float(np.std(drawn, ddof=1)), math.inf))


def share_above_zero(difference: Sample) -> float:
    """Of the draws of a hierarchical bootstrap; a draw that is exactly zero counts half.

    Seeds are drawn with replacement, the same for all methods, and with each draw of seeds goes a draw of images.
    """
    values = np.array(list(difference.values.values()))
    drawn = np.tile(values, (DRAWS, 1)) if difference.draws is None else difference.draws
    random = np.random.default_rng(derive("seeds", tuple(difference.values)))
    weights = random.multinomial(len(values), np.full(len(values), 1 / len(values)), size=len(drawn))
    means = np.sum(drawn * weights, axis=1)
    return float(np.mean(means > 0) + np.mean(means == 0) / 2)
