"""Tables in Markdown."""

import re
from collections.abc import Sequence

from oodbench.report.labels import plain, title_of
from oodbench.report.model import NEAR_MARK, Entry, Table, letters


def to_markdown(table: Table) -> str:
    """The settings are the header and the metrics the first row, since Markdown has one header row only."""
    marks = table.marks
    blank = [""] * (len(table.metrics) - 1)
    first = [_escaped(head) for head in table.heads]
    head = [*first, *(text for s in table.settings for text in [_escaped(s), *blank])]
    titles = [f"**{title_of(m)}**" for m in table.metrics]
    lines = [(i, line) for i, row in enumerate(table.rows) for line in row.lines]
    count = len(table.settings) * len(table.metrics)
    columns = [_column([line.entries[c] for _, line in lines], marks) for c in range(count)]
    body = [[*[""] * len(first), *titles * len(table.settings)]]
    for (i, line), *numbers in zip(lines, *columns, strict=True):
        if line.is_measured and (heading := table.heading(i)):
            body.append([f"*{_escaped(heading)}*", *[""] * (len(head) - 1)])
        heads = [_escaped(head) for head in line.heads]
        heads = heads if line.is_measured else [f"*{head}*" if head else "" for head in heads]
        heads[-1] += f" ({letters(line, marks)})" if line.notes else ""
        body.append([*heads, *numbers])
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    text = [_line(head, widths, len(first))]
    rules = ["-" * (w + 2) if i < len(first) else "-" * (w + 1) + ":" for i, w in enumerate(widths)]
    text.append("|".join(["", *rules, ""]))
    text += [_line(cells, widths, len(first)) for cells in body]
    notes = [f"- ({letter}) {_escaped(note)}" for note, letter in marks.items()]
    parts = [f"### {_escaped(table.title)}", _escaped(table.caption), "\n".join(text)]
    parts += [_escaped(table.counts_line), "\n".join(notes), *map(_escaped, table.remarks)]
    return "\n\n".join([*filter(None, parts), _escaped(table.definitions)]) + "\n"


def _line(cells: Sequence[str], widths: list[int], heads: int) -> str:
    padded = [c.ljust(w) if i < heads else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
    return f"| {' | '.join(padded)} |"


def _column(figures: list[Entry], marks: dict[str, str]) -> list[str]:
    """Spaces stand where other figures have stars or a mark, so that they line up on a terminal."""
    stars = "  " if any(figure.best for figure in figures) else ""
    tails = [f" ({letters(figure, marks)})" if figure.notes else "" for figure in figures]
    shown = []
    for figure, own in zip(figures, tails, strict=True):
        text = f"{figure.text} ± {figure.error}" if figure.error else figure.text
        text += f" {NEAR_MARK}" if figure.near else ""
        mark = own.ljust(max(map(len, tails)))
        shown.append(f"**{text}**{mark}" if figure.best else text + mark + stars)
    return shown


def _escaped(text: str) -> str:
    """Underscores inside words are left alone: they are common in names and mean nothing there."""
    return re.sub(r"[\\`*|<\[\]~$]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", plain(text))
