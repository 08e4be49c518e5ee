"""Results as tables, by default in the layout of the paper's main one. Reads no files, imports no torch.

`layouts` makes the paper's other tables, `render` turns all of them into text.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from oodbench.config.registry import display_names
from oodbench.errors import UserError, unknown
from oodbench.report.origins import replaced
from oodbench.report.reported import Number
from oodbench.results import selection as model_selection
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.result import Result

GROUPS = ("OOD detection", "OOD generalization", "Learning with wild data")
# The paper's rows in its order; other methods come after them, by name.
ORDER = (
    "msp", "odin", "energy", "mahalanobis", "vim", "knn",
    "erm", "mixup", "irm", "vrex",
    "groupdro", "i-mixup", "mldg", "coral", "mmd", "dann", "cdann", "mtl", "sagnet", "arm", "rsc",
    "oe", "energy-oe", "woods", "scone", "bn-adapt",
)  # fmt: skip
DEFAULT_METRICS = ("covariate_acc", "id_acc", "fpr95", "auroc")
SELF_EXPLANATORY = ("id_acc", "auroc")
AVERAGE = "Average"  # a column over held-out domains
TRANSDUCTIVE = "What learns with wild data saw unlabelled images of the held-out domain: those rows are transductive."
LONGEST_NOTE = 200  # characters of an error message under a table; the result file has all of it


@dataclass(frozen=True)
class Cell:
    """One number, a rate in [0, 1], or the reason why there is none."""

    mean: float | None
    standard_error: float | None  # None below two seeds
    seeds: int
    note: str  # what a reader must know about the number; empty if nothing
    best: bool = False
    setting: str = ""
    decimals: int = 2
    reported: tuple[Number, ...] = ()  # the first is what the difference is to

    @property
    def percent(self) -> str:
        return "–" if self.mean is None else f"{100 * self.mean:.{self.decimals}f}"

    @property
    def error_percent(self) -> str:
        return "" if self.standard_error is None else f"{100 * self.standard_error:.{self.decimals}f}"

    @property
    def difference(self) -> float | None:
        """To what is reported, in points."""
        return None if self.mean is None or not self.reported else 100 * self.mean - self.reported[0].value


@dataclass(frozen=True)
class Figure:
    """What a table prints in one place."""

    text: str
    error: str = ""
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Line:
    """What a table prints beside each other: a row, or what is reported of it."""

    heads: tuple[str, ...]
    figures: list[Figure]
    is_measured: bool


@dataclass(frozen=True)
class Row:
    method: str
    group: str
    cells: list[Cell]  # every metric of the first setting, then of the second, ...
    heads: tuple[str, ...] = ()  # the name of the method unless given
    display: str = ""  # the method's name as its authors spell it, where the results say so

    @property
    def name(self) -> str:
        return printed_name(self.method, self.display)

    @cached_property
    def lines(self) -> list[Line]:
        """What was measured; below it what is reported, and the difference."""
        heads = self.heads or (self.name,)
        found = [Line(heads, [Figure(c.percent, c.error_percent, c.note, c.best) for c in self.cells], True)]
        labels = list(dict.fromkeys(number.label for cell in self.cells for number in cell.reported))
        for label in labels:
            numbers = [next((n for n in cell.reported if n.label == label), None) for cell in self.cells]
            found.append(self._below(label, [_reported_figure(number) for number in numbers]))
            if label == labels[0]:
                found.append(self._below("difference", [_difference_figure(cell) for cell in self.cells]))
        return found

    def _below(self, label: str, figures: list[Figure]) -> Line:
        return Line((*[""] * (len(self.heads) - 1), label), figures, False)


def printed_name(method: str, display: str = "") -> str:
    """`mixup+knn,knn.k=5` as the paper would write it: Mixup + KNN (knn.k=5)."""
    method, _, changed = method.partition(",")
    name = display or " + ".join(display_names().get(part, part) for part in method.split("+"))
    return f"{name} ({changed.replace(',', ', ')})" if changed else name


def display_of(result: Result) -> str:
    """The name as its author spells it, on one line."""
    return plain(result.config.method.display)


def _reported_figure(number: Number | None) -> Figure:
    if number is None:
        return Figure("")
    return Figure(number.text, "" if number.error is None else str(number.error), number.note)


def _difference_figure(cell: Cell) -> Figure:
    if cell.difference is None:
        return Figure("")
    text = f"{cell.difference:+.{cell.reported[0].decimals}f}"
    return Figure(text.replace("-", "−") if float(text) else text[1:])


@dataclass(frozen=True)
class Table:
    """One suite: a row per method, under each setting a column per metric."""

    suite: str
    settings: list[str]  # titles of the column groups
    metrics: list[Metric]
    rows: list[Row]
    heads: tuple[str, ...] = ("Method",)
    layout: str = ""  # of the paper; empty for our own
    part: str = ""  # of the suite's results, if they fill two tables
    caption: str = ""
    notes: tuple[str, ...] = ()
    reported_notes: tuple[str, ...] = ()
    marks_best: bool = True

    @property
    def title(self) -> str:
        of = self.layout or self.part
        return f"{self.suite}: {of}" if of else self.suite

    @cached_property
    def marks(self) -> dict[str, str]:
        """Footnotes and their letters, in reading order; figures that share a reason share the letter."""
        figures = (figure for row in self.rows for line in row.lines for figure in line.figures)
        notes = dict.fromkeys(figure.note for figure in figures if figure.note)
        return {note: _letters(i) for i, note in enumerate(notes)}

    @property
    def seeds_line(self) -> str:
        """How many seeds stand behind the numbers, and which methods differ from most."""
        counts = [{cell.seeds for cell in row.cells if cell.seeds} for row in self.rows]
        tally = Counter(n for row in counts for n in row)
        if not tally:
            return "No run succeeded."
        usual = max(tally, key=lambda n: (tally[n], n))
        line = "One seed" if usual == 1 else f"Mean ± standard error over {usual} seeds"
        for row, seeds in zip(self.rows, counts, strict=True):
            if seeds - {usual}:
                line += f"; {' '.join(row.heads) or row.name}: {' or '.join(map(str, sorted(seeds)))}"
        return line + (". ±: standard error over seeds." if usual == 1 and len(tally) > 1 else ".")

    @property
    def definitions(self) -> str:
        told = [f"{m.title}: {m.summary}." for m in self.metrics if m.name not in SELF_EXPLANATORY]
        return " ".join(["In percent, best in bold." if self.marks_best else "In percent.", *told])

    @property
    def remarks(self) -> list[str]:
        """Sentences below the table, each a line of its own."""
        empty = any(cell.mean is None and not cell.note for row in self.rows for cell in row.cells)
        return [*self.notes, *self.reported_notes, *(["–: not run, or not recorded."] if empty else [])]

    def opens_group(self, i: int) -> bool:
        return i == 0 or self._group(i) != self._group(i - 1)

    def _group(self, i: int) -> tuple[str, ...]:
        return (self.rows[i].group, *self.rows[i].heads[:-1])


def build(
    results: list[Result],
    metrics: Sequence[str] = DEFAULT_METRICS,
    seeds: int | Literal["all"] = "all",
    selection: str | None = model_selection.TRAINING_DOMAIN,
) -> list[Table]:
    """A table per suite, two where domains are held out with and without a semantic set.

    `seeds` keeps that many of the lowest seeds of each method and setting; `selection` chooses a checkpoint of results
    that have several, None takes them as they were at the end.
    """
    for name in metrics:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    if not metrics:
        raise UserError(f"no metrics to show; choose from: {', '.join(METRICS)}")
    kept = checked_seeds(seeds)
    shown = [METRICS[name] for name in dict.fromkeys(metrics)]
    tables = []
    for suite, found in by_suite(results).items():
        notes = replaced(found)
        if selection is None:
            tables.append(replace(_table(suite, found, shown, kept), notes=notes))
            continue
        kinds = model_selection.by_protocol(found)
        for some, last_only in kinds:
            selected = model_selection.select(some, selection, last_only)
            caption = [model_selection.describe(selected, selection, last_only), TRANSDUCTIVE if last_only else ""]
            table = _table(suite, selected, shown, kept)
            part = "with a semantic set" if last_only and len(kinds) > 1 else ""
            tables.append(replace(table, part=part, caption=" ".join(filter(None, caption)), notes=notes))
    return tables


def checked_seeds(seeds: int | Literal["all"]) -> int | None:
    if isinstance(seeds, int) and seeds < 1:
        raise UserError(f"a table of {seeds} seeds is empty; give a number from 1, or 'all'")
    return None if seeds == "all" else seeds


def by_suite(results: list[Result]) -> dict[str, list[Result]]:
    """Under the suite and preset, oldest first."""
    if not results:
        raise UserError("no results to show; run one with: oodbench run --suite digits-c --methods msp")
    suites: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.written, r.key)):
        suites.setdefault(result.suite_label, []).append(result)
    return dict(sorted(suites.items()))


def _table(suite: str, results: list[Result], metrics: list[Metric], seeds: int | None) -> Table:
    runs: dict[tuple[str, str], list[Result]] = {}
    groups: dict[str, str] = {}
    displays: dict[str, str] = {}
    order: list[str] = []
    for result in results:
        runs.setdefault((result.method, result.setting), []).append(result)
        groups[result.method] = result.group
        displays[result.method] = display_of(result)
        order = result.settings_order
    recorded = {name for result in results for name in result.metrics}
    metrics = [metric for metric in metrics if metric.name in recorded] or metrics  # without a semantic set, accuracies
    settings = sorted({r.setting for r in results}, key=lambda s: (_position(s, order), s))
    methods = sorted(groups, key=lambda m: (_position(groups[m], GROUPS), groups[m], _rank(m), m))
    grid = [[c for s in settings for c in _cells(runs.get((m, s), []), s, metrics, seeds)] for m in methods]
    titles = list(settings)
    if _are_domains_of_one_set(results):
        titles.append(AVERAGE)
        for method, cells in zip(methods, grid, strict=True):
            cells += _averages([runs.get((method, s), []) for s in settings], metrics, seeds)
    mark_best(grid, metrics * len(titles))
    rows = [
        Row(method, groups[method], cells, display=displays[method])
        for method, cells in zip(methods, grid, strict=True)
    ]
    return Table(suite, titles, metrics, rows)


def _are_domains_of_one_set(results: list[Result]) -> bool:
    """Whether the settings hold out one domain after the other and differ in nothing else: then a mean is of use."""
    examples = {r.setting: r for r in results if len(r.held_out) == 1}
    if len(examples) < 2 or any(r.setting not in examples for r in results):
        return False
    rest = {replace(r.config.setting, covariate="") for r in examples.values()}
    return len(rest) == 1 and len({r.held_out for r in examples.values()}) == len(examples)


def _averages(columns: list[list[Result]], metrics: list[Metric], seeds: int | None) -> list[Cell]:
    """Of all settings, where a method was run in each."""
    if not all(columns):
        return [Cell(None, None, 0, "not run in every setting", setting=AVERAGE) for _ in metrics]
    runs = [last_runs(column, seeds) for column in columns]
    return [replace(average(runs, metric), setting=AVERAGE) for metric in metrics]


def _position(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _rank(method: str) -> int:
    return _position(re.split("[,+]", method)[0], ORDER)


@dataclass(frozen=True)
class Runs:
    """One method in one setting, in the configuration that was run last."""

    ok: list[Result]
    notes: list[str]


def last_runs(results: list[Result], seeds: int | None = None) -> Runs:
    """Of results in the order they were written; `seeds` keeps that many of the lowest."""
    variant = results[-1].variant
    newest = {r.seed: r for r in results if r.variant == variant}
    kept = [newest[seed] for seed in sorted(newest)[:seeds]]
    ok = [r for r in kept if r.status == "ok"]
    failed: dict[str, list[Result]] = {}
    for r in kept:
        if r.status != "ok":
            failed.setdefault(_cut(r.error or "no message"), []).append(r)
    notes = [f"failed: {error} ({_seeds(rs)})" for error, rs in failed.items()]
    if ok and failed:
        notes.insert(0, f"only {_seeds(ok)}")
    incomplete = [r for r in ok if model_selection.is_selected(r) and r.notes["selection"]["passed_over"]]
    if incomplete:
        notes.append(f"selected without draws that failed or lack pairs ({_seeds(incomplete)})")
    left_out = sum(r.variant != variant for r in results)
    if left_out:
        notes.append(f"{left_out} result file{'s' * (left_out > 1)} of other configurations left out")
    return Runs(ok, notes)


def _cells(results: list[Result], setting: str, metrics: list[Metric], seeds: int | None) -> list[Cell]:
    if not results:
        return [Cell(None, None, 0, "not run in this setting", setting=setting) for _ in metrics]
    runs = last_runs(results, seeds)
    return [replace(measured(runs, metric), setting=setting) for metric in metrics]


def measured(runs: Runs, metric: Metric) -> Cell:
    recorded = {r.seed: float(r.metrics.get(metric.name, math.nan)) for r in runs.ok}
    lacking = [r for r in runs.ok if not math.isfinite(recorded[r.seed])]
    notes = list(runs.notes)
    earlier = [r for r in lacking if model_selection.is_selected(r) and not r.notes["selection"]["is_last"]]
    if earlier:
        notes.append(f"{metric.title} is known at the last checkpoint, and an earlier one selected ({_seeds(earlier)})")
    unknown_why = [r for r in lacking if r not in earlier]
    if unknown_why:
        notes.append(f"{metric.title} not recorded ({_seeds(unknown_why)})")
    return summary([value for value in recorded.values() if math.isfinite(value)], notes)


def average(columns: Sequence[Runs], metric: Metric) -> Cell:
    """Of several settings, taken for each seed that all of them have and then over seeds."""
    by_seed = [{r.seed: r.metrics[metric.name] for r in runs.ok if metric.name in r.metrics} for runs in columns]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    notes = dict.fromkeys(note for runs in columns for note in runs.notes)
    return summary([sum(values[seed] for values in by_seed) / len(by_seed) for seed in seeds], list(notes))


def summary(values: Sequence[float], notes: Sequence[str] = ()) -> Cell:
    """Mean and standard error over seeds."""
    mean = statistics.fmean(values) if values else None
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Cell(mean, error, len(values), "; ".join(notes))


def mark_best(grid: list[list[Cell]], metrics: Sequence[Metric]) -> None:
    """The best of each column. Means are compared as printed, so that equal figures are equally bold."""
    for column, metric in enumerate(metrics):
        printed = [(float(cells[column].percent), cells) for cells in grid if cells[column].mean is not None]
        if len(printed) > 1:
            best = (max if metric.higher_is_better else min)(value for value, _ in printed)
            for value, cells in printed:
                if value == best:
                    cells[column] = replace(cells[column], best=True)


def _seeds(results: list[Result]) -> str:
    return ("seed " if len(results) == 1 else "seeds ") + ", ".join(str(r.seed) for r in results)


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def _letters(i: int) -> str:
    return (_letters(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)


def plain(text: str) -> str:
    """On one line, without what a terminal or TeX would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
