"""Tables in LaTeX, for any document that has booktabs."""

import re
import unicodedata
from dataclasses import replace

from oodbench.report.render.titles import arrow, letters
from oodbench.report.spelling import setting_in_words
from oodbench.report.tables import Entry, PrintedRow, Row, Table, plain

# What plain pdflatex would obey or not know. Braces around [ and * hide them from the \\ of the row above.
SYMBOLS = {"±": "pm", "×": "times", "≤": "le", "≥": "ge", "↑": "uparrow", "↓": "downarrow", "π": "pi", "η": "eta"}
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}", '"': "''",
    "–": r"\textendash{}", "—": r"\textemdash{}", "‘": "`", "’": "'", "“": "``", "”": "''", "−": "$-$",
    **{c: "\\" + c for c in "&%$#_{}"}, **{c: rf"$\{name}$" for c, name in SYMBOLS.items()},
}  # fmt: skip
SIZE = r"\scriptsize"  # of all tables and what stands below them, so that eight columns fit
LATEX_COLUMNS = 8  # of numbers with errors fit beside each other on a page; further settings make further tables
LONG = 12  # characters of a figure; of longer ones half as many columns fit
LATEX_LINES = 40  # fit below each other; further rows make further tables


def to_latex(table: Table) -> str:
    """Needs booktabs and nothing else."""
    if not table.layout:  # whose titles are words
        table = replace(table, settings=[setting_in_words(setting) for setting in table.settings])
    width = len(table.metrics)
    is_long = any(len(figure.text) > LONG for row in table.rows for line in row.lines for figure in line.entries)
    fitting = LATEX_COLUMNS // 2 if is_long else LATEX_COLUMNS
    abreast = max(1, fitting // width)
    parts = []
    for start in range(0, len(table.settings), abreast):
        end = start + abreast
        rows = [replace(row, cells=row.cells[start * width : end * width]) for row in table.rows]
        part = replace(table, settings=table.settings[start:end], rows=rows)
        parts += [replace(part, rows=some) for some in _pages(part)]
    return "\n".join(_float(part, i, len(parts)) for i, part in enumerate(parts, start=1))


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


def _float(table: Table, part: int, parts: int) -> str:
    columns = len(table.settings) * len(table.metrics)
    share = f" ({part} of {parts})" if parts > 1 else ""
    label = re.sub("[^A-Za-z0-9.-]+", "-", table.title) + (f"-{part}" if part > 1 else "")
    suite = table.suite_in_words or table.suite
    caption = f"{suite}{share}. {table.caption}" if table.caption else f"Results on {suite}{share}."
    notes = [f"$^{{{letter}}}$ {_escaped(note)}" for note, letter in table.marks.items()]
    below = " \\\\\n".join([*notes, *map(_escaped, (*table.remarks, table.definitions))])
    return "\n".join([
        r"\begin{table*}[ht]",
        r"\centering",
        rf"\caption{{{_escaped(caption)} {_escaped(table.counts_line)}}}",
        rf"\label{{tab:{label}}}",
        rf"\smallskip{SIZE}\setlength{{\tabcolsep}}{{{'4pt' if columns <= LATEX_COLUMNS // 2 else '2pt'}}}",
        r"\makebox[\textwidth][c]{%",  # where a table is wider than the text, both margins share it
        _tabular(table, columns) + "}",
        rf"\par\smallskip\parbox{{\textwidth}}{{\raggedright {below}}}",
        r"\end{table*}",
        "",
    ])  # fmt: skip


def _tabular(table: Table, columns: int) -> str:
    width, heads, marks = len(table.metrics), len(table.heads), table.marks
    names = " & ".join(rf"\textbf{{{_escaped(head)}}}" for head in table.heads)
    blocks = [rf"\multicolumn{{{width}}}{{c}}{{{_escaped(s)}}}" for s in table.settings]
    rules = [rf"\cmidrule(lr){{{1 + heads + i}-{heads + i + width}}}" for i in range(0, columns, width)]
    titles = [rf"\textbf{{{_escaped(m.title)}}}{_escaped(arrow(m))}" for m in table.metrics]
    lines = [rf"\begin{{tabular}}{{{'l' * heads}{'c' * columns}}}", r"\toprule"]
    lines += [rf"{' & ' * heads}{' & '.join(blocks)} \\", "".join(rules)]
    lines.append(rf"{names} & {' & '.join(titles * len(table.settings))} \\")
    for i, row in enumerate(table.rows):
        if table.opens_group(i):
            lines.append(r"\midrule")
            if heading := table.heading(i):
                lines.append(rf"\multicolumn{{{columns + heads}}}{{l}}{{\emph{{{_escaped(heading)}}}}} \\")
        lines += [_line(line, marks) for line in row.lines]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _line(line: PrintedRow, marks: dict[str, str]) -> str:
    heads = [_escaped(head) for head in line.heads]
    if not line.is_measured:
        heads = [rf"\quad\emph{{{head}}}" if head else "" for head in heads]
    return " & ".join([*heads, *(_number(figure, marks) for figure in line.entries)]) + r" \\"


def _number(figure: Entry, marks: dict[str, str]) -> str:
    text = "--" if figure.text == "–" else _escaped(figure.text)
    text = rf"\textbf{{{text}}}" if figure.best else text
    error = rf"$_{{\pm {figure.error}}}$" if figure.error else ""
    return text + error + (f"$^{{{letters(figure, marks)}}}$" if figure.notes else "")


def _escaped(text: str) -> str:
    """Accents are dropped and letters that plain LaTeX lacks become '?'."""
    letters = (c for c in unicodedata.normalize("NFKD", plain(text)) if not unicodedata.combining(c))
    escaped = "".join(LATEX.get(c, c if c.isascii() else "?") for c in letters)
    escaped = re.sub(r"\$\\(pi|eta)\$\\_(\w)", r"$\\\1_\2$", escaped)  # pi_c and pi_s, eta_l and eta_u
    return re.sub("-(?=-)", "-{}", escaped)  # two hyphens, not a dash
