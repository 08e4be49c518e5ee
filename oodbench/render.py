"""Tables as text: for a terminal, Markdown, LaTeX, CSV or JSON."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from tabulate import tabulate

from oodbench.errors import unknown
from oodbench.metrics import Metric
from oodbench.tables import Cell, Table, plain

COLUMNS = ("suite", "setting", "group", "method", "metric", "mean", "standard_error", "seeds", "note")
# What plain pdflatex would obey or not know. Braces around [ and * hide them from the \\ of the row above.
SYMBOLS = {"±": "pm", "×": "times", "≤": "le", "≥": "ge", "↑": "uparrow", "↓": "downarrow", "π": "pi", "η": "eta"}
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}", '"': "''",
    "–": r"\textendash{}", "—": r"\textemdash{}", "‘": "`", "’": "'", "“": "``", "”": "''", "−": "$-$",
    **{c: "\\" + c for c in "&%$#_{}"}, **{c: rf"$\{name}$" for c, name in SYMBOLS.items()},
}  # fmt: skip
LATEX_COLUMNS = 8  # of numbers with errors fit beside each other on a page; further settings make further tables


def render(tables: list[Table], format: str) -> str:
    """The tables as text that ends in a newline."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return FORMATS[format](tables)


def records(tables: list[Table]) -> list[dict[str, Any]]:
    """Long form: one record per suite, setting, method and metric, None for what is missing."""
    rows = (
        (t.suite, setting, row.group, row.method, metric.name, c.mean, c.standard_error, c.seeds, c.note or None)
        for t in tables
        for row in t.rows
        for (setting, metric), c in zip(product(t.settings, t.metrics), row.cells, strict=True)
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _text(table: Table) -> str:
    """For a terminal: the settings one below the other, a star on the best figures."""
    marks = {note: f" ({letter})" for note, letter in table.marks.items()}
    head = ["", *(f"{m.title} {_arrow(m)}" for m in table.metrics)]
    blocks = [f"{plain(table.suite)}"]
    for i, setting in enumerate(table.settings):
        body: list[list[str]] = []
        for j, row in enumerate(table.rows):
            if table.opens_group(j):
                body.append([row.group])
            cells = row.cells[i * len(table.metrics) : (i + 1) * len(table.metrics)]
            body.append([f"  {plain(row.name)}", *(_text_cell(cell, marks) for cell in cells)])
        aligned = tabulate(
            body,
            head,
            tablefmt="simple",
            disable_numparse=True,
            preserve_whitespace=True,
            colalign=("left", *["right"] * len(table.metrics)),
        )
        blocks.append(f"{plain(setting)}\n{aligned}")
    notes = "\n".join(f"{mark.strip()} {plain(note)}" for note, mark in marks.items())
    best = "* best. " if any(cell.best for row in table.rows for cell in row.cells) else ""
    told = table.definitions.removeprefix("In percent, best in bold. ")
    return "\n\n".join(filter(None, [*blocks, f"In percent. {best}{table.seeds_line}", notes, told])) + "\n"


def _text_cell(cell: Cell, marks: dict[str, str]) -> str:
    error = f" ±{cell.error_percent:>5}" if cell.error_percent else ""
    return f"{cell.percent}{error}{'*' if cell.best else ' '}{marks.get(cell.note, '')}"


def _arrow(metric: Metric) -> str:
    return "↑" if metric.higher_is_better else "↓"


def _csv(tables: list[Table]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(tables))
    return text.getvalue()


def _markdown(table: Table) -> str:
    """The settings are the header and the metrics the first row, since Markdown has one header row only."""
    marks = {note: f" ({letter})" for note, letter in table.marks.items()}
    blank = [""] * (len(table.metrics) - 1)
    head = ["Method", *(text for s in table.settings for text in [_markdown_text(s), *blank])]
    titles = [f"**{m.title} {_arrow(m)}**" for m in table.metrics]
    columns = [_markdown_column([row.cells[i] for row in table.rows], marks) for i in range(len(head) - 1)]
    body = [["", *titles * len(table.settings)]]
    for i, (row, *numbers) in enumerate(zip(table.rows, *columns, strict=True)):
        if table.opens_group(i):
            body.append([f"*{_markdown_text(row.group)}*", *[""] * len(columns)])
        body.append([_markdown_text(row.name), *numbers])
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [_markdown_line(head, widths)]
    lines.append("|".join(["", "-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:]), ""]))
    lines += [_markdown_line(cells, widths) for cells in body]
    notes = [f"-{mark} {_markdown_text(note)}" for note, mark in marks.items()]
    parts = [f"### {_markdown_text(table.suite)}", "\n".join(lines), _markdown_text(table.seeds_line), "\n".join(notes)]
    return "\n\n".join([*filter(None, parts), _markdown_text(table.definitions)]) + "\n"


def _markdown_line(cells: Sequence[str], widths: list[int]) -> str:
    padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
    return f"| {' | '.join(padded)} |"


def _markdown_column(cells: list[Cell], marks: dict[str, str]) -> list[str]:
    """Spaces stand where other cells have stars or a mark, so that the figures line up on a terminal."""
    stars = "  " if any(cell.best for cell in cells) else ""
    tail = max(len(marks.get(cell.note, "")) for cell in cells)
    shown = []
    for cell in cells:
        text = f"{cell.percent} ± {cell.error_percent}" if cell.error_percent else cell.percent
        mark = marks.get(cell.note, "").ljust(tail)
        shown.append(f"**{text}**{mark}" if cell.best else text + mark + stars)
    return shown


def _markdown_text(text: str) -> str:
    """Underscores inside words are left alone: they are common in names and mean nothing there."""
    return re.sub(r"[\\`*|<\[\]~$]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", plain(text))


def _latex(table: Table) -> str:
    """Needs booktabs and nothing else."""
    width = len(table.metrics)
    abreast = max(1, LATEX_COLUMNS // width)
    parts = []
    for start in range(0, len(table.settings), abreast):
        end = start + abreast
        rows = [replace(row, cells=row.cells[start * width : end * width]) for row in table.rows]
        parts.append(replace(table, settings=table.settings[start:end], rows=rows))
    return "\n".join(_latex_float(part, i, len(parts)) for i, part in enumerate(parts, start=1))


def _latex_float(table: Table, part: int, parts: int) -> str:
    columns = len(table.settings) * len(table.metrics)
    title = table.suite + (f" ({part} of {parts})" if parts > 1 else "")
    label = re.sub("[^A-Za-z0-9.-]+", "-", table.suite) + (f"-{part}" if part > 1 else "")
    notes = [f"$^{{{letter}}}$ {_latex_text(note)}" for note, letter in table.marks.items()]
    below = " \\\\\n".join([*notes, _latex_text(table.definitions)])
    return "\n".join([
        r"\begin{table*}[ht]",
        r"\centering",
        rf"\caption{{Results on {_latex_text(title)}. {_latex_text(table.seeds_line)}}}",
        rf"\label{{tab:{label}}}",
        r"\smallskip\setlength{\tabcolsep}" + (r"{4pt}\small" if columns <= 4 else r"{2pt}\scriptsize"),
        r"\makebox[\textwidth][c]{%",  # where a table is wider than the text, both margins share it
        _latex_tabular(table, columns) + "}",
        rf"\par\smallskip\parbox{{\textwidth}}{{\raggedright\scriptsize {below}}}",
        r"\end{table*}",
        "",
    ])  # fmt: skip


def _latex_tabular(table: Table, columns: int) -> str:
    width, marks = len(table.metrics), table.marks
    heads = [rf"\multicolumn{{{width}}}{{c}}{{{_latex_text(s)}}}" for s in table.settings]
    rules = [rf"\cmidrule(lr){{{2 + i}-{1 + i + width}}}" for i in range(0, columns, width)]
    titles = [rf"\textbf{{{_latex_text(m.title)}}}{_latex_text(_arrow(m))}" for m in table.metrics]
    lines = [rf"\begin{{tabular}}{{l{'c' * columns}}}", r"\toprule", rf" & {' & '.join(heads)} \\", "".join(rules)]
    lines.append(rf"\textbf{{Method}} & {' & '.join(titles * len(table.settings))} \\")
    for i, row in enumerate(table.rows):
        if table.opens_group(i):
            lines += [r"\midrule", rf"\multicolumn{{{columns + 1}}}{{l}}{{\emph{{{_latex_text(row.group)}}}}} \\"]
        lines.append(" & ".join([_latex_text(row.name), *(_latex_cell(c, marks) for c in row.cells)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_cell(cell: Cell, marks: dict[str, str]) -> str:
    text = "--" if cell.mean is None else rf"\textbf{{{cell.percent}}}" if cell.best else cell.percent
    error = rf"$_{{\pm {cell.error_percent}}}$" if cell.error_percent else ""
    return text + error + (f"$^{{{marks[cell.note]}}}$" if cell.note else "")


def _latex_text(text: str) -> str:
    """Accents are dropped and letters that plain LaTeX lacks become '?'."""
    letters = (c for c in unicodedata.normalize("NFKD", plain(text)) if not unicodedata.combining(c))
    escaped = "".join(LATEX.get(c, c if c.isascii() else "?") for c in letters)
    return re.sub("-(?=-)", "-{}", escaped)  # two hyphens, not a dash


FORMATS: dict[str, Callable[[list[Table]], str]] = {
    "text": lambda tables: "\n".join(map(_text, tables)),
    "markdown": lambda tables: "\n".join(map(_markdown, tables)),
    "latex": lambda tables: "\n".join(map(_latex, tables)),
    "csv": _csv,
    "json": lambda tables: json.dumps(records(tables), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
}
