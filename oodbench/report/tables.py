"""Results as tables, by default in the layout of the paper's main one. Reads no files, imports no torch.

`layouts` makes the paper's other tables, `render` turns all of them into text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from oodbench.config.registry import GROUPS, display_names
from oodbench.errors import UserError, unknown
from oodbench.report.cells import Cell, average, mark_best, measured, plain
from oodbench.report.numbers import Number
from oodbench.report.origins import replaced
from oodbench.results import selection as model_selection
from oodbench.results.ledger import Ledger, Place, as_ledger, examples_of, in_order, methods_of
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.result import MethodRun, Result

__all__ = ["AVERAGE", "DEFAULT_METRICS", "GROUPS", "Cell", "Entry", "PrintedRow", "Row", "Table", "build", "plain"]
# The paper's rows in its order; other methods come after them, by name.
ORDER = (
    "msp", "odin", "energy", "mahalanobis", "vim", "knn",
    "erm", "mixup", "irm", "vrex",
    "groupdro", "i-mixup", "mldg", "coral", "mmd", "dann", "cdann", "mtl", "sagnet", "arm", "rsc",
    "oe", "energy-oe", "woods", "scone", "bn-adapt",
)  # fmt: skip
DEFAULT_METRICS = ("covariate_acc", "id_acc", "fpr95", "auroc")
SELF_EXPLANATORY = ("id_acc", "auroc")
REPORTED = "reported"  # what stands before the numbers of the source that a table belongs to
AVERAGE = "Average"  # a column over held-out domains
TRANSDUCTIVE = "What learns with wild data saw unlabelled images of the held-out domain: those rows are transductive."


@dataclass(frozen=True)
class Entry:
    """What a table prints in one place."""

    text: str
    error: str = ""
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class PrintedRow:
    """What a table prints beside each other: a row, or what is reported of it."""

    heads: tuple[str, ...]
    entries: list[Entry]
    is_measured: bool


@dataclass(frozen=True)
class Row:
    method: str
    group: str
    cells: list[Cell]  # every metric of the first setting, then of the second, ...
    heads: tuple[str, ...]

    @property
    def name(self) -> str:
        return " ".join(self.heads)

    @cached_property
    def lines(self) -> list[PrintedRow]:
        """What was measured; below it what is reported, and the difference."""
        entries = [Entry(c.percent, c.error_percent, c.note, c.best) for c in self.cells]
        printed = [PrintedRow(self.heads, entries, True)]
        sources = list(dict.fromkeys(number.label for cell in self.cells for number in cell.reported))
        for source in sources:
            numbers = [next((n for n in cell.reported if n.label == source), None) for cell in self.cells]
            is_first = source == sources[0]
            printed.append(self._below(REPORTED if is_first else source, [_reported_entry(n) for n in numbers]))
            if is_first:
                printed.append(self._below("difference", [_difference_entry(cell) for cell in self.cells]))
        return printed

    def _below(self, label: str, entries: list[Entry]) -> PrintedRow:
        return PrintedRow((*[""] * (len(self.heads) - 1), label), entries, False)


def method_name(method: MethodRun) -> str:
    """As the paper would write it, on one line: Mixup + KNN (knn.k=5)."""
    changed = ", ".join(method.changed)
    return plain(method.display) + (f" ({changed})" if changed else "")


def printed_name(method: str, display: str = "") -> str:
    """`mixup+knn,knn.k=5` as the paper would write it: Mixup + KNN (knn.k=5)."""
    method, _, changed = method.partition(",")
    name = display or " + ".join(display_names().get(part, part) for part in method.split("+"))
    return f"{name} ({changed.replace(',', ', ')})" if changed else name


def display_of(result: Result) -> str:
    """The name as its author spells it, on one line."""
    return plain(result.config.method.display)


def _reported_entry(number: Number | None) -> Entry:
    return Entry("") if number is None else Entry(number.text, number.error_text, number.note)


def _difference_entry(cell: Cell) -> Entry:
    if cell.difference is None:
        return Entry("")
    text = f"{100 * cell.difference:+.{cell.reported[0].decimals}f}"
    return Entry(text.replace("-", "−") if float(text) else text[1:])


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

    def __repr__(self) -> str:
        counts = f"rows {len(self.rows)}, settings {len(self.settings)}, metrics {len(self.metrics)}"
        return f"<Table {plain(self.title)}: {counts}>"

    def _repr_html_(self) -> str:
        from oodbench.report.render.html import to_html  # which imports this module

        return to_html(self)

    @property
    def title(self) -> str:
        of = self.layout or self.part
        return f"{self.suite}: {of}" if of else self.suite

    @cached_property
    def marks(self) -> dict[str, str]:
        """Footnotes and their letters, in reading order; figures that share a reason share the letter."""
        entries = (entry for row in self.rows for line in row.lines for entry in line.entries)
        notes = dict.fromkeys(entry.note for entry in entries if entry.note)
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
                line += f"; {row.name}: {' or '.join(map(str, sorted(seeds)))}"
        return line + (". ±: standard error over seeds." if usual == 1 and len(tally) > 1 else ".")

    @property
    def definitions(self) -> str:
        defined = [f"{m.title}: {m.summary}." for m in self.metrics if m.name not in SELF_EXPLANATORY]
        return " ".join(["In percent, best in bold." if self.marks_best else "In percent.", *defined])

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
    results: Ledger | Sequence[Result],
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
    lowest = checked_seeds(seeds)
    shown = [METRICS[name] for name in dict.fromkeys(metrics)]
    tables = []
    for suite, ledger in as_ledger(results).suites.items():
        notes = replaced(ledger.results)
        if selection is None:
            tables.append(replace(_table(suite, ledger.last_runs, shown, lowest), notes=notes))
            continue
        kinds = model_selection.by_protocol(ledger)
        for some, last_only in kinds:
            selected = model_selection.select(some, selection, last_only)
            sentence = model_selection.describe(selected.values(), selection, last_only)
            caption = [sentence, TRANSDUCTIVE if last_only else ""]
            table = _table(suite, selected, shown, lowest)
            part = "with a semantic set" if last_only and len(kinds) > 1 else ""
            tables.append(replace(table, part=part, caption=" ".join(filter(None, caption)), notes=notes))
    return tables


def checked_seeds(seeds: int | Literal["all"]) -> int | None:
    if isinstance(seeds, int) and seeds < 1:
        raise UserError(f"a table of {seeds} seeds is empty; give a number from 1, or 'all'")
    return None if seeds == "all" else seeds


def _table(suite: str, runs: Mapping[Place, Runs], metrics: list[Metric], seeds: int | None) -> Table:
    recorded = {name for some in runs.values() for each in some.measurements for name in each.metrics}
    metrics = [metric for metric in metrics if metric.name in recorded] or metrics  # without a semantic set, accuracies
    shown = {place: some.lowest(seeds) for place, some in runs.items()}
    settings, methods = in_order(runs), methods_of(runs)
    labels = list(by_paper(methods))
    grid = [[c for s in settings for c in _cells(shown.get((label, s)), s, metrics)] for label in labels]
    titles = list(settings)
    if _are_domains_of_one_set(runs):
        titles.append(AVERAGE)
        for label, cells in zip(labels, grid, strict=True):
            cells += _averages([shown.get((label, s)) for s in settings], metrics)
    mark_best(grid, metrics * len(titles))
    rows = [
        Row(label, methods[label].group, cells, (method_name(methods[label]),))
        for label, cells in zip(labels, grid, strict=True)
    ]
    return Table(suite, titles, metrics, rows)


def _are_domains_of_one_set(runs: Mapping[Place, Runs]) -> bool:
    """Whether the settings hold out one domain after the other and differ in nothing else: then a mean is of use."""
    examples = examples_of(runs).values()
    if len(examples) < 2 or any(len(each.held_out) != 1 for each in examples):
        return False
    rest = {replace(each.config.setting, covariate="") for each in examples}
    return len(rest) == 1 and len({each.held_out for each in examples}) == len(examples)


def _averages(columns: Sequence[Runs | None], metrics: list[Metric]) -> list[Cell]:
    """Of all settings, where a method was run in each."""
    runs = [each for each in columns if each is not None]
    if len(runs) < len(columns):
        return [Cell(None, None, 0, "not run in every setting", setting=AVERAGE) for _ in metrics]
    return [replace(average(runs, metric), setting=AVERAGE) for metric in metrics]


def _cells(runs: Runs | None, setting: str, metrics: list[Metric]) -> list[Cell]:
    if runs is None:
        return [Cell(None, None, 0, "not run in this setting", setting=setting) for _ in metrics]
    return [replace(measured(runs, metric), setting=setting) for metric in metrics]


def by_paper(methods: Mapping[str, MethodRun]) -> dict[str, MethodRun]:
    """The paper's groups and rows first, in its order; others after them, by name."""
    return {label: methods[label] for label in sorted(methods, key=lambda label: (*_rank(methods[label]), label))}


def _rank(method: MethodRun) -> tuple[int, str, int]:
    return _position(method.group, GROUPS), method.group, _position(method.first, ORDER)


def _position(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _letters(i: int) -> str:
    return (_letters(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)
