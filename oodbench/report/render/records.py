"""Tables in long form, for other programs: CSV and JSON."""

import csv
import io
import json
from typing import Any

from oodbench.report.tables import Cell, Table

COLUMNS = ("suite", "setting", "group", "method", "metric", "mean", "low", "high", "interval", "seeds", "note")
REPORTED = ("reported", "reported_error", "reported_setting", "difference", "reported_marks", "reported_note")


def records(tables: list[Table]) -> list[dict[str, Any]]:
    """Long form: one record per suite, setting, method and metric, None for what is missing.

    `low` and `high` are the ends of the 95 % interval, and `interval` says what it is over.

    Tables of the paper have a column for their name, and tables with reported numbers have those of REPORTED.
    """
    has_layouts = any(table.layout for table in tables)
    has_reported = any(cell.reported for table in tables for row in table.rows for cell in row.cells)
    rows = []
    for table in tables:
        for row in table.rows:
            for cell, metric in zip(row.cells, table.metrics * len(table.settings), strict=True):
                values = (table.suite, cell.setting, row.group, row.method, metric.name)
                known = cell.interval
                ends = (None, None, None) if known is None else (known.low, known.high, known.kind)
                numbers = (cell.mean, *ends, cell.seeds, "; ".join(filter(None, (cell.note, cell.flag))) or None)
                record: dict[str, Any] = {"layout": table.layout or None} if has_layouts else {}
                record |= dict(zip(COLUMNS, (*values, *numbers), strict=True))
                rows.append(record | (_reported(cell) if has_reported else {}))
    return rows


def _reported(cell: Cell) -> dict[str, Any]:
    """Rates like the rest; marks say what is wrong with the number in one word each."""
    if not cell.reported:
        return dict.fromkeys(REPORTED)
    first = cell.reported[0]
    marks = " ".join(dict.fromkeys(mark.kind for mark in first.marks)) or None
    setting = " | ".join(first.settings)
    values = (first.value, first.error, setting, cell.difference, marks, first.note or None)
    return dict(zip(REPORTED, values, strict=True))


def to_csv(tables: list[Table]) -> str:
    text = io.StringIO()
    rows = records(tables)
    writer = csv.DictWriter(text, list(rows[0]) if rows else COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def to_json(tables: list[Table]) -> str:
    return json.dumps(records(tables), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
