"""Differences between methods as tables, and as text for other programs."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from oodbench.report.cells import Cell
from oodbench.report.differences import RECORDS, Comparison, records
from oodbench.report.groups import groups_of
from oodbench.report.names import row_names
from oodbench.report.rows import said_once
from oodbench.report.tables import Entry, PrintedRow, Row, Table
from oodbench.results import statistics
from oodbench.results.statistics import Interval


@dataclass(frozen=True)
class _Cell(Cell):
    """What stands in one place, and below it."""

    value: float | None = None
    entry: Entry = Entry("–")
    below: Entry = Entry("")

    @property
    def mean(self) -> float | None:
        return self.value


@dataclass(frozen=True)
class _Row(Row):
    label: str = ""  # of the line below

    @cached_property
    def lines(self) -> list[PrintedRow]:
        cells = [cell for cell in self.cells if isinstance(cell, _Cell)]
        printed = [said_once(self.heads, [cell.entry for cell in cells], True)]
        if any(cell.below.text for cell in cells):
            printed.append(self._below(self.label, [cell.below for cell in cells]))
        return printed


@dataclass(frozen=True)
class _Table(Table):
    first_line: str = ""
    mark: ClassVar[str] = "*"  # of a difference that is significant

    @property
    def counts_line(self) -> str:
        return self.first_line

    def legend(self, mark: str) -> str:
        return "Numbers are in percent." if self.notes else ""


def tables(comparison: Comparison) -> list[Table]:
    """The differences by setting; and where there are several settings, what they come to."""
    by_setting = [_difference_table(comparison)]
    return by_setting + ([_summary_table(comparison)] if len(comparison.settings) > 1 else [])


def _difference_table(comparison: Comparison) -> Table:
    rows = []
    for method in (comparison.baseline, *comparison.others):
        places = [(setting, metric.name) for setting in comparison.settings for metric in comparison.metrics]
        cells = [_cell(comparison, *place, method) for place in places]
        rows.append(_row(comparison, method, list(cells), "p, above"))
    name = row_names(comparison.methods)[comparison.baseline]
    first = (
        f"The first row is {name} itself; every other row is a method minus {name}. Bold, or a star on a terminal: the "
        "difference is significant (p < .05 after Holm's correction over the rows of a column)."
    )
    above = (
        f"p, above: the p-value after Holm's correction, and the share of {statistics.DRAWS:,} bootstrap draws of "
        f"seeds and images in which the method ranks above {name}."
    )
    return _table(comparison, comparison.settings, rows, first, (" ".join([*comparison.how, above]),))


def _cell(comparison: Comparison, setting: str, metric: str, method: str) -> _Cell:
    cell = _Cell(setting=setting)
    if method == comparison.baseline:
        column = comparison.columns[setting, metric]
        if method not in column.samples:
            return cell
        mean, interval = column.samples[method].mean, statistics.interval(column, method)
        text = f"{100 * mean:.2f}" + (f" [{100 * interval.low:.2f}, {100 * interval.high:.2f}]" if interval else "")
        note = comparison.uncertain(interval.kind, method) if interval else ""
        return replace(cell, value=mean, entry=Entry(text, notes=_if_any(note)))
    notes = _if_any(comparison.note(setting, metric, method))
    difference = comparison.differences[setting, metric].get(method)
    if difference is None:
        bare = comparison.bare(setting, metric, method)
        entry = Entry("–" if bare is None else _signed(100 * bare), notes=notes)
        return replace(cell, value=bare, remarks=notes, entry=entry)
    entry = Entry(difference_text(difference.interval), notes=notes, best=difference.is_significant)
    below = Entry(f"{p_text(difference.adjusted)}, {100 * difference.share_above:.0f} %")
    return replace(cell, value=difference.interval.mean, entry=entry, below=below)


def _if_any(note: str) -> tuple[str, ...]:
    return (note,) if note else ()


def _summary_table(comparison: Comparison) -> Table:
    rows = []
    for method in (comparison.baseline, *comparison.others):
        cells: list[Cell] = []
        for metric in comparison.metrics:
            rank = comparison.mean_rank(metric.name, method)
            counts = "/".join(map(str, comparison.tally(metric.name, method)))
            entry = Entry("" if method == comparison.baseline else counts)
            below = Entry("" if rank is None else f"{rank:.1f}")
            cells.append(_Cell(value=rank, entry=entry, below=below))
        rows.append(_row(comparison, method, cells, "mean rank"))
    name = row_names(comparison.methods)[comparison.baseline]
    title = f"{len(comparison.settings)} settings"
    first = (
        f"Wins/ties/losses against {name} over settings, counting differences that are significant (p < .05 after "
        "Holm's correction over the rows of a column), and the mean rank among these methods (1 is best)."
    )
    table = _table(comparison, [title], rows, first, ())
    return replace(table, part=", ".join(filter(None, [comparison.part, "over settings"])))


def _row(comparison: Comparison, method: str, cells: list[Cell], label: str) -> Row:
    group = "Baseline" if method == comparison.baseline else groups_of(comparison.methods)[method]
    return _Row(method, group, cells, (row_names(comparison.methods)[method],), label=label)


def _table(comparison: Comparison, settings: list[str], rows: list[Row], first: str, notes: tuple[str, ...]) -> Table:
    return _Table(
        comparison.suite, settings, comparison.metrics, rows, part=comparison.part, notes=notes, first_line=first
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


def to_csv(comparisons: Sequence[Comparison]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, RECORDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(comparisons))
    return text.getvalue()


def to_json(comparisons: Sequence[Comparison]) -> str:
    return json.dumps(records(comparisons), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
