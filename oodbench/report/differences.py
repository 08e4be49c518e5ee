"""Results in, methods minus a baseline out, in every setting and over settings. Imports no torch.

`results.statistics` computes the differences, `difference_tables` shows them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oodbench.errors import UserError, unknown
from oodbench.report.groups import by_paper, is_given
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results import selection, statistics
from oodbench.results.ledger import Ledger, Place, as_ledger, in_order, methods_of
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.result import MethodRun, Result
from oodbench.results.statistics import Column, Difference

BASELINE = "erm"
BASELINE_OF_GIVEN = "msp"  # the scorer, where there is no ERM: the oldest baseline of detection
RECORDS = (
    "suite", "setting", "metric", "method", "baseline", "difference", "low", "high", "p", "p_holm", "significant",
    "share_above", "rank", "seeds", "covers", "note",
)  # fmt: skip
UNCERTAIN = {  # what a reader must know of an interval that does not cover both
    "images": "one seed: the interval covers test images only and leaves out the variation between trainings",
    "seeds": "no raw scores for this number: the interval covers seeds only and leaves out the test images they share",
}
HOW = {  # intervals were made, by what they cover
    "seeds and images": "The 95 % intervals cover the seeds and test images that both methods have (Student's t). "
    "Their variance is that over seeds divided by the number of seeds, plus that from the test images that all seeds "
    "share (bootstrap).",
    "images": "With one seed, intervals come from a paired bootstrap of the test images, and the p-values of "
    "accuracies from McNemar's test.",
    "seeds": "Without raw scores, intervals are Student's t over the seeds that both methods have.",
}


@dataclass(frozen=True)
class Comparison:
    """One suite and preset: every method minus the baseline, in every setting and by every metric."""

    suite: str
    baseline: str
    methods: dict[str, MethodRun]  # in the order of the tables; the baseline among them
    settings: list[str]
    metrics: list[Metric]
    columns: dict[tuple[str, str], Column]  # by setting and metric
    differences: dict[tuple[str, str], dict[str, Difference]]
    part: str = ""  # of the suite's results, if they fill two tables
    sources: list[Result] = field(default_factory=list)

    @property
    def others(self) -> list[str]:
        return [method for method in self.methods if method != self.baseline]

    @property
    def how(self) -> list[str]:
        """How its intervals were made, in a sentence or two."""
        kinds = {each.interval.kind for own in self.differences.values() for each in own.values()}
        return [sentence for kind, sentence in HOW.items() if kind in kinds]

    def note(self, setting: str, metric: str, method: str) -> str:
        """Why there is no difference, or what it leaves out; empty if there is nothing to say."""
        samples = self.columns[setting, metric].samples
        missing = [name for name in (self.baseline, method) if name not in samples]
        if missing:
            return f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no {METRICS[metric].title} here"
        difference = self.differences[setting, metric].get(method)
        if difference is not None:
            return self.uncertain(difference.interval.kind, method)
        if samples[method].values.keys().isdisjoint(samples[self.baseline].values):
            return f"no seed in common with {self.baseline}; run them with the same --seeds"
        return "too few seeds to judge by, and no raw scores for this number"

    def uncertain(self, kind: str, method: str) -> str:
        """What an interval leaves out of the difference to the baseline, or of the baseline itself."""
        given = kind == "images" and is_given(self.methods[method]) and is_given(self.methods[self.baseline])
        return "" if given else UNCERTAIN.get(kind, "")  # nothing was trained, and so nothing is left out

    def bare(self, setting: str, metric: str, method: str) -> float | None:
        """The difference alone, where there is nothing to judge it by; None where there is none either."""
        column = self.columns[setting, metric]
        return statistics.mean_difference(column, method, self.baseline)

    def tally(self, metric: str, method: str) -> tuple[int, int, int]:
        """In how many settings it wins, ties and loses: by differences that hold after Holm."""
        own = [self.differences[setting, metric].get(method) for setting in self.settings]
        held = [each for each in own if each is not None and each.is_significant]
        wins = sum(each.is_better for each in held)
        return wins, sum(each is not None for each in own) - len(held), len(held) - wins

    def mean_rank(self, metric: str, method: str) -> float | None:
        """Among these methods, over the settings that it has been run in."""
        ranks = [statistics.ranks(self.columns[setting, metric]) for setting in self.settings]
        own = [each[method] for each in ranks if method in each]
        return sum(own) / len(own) if own else None


def compare(
    results: Ledger | Sequence[Result],
    baseline: str | None = None,
    methods: Sequence[str] = (),
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> list[Comparison]:
    """For every suite that has the baseline and something to compare with it; `methods` are all if none are given."""
    ledger = as_ledger(results)
    names = {each.method for each in ledger.results}
    baseline = baseline or default_baseline(ledger)
    for name in (baseline, *methods):
        if name not in names:
            raise unknown("method of these results", name, names)
    if set(methods) == {baseline}:
        raise UserError(f"{baseline} is compared with itself; name other methods, or another baseline")
    for name in metrics:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    if not metrics:
        raise UserError(f"no metrics to compare; choose from: {', '.join(METRICS)}")
    found = []
    for suite, own in ledger.suites.items():
        kinds = selection.by_protocol(own)
        for some, last_only in kinds:
            runs = selection.select(some, last_only=last_only)
            part = "with a semantic set" if last_only and len(kinds) > 1 else ""
            found.append(_comparison(suite, part, runs, baseline, methods, list(dict.fromkeys(metrics))))
    compared = [each for each in found if each is not None]
    if not compared:
        wanted = " or ".join(methods) if methods else "another method"
        raise UserError(
            f"nothing to compare: no setting here has {wanted} as well as {baseline}; run them in one setting"
        )
    if not any(each.metrics for each in compared):
        raise UserError(f"no result here has {' or '.join(metrics)} to compare; choose another metric")
    return [each for each in compared if each.metrics]


def default_baseline(ledger: Ledger) -> str:
    """ERM or, where only given networks are, the first that MSP scores."""
    if any(each.method == BASELINE for each in ledger.results):
        return BASELINE
    given = [each for each in ledger.results if each.config.given is not None]
    return min((r.method for r in given if r.config.method.scorer.name == BASELINE_OF_GIVEN), default=BASELINE)


def _comparison(
    suite: str,
    part: str,
    runs: Mapping[Place, Runs],
    baseline: str,
    methods: Sequence[str],
    metrics: list[str],
) -> Comparison | None:
    """None where there is no baseline, or nothing else."""
    settings = [name for name in in_order(runs) if (baseline, name) in runs]
    wanted = {baseline, *(methods or [method for method, _ in runs])}
    shown = {place: some for place, some in runs.items() if place[0] in wanted and place[1] in settings}
    order = by_paper(methods_of(shown))
    if len(order) < 2 or baseline not in order:
        return None
    recorded = {name for some in shown.values() for each in some.ok for name in each.metrics}
    having = [METRICS[name] for name in metrics if name in recorded]  # without a semantic set, accuracies
    columns: dict[tuple[str, str], Column] = {}
    for setting in settings:
        own = {method: shown[method, setting] for method in order if (method, setting) in shown}
        found = statistics.columns(own, [metric.name for metric in having])
        columns |= {(setting, name): column for name, column in found.items()}
    differences = {
        place: statistics.compare(column, baseline) if baseline in column.samples else {}
        for place, column in columns.items()
    }
    sources = [each.result for some in shown.values() for each in some.ok]
    return Comparison(suite, baseline, order, settings, having, columns, differences, part, sources)


def records(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Long form, rates: one record per suite, setting, metric and method, None for what is missing."""
    rows = []
    for each in comparisons:
        for (setting, metric), column in each.columns.items():
            ranks = statistics.ranks(column)
            for method in each.others:
                found = each.differences[setting, metric].get(method)
                place = (each.suite, setting, metric, method, each.baseline)
                values = (None,) * 7 if found is None else _values(found)
                seeds, covers = (0, None) if found is None else (found.interval.seeds, found.interval.kind)
                note = each.note(setting, metric, method) or None
                rows.append(dict(zip(RECORDS, (*place, *values, ranks.get(method), seeds, covers, note), strict=True)))
    return rows


def _values(found: Difference) -> tuple[Any, ...]:
    interval = found.interval
    return (
        *(interval.mean, interval.low, interval.high, found.p, found.adjusted),
        *(found.is_significant, found.share_above),
    )
