"""A column in; the difference of every two of its methods out, as `statistics.compare` gives it for one baseline.

Most of a large column is one network under many scorers, whose accuracies are one number: equals are compared once.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from oodbench.results import samples, significance
from oodbench.results.samples import Interval, Sample
from oodbench.results.statistics import Column

Key = tuple[object, ...]  # equal where nothing tells two differences apart


@dataclass(frozen=True)
class PairDifference:
    """One method minus another. `adjusted` is p after Holm over all that are compared with the second as the baseline,
    and `reversed_adjusted` over all that are compared with the first."""

    interval: Interval
    p: float
    adjusted: float
    reversed_adjusted: float


@dataclass(frozen=True)
class _Tested:
    interval: Interval
    p: float
    content: Key | None  # None: the two are the same, and there is nothing to test
    reversed_content: Key | None


def differences(column: Column, baselines: Collection[str] | None = None) -> dict[tuple[str, str], PairDifference]:
    """Of every two methods, the later in the column minus the earlier, where there is something to judge them by.

    Only pairs with one of `baselines` if these are given; Holm's correction is over the pairs of a baseline, and a p
    that is adjusted for another method as the baseline is then 1.
    """
    names = list(column.samples)
    chosen = set(names if baselines is None else baselines)
    kinds: dict[object, int] = {}
    kind_of = {name: kinds.setdefault(sample.content, len(kinds)) for name, sample in column.samples.items()}
    known: dict[tuple[int, int], _Tested | None] = {}
    tested: dict[tuple[str, str], _Tested] = {}
    for i, first in enumerate(names):
        for second in names[:i]:
            if first in chosen or second in chosen:
                kind = kind_of[first], kind_of[second]
                if kind not in known:
                    known[kind] = _tested(column.samples[first], column.samples[second])
                found = known[kind]
                if found is not None:
                    tested[first, second] = found
    adjusted = {baseline: _adjusted(tested, baseline) for baseline in names if baseline in chosen}
    return {
        (first, second): PairDifference(
            each.interval, each.p, adjusted.get(second, {}).get(first, 1.0), adjusted.get(first, {}).get(second, 1.0)
        )
        for (first, second), each in tested.items()
    }


def _tested(sample: Sample, other: Sample) -> _Tested | None:
    """None where they share no seed, or there is nothing to judge them by."""
    one, two = sample.of(other.values), other.of(sample.values)
    if not one.values:
        return None
    p, difference = samples.p_value(one, two), one.minus(two)
    found = samples.interval(difference)
    if p is None or found is None:
        return None
    found = replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))
    if difference.is_zero:
        return _Tested(found, p, None, None)
    return _Tested(found, p, _content(difference, 1.0), _content(difference, -1.0))


def _content(difference: Sample, sign: float) -> Key:
    """Of the difference or its reverse; zero keeps its sign, so that equal differences have equal bytes."""
    values = tuple((seed, 0.0 + sign * value) for seed, value in difference.values.items())
    return values, None if difference.draws is None else hash((0.0 + sign * difference.draws).tobytes())


def _adjusted(tested: dict[tuple[str, str], _Tested], baseline: str) -> dict[str, float]:
    """By Holm, of every method against the baseline; equal differences are one comparison, and none is none."""
    own: dict[str, tuple[float, Key | None]] = {}
    for (first, second), each in tested.items():
        if second == baseline:
            own[first] = each.p, each.content
        elif first == baseline:
            own[second] = each.p, each.reversed_content
    adjusted = significance.holm({content: p for p, content in own.values() if content is not None})
    return {name: 1.0 if content is None else adjusted[content] for name, (_, content) in own.items()}
