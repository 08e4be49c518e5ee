"""Tables as text: for a terminal, Markdown, LaTeX, CSV or JSON."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tabulate import tabulate

from oodbench.errors import unknown
from oodbench.report.numbers import OUT_SHARE
from oodbench.report.tables import Cell, Entry, PrintedRow, Row, Table, plain
from oodbench.results.metrics import Metric

COLUMNS = ("suite", "setting", "group", "method", "metric", "mean", "standard_error", "seeds", "note")
REPORTED = ("reported", "reported_error", "difference", "reported_marks", "reported_note")
# What plain pdflatex would obey or not know. Braces around [ and * hide them from the \\ of the row above.
SYMBOLS = {"±": "pm", "×": "times", "≤": "le", "≥": "ge", "↑": "uparrow", "↓": "downarrow", "π": "pi", "η": "eta"}
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}", '"': "''",
    "–": r"\textendash{}", "—": r"\textemdash{}", "‘": "`", "’": "'", "“": "``", "”": "''", "−": "$-$",
    **{c: "\\" + c for c in "&%$#_{}"}, **{c: rf"$\{name}$" for c, name in SYMBOLS.items()},
}  # fmt: skip
LATEX_COLUMNS = 8  # of numbers with errors fit beside each other on a page; further settings make further tables
LATEX_LINES = 45  # fit below each other; further rows make further tables


def render(tables: list[Table], format: str) -> str:
    """The tables as text that ends in a newline."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return FORMATS[format](tables)


def records(tables: list[Table]) -> list[dict[str, Any]]:
    """Long form: one record per suite, setting, method and metric, None for what is missing.

    Tables of the paper have a column for their name, and tables with reported numbers have those of REPORTED.
    """
    has_layouts = any(table.layout for table in tables)
    has_reported = any(cell.reported for table in tables for row in table.rows for cell in row.cells)
    found = []
    for table in tables:
        for row in table.rows:
            for cell, metric in zip(row.cells, table.metrics * len(table.settings), strict=True):
                values = (table.suite, cell.setting, row.group, row.method, metric.name)
                numbers = (cell.mean, cell.standard_error, cell.seeds, cell.note or None)
                record: dict[str, Any] = {"layout": table.layout or None} if has_layouts else {}
                record |= dict(zip(COLUMNS, (*values, *numbers), strict=True))
                found.append(record | (_reported(cell) if has_reported else {}))
    return found


def _reported(cell: Cell) -> dict[str, Any]:
    """Rates like the rest; marks say what is wrong with the number in one word each."""
    if not cell.reported:
        return dict.fromkeys(REPORTED)
    first = cell.reported[0]
    marks = " ".join(dict.fromkeys(mark.kind for mark in first.marks)) or None
    return dict(zip(REPORTED, (first.value, first.error, cell.difference, marks, first.note or None), strict=True))


def _text(table: Table) -> str:
    """For a terminal: the settings one below the other, a star on the best figures."""
    marks = {note: f" ({letter})" for note, letter in table.marks.items()}
    blocks = [plain(table.title) + (f"\n{plain(table.caption)}" if table.caption else "")]
    titles = [_title(metric) for metric in table.metrics]
    if len(titles) == 1:  # one figure each: the settings fit beside each other
        blocks.append(_text_block(table, [plain(s) for s in table.settings], slice(None), marks))
        blocks.append(titles[0])
    else:
        for i, setting in enumerate(table.settings):
            own = slice(i * len(titles), (i + 1) * len(titles))
            blocks.append(f"{plain(setting)}\n{_text_block(table, titles, own, marks)}")
    notes = "\n".join(f"{mark.strip()} {plain(note)}" for note, mark in marks.items())
    best = "* best. " if any(cell.best for row in table.rows for cell in row.cells) else ""
    told = table.definitions.removeprefix("In percent").removeprefix(", best in bold").removeprefix(".").strip()
    below = [f"In percent. {best}{table.seeds_line}", notes, "\n".join(map(plain, table.remarks)), told]
    return "\n\n".join(filter(None, [*blocks, *below])) + "\n"


def _text_block(table: Table, titles: list[str], own: slice, marks: dict[str, str]) -> str:
    """The rows under some of the columns."""
    lines = [(i, line) for i, row in enumerate(table.rows) for line in row.lines]
    shown = [line.entries[own] for _, line in lines]
    columns = [_text_column([figures[c] for figures in shown], marks) for c in range(len(titles))]
    body: list[list[str]] = []
    for (i, line), *numbers in zip(lines, *columns, strict=True):
        group = table.rows[i].group
        if line.is_measured and table.opens_group(i) and group:
            body.append([group])
        indent = ("  " if group else "") + ("" if line.is_measured else "  ")
        *others, last = map(plain, line.heads)
        body.append([*others, indent + last, *numbers])
    return tabulate(
        body,
        ["" if table.heads == ("Method",) else table.heads[0], *table.heads[1:], *titles],
        tablefmt="simple",
        disable_numparse=True,
        preserve_whitespace=True,
        colalign=(*["left"] * len(table.heads), *["right"] * len(titles)),
    )


def _text_column(figures: list[Entry], marks: dict[str, str]) -> list[str]:
    """Figures line up, and so do their errors and marks."""
    width = max(len(figure.error) for figure in figures)
    tail = max(len(marks.get(figure.note, "")) for figure in figures)
    shown = []
    for figure in figures:
        error = f" ± {figure.error:>{width}}" if figure.error else " " * (width + 3 if width else 0)
        star = "*" if figure.best else " "
        shown.append(f"{figure.text}{error}{star}{marks.get(figure.note, ''):{tail}}")
    return shown


def _arrow(metric: Metric) -> str:
    """Which way is better; out% is neither good nor bad."""
    return "" if metric is OUT_SHARE else "↑" if metric.higher_is_better else "↓"


def _title(metric: Metric) -> str:
    return f"{metric.title} {_arrow(metric)}".strip()


def _csv(tables: list[Table]) -> str:
    text = io.StringIO()
    rows = records(tables)
    writer = csv.DictWriter(text, list(rows[0]) if rows else COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(table: Table) -> str:
    """The settings are the header and the metrics the first row, since Markdown has one header row only."""
    marks = {note: f" ({letter})" for note, letter in table.marks.items()}
    blank = [""] * (len(table.metrics) - 1)
    first = [_markdown_text(head) for head in table.heads]
    head = [*first, *(text for s in table.settings for text in [_markdown_text(s), *blank])]
    titles = [f"**{_title(m)}**" for m in table.metrics]
    lines = [(i, line) for i, row in enumerate(table.rows) for line in row.lines]
    count = len(table.settings) * len(table.metrics)
    columns = [_markdown_column([line.entries[c] for _, line in lines], marks) for c in range(count)]
    body = [[*[""] * len(first), *titles * len(table.settings)]]
    for (i, line), *numbers in zip(lines, *columns, strict=True):
        if line.is_measured and table.opens_group(i) and table.rows[i].group:
            body.append([f"*{_markdown_text(table.rows[i].group)}*", *[""] * (len(head) - 1)])
        heads = [_markdown_text(head) for head in line.heads]
        body.append([*(heads if line.is_measured else [f"*{h}*" if h else "" for h in heads]), *numbers])
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    text = [_markdown_line(head, widths, len(first))]
    rules = ["-" * (w + 2) if i < len(first) else "-" * (w + 1) + ":" for i, w in enumerate(widths)]
    text.append("|".join(["", *rules, ""]))
    text += [_markdown_line(cells, widths, len(first)) for cells in body]
    notes = [f"-{mark} {_markdown_text(note)}" for note, mark in marks.items()]
    parts = [f"### {_markdown_text(table.title)}", _markdown_text(table.caption), "\n".join(text)]
    parts += [_markdown_text(table.seeds_line), "\n".join(notes), *map(_markdown_text, table.remarks)]
    return "\n\n".join([*filter(None, parts), _markdown_text(table.definitions)]) + "\n"


def _markdown_line(cells: Sequence[str], widths: list[int], heads: int) -> str:
    padded = [c.ljust(w) if i < heads else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
    return f"| {' | '.join(padded)} |"


def _markdown_column(figures: list[Entry], marks: dict[str, str]) -> list[str]:
    """Spaces stand where other figures have stars or a mark, so that they line up on a terminal."""
    stars = "  " if any(figure.best for figure in figures) else ""
    tail = max(len(marks.get(figure.note, "")) for figure in figures)
    shown = []
    for figure in figures:
        text = f"{figure.text} ± {figure.error}" if figure.error else figure.text
        mark = marks.get(figure.note, "").ljust(tail)
        shown.append(f"**{text}**{mark}" if figure.best else text + mark + stars)
    return shown


def _markdown_text(text: str) -> str:
    """Underscores inside words are left alone: they are common in names and mean nothing there."""
    return re.sub(r"[\\`*|<\[\]~$]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", plain(text))


def _latex(table: Table) -> str:
    """Needs booktabs and nothing else."""
    width = len(table.metrics)
    # The paper's own tables stay whole, as wide as they are there.
    abreast = len(table.settings) if table.layout else max(1, LATEX_COLUMNS // width)
    parts = []
    for start in range(0, len(table.settings), abreast):
        end = start + abreast
        rows = [replace(row, cells=row.cells[start * width : end * width]) for row in table.rows]
        part = replace(table, settings=table.settings[start:end], rows=rows)
        parts += [replace(part, rows=some) for some in _pages(part)]
    return "\n".join(_latex_float(part, i, len(parts)) for i, part in enumerate(parts, start=1))


def _pages(table: Table) -> list[list[Row]]:
    """Rows that fit on a page, cut between groups where there are any to cut between."""
    groups: list[list[Row]] = []
    for i, row in enumerate(table.rows):
        if not groups or table.opens_group(i):
            groups.append([])
        groups[-1].append(row)
    if len(groups) == 1:
        groups = [[row] for row in table.rows]
    pages: list[list[Row]] = [[]]
    for group in groups:
        if pages[-1] and sum(len(row.lines) for row in (*pages[-1], *group)) > LATEX_LINES:
            pages.append([])
        pages[-1] += group
    return pages


def _latex_float(table: Table, part: int, parts: int) -> str:
    columns = len(table.settings) * len(table.metrics)
    lines = sum(len(row.lines) for row in table.rows)
    share = f" ({part} of {parts})" if parts > 1 else ""
    label = re.sub("[^A-Za-z0-9.-]+", "-", table.title) + (f"-{part}" if part > 1 else "")
    caption = f"{table.suite}{share}. {table.caption}" if table.caption else f"Results on {table.suite}{share}."
    notes = [f"$^{{{letter}}}$ {_latex_text(note)}" for note, letter in table.marks.items()]
    below = " \\\\\n".join([*notes, *map(_latex_text, (*table.remarks, table.definitions))])
    return "\n".join([
        r"\begin{table*}[ht]",
        r"\centering",
        rf"\caption{{{_latex_text(caption)} {_latex_text(table.seeds_line)}}}",
        rf"\label{{tab:{label}}}",
        r"\smallskip\setlength{\tabcolsep}" + _latex_size(columns, lines),
        r"\makebox[\textwidth][c]{%",  # where a table is wider than the text, both margins share it
        _latex_tabular(table, columns) + "}",
        rf"\par\smallskip\parbox{{\textwidth}}{{\raggedright\scriptsize {below}}}",
        r"\end{table*}",
        "",
    ])  # fmt: skip


def _latex_size(columns: int, lines: int) -> str:
    """Space between columns and type that keep a table on the page."""
    if columns > LATEX_COLUMNS:
        return r"{1.5pt}\tiny"
    return r"{4pt}\small" if columns <= 5 and lines <= LATEX_LINES // 2 else r"{2pt}\scriptsize"


def _latex_tabular(table: Table, columns: int) -> str:
    width, heads, marks = len(table.metrics), len(table.heads), table.marks
    names = " & ".join(rf"\textbf{{{_latex_text(head)}}}" for head in table.heads)
    blocks = [rf"\multicolumn{{{width}}}{{c}}{{{_latex_text(s)}}}" for s in table.settings]
    rules = [rf"\cmidrule(lr){{{1 + heads + i}-{heads + i + width}}}" for i in range(0, columns, width)]
    titles = [rf"\textbf{{{_latex_text(m.title)}}}{_latex_text(_arrow(m))}" for m in table.metrics]
    lines = [rf"\begin{{tabular}}{{{'l' * heads}{'c' * columns}}}", r"\toprule"]
    lines += [rf"{' & ' * heads}{' & '.join(blocks)} \\", "".join(rules)]
    lines.append(rf"{names} & {' & '.join(titles * len(table.settings))} \\")
    for i, row in enumerate(table.rows):
        if table.opens_group(i):
            lines.append(r"\midrule")
            if row.group:
                lines.append(rf"\multicolumn{{{columns + heads}}}{{l}}{{\emph{{{_latex_text(row.group)}}}}} \\")
        lines += [_latex_line(line, marks) for line in row.lines]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_line(line: PrintedRow, marks: dict[str, str]) -> str:
    heads = [_latex_text(head) for head in line.heads]
    if not line.is_measured:
        heads = [rf"\quad\emph{{{head}}}" if head else "" for head in heads]
    return " & ".join([*heads, *(_latex_figure(figure, marks) for figure in line.entries)]) + r" \\"


def _latex_figure(figure: Entry, marks: dict[str, str]) -> str:
    text = "--" if figure.text == "–" else _latex_text(figure.text)
    text = rf"\textbf{{{text}}}" if figure.best else text
    error = rf"$_{{\pm {figure.error}}}$" if figure.error else ""
    return text + error + (f"$^{{{marks[figure.note]}}}$" if figure.note else "")


def _latex_text(text: str) -> str:
    """Accents are dropped and letters that plain LaTeX lacks become '?'."""
    letters = (c for c in unicodedata.normalize("NFKD", plain(text)) if not unicodedata.combining(c))
    escaped = "".join(LATEX.get(c, c if c.isascii() else "?") for c in letters)
    escaped = re.sub(r"\$\\pi\$\\_(\w)", r"$\\pi_\1$", escaped)  # pi_c and pi_s
    return re.sub("-(?=-)", "-{}", escaped)  # two hyphens, not a dash


FORMATS: dict[str, Callable[[list[Table]], str]] = {
    "text": lambda tables: "\n".join(map(_text, tables)),
    "markdown": lambda tables: "\n".join(map(_markdown, tables)),
    "latex": lambda tables: "\n".join(map(_latex, tables)),
    "csv": _csv,
    "json": lambda tables: json.dumps(records(tables), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
}
