"""Tables in LaTeX, for any document that has booktabs and two columns of text."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product

from oodbench.report.labels import arrow, plain, setting_in_words
from oodbench.report.model import Entry, PrintedRow, Table, letters
from oodbench.results.metrics import Metric

# What plain pdflatex would obey or not know. Braces around [ and * hide them from the \\ of the row above.
SYMBOLS = {
    "±": "pm",
    "×": "times",
    "≤": "le",
    "≥": "ge",
    "↑": "uparrow",
    "↓": "downarrow",
    "π": "pi",
    "η": "eta",
    "◦": "circ",
}
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}", '"': "''",
    "–": r"\textendash{}", "—": r"\textemdash{}", "‘": "`", "’": "'", "“": "``", "”": "''", "−": "$-$",
    **{c: "\\" + c for c in "&%$#_{}"}, **{c: rf"$\{name}$" for c, name in SYMBOLS.items()},
}  # fmt: skip
SIZE, TITLE, ERROR, BELOW = r"\small", r"\scriptsize", r"\tiny", r"\scriptsize"  # of tables and what is in them
STRETCH = 0.83  # of the distance of lines
SIGN = r"$\pm$"
NEAR_LATEX = r"$^{\circ}$"
# A page of two columns in LaTeX's own article, and about how wide letters are at these sizes, in points.
TEXT_WIDTH, GAP = 469.0, 3.0
LETTER, DIGIT, BOLD_DIGIT, SMALL, SIGN_WIDTH = 4.3, 4.3, 4.9, 3.2, 6.0
TEXT_HEIGHT = 57.5  # lines
HEAD = 5.0  # lines
LETTERS_ABOVE, LETTERS_BELOW = 87.0, 175.0  # that take a line's height
Places = Sequence[int]  # of columns: every metric of the first setting, then of the second, ...


def to_latex(table: Table) -> str:
    """Needs booktabs and nothing else. What does not fit beside each other stands below, in the same float if it fits.

    Every part has the letters of the whole, so that a note is the same in all of them.
    """
    if not table.layout:  # whose titles are words
        table = replace(table, settings=[setting_in_words(setting) for setting in table.settings])
    sign, panels = _panels(table)
    floats = []
    for rows in _pages(table):
        count = len(panels)
        while count > 1 and _height(table, rows, count) > TEXT_HEIGHT:
            count -= 1
        floats += [_Float(table, sign, rows, panels[i : i + count]) for i in range(0, len(panels), count)]
    return "\n".join(each.text(i, len(floats)) for i, each in enumerate(floats, start=1))


def _panels(table: Table) -> tuple[str, list[Places]]:
    """As few as fit the page, and what stands before an error: nothing where ± would make them more.

    Settings are parted from each other, and metrics where that makes fewer.
    """
    settings, metrics = range(len(table.settings)), range(len(table.metrics))
    numbers = product(range(1, len(settings) + 1), range(1, len(metrics) + 1), (SIGN, ""))
    order = sorted(numbers, key=lambda each: (each[0] * each[1], each[1], each[2] == ""))
    fitting = ((sign, panels) for some, own, sign in order if _fits(table, panels := _cut(table, some, own), sign))
    return next(fitting, (SIGN, _cut(table, len(settings), len(metrics))))


def _cut(table: Table, settings: int, metrics: int) -> list[Places]:
    """Into so many parts each."""
    count = len(table.metrics)
    return [
        [setting * count + metric for setting, metric in product(some, own)]
        for some, own in product(_parts(range(len(table.settings)), settings), _parts(range(count), metrics))
    ]


def _parts(places: range, count: int) -> list[range]:
    """About equally many in each, the fewest first."""
    ends = [len(places) * i // count for i in range(count + 1)]
    return [places[start:end] for start, end in pairwise(ends)]


def _fits(table: Table, panels: list[Places], sign: str) -> bool:
    """By about how many points wide the columns are."""
    lines = [line for row in table.rows for line in row.lines]
    names = sum(LETTER * max(len(line.heads[i]) for line in lines) for i in range(len(table.heads))) + GAP
    names += LETTER * max(len(line.notes) for line in lines)
    for panel in panels:
        width = names
        for setting, some in groupby(panel, lambda place: place // len(table.metrics)):
            columns = [max(_points(line.entries[place], sign) for line in lines) + GAP for place in some]
            width += max(sum(columns), LETTER * len(table.settings[setting]) + GAP)
        if width > TEXT_WIDTH:
            return False
    return True


def _points(entry: Entry, sign: str) -> float:
    error = SMALL * len(entry.error) + (SIGN_WIDTH if sign else 0.0) if entry.error else 0.0
    return (BOLD_DIGIT if entry.best else DIGIT) * len(entry.text) + error + SMALL * (len(entry.notes) + entry.near)


def _pages(table: Table) -> list[list[int]]:
    """Rows that fit on a page, cut between groups where there are any to cut between."""
    groups: list[list[int]] = []
    for i in range(len(table.rows)):
        if not groups or table.opens_group(i):
            groups.append([])
        groups[-1].append(i)
    if len(groups) == 1:
        groups = [[i] for i in range(len(table.rows))]
    pages: list[list[int]] = [[]]
    for group in groups:
        if pages[-1] and _height(table, [*pages[-1], *group]) > TEXT_HEIGHT:
            pages.append([])
        pages[-1] += group
    return pages


def _height(table: Table, rows: Sequence[int], panels: int = 1) -> float:
    """In lines. Only the first panel has the headings of groups."""
    headings = sum(bool(table.heading(i)) for i in rows)
    below = sum(map(len, (*table.marks, *table.remarks, table.definitions))) / LETTERS_BELOW
    above = 1.5 + sum(map(len, (table.suite_in_words or table.suite, table.caption, table.counts_line))) / LETTERS_ABOVE
    return panels * (HEAD + sum(len(table.rows[i].lines) for i in rows)) + headings + above + below


@dataclass(frozen=True)
class _Float:
    """Some rows of a table, in panels below each other."""

    table: Table
    sign: str  # before an error
    rows: list[int]
    panels: list[Places]

    def text(self, part: int, parts: int) -> str:
        table = self.table
        share = f" ({part} of {parts})" if parts > 1 else ""
        label = re.sub("[^A-Za-z0-9.-]+", "-", table.title) + (f"-{part}" if part > 1 else "")
        suite = table.suite_in_words or table.suite
        caption = f"{suite}{share}. {table.caption}".strip()
        lines = [line for i in self.rows for line in table.rows[i].lines]
        places = [place for panel in self.panels for place in panel]
        shown = {note for line in lines for some in line.notes_at(places) for note in some}
        counts = table.counts_line if self.sign else table.counts_line.replace("±:", "Subscripts, ±:")
        notes = [f"$^{{{letter}}}$ {_escaped(note)}." for note, letter in table.marks.items() if note in shown]
        below = "\n".join([*notes, *map(_escaped, (*table.remarks, table.definitions))])
        return "\n".join([
            r"\begin{table*}[ht]",
            r"\centering",
            rf"\caption{{{_escaped(caption)} {_escaped(counts)}}}",
            rf"\label{{tab:{label}}}",
            rf"\smallskip{SIZE}\setlength{{\tabcolsep}}{{{GAP / 2}pt}}\renewcommand{{\arraystretch}}{{{STRETCH}}}",
            "\n\\par\\smallskip\n".join(self._tabular(panel, i == 0) for i, panel in enumerate(self.panels)),
            rf"\par\smallskip\parbox{{\textwidth}}{{{BELOW}\raggedright {below}}}",
            r"\end{table*}",
            "",
        ])  # fmt: skip

    def _tabular(self, panel: Places, has_headings: bool) -> str:
        table, heads, count = self.table, len(self.table.heads), len(self.table.metrics)
        blocks, rules, end = [], [], heads
        for setting, some in groupby(panel, lambda place: place // count):
            start, end = end + 1, end + len(list(some))
            blocks.append(rf"\multicolumn{{{end - start + 1}}}{{c}}{{{_escaped(table.settings[setting])}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{end}}}")
        names = [rf"\textbf{{{_escaped(head)}}}" for head in table.heads]
        titles = [_title(table.metrics[place % count]) for place in panel]
        lines = [rf"\begin{{tabular}}{{{'l' * heads}{'c' * len(panel)}}}", r"\toprule"]
        lines += [rf"{' & ' * heads}{' & '.join(blocks)} \\", "".join(rules), rf"{' & '.join([*names, *titles])} \\"]
        lines.append(r"\midrule")
        for i in self.rows:
            if table.opens_group(i):
                heading = table.heading(i) if has_headings else ""
                if i != self.rows[0] and not heading:
                    lines.append(r"\addlinespace[1pt]")
                if heading:
                    lines.append(rf"\multicolumn{{{len(panel) + heads}}}{{l}}{{\emph{{{_escaped(heading)}}}}} \\")
            lines += [_line(line, panel, table.marks, self.sign) for line in table.rows[i].lines]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _title(metric: Metric) -> str:
    """Its words below each other, so that it is no wider than its numbers."""
    words = [rf"{TITLE}\textbf{{{_escaped(word)}}}" for word in metric.title.split(maxsplit=1)]
    words[-1] += _escaped(arrow(metric))
    return words[0] if len(words) == 1 else rf"\shortstack{{{words[0]}\\{words[1]}}}"


def _line(line: PrintedRow, panel: Places, marks: dict[str, str], sign: str) -> str:
    heads = [_escaped(head) for head in line.heads]
    if not line.is_measured:
        heads = [rf"\quad\emph{{{head}}}" if head else "" for head in heads]
    heads[-1] += _marked(line, marks)
    return " & ".join([*heads, *(_number(line.entries[place], marks, sign) for place in panel)]) + r" \\"


def _number(figure: Entry, marks: dict[str, str], sign: str) -> str:
    text = "--" if figure.text == "–" else _escaped(figure.text)
    text = rf"\textbf{{{text}}}" if figure.best else text
    error = rf"\raisebox{{-.3ex}}{{{ERROR}{sign}{figure.error}}}" if figure.error else ""
    near = NEAR_LATEX if figure.near else ""
    return text + error + near + _marked(figure, marks)


def _marked(noted: Entry | PrintedRow, marks: dict[str, str]) -> str:
    return f"$^{{{letters(noted, marks)}}}$" if noted.notes else ""


def _escaped(text: str) -> str:
    """Accents are dropped and letters that plain LaTeX lacks become '?'."""
    letters = (c for c in unicodedata.normalize("NFKD", plain(text)) if not unicodedata.combining(c))
    escaped = "".join(LATEX.get(c, c if c.isascii() else "?") for c in letters)
    escaped = re.sub(r"\$\\(pi|eta)\$\\_(\w)", r"$\\\1_\2$", escaped)  # pi_c and pi_s, eta_l and eta_u
    return re.sub("-(?=-)", "-{}", escaped)  # two hyphens, not a dash
