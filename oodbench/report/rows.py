"""The rows of a table: cells in; what is printed beside each other, measured or reported, out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from oodbench.report.cells import Cell, notes_of, once
from oodbench.report.numbers import Number
from oodbench.report.spelling import setting_in_words

REPORTED = "reported"  # what stands before the numbers of the source that a table belongs to
OTHER_PRESET = "not this preset"
OTHER_SETTING = "another setting"  # that no suite has


@dataclass(frozen=True)
class Entry:
    """What a table prints in one place."""

    text: str
    error: str = ""
    notes: tuple[str, ...] = ()
    best: bool = False


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
    seeds: str = ""  # how many stand behind it, where that differs from most rows of its table

    @property
    def name(self) -> str:
        return " ".join(self.heads)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about its runs, said once: whatever the metric, the setting and the mean over it."""
        runs = list({id(some): some for cell in self.cells for some in cell.runs}.values())
        twins = {cell.setting: cell.twin for cell in self.cells if cell.twin}
        return (*once(twins.items(), len(runs)), *notes_of(runs))

    @cached_property
    def lines(self) -> list[PrintedRow]:
        """What was measured; below it what is reported, and the difference."""
        entries = [Entry(c.percent, c.margin_percent, _of_number(c), c.best) for c in self.cells]
        heads = (*self.heads[:-1], ", ".join(filter(None, (self.heads[-1], self.seeds))))
        printed = [PrintedRow(heads, entries, True, self.notes)]
        reported = list(dict.fromkeys(_line_of(number) for cell in self.cells for number in cell.reported))
        for line in reported:
            numbers = [next((n for n in cell.reported if _line_of(n) == line), None) for cell in self.cells]
            is_first = line.is_comparable and line == reported[0]
            name = REPORTED if is_first or not line.is_comparable else line.source
            label = f"{name} ({line.remark})" if line.remark else name
            printed.append(self._below(label, [_reported_entry(n) for n in numbers]))
            if is_first:
                printed.append(self._below("difference", [_difference_entry(cell) for cell in self.cells]))
        return printed

    def _below(self, label: str, entries: list[Entry]) -> PrintedRow:
        return said_once((*[""] * (len(self.heads) - 1), label), entries, False)


def said_once(heads: tuple[str, ...], entries: list[Entry], is_measured: bool) -> PrintedRow:
    """Notes that all entries have stand behind the name."""
    notes = {entry.notes for entry in entries if entry.text}
    if len(entries) < 2 or len(notes) != 1:
        return PrintedRow(heads, entries, is_measured)
    return PrintedRow(heads, [replace(entry, notes=()) for entry in entries], is_measured, *notes)


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


def _difference_entry(cell: Cell) -> Entry:
    if cell.difference is None:
        return Entry("")
    text = f"{100 * cell.difference:+.{cell.reported[0].decimals}f}"
    return Entry(text.replace("-", "−") if float(text) else text[1:])
