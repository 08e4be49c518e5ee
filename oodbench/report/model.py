"""What `table`, `compare`, the page and the notebook print: one long frame of numbers, and the pivot of it.

A `Cell` is a line of the long frame: one number of a row, in a setting, by a metric, with its interval, its mark and
its notes. `records` lists the cells, and a `Table` has them as rows and columns, for `render` to print. Comparisons
have their own frame of pairs, and print it in the same `Table`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from oodbench.report import notes
from oodbench.report.labels import plain, setting_in_words
from oodbench.report.numbers import Number
from oodbench.results.marks import Rank
from oodbench.results.metrics import Metric
from oodbench.results.samples import Interval, Sample, interval_of_rate

REPORTED = "reported"  # what stands before the numbers of the source that a table belongs to
OTHER_PRESET = "not this preset"
OTHER_SETTING = "another setting"  # that no suite has
SELF_EXPLANATORY = ("id_acc", "auroc")
BEST, NEAR = "best", "not shown worse"  # marks in the long frame
NEAR_MARK = "◦"
COLUMNS = (
    "suite", "setting", "group", "method", "metric", "mean", "low", "high", "interval", "seeds", "note", "name", "mark",
)  # fmt: skip
OF_RANKS = ("rank", "rank_low", "rank_high")
OF_REPORTED = ("reported", "reported_error", "reported_setting", "difference", "reported_marks", "reported_note")


@dataclass(frozen=True)
class Cell:
    """One number, a rate in [0, 1], or the reason why there is none."""

    sample: Sample | None = None  # the number under each seed, and how it varies with images
    remarks: tuple[str, ...] = ()  # what a reader must know about this number alone
    best: bool = False  # of its column, as printed
    near: bool = False  # not the best, and not shown to be worse
    rank: Rank | None = None  # in its column
    setting: str = ""
    decimals: int = 2
    reported: tuple[Number, ...] = ()  # the first is what the difference is to
    flag: str = ""  # a further remark, which follows from the number alone
    of_runs: tuple[str, ...] = ()  # what a reader must know about the runs behind it

    @property
    def note(self) -> str:
        """All that a reader must know who sees no other number; a table says once for a row what concerns its runs."""
        return "; ".join((*self.of_runs, *self.remarks))

    @property
    def mean(self) -> float | None:
        return None if self.sample is None else self.sample.mean

    @property
    def seeds(self) -> int:
        return 0 if self.sample is None else len(self.sample.values)

    @cached_property
    def interval(self) -> Interval | None:
        """Of 95 %; None where nothing is known but one value."""
        return None if self.sample is None else interval_of_rate(self.sample)

    @property
    def percent(self) -> str:
        return "–" if self.mean is None else f"{100 * self.mean:.{self.decimals}f}"

    @property
    def margin_percent(self) -> str:
        """Half of the interval: what stands after ±."""
        return "" if self.interval is None else f"{100 * self.interval.margin:.{self.decimals}f}"

    @property
    def difference(self) -> float | None:
        """To what is reported, as that is printed; None where only directions compare."""
        if self.mean is None or not self.reported or not self.reported[0].is_comparable:
            return None
        return (100 * self.mean - self.reported[0].percent) / 100


def mark_best(grid: list[list[Cell]], metrics: list[Metric]) -> None:
    """In each column the best mean as it is printed; a number that stands alone is not marked."""
    for column, metric in enumerate(metrics):
        printed = {i: float(row[column].percent) for i, row in enumerate(grid) if row[column].mean is not None}
        if len(printed) > 1:
            best = (max if metric.higher_is_better else min)(printed.values())
            for i in (i for i, number in printed.items() if number == best):
                grid[i][column] = replace(grid[i][column], best=True)


@dataclass(frozen=True)
class Entry:
    """What a table prints in one place."""

    text: str
    error: str = ""
    notes: tuple[str, ...] = ()
    best: bool = False
    near: bool = False


@dataclass(frozen=True)
class PrintedRow:
    """What a table prints beside each other: a row, or what is reported of it."""

    heads: tuple[str, ...]
    entries: list[Entry]
    is_measured: bool
    notes: tuple[str, ...] = ()  # which hold for all of the entries and stand behind the name

    def notes_at(self, places: Iterable[int]) -> list[tuple[str, ...]]:
        return [self.notes, *(self.entries[place].notes for place in places)]


@dataclass(frozen=True)
class Row:
    method: str
    group: str
    cells: list[Cell]  # every metric of the first setting, then of the second, ...
    heads: tuple[str, ...]
    trainer: str = ""
    network: str = ""  # the name of one that was given; empty where one was trained
    notes: tuple[str, ...] = ()  # about its runs, said once: whatever the metric, the setting and the mean over it
    seeds: str = ""  # how many stand behind it, where that differs from most rows of its table
    printed: tuple[PrintedRow, ...] = ()  # in place of its numbers, what a comparison prints

    @property
    def name(self) -> str:
        return " ".join(self.heads)

    @cached_property
    def lines(self) -> list[PrintedRow]:
        """What was measured; below it what is reported, and the difference."""
        if self.printed:
            return [*self.printed]
        entries = [Entry(c.percent, c.margin_percent, _of_number(c), c.best, c.near) for c in self.cells]
        heads = (*self.heads[:-1], ", ".join(filter(None, (self.heads[-1], self.seeds))))
        printed = [PrintedRow(heads, entries, True, self.notes)]
        if any(cell.rank for cell in self.cells):
            printed.append(below(self.heads, "rank", [_rank_entry(cell.rank) for cell in self.cells]))
        reported = list(dict.fromkeys(_line_of(number) for cell in self.cells for number in cell.reported))
        for line in reported:
            numbers = [next((n for n in cell.reported if _line_of(n) == line), None) for cell in self.cells]
            is_first = line.is_comparable and line == reported[0]
            name = REPORTED if is_first or not line.is_comparable else line.source
            label = f"{name} ({line.remark})" if line.remark else name
            printed.append(below(self.heads, label, [_reported_entry(n) for n in numbers]))
            if is_first:
                printed.append(below(self.heads, "difference", [_difference_entry(cell) for cell in self.cells]))
        return printed

    @property
    def has_unexplained_dash(self) -> bool:
        if self.printed:
            lines = [line for line in self.printed if line.is_measured and not line.notes]
            return any(entry.text == "–" and not entry.notes for line in lines for entry in line.entries)
        return any(cell.mean is None and not cell.note for cell in self.cells)


def below(heads: tuple[str, ...], label: str, entries: list[Entry]) -> PrintedRow:
    return said_once((*[""] * (len(heads) - 1), label), entries, False)


def said_once(heads: tuple[str, ...], entries: list[Entry], is_measured: bool) -> PrintedRow:
    """Notes that all entries have stand behind the name."""
    shared = {entry.notes for entry in entries if entry.text}
    if len(entries) < 2 or len(shared) != 1:
        return PrintedRow(heads, entries, is_measured)
    return PrintedRow(heads, [replace(entry, notes=()) for entry in entries], is_measured, *shared)


class _Line(NamedTuple):
    """What stands before the numbers of a source, and whether they compare with ours."""

    source: str
    remark: str
    is_comparable: bool


def _line_of(number: Number) -> _Line:
    if not number.is_comparable:
        return _Line("", setting_in_words(number.settings[0]) if number.is_of_suite else OTHER_SETTING, False)
    return _Line(number.label, "" if number.is_of_preset else OTHER_PRESET, True)


def _of_number(cell: Cell) -> tuple[str, ...]:
    return tuple(filter(None, ("; ".join(cell.remarks), cell.flag)))


def _reported_entry(number: Number | None) -> Entry:
    return Entry("") if number is None else Entry(number.text, number.error_text, tuple(filter(None, [number.note])))


def _rank_entry(rank: Rank | None) -> Entry:
    if rank is None:
        return Entry("")
    return Entry(f"{rank.value} [{rank.low}]" if rank.low == rank.high else f"{rank.value} [{rank.low}–{rank.high}]")


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
    has_groups: bool = True  # false where rows stand in one order, whatever their groups
    suite_in_words: str = ""
    mark: str = "•"  # in plain text, behind what is bold elsewhere
    explained: str = ""  # of a comparison: what its rows and its mark are

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
        """Footnotes and their letters, in reading order; rows and figures that share a reason share the letter."""
        lines = (line for row in self.rows for line in row.lines)
        found = dict.fromkeys(
            note for line in lines for some in line.notes_at(range(len(line.entries))) for note in some
        )
        return {note: _letters(i) for i, note in enumerate(found)}

    @property
    def seeds(self) -> str:
        """How many seeds stand behind the numbers, without a full stop."""
        return notes.seeds(self.rows) or "No run succeeded"

    @property
    def seeds_line(self) -> str:
        """The same, and what stands after ±."""
        return f"{self.seeds}. {notes.intervals(self.rows, self.metrics)}".strip()

    @property
    def counts_line(self) -> str:
        """The same for a reader of the rows, which say where they differ."""
        if self.explained:
            return self.explained
        counts = notes.seeds_beside_rows(self.rows) or "No run succeeded"
        return f"{counts}. {notes.intervals(self.rows, self.metrics)}".strip()

    def legend(self, mark: str) -> str:
        """What every number and the mark of the best mean; short, so that with the counts it takes one line."""
        if self.explained:
            return "Numbers are in percent." if self.notes else ""
        has_best = any(cell.best for row in self.rows for cell in row.cells)
        legend = f"In percent; {mark}: best mean" if has_best else "In percent"
        has_near = any(cell.near for row in self.rows for cell in row.cells)
        return f"{legend}; {NEAR_MARK}: {notes.NEAR}." if has_near else f"{legend}."

    @property
    def definitions(self) -> str:
        return " ".join(filter(None, [self.legend("bold"), *self.metric_definitions]))

    @property
    def metric_definitions(self) -> list[str]:
        return [f"{m.title}: {m.summary}." for m in self.metrics if m.name not in SELF_EXPLANATORY]

    @property
    def remarks(self) -> list[str]:
        """Sentences below the table, each a line of its own."""
        dash = "–: not run, or not recorded." if any(row.has_unexplained_dash for row in self.rows) else ""
        return list(filter(None, [*notes.shift_lines(self), *self.notes, *self.reported_notes, dash]))

    def heading(self, i: int) -> str:
        """What stands above a row that opens a group; empty above others."""
        return self.group_of_row(i) if self.opens_group(i) else ""

    def opens_group(self, i: int) -> bool:
        return i == 0 or self._group(i) != self._group(i - 1)

    def group_of_row(self, i: int) -> str:
        return self.rows[i].group if self.has_groups else ""

    def _group(self, i: int) -> tuple[str, ...]:
        return (self.group_of_row(i), *self.rows[i].heads[:-1])


def letters(noted: Entry | PrintedRow, marks: Mapping[str, str]) -> str:
    """Of its footnotes: `a`, or `a,b`."""
    return ",".join(marks[note] for note in noted.notes)


def _letters(i: int) -> str:
    return (_letters(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)


def records(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """The long frame: a record for each suite, setting, method and metric, None for what is missing.

    `low` and `high` are the ends of the 95 % interval, and `interval` says what it is over. Tables of a paper have a
    column for their name, and tables with ranks or reported numbers have those of OF_RANKS or OF_REPORTED.
    """
    shown = [*tables]
    has_layouts = any(table.layout for table in shown)
    has_ranks = any(cell.rank for table in shown for row in table.rows for cell in row.cells)
    has_reported = any(cell.reported for table in shown for row in table.rows for cell in row.cells)
    found = []
    for table in shown:
        for row in table.rows:
            for cell, metric in zip(row.cells, table.metrics * len(table.settings), strict=True):
                known = cell.interval
                ends = (None, None, None) if known is None else (known.low, known.high, known.kind)
                mark = BEST if cell.best else NEAR if cell.near else None
                note = "; ".join(filter(None, (cell.note, cell.flag))) or None
                values = (
                    *(table.suite, cell.setting, row.group, row.method, metric.name, cell.mean, *ends),
                    *(cell.seeds, note, row.name, mark),
                )
                record: dict[str, Any] = {"layout": table.layout or None} if has_layouts else {}
                record |= dict(zip(COLUMNS, values, strict=True))
                if has_ranks:
                    rank = (None,) * 3 if cell.rank is None else (cell.rank.value, cell.rank.low, cell.rank.high)
                    record |= dict(zip(OF_RANKS, rank, strict=True))
                found.append(record | (_reported(cell) if has_reported else {}))
    return found


def frame_columns(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of the long frame, also where it is empty."""
    return [*found[0]] if found else [*COLUMNS]


def _reported(cell: Cell) -> dict[str, Any]:
    """Rates like the rest; marks say what is wrong with the number in one word each."""
    if not cell.reported:
        return dict.fromkeys(OF_REPORTED)
    first = cell.reported[0]
    marks = " ".join(dict.fromkeys(mark.kind for mark in first.marks)) or None
    setting = " | ".join(first.settings)
    values = (first.value, first.error, setting, cell.difference, marks, first.note or None)
    return dict(zip(OF_REPORTED, values, strict=True))
