"""Which methods of a column are not shown to be worse than the one with the best mean: the lighter mark of a table.

Each is compared with the best over the seeds and test images that both have, with Holm's correction over the column.
What differs from `statistics.compare` is the variance of a difference, of which three seeds say little:

E   where stored runs have the same two configurations under other seeds, it is pooled with their variance;
B   elsewhere it is shrunk towards what the rows of the column have in common, a straight line in log p (1 - p) of the
    rates (limma's moderated t with a trend).

The best is selected, and the trend is a guess, so both have a lower level than 5 %. `benchmarks/marks/simulate.py`
chose the levels and says how often each procedure is wrong; docs/results.md has the figures.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodbench.config.cards import folder
from oodbench.results import samples
from oodbench.results.samples import Sample
from oodbench.results.significance import LEVEL, holm
from oodbench.results.statistics import Column

Floats = NDArray[np.float64]
Stored = Mapping[str, Mapping[int, float]]  # by method and seed, of configurations that were run before

LEVEL_E = 0.025
LEVELS_B = {3: 0.005, 5: 0.01, 10: 0.02}  # from so many seeds on; with two, B tells nothing apart
FEWEST_STORED = 7  # seeds of stored runs, other than those of the table
MOST_PRIOR = 4.0  # degrees of freedom of the trend, at the most
FEWEST_PAIRS = 5  # that a trend is fitted to; of fewer, each has its own variance alone
SMALLEST_SPREAD = 1e-4  # of p (1 - p), which is 0 where every image is classified correctly
LEVEL_OF_RANKS = 0.1  # of a pair; sets of ranks then hold the true rank in 95 to 98 % of cases, as coverage.py says
FEWEST_RANKED = 3  # seeds
POWER = 0.8  # with which so many more seeds would tell two methods apart
MOST_SEEDS = 1_000


def t_test(differences: Floats, variances: Floats, degrees: float) -> Floats:
    """Two-sided p-values; `differences` are means over n seeds and `variances` those of these means."""
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -np.abs(differences) / np.sqrt(variances)
    found: Floats = 2 * stdtr(degrees, np.where(np.isnan(ratio), 0.0, ratio))
    return found


def pooled(variances: Floats, n: int, stored: Floats, m: int) -> tuple[Floats, float]:
    """Procedure E: the variances of differences over n seeds with those over m stored ones, and their degrees."""
    degrees = n + m - 2
    return ((n - 1) * variances + (m - 1) * stored) / degrees, degrees


def shrunk(variances: Floats, spreads: Floats, n: int) -> tuple[Floats, float]:
    """Procedure B: the variances of differences from one method, of which `spreads` are p (1 - p) of both together."""
    usable = variances > 0
    if usable.sum() < FEWEST_PAIRS:
        return variances, n - 1
    expected = np.log(np.maximum(spreads, SMALLEST_SPREAD))
    prior, weight = trend(np.log(variances[usable]), expected[usable], n - 1)
    found = variances.copy()
    found[usable] = ((n - 1) * variances[usable] + weight * prior) / (n - 1 + weight)
    return found, n - 1 + weight


def level_b(n: int) -> float | None:
    return max((level for seeds, level in LEVELS_B.items() if seeds <= n), default=None)


def rank_set(values: Floats, place: int, sizes: NDArray[np.int64] | None = None) -> tuple[int, int]:
    """Which ranks a method may have, 1 being the best: `values` has seeds down and methods across, larger is better.

    It ranks below every method that is shown to be better, and above every one that is shown to be worse. `sizes` are
    how many methods each column stands for; equals share the best of their ranks.
    """
    n, count = values.shape
    others = np.delete(np.ones(count, dtype=np.int64) if sizes is None else sizes, place)
    differences = np.delete(values - values[:, [place]], place, axis=1)
    rates = np.clip(np.abs(values.mean(axis=0)), 0, 1)
    spread = rates * (1 - rates)
    variances, degrees = shrunk(differences.var(axis=0, ddof=1), np.delete(spread + spread[place], place), n)
    means = differences.mean(axis=0)
    differs = t_test(means, variances / n, degrees) < LEVEL_OF_RANKS
    return 1 + int(others[differs & (means > 0)].sum()), 1 + int(others[~(differs & (means < 0))].sum())


def trend(logarithms: Floats, expected: Floats, degrees: int) -> tuple[Floats, float]:
    """The variances that a straight line expects, and how many degrees of freedom they are worth.

    A log of a variance on d degrees of freedom scatters by trigamma(d / 2) around its truth; what it scatters beyond
    that around the line tells how far the line can be trusted.
    """
    from scipy.special import digamma, polygamma

    centered = logarithms - digamma(degrees / 2) + np.log(degrees / 2)
    deviation = expected - expected.mean()
    square = float(np.sum(deviation**2))
    slope = float(np.sum(deviation * centered)) / square if square > 1e-12 else 0.0
    line = centered.mean() + slope * deviation
    excess = float(np.sum((centered - line) ** 2)) / (len(line) - 2) - float(polygamma(1, degrees / 2))
    weight = min(2 * inverse_trigamma(excess), MOST_PRIOR) if excess > 0 else MOST_PRIOR
    return np.exp(line + digamma(weight / 2) - np.log(weight / 2)), weight


def inverse_trigamma(value: float) -> float:
    """By Newton's method on its reciprocal, which is nearly straight."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        here = float(polygamma(1, x))
        step = here * (1 - here / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x


@dataclass(frozen=True)
class Tested:
    """A column: its best method, and what is said of the others."""

    best: str
    adjusted: dict[str, float]  # by method; below 5 % it is shown to be worse
    next: str | None  # the closest that is not shown to be worse and has other numbers
    seeds: int | None  # that would tell these two apart with a power of 80 %; None: too many, or nothing is known

    @property
    def not_shown_worse(self) -> set[str]:
        return {name for name, p in self.adjusted.items() if p >= LEVEL}


def tested(column: Column, stored: Stored) -> Tested | None:
    """None where there is nothing to compare. `stored` are the values of the column under the seeds of stored runs."""
    if len(column.samples) < 2:
        return None
    means = {name: column.sign * sample.mean for name, sample in column.samples.items()}
    best = max(means, key=lambda name: means[name])
    pairs = {
        name: (sample.of(column.samples[best].values), column.samples[best].of(sample.values))
        for name, sample in column.samples.items()
        if name != best
    }
    differences = {name: one.minus(other) for name, (one, other) in pairs.items() if one.values}
    contents = {name: each.content for name, each in differences.items() if not each.is_zero}
    distinct = {content: name for name, content in reversed(contents.items())}  # rows of one network are one
    variances = _variances(column, best, {name: differences[name] for name in distinct.values()}, stored)
    p_values = {name: _p(*pairs[name], differences[name], variances.get(name)) for name in distinct.values()}
    once = holm(p_values)
    adjusted = {name: once[distinct[contents[name]]] if name in contents else 1.0 for name in differences}
    close = [name for name in distinct.values() if adjusted[name] >= LEVEL]
    closest = max(close, key=lambda name: means[name], default=None)
    seeds = None
    if closest is not None and closest in variances:
        seeds = _seeds_needed(means[best] - means[closest], variances[closest], len(distinct))
    return Tested(best, adjusted, closest, seeds)


@dataclass(frozen=True)
class Rank:
    """Of a method by its mean, and the ranks that it may have, with 95 % confidence."""

    value: int  # 1 is the best; equals share the better rank
    low: int
    high: int


def ranks(column: Column) -> dict[str, Rank]:
    """Over the seeds that all methods have; empty where these are fewer than three.

    Methods with equal numbers, such as the accuracies of one network, have one rank.
    """
    if len(column.samples) < 2:
        return {}
    seeds = set.intersection(*(set(each.values) for each in column.samples.values()))
    if len(seeds) < FEWEST_RANKED:
        return {}
    contents = {name: each.content for name, each in column.samples.items()}
    rows: dict[tuple[object, ...], list[float]] = {}
    for name, sample in column.samples.items():
        rows.setdefault(contents[name], [column.sign * sample.values[seed] for seed in sorted(seeds)])
    values = np.array([*rows.values()]).T
    means = values.mean(axis=0)
    sizes = np.array([sum(each == content for each in contents.values()) for content in rows])
    found = {}
    for i, content in enumerate(rows):
        low, high = rank_set(values, i, sizes) if len(rows) > 1 else (1, 1)
        found[content] = Rank(1 + int(sizes[means > means[i]].sum()), low, high)
    return {name: found[content] for name, content in contents.items()}


@dataclass(frozen=True)
class _Variance:
    """Of a difference under one seed."""

    value: float
    degrees: float
    level: float  # of the procedure that it comes from


def _variances(column: Column, best: str, differences: Mapping[str, Sample], stored: Stored) -> dict[str, _Variance]:
    """By E where it can be, or else by B; of differences over too few seeds none."""
    found: dict[str, _Variance] = {}
    by_count: dict[int, list[str]] = {}
    for name, difference in differences.items():
        if len(difference.values) > 1 and not difference.is_zero:
            by_count.setdefault(len(difference.values), []).append(name)
    for n, names in by_count.items():
        own = np.array([np.var([*differences[name].values.values()], ddof=1) for name in names])
        level = level_b(n)
        if level is not None:
            rates = {name: min(max(column.samples[name].mean, 0.0), 1.0) for name in (*names, best)}
            spreads = np.array([rates[name] * (1 - rates[name]) + rates[best] * (1 - rates[best]) for name in names])
            values, degrees = shrunk(own, spreads, n)
            found |= {name: _Variance(float(v), degrees, level) for name, v in zip(names, values, strict=True)}
        for name, variance in zip(names, own, strict=True):
            before = _stored_differences(stored, name, best, column)
            if len(before) >= FEWEST_STORED:
                both, degrees = pooled(np.array(variance), n, np.array(np.var(before, ddof=1)), len(before))
                found[name] = _Variance(float(both), degrees, LEVEL_E)
    return found


def _stored_differences(stored: Stored, name: str, best: str, column: Column) -> list[float]:
    """Under seeds that the table does not have: those that it has would count twice."""
    own, other = stored.get(name, {}), stored.get(best, {})
    taken = column.samples[name].values.keys() | column.samples[best].values.keys()
    return [own[seed] - other[seed] for seed in own if seed in other and seed not in taken]


def _p(one: Sample, other: Sample, difference: Sample, variance: _Variance | None) -> float:
    """Of seeds alone, or of seeds and the images that they share if that is larger; at the level of its procedure."""
    n = len(difference.values)
    if n == 1:
        found = samples.p_value(one, other)
        return 1.0 if found is None else found
    if variance is None:
        return 1.0
    of_seeds = variance.value / n
    total = of_seeds + samples.common_variance(difference)
    degrees = variance.degrees * (total / of_seeds) ** 2 if of_seeds > 0 else math.inf
    mean = np.array(difference.mean)
    both = (t_test(mean, np.array(of_seeds), variance.degrees), t_test(mean, np.array(total), min(degrees, 1e9)))
    return min(1.0, float(max(both)) * LEVEL / variance.level)


def _seeds_needed(gap: float, variance: _Variance, comparisons: int) -> int | None:
    """By normal distributions, at the level that Holm's first step would ask for."""
    from scipy.special import ndtri

    if gap <= 0 or variance.value <= 0:
        return None
    z = float(ndtri(1 - variance.level / comparisons / 2) + ndtri(POWER))
    seeds = math.ceil(z**2 * variance.value / gap**2)
    return max(seeds, 2) if seeds <= MOST_SEEDS else None


@cache
def _history() -> dict[str, dict[str, Any]]:
    """Of configurations that were run under enough seeds, by their digest; written by benchmarks/marks/history.py."""
    found: dict[str, dict[str, Any]] = json.loads((folder("benchmarks") / "check" / "history.json").read_bytes())
    return found


def stored_values(variants: Sequence[str], metric: str) -> dict[int, float]:
    """By seed, the mean over the configurations of some settings; empty unless all of them are stored."""
    known = [_history().get(variant) for variant in variants]
    having = [
        dict(zip(each["seeds"], each[metric], strict=True)) for each in known if each is not None and metric in each
    ]
    if len(having) < len(known) or not having:
        return {}
    shared = set.intersection(*(set(each) for each in having))
    return {seed: sum(each[seed] for each in having) / len(having) / 10_000 for seed in sorted(shared)}
