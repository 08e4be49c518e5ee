"""Measurements in; intervals and paired comparisons of methods out, from the raw scores beside the results.

`samples` says what the intervals cover and why, `resampling` how images are drawn. Everything here takes a column: one
metric in one setting, or its mean over several, with a sample for each method.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from oodbench.errors import unknown
from oodbench.results import resampling, samples, significance
from oodbench.results.draws import Raw, Split
from oodbench.results.measurement import Measurement, Runs
from oodbench.results.metrics import METRICS, Metric, Scored
from oodbench.results.resampling import DRAWS
from oodbench.results.result import Result, Unreadable
from oodbench.results.samples import Interval, Sample
from oodbench.results.stored import SCORES, read_scores

__all__ = ["DRAWS", "Column", "Difference", "Interval", "Sample", "average", "columns", "compare", "different_pairs",
           "interval", "mean_difference", "ranks"]  # fmt: skip
# The parts that are drawn by lot from one pool, where a data set has no test part of its own.
POOLS = {
    "id": ("labelled", "wild_id", "id_validation", "mixed_id", "id"),
    "covariate": ("wild_covariate", "mixed_covariate", "covariate_validation", "covariate"),
    "semantic": ("wild_semantic", "mixed_semantic", "semantic"),
}


class DamagedScoresWarning(UserWarning):
    """Raw scores that cannot be read: what is known without them is told, and this is why it is less."""


@dataclass(frozen=True)
class Column:
    """One metric in one setting, or its mean over several: a sample for each method that has it."""

    metric: Metric
    samples: dict[str, Sample]

    @property
    def sign(self) -> int:
        return 1 if self.metric.higher_is_better else -1


@dataclass(frozen=True)
class Difference:
    """A method minus another, over the seeds and images that they share."""

    interval: Interval
    p: float
    adjusted: float  # p after Holm, over the rows of a column
    share_above: float  # of the draws of seeds and images in which the method is the better one; ties count half
    is_better: bool  # by the means

    @property
    def is_significant(self) -> bool:
        return self.adjusted < significance.LEVEL


def columns(
    runs: Mapping[str, Runs], metrics: Sequence[str], draws: int = DRAWS, images: bool = True
) -> dict[str, Column]:
    """What is known of methods in one setting, by metric. `images=False` reads no raw scores: seeds alone count."""
    reads = {method: [_read(each) if images else None for each in some.ok] for method, some in runs.items()}
    known: dict[str, dict[str, Sample]] = {}
    cells: dict[str, dict[str, list[Raw]]] = {}  # of methods whose every seed has raw scores
    for metric in metrics:
        known[metric], cells[metric] = {}, {}
        for method, some in runs.items():
            pairs = zip(some.ok, reads[method], strict=True)
            having = [(each, read) for each, read in pairs if math.isfinite(each.metrics.get(metric, math.nan))]
            if having:
                sample, own = _sample(metric, having)
                known[metric][method] = sample
                cells[metric] |= {method: own} if own else {}
    flat = {metric: [raw for some in own.values() for raw in some] for metric, own in cells.items() if own}
    for metric, drawn in resampling.resample(flat, draws).items():
        edges = np.cumsum([len(own) for own in cells[metric].values()])[:-1]
        for method, own_draws in zip(cells[metric], np.split(drawn, edges, axis=1), strict=True):
            known[metric][method] = known[metric][method].varying(own_draws)
    return {metric: Column(METRICS[metric], own) for metric, own in known.items()}


def average(some: Sequence[Column]) -> Column:
    """Of several settings: the mean, of methods that all of them have, over the seeds that all of them have."""
    means = {}
    for method in some[0].samples:
        own = [column.samples[method] for column in some if method in column.samples]
        seeds = set.intersection(*(set(each.values) for each in own))
        if len(own) == len(some) and seeds:
            means[method] = samples.mean_of([each.of(seeds) for each in own])
    return Column(some[0].metric, means)


def interval(column: Column, method: str) -> Interval | None:
    """Of a method's mean; None where the method is not in the column, or has one seed and no raw scores."""
    return samples.interval_of_rate(column.samples[method]) if method in column.samples else None


def compare(column: Column, baseline: str) -> dict[str, Difference]:
    """Every other method minus the baseline, where both have seeds in common and something to judge them by."""
    if baseline not in column.samples:
        raise unknown("method of these results", baseline, column.samples)
    differences, p_values, adjusted = _tested(column, baseline)
    return {name: _difference(differences[name], p, adjusted[name], column.sign) for name, p in p_values.items()}


def mean_difference(column: Column, method: str, baseline: str) -> float | None:
    """Over the seeds that both have; None if there are none."""
    if method not in column.samples or baseline not in column.samples:
        return None
    one, other = _shared(column.samples[method], column.samples[baseline])
    return one.mean - other.mean if one.values else None


def different_pairs(column: Column) -> set[frozenset[str]] | None:
    """Which two methods differ, paired, after Holm over all pairs; None where there is nothing to judge any of them by.

    Methods of equal content, one network's accuracies say, are no pair: leave out all but one of them.
    """
    pairs = {
        frozenset(pair): _shared(*(column.samples[name] for name in pair)) for pair in combinations(column.samples, 2)
    }
    p_values = {pair: samples.p_value(*both) for pair, both in pairs.items() if both[0].values}
    adjusted = significance.holm({pair: p for pair, p in p_values.items() if p is not None})
    return {pair for pair, p in adjusted.items() if p < significance.LEVEL} if adjusted else None


def ranks(column: Column) -> dict[str, float]:
    """1 is the best mean; equals share the mean of their ranks."""
    means = {name: column.sign * sample.mean for name, sample in column.samples.items()}
    values = list(means.values())
    return {name: 1 + sum(other > own for other in values) + (values.count(own) - 1) / 2 for name, own in means.items()}


def _tested(column: Column, baseline: str) -> tuple[dict[str, Sample], dict[str, float], dict[str, float]]:
    """Differences from the baseline, and their p-values before and after Holm, where there is something to judge by."""
    pairs = {name: _shared(each, column.samples[baseline]) for name, each in column.samples.items() if name != baseline}
    differences = {name: one.minus(other) for name, (one, other) in pairs.items() if one.values}
    p_values = {name: samples.p_value(*pairs[name]) for name in differences}
    known = {name: p for name, p in p_values.items() if p is not None}
    return differences, known, _adjusted(known, differences)


def _shared(sample: Sample, other: Sample) -> tuple[Sample, Sample]:
    """Both under the seeds that both have."""
    return sample.of(other.values), other.of(sample.values)


def _adjusted(p_values: Mapping[str, float], differences: Mapping[str, Sample]) -> dict[str, float]:
    """By Holm. Rows that share a network have one accuracy: they are one comparison, and none with each other."""
    contents = {name: differences[name].content for name in p_values if not differences[name].is_zero}
    adjusted = significance.holm({contents[name]: p_values[name] for name in contents})
    return {name: adjusted[contents[name]] if name in contents else 1.0 for name in p_values}


def _difference(difference: Sample, p: float, adjusted: float, sign: int) -> Difference:
    found = samples.interval(difference)
    assert found is not None  # or there were no p-value
    found = replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))
    above = samples.share_above_zero(difference)
    return Difference(found, p, adjusted, above if sign > 0 else 1 - above, sign * found.mean > 0)


def _sample(metric: str, having: Sequence[tuple[Measurement, "_Read | None"]]) -> tuple[Sample, list[Raw]]:
    """Without its draws; and the raw scores of its seeds, none unless all are there and give the very numbers."""
    sample = Sample({each.seed: float(each.metrics[metric]) for each, _ in having})
    raws = [read.raw for each, read in having if read is not None and read.gives(metric, each)]
    if len(raws) < len(having):
        return sample, []
    splits = [split for split in resampling.splits_of(metric) if split in raws[0]]
    by_lot = [split for split in splits if len({raw[split].digest for raw in raws}) > 1]
    overlap = max((_test_share(having[0][0].result, split) for split in by_lot), default=0.0)
    correct = tuple(raw[splits[0]].correct for raw in raws) if metric in resampling.ACCURACIES else ()
    images = tuple(" ".join(raw[split].digest for split in splits) for raw in raws)
    return replace(sample, overlap=overlap, correct=correct, images=images), raws


@dataclass(frozen=True, eq=False)
class _Read:
    """Raw scores, and the metrics that they give."""

    raw: Raw
    values: dict[str, float]

    def gives(self, metric: str, measurement: Measurement) -> bool:
        """Whether this is the measured number; what was selected by domains, say, is another."""
        value = self.values.get(metric, math.nan)
        return math.isclose(value, measurement.metrics[metric], rel_tol=1e-9, abs_tol=1e-12)


def _read(measurement: Measurement) -> _Read | None:
    """The raw scores behind a measurement; None if there are none, or they are damaged or of other images."""
    result = measurement.result
    if result.path is None or (measurement.choice is not None and not measurement.choice.is_last):
        return None
    parts, place = result.data.parts, f"{result.suite_label}/{result.setting}"
    try:
        scores = read_scores(result)
    except FileNotFoundError:
        return None
    except Unreadable as reason:
        file = result.path.with_suffix(SCORES)
        warnings.warn(f"ignored the raw scores '{file}': {reason}", DamagedScoresWarning, stacklevel=2)
        return None
    rows = {name: len(scored.scores) for name, scored in scores.items()}
    if any(name in parts and parts[name].rows != rows.get(name, 0) for name in POOLS):
        return None
    digests = {name: parts[name].digest if name in parts else f"{place}/{name}" for name in scores}
    if "covariate" in scores and _are_copies(scores["id"], scores["covariate"]):
        digests["covariate"] = digests["id"]  # drawn with them, in whatever setting
    raw = {name: Split(digests[name], scored) for name, scored in scores.items()}
    return _Read(raw, resampling.values(raw))


def _are_copies(id_images: Scored, covariate: Scored) -> bool:
    """Whether covariate images are the ID images, corrupted: thousands of labels do not agree by chance."""
    labels = id_images.labels, covariate.labels
    return labels[0] is not None and labels[1] is not None and np.array_equal(labels[0], labels[1])


def _test_share(result: Result, split: str) -> float:
    """Of the pool that the test images of a split are drawn from."""
    parts: Mapping[str, Any] = result.data.parts
    pool = sum(parts[name].rows for name in POOLS[split] if name in parts)
    return parts[split].rows / pool if pool and split in parts else 1.0
