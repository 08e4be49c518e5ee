"""Tables in, text out: for a terminal, Markdown, LaTeX, CSV or JSON."""

from collections.abc import Callable

from oodbench.errors import unknown
from oodbench.report.render.latex import to_latex
from oodbench.report.render.markdown import to_markdown
from oodbench.report.render.records import to_csv, to_json
from oodbench.report.render.text import to_text
from oodbench.report.tables import Table

FORMATS: dict[str, Callable[[list[Table]], str]] = {
    "text": lambda tables: "\n".join(map(to_text, tables)),
    "markdown": lambda tables: "\n".join(map(to_markdown, tables)),
    "latex": lambda tables: "\n".join(map(to_latex, tables)),
    "csv": to_csv,
    "json": to_json,
}


def render(tables: list[Table], format: str) -> str:
    """The tables as text that ends in a newline."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return FORMATS[format](tables)
