"""Results in, methods minus a baseline out, in every setting and over settings. Imports no torch.

`records` is the frame of pairs, which `tables` prints; `results.statistics` computes the differences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oodbench.errors import UserError, unknown
from oodbench.report.labels import by_paper, groups_of, is_given, row_names
from oodbench.report.model import NEAR_MARK, Entry, Row, Table, below, said_once
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results import marks, selection, statistics
from oodbench.results.ledger import Ledger, Place, as_ledger, in_order, methods_of
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.result import MethodRun, Result
from oodbench.results.statistics import Column, Difference, Interval

BASELINE = "erm"
BASELINE_OF_GIVEN = "msp"  # the scorer, where there is no ERM: the oldest baseline of detection
RECORDS = (
    "suite", "setting", "metric", "method", "baseline", "difference", "low", "high", "p", "p_holm", "significant",
    "share_above", "rank", "seeds", "covers", "note", "near_best",
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
    near_best: dict[tuple[str, str], set[str]]  # the best by its mean, and what is not shown to be worse
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
    near_best = {}
    for (setting, name), column in columns.items():
        variants = {method: shown[method, setting].newest.variant for method in column.samples}
        tested = marks.tested(column, {m: marks.stored_values([own], name) for m, own in variants.items()})
        near_best[setting, name] = {tested.best} | tested.not_shown_worse if tested else {*column.samples}
    sources = [each.result for some in shown.values() for each in some.ok]
    return Comparison(suite, baseline, order, settings, having, columns, differences, near_best, part, sources)


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
                near = method in each.near_best[setting, metric]
                rows.append(
                    dict(zip(RECORDS, (*place, *values, ranks.get(method), seeds, covers, note, near), strict=True))
                )
    return rows


def _values(found: Difference) -> tuple[Any, ...]:
    interval = found.interval
    return (
        *(interval.mean, interval.low, interval.high, found.p, found.adjusted),
        *(found.is_significant, found.share_above),
    )


def tables(comparison: Comparison) -> list[Table]:
    """The differences by setting; and where there are several settings, what they come to."""
    by_setting = [_difference_table(comparison)]
    return by_setting + ([_summary_table(comparison)] if len(comparison.settings) > 1 else [])


def _difference_table(comparison: Comparison) -> Table:
    places = [(setting, metric.name) for setting in comparison.settings for metric in comparison.metrics]
    rows = [
        _row(comparison, method, [_entries(comparison, *place, method) for place in places], "p, above")
        for method in (comparison.baseline, *comparison.others)
    ]
    name = row_names(comparison.methods)[comparison.baseline]
    first = (
        f"The first row is {name} itself; every other row is a method minus {name}. Bold, or a star on a terminal: the "
        "difference is significant (p < .05 after Holm's correction over the rows of a column). "
        f"{NEAR_MARK}: the best mean of the column, or not shown to be worse."
    )
    above = (
        f"p, above: the p-value after Holm's correction, and the share of {statistics.DRAWS:,} bootstrap draws of "
        f"seeds and images in which the method ranks above {name}."
    )
    return _table(comparison, comparison.settings, rows, first, comparison.part, (" ".join([*comparison.how, above]),))


def _entries(comparison: Comparison, setting: str, metric: str, method: str) -> tuple[Entry, Entry]:
    """What stands in one place, and below it."""
    near = method in comparison.near_best[setting, metric]
    if method == comparison.baseline:
        column = comparison.columns[setting, metric]
        if method not in column.samples:
            return Entry("–"), Entry("")
        mean, interval = column.samples[method].mean, statistics.interval(column, method)
        text = f"{100 * mean:.2f}" + (f" [{100 * interval.low:.2f}, {100 * interval.high:.2f}]" if interval else "")
        note = comparison.uncertain(interval.kind, method) if interval else ""
        return Entry(text, notes=_if_any(note), near=near), Entry("")
    notes = _if_any(comparison.note(setting, metric, method))
    difference = comparison.differences[setting, metric].get(method)
    if difference is None:
        bare = comparison.bare(setting, metric, method)
        return Entry("–" if bare is None else _signed(100 * bare), notes=notes, near=near), Entry("")
    entry = Entry(difference_text(difference.interval), notes=notes, best=difference.is_significant, near=near)
    return entry, Entry(f"{p_text(difference.adjusted)}, {100 * difference.share_above:.0f} %")


def _if_any(note: str) -> tuple[str, ...]:
    return (note,) if note else ()


def _summary_table(comparison: Comparison) -> Table:
    rows = []
    for method in (comparison.baseline, *comparison.others):
        entries = []
        for metric in comparison.metrics:
            rank = comparison.mean_rank(metric.name, method)
            counts = "/".join(map(str, comparison.tally(metric.name, method)))
            entry = Entry("" if method == comparison.baseline else counts)
            entries.append((entry, Entry("" if rank is None else f"{rank:.1f}")))
        rows.append(_row(comparison, method, entries, "mean rank"))
    name = row_names(comparison.methods)[comparison.baseline]
    title = f"{len(comparison.settings)} settings"
    first = (
        f"Wins/ties/losses against {name} over settings, counting differences that are significant (p < .05 after "
        "Holm's correction over the rows of a column), and the mean rank among these methods (1 is best)."
    )
    part = ", ".join(filter(None, [comparison.part, "over settings"]))
    return _table(comparison, [title], rows, first, part)


def _row(comparison: Comparison, method: str, entries: Sequence[tuple[Entry, Entry]], label: str) -> Row:
    group = "Baseline" if method == comparison.baseline else groups_of(comparison.methods)[method]
    heads = (row_names(comparison.methods)[method],)
    printed = [said_once(heads, [entry for entry, _ in entries], True)]
    if any(lower.text for _, lower in entries):
        printed.append(below(heads, label, [lower for _, lower in entries]))
    return Row(method, group, [], heads, printed=tuple(printed))


def _table(
    comparison: Comparison, settings: list[str], rows: list[Row], first: str, part: str, notes: tuple[str, ...] = ()
) -> Table:
    return Table(
        comparison.suite, settings, comparison.metrics, rows, part=part, notes=notes, mark="*", explained=first
    )


def difference_text(interval: Interval) -> str:
    """`+0.99 [+0.12, +1.86]`, in points of percent."""
    mean, low, high = (_signed(100 * value) for value in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def _signed(points: float) -> str:
    text = f"{points:+.2f}"
    return text.replace("-", "−") if float(text) else text[1:]


def p_text(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")
