"""Tables in, text out: for a terminal, Markdown, LaTeX, HTML, CSV or JSON."""

from collections.abc import Callable

from oodbench.errors import unknown
from oodbench.report.render.html import to_page
from oodbench.report.render.latex import to_latex
from oodbench.report.render.markdown import to_markdown
from oodbench.report.render.records import to_csv, to_json
from oodbench.report.render.text import to_text
from oodbench.report.tables import Table

FORMATS: dict[str, Callable[[list[Table]], str]] = {
    "text": lambda tables: "\n".join(map(to_text, tables)),
    "markdown": lambda tables: "\n".join(map(to_markdown, tables)),
    "latex": lambda tables: "\n".join(map(to_latex, tables)),
    "html": to_page,
    "csv": to_csv,
    "json": to_json,
}
RECORDS = ("csv", "json")  # for other programs
# What the name of a file says.
ENDINGS = {".tex": "latex", ".md": "markdown", ".csv": "csv", ".html": "html", ".json": "json", ".txt": "text"}


def render(tables: list[Table], format: str, width: int | None = None, bold: bool = False) -> str:
    """The tables as text that ends in a newline; `text` in lines that are no longer than `width`.

    On a terminal what is best may be `bold`; elsewhere `text` has a mark for it.
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if format == "text":
        return "\n".join(to_text(table, width, bold) for table in tables)
    return FORMATS[format](tables)
