"""Results of several scorers in; which of them to use out, by a rule that is stated.

The scorer with the highest mean over the semantic sets is the best one known; whatever is behind it by no more than one
standard error of the difference is as good, and of all these the cheapest is taken. That error is of the paired
difference over test images, from bootstrap draws as in `oodbench compare`: two scorers see the same images, and most of
what these do to the one they do to the other, so that DeLong's error of a single mean would call far too many equal.
Seconds are noisy, so what is cheaper is a fixed order.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodbench.config.cards import READS
from oodbench.config.registry import Registry
from oodbench.config.suite import NONE
from oodbench.errors import unknown
from oodbench.results import samples, statistics
from oodbench.results.ledger import Ledger
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.resampling import DETECTION
from oodbench.results.result import Result
from oodbench.results.samples import Sample
from oodbench.results.statistics import Column

CHOOSABLE = (*DETECTION, "auroc_full")
DRAWS = 1_000  # of the images
COSTLY_NEEDS = ("feature-maps", "images")  # beside what a scorer reads, the costlier last

Cost = Callable[[str], Any]  # of the name of a scorer; what sorts first is cheaper


@dataclass(frozen=True)
class Best:
    """The scorer that the rule takes, and what it goes by. Rates are in [0, 1]."""

    scorer: str
    method: str  # as results name it
    display: str
    metric: Metric
    mean: float  # over the semantic sets
    standard_error: float  # of that mean, over test images; NaN where there are no raw scores
    sets: tuple[str, ...]
    compared: int  # scorers
    highest: str  # the display of what has the best mean
    highest_mean: float
    difference_error: float  # the standard error of the difference between the two

    @property
    def rule(self) -> str:
        sets = f"the {len(self.sets)} semantic sets" if len(self.sets) > 1 else f"the semantic set {self.sets[0]}"
        scorers = "1 scorer" if self.compared == 1 else f"{self.compared} scorers"
        return (
            f"Among {scorers}, it is the cheapest whose mean {self.metric.title} over {sets} is within one standard "
            f"error of the best; scorers that read {READS[0]} are the cheapest, then {', '.join(READS[1:])}."
        )

    @property
    def warning(self) -> str:
        return (
            f"The choice was made on {', '.join(self.sets)}: on other images another scorer may be better, and this "
            "one is likely worse than it is here."
        )


def choose(results: Sequence[Result], metric: str = "auroc", cost: Cost | None = None) -> Best | None:
    """The best of the scorers that were measured on every semantic set; None where there is no semantic set."""
    if metric not in CHOOSABLE:
        raise unknown("metric to choose by", metric, CHOOSABLE)
    having = [each for each in results if _has(each, metric)]
    if not having:
        return None
    means, sets = _over_sets(having, metric)
    if not means.samples:
        return None
    ran = {each.method: each.config.method for each in having}
    signed = {method: means.sign * sample.mean for method, sample in means.samples.items()}
    cheapness = cost or cost_order()
    costs = {method: (cheapness(ran[method].scorer.name), method) for method in signed}
    highest = min(signed, key=lambda method: (-signed[method], costs[method]))
    errors = {method: _error_between(means.samples[highest], sample) for method, sample in means.samples.items()}
    equal = [method for method in signed if signed[highest] - signed[method] <= errors[method]]
    chosen = min([highest, *equal], key=lambda method: costs[method])
    return Best(
        scorer=ran[chosen].scorer.name,
        method=chosen,
        display=ran[chosen].display,
        metric=METRICS[metric],
        mean=means.samples[chosen].mean,
        standard_error=_error(means.samples[chosen]),
        sets=sets,
        compared=len(signed),
        highest=ran[highest].display,
        highest_mean=means.samples[highest].mean,
        difference_error=errors[chosen],
    )


def cost_order() -> Cost:
    """By what a scorer reads, then by what else it needs, then by name; what says nothing, of a plugin, comes last."""
    cards = Registry().cards

    def cost(scorer: str) -> tuple[int, int, str]:
        card = cards.get(scorer)
        if card is None or card.reads is None:
            return len(READS), 0, scorer
        needs = max((COSTLY_NEEDS.index(need) + 1 for need in card.needs if need in COSTLY_NEEDS), default=0)
        return READS.index(card.reads), needs, scorer

    return cost


def _has(result: Result, metric: str) -> bool:
    return (
        result.status == "ok"
        and result.config.setting.semantic != NONE
        and math.isfinite(result.metrics.get(metric, math.nan))
    )


def _over_sets(results: Sequence[Result], metric: str) -> tuple[Column, tuple[str, ...]]:
    """The mean of every method over the semantic sets, of those that have all of them; and their names.

    A set may stand in several settings, beside several covariate sets: it counts once.
    """
    by_set: dict[tuple[str, str], list[Column]] = {}
    for label, ledger in Ledger(results).suites.items():
        for setting in ledger.settings:
            runs = {method: some for (method, own), some in ledger.last_runs.items() if own == setting}
            semantic = next(iter(runs.values())).newest.config.setting.semantic
            column = statistics.columns(runs, [metric], DRAWS)[metric]
            by_set.setdefault((label, semantic), []).append(column)
    means = statistics.average([statistics.average(some) for some in by_set.values()])
    return means, tuple(dict.fromkeys(semantic for _, semantic in by_set))


def _error_between(sample: Sample, other: Sample) -> float:
    """Of their difference; 0 where nothing is known but the two numbers, so that only equal ones are equal."""
    difference = sample.of(other.values).minus(other.of(sample.values))
    error = _error(difference) if difference.values else 0.0
    return error if math.isfinite(error) else 0.0


def _error(sample: Sample) -> float:
    """The standard error of the mean over seeds, over images and, where there are several, over seeds."""
    if len(sample.values) > 1:
        return samples.standard_errors(sample)[-1][0]
    return math.nan if sample.draws is None else float(np.std(sample.draws[:, 0], ddof=1))
