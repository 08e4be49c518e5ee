"""Tables in, text out: for a terminal, Markdown, LaTeX, HTML, CSV or JSON."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oodbench.errors import unknown
from oodbench.report.model import COLUMNS, Table, records
from oodbench.report.render.html import to_page
from oodbench.report.render.latex import to_latex
from oodbench.report.render.markdown import to_markdown
from oodbench.report.render.text import to_text


def to_csv(frame: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Records of a frame, of which an empty one has these columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(frame[0]) if frame else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(frame)
    return text.getvalue()


def to_json(frame: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(frame, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[list[Table]], str]] = {
    "text": lambda tables: "\n".join(map(to_text, tables)),
    "markdown": lambda tables: "\n".join(map(to_markdown, tables)),
    "latex": lambda tables: "\n".join(map(to_latex, tables)),
    "html": to_page,
    "csv": lambda tables: to_csv(records(tables), COLUMNS),
    "json": lambda tables: to_json(records(tables)),
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
