"""A table in; its rows under some of its columns at a time out, as blocks of text that are no wider than asked for.

Where room is short, names of rows are folded first; then columns go into a further block, whole settings if possible.
"""

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from oodbench.report.labels import plain, title_of
from oodbench.report.model import NEAR_MARK, Entry, PrintedRow, Table, letters

GAP, NARROW_GAP = 2, 1  # between columns
NARROWEST_NAMES = 16  # of rows, where room for figures is short
BOLD, NOT_BOLD = "\x1b[1m", "\x1b[22m"  # to a terminal
Places = Sequence[int]  # of columns: every metric of the first setting, then of the second, ...


def panels(table: Table, width: int | None, errors: bool, bold: bool) -> list[str]:
    """With no width a block for every setting, or one for all of them if each has a single figure."""
    count, places = len(table.metrics), range(len(table.metrics) * len(table.settings))
    settings = [places[i : i + count] for i in places[::count]]
    panel = _Panel(table, errors, bold)
    if width is None:
        chosen: Sequence[Places] = [places] if count == 1 else settings
    else:
        panel = _fitting(panel, settings, width)
        chosen = _folded(panel, settings, width)
    blocks = ["\n".join(panel.lines(some)) for some in chosen]
    return [*blocks, title_of(table.metrics[0])] if count == 1 else blocks


def shown_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    text = text.replace(BOLD, "").replace(NOT_BOLD, "")
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _fitting(panel: "_Panel", settings: Sequence[Places], width: int) -> "_Panel":
    """One in which every setting fits by itself, if there is one: columns nearer to each other, names folded."""
    narrow = _Panel(panel.table, panel.errors, panel.bold, NARROW_GAP)
    for each in (panel, narrow):
        if all(each.width(some) <= width for some in settings):
            return each
    excess = max(narrow.width(some) for some in settings) - width
    names = max(shown_width(row.lines[0].heads[-1]) for row in panel.table.rows)
    return _Panel(panel.table, panel.errors, panel.bold, NARROW_GAP, max(names - excess, NARROWEST_NAMES))


def _folded(panel: "_Panel", settings: Sequence[Places], width: int) -> list[list[int]]:
    """Settings beside each other as long as they fit; the columns of one that does not fit alone in several blocks."""
    blocks: list[list[int]] = [[]]
    for some in settings:
        if panel.width([*blocks[-1], *some]) <= width:
            blocks[-1] += some
            continue
        blocks.append([])
        for place in some:
            if blocks[-1] and panel.width([*blocks[-1], place]) > width:
                blocks.append([])
            blocks[-1].append(place)
        if len(some) > len(blocks[-1]):
            blocks.append([])  # what follows is of another setting
    return [block for block in blocks if block]


@dataclass(frozen=True)
class _Panel:
    """How the rows of a table are set, whichever columns stand beside them."""

    table: Table
    errors: bool
    bold: bool
    gap: int = GAP
    limit: int | None = None  # of the names of rows

    def width(self, places: Places) -> int:
        return max(map(shown_width, self.lines(places)))

    def lines(self, places: Places) -> list[str]:
        rows = [(i, line) for i, row in enumerate(self.table.rows) for line in row.lines]
        figures = [self._figures([line.entries[place] for _, line in rows]) for place in places]
        names = [self._names(i, line) for i, line in rows]
        titles = [self._title(place) for place in places]
        heads = ["" if self.table.heads == ("Method",) else self.table.heads[0], *self.table.heads[1:]]
        widths = [_widest(each) for each in zip(heads, *(line for some in names for line in some), strict=True)]
        widths += [_widest([title, *column]) for title, column in zip(titles, figures, strict=True)]
        above = self._above(places, widths)
        body = []
        for (i, line), own, numbers in zip(rows, names, zip(*figures, strict=True), strict=True):
            if line.is_measured and (heading := self.table.heading(i)):
                body += [heading] if self.limit is None else textwrap.wrap(heading, self._total(widths))
            body.append(self._line([*own[0], *numbers], widths))
            body += [self._line(rest, widths) for rest in own[1:]]
        rule = ["-" * width for width in widths]
        return [*above, self._line([*heads, *titles], widths), self._line(rule, widths), *body]

    def _title(self, place: int) -> str:
        setting, metric = divmod(place, len(self.table.metrics))
        return plain(self.table.settings[setting]) if self._is_single else title_of(self.table.metrics[metric])

    @property
    def _is_single(self) -> bool:
        return len(self.table.metrics) == 1

    def _above(self, places: Places, widths: list[int]) -> list[str]:
        """The settings, one on a line of its own or several over their columns, the last of which makes room."""
        if self._is_single:
            return []
        by_setting = [list(some) for _, some in groupby(places, lambda place: place // len(self.table.metrics))]
        titles = [plain(self.table.settings[some[0] // len(self.table.metrics)]) for some in by_setting]
        if len(titles) == 1:
            return titles if self.limit is None else textwrap.wrap(titles[0], self._total(widths))
        end, spans = len(self.table.heads), []
        for some, title in zip(by_setting, titles, strict=True):
            start, end = end, end + len(some)
            widths[end - 1] += max(0, shown_width(title) + 2 - self._total(widths[start:end]))
            spans.append(f" {title} ".center(self._total(widths[start:end]), "-"))
        before = [" " * width for width in widths[: len(self.table.heads)]]
        return [(" " * self.gap).join([*before, *spans])]

    def _names(self, i: int, line: PrintedRow) -> list[tuple[str, ...]]:
        """What stands before the figures of a row, in one line or several."""
        indent = ("  " if self.table.group_of_row(i) else "") + ("" if line.is_measured else "  ")
        *others, last = map(plain, line.heads)
        name = indent + last + (f" ({letters(line, self.table.marks)})" if line.notes else "")
        folded = [name]
        if self.limit is not None and shown_width(name) > self.limit:
            folded = textwrap.wrap(name, self.limit, subsequent_indent=indent + "  ", break_on_hyphens=False)
        return [(*others, folded[0]), *((*[""] * len(others), rest) for rest in folded[1:])]

    def _figures(self, entries: list[Entry]) -> list[str]:
        """Of one column: figures line up, and so do their errors and marks."""
        errors = [entry.error if self.errors else "" for entry in entries]
        tails = [f" ({letters(entry, self.table.marks)})" if entry.notes else "" for entry in entries]
        width, tail = _widest(errors), _widest(tails)
        marks = max((0 if self.bold else entry.best) + entry.near for entry in entries)
        marks = marks if self.bold else max(marks, 1)
        shown = []
        for entry, error, own in zip(entries, errors, tails, strict=True):
            figure = f"{BOLD}{entry.text}{NOT_BOLD}" if entry.best and self.bold else entry.text
            after = f" ± {error:>{width}}" if error else " " * (width + 3 if width else 0)
            near = NEAR_MARK if entry.near else ""
            mark = near if self.bold else (self.table.mark if entry.best else "") + near
            shown.append(f"{figure}{after}{mark:{marks}}{own:{tail}}")
        return shown

    def _line(self, texts: Sequence[str], widths: list[int]) -> str:
        """Names to the left, figures to the right."""
        padded = []
        for i, text in enumerate(texts):
            space = " " * (widths[i] - shown_width(text))
            padded.append(text + space if i < len(self.table.heads) else space + text)
        return (" " * self.gap).join(padded).rstrip()

    def _total(self, widths: list[int]) -> int:
        return sum(widths) + self.gap * (len(widths) - 1)


def _widest(texts: Iterable[str]) -> int:
    return max(map(shown_width, texts))
