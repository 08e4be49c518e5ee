"""Differences in, verdicts out: agrees, differs, or cannot tell. Everything is a rate.

A cell agrees if its difference is shown to lie inside the band, by two one-sided tests. It differs if chance, at the
spread that was measured, does not explain it: Holm's correction holds the probability that any cell of a whole check
differs by chance at 5 %. All others cannot tell. A difference that is beyond chance and inside the band agrees.

Who asks whether anything got worse (`no_worse`) counts differences for the worse alone, at the same levels in one
direction: a cell agrees if it is shown to be worse by no more than the band, and differs if it is worse and chance does
not explain that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import ndtri, stdtrit

from oodbench.errors import visible
from oodbench.report.numbers import SHOWN
from oodbench.report.spread import Variance
from oodbench.results.significance import LEVEL, holm, t_test

Status = Literal["agrees", "differs", "cannot tell", "suspect", "missing", "tuned there"]
STATUSES: tuple[Status, ...] = ("agrees", "differs", "cannot tell", "suspect", "missing")  # that any check may have
RAW_SCORES = "raw_scores"  # stands among the metrics where scores are compared to the bit


@dataclass(frozen=True)
class Uncertainty:
    """Of a difference of two means: what further seeds would divide, and what they would not."""

    spread: Variance  # of one run
    seeds: int  # of ours, or of both sides if they were run alike
    sides: int = 1  # that have so many seeds
    other_runs: int | None = None  # of the other side, if it has another number
    fixed: float = 0.0  # variance besides that of training: images, rounding, a printed error

    @property
    def _training(self) -> float:
        """Its variance."""
        return self.spread.value * (self.sides / self.seeds + (1 / self.other_runs if self.other_runs else 0.0))

    @property
    def standard_error(self) -> float:
        return math.sqrt(self._training + self.fixed)

    @property
    def freedom(self) -> float:
        """Welch and Satterthwaite's: only the spread over trainings is estimated."""
        training = self._training
        return self.spread.freedom * ((training + self.fixed) / training) ** 2 if training else math.inf

    @property
    def margin(self) -> float:
        """Half of the 90 % interval of the difference."""
        return quantile(1 - LEVEL, self.freedom) * self.standard_error

    def p_value(self, difference: float, one_sided: bool = False) -> float:
        """Of a difference as large by chance, in either direction or upwards alone."""
        either = t_test(difference, self.standard_error, self.freedom)
        if not one_sided:
            return either
        return either / 2 if difference > 0 else 1 - either / 2

    def seeds_for(self, error: float) -> int | None:
        """How many make the standard error this small; None if none do."""
        ours = self.spread.value * self.sides
        left = error**2 - self.standard_error**2 + ours / self.seeds
        return None if left <= 0 else math.ceil(ours / left)


def quantile(probability: float, freedom: float) -> float:
    """Of Student's distribution, in one direction."""
    return float(ndtri(probability) if math.isinf(freedom) else stdtrit(freedom, probability))


@dataclass(frozen=True)
class Verdict:
    """One cell compared."""

    suite: str
    table: str  # the layout; empty against results
    setting: str
    row: str
    metric: str
    status: Status
    measured: float | None = None
    expected: float | None = None
    band: float = 0.0
    uncertainty: Uncertainty | None = None  # None: nothing is left to chance
    p_value: float | None = None  # after Holm's correction
    seeds_needed: int | None = None  # at which the same difference would be told
    note: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.measured is None or self.expected is None else self.measured - self.expected

    def off(self, no_worse: bool) -> float:
        """How far the two are apart, or by how much ours is the worse: then below 0 where it is better."""
        difference = self.difference or 0.0
        if not no_worse:
            return abs(difference)
        return -difference if SHOWN[self.metric].higher_is_better else difference

    @property
    def points(self) -> str:
        """The difference in percent; one that rounds to nothing is +0.00."""
        return "" if self.difference is None else f"{round(100 * self.difference, 2) + 0.0:+.2f}"

    def __str__(self) -> str:
        place = " / ".join(filter(None, [self.suite, self.table, self.setting, self.row, title_of(self.metric)]))
        if self.measured is None or self.expected is None:
            return f"{place}: {self.note or self.status}"
        text = f"{100 * self.measured:.2f}, expected {100 * self.expected:.2f}, off by {self.points}"
        if self.uncertainty is not None:
            text += f" ± {100 * self.uncertainty.margin:.2f} with a tolerance of {100 * self.band:.2f}"
        if self.p_value is not None:
            text += f", p = {self.p_value:.2g}"
        return f"{place}: {text}" + (f" ({self.note})" if self.note else "")


def title_of(metric: str) -> str:
    return SHOWN[metric].title if metric in SHOWN else "Raw scores" if metric == RAW_SCORES else visible(metric)


def judged(verdicts: Sequence[Verdict], no_worse: bool = False) -> list[Verdict]:
    """Every cell that chance has a part in, judged with all others of the check."""
    p_values = {
        i: each.uncertainty.p_value(each.off(no_worse), one_sided=no_worse)
        for i, each in enumerate(verdicts)
        if each.uncertainty is not None and _is_tested(each)
    }
    adjusted = holm(p_values)
    return [
        _judged(each, adjusted[i], len(adjusted), no_worse) if i in adjusted else each
        for i, each in enumerate(verdicts)
    ]


def _is_tested(verdict: Verdict) -> bool:
    return verdict.uncertainty is not None and verdict.status != "suspect"


def _judged(verdict: Verdict, p_value: float, cells: int, no_worse: bool) -> Verdict:
    assert verdict.uncertainty is not None
    off, uncertainty = verdict.off(no_worse), verdict.uncertainty
    if off + uncertainty.margin <= verdict.band:
        return replace(verdict, status="agrees", p_value=p_value)
    if p_value < LEVEL:
        return replace(verdict, status="differs", p_value=p_value)
    to_agree = max(verdict.band - off, 0.0) / quantile(1 - LEVEL, math.inf)
    to_differ = off / quantile(1 - LEVEL / cells / (1 if no_worse else 2), math.inf)
    needed = uncertainty.seeds_for(max(to_agree, to_differ))
    # The normal distribution asks for a seed or two less than Student's.
    needed = None if needed is None else max(needed, uncertainty.seeds + 1)
    return replace(verdict, status="cannot tell", p_value=p_value, seeds_needed=needed)


def cells_judged(verdicts: Sequence[Verdict]) -> int:
    """The cells that Holm's correction counts."""
    return sum(map(_is_tested, verdicts))


def in_words(counts: Mapping[Status, int], no_worse: bool = False) -> str:
    """5 agree, 1 differs, 0 cannot tell; what is suspect, missing or tuned there only if there is any."""
    agreeing, differing = counts.get("agrees", 0), counts.get("differs", 0)
    words = [f"{agreeing} no worse", f"{differing} worse"]
    if not no_worse:
        words = [f"{agreeing} agree{'s' * (agreeing == 1)}", f"{differing} differ{'s' * (differing == 1)}"]
    words.append(f"{counts.get('cannot tell', 0)} cannot tell")
    return ", ".join(
        [*words, *(f"{counts[each]} {each}" for each in ("suspect", "missing", "tuned there") if counts.get(each))]
    )
