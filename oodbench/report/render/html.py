"""Tables in HTML: one as a notebook shows it, or several as a page. Names come from files and are escaped."""

from collections.abc import Iterable
from html import escape

from oodbench.report.labels import plain, title_of
from oodbench.report.model import NEAR_MARK, Entry, PrintedRow, Table, letters

STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; }
table { border-collapse: collapse; margin-top: 2em; font-variant-numeric: tabular-nums; }
caption { font-weight: bold; text-align: left; padding: 0.4em 0; }
th, td { padding: 0.15em 0.6em; text-align: right; white-space: nowrap; }
thead th[colspan] { text-align: center; }
tbody th, tbody td[colspan] { text-align: left; font-weight: normal; }
thead { border-bottom: 1px solid; }
p { max-width: 60em; }
"""


def to_page(tables: list[Table]) -> str:
    """A page that needs nothing else."""
    title = ", ".join(dict.fromkeys(_escaped(table.title) for table in tables))
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = "\n".join(map(to_html, tables))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def to_html(table: Table) -> str:
    """A fragment: one table, its notes below."""
    columns = len(table.heads) + len(table.settings) * len(table.metrics)
    settings = "".join(f'<th colspan="{len(table.metrics)}">{_escaped(s)}</th>' for s in table.settings)
    titles = [*table.heads, *[title_of(metric) for metric in table.metrics] * len(table.settings)]
    head = f'<tr><th colspan="{len(table.heads)}"></th>{settings}</tr><tr>{_cells("th", map(_escaped, titles))}</tr>'
    body = []
    for i, row in enumerate(table.rows):
        if heading := table.heading(i):
            body.append(f'<tr><td colspan="{columns}"><em>{_escaped(heading)}</em></td></tr>')
        body += [_line(line, table.marks) for line in row.lines]
    notes = [f"<sup>{letter}</sup> {_escaped(note)}" for note, letter in table.marks.items()]
    sentences = [table.caption, table.counts_line, *table.remarks, table.definitions]
    below = "<br>".join([*notes, *(_escaped(sentence) for sentence in sentences if sentence)])
    caption = f"<caption>{_escaped(table.title)}</caption>"
    return f"<table>{caption}<thead>{head}</thead><tbody>{''.join(body)}</tbody></table><p><small>{below}</small></p>"


def _line(line: PrintedRow, marks: dict[str, str]) -> str:
    heads = [_escaped(head) if line.is_measured else f"<em>{_escaped(head)}</em>" for head in line.heads]
    heads[-1] += _marked(line, marks)
    return f"<tr>{_cells('th', heads)}{_cells('td', [_number(figure, marks) for figure in line.entries])}</tr>"


def _number(figure: Entry, marks: dict[str, str]) -> str:
    text = _escaped(f"{figure.text} ± {figure.error}" if figure.error else figure.text)
    text += f" {NEAR_MARK}" if figure.near else ""
    return (f"<strong>{text}</strong>" if figure.best else text) + _marked(figure, marks)


def _marked(noted: Entry | PrintedRow, marks: dict[str, str]) -> str:
    return f"<sup>{letters(noted, marks)}</sup>" if noted.notes else ""


def _cells(tag: str, contents: Iterable[str]) -> str:
    return "".join(f"<{tag}>{content}</{tag}>" for content in contents)


def _escaped(text: str) -> str:
    return escape(plain(text))
