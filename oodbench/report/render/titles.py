"""What stands above a column of numbers, and the letters of footnotes."""

from collections.abc import Mapping

from oodbench.report.numbers import OUT_SHARE
from oodbench.report.tables import Entry, PrintedRow
from oodbench.results.metrics import Metric


def arrow(metric: Metric) -> str:
    """Which way is better; out% is neither good nor bad."""
    return "" if metric is OUT_SHARE else "↑" if metric.higher_is_better else "↓"


def title_of(metric: Metric) -> str:
    return f"{metric.title} {arrow(metric)}".strip()


def letters(noted: Entry | PrintedRow, marks: Mapping[str, str]) -> str:
    """Of its footnotes: `a`, or `a,b`."""
    return ",".join(marks[note] for note in noted.notes)
