"""What stands above a column of numbers, and the letters behind one."""

from collections.abc import Mapping

from oodbench.report.numbers import OUT_SHARE
from oodbench.report.tables import Entry
from oodbench.results.metrics import Metric


def arrow(metric: Metric) -> str:
    """Which way is better; out% is neither good nor bad."""
    return "" if metric is OUT_SHARE else "↑" if metric.higher_is_better else "↓"


def title_of(metric: Metric) -> str:
    return f"{metric.title} {arrow(metric)}".strip()


def letters(entry: Entry, marks: Mapping[str, str], but: str = "") -> str:
    """Of its footnotes, but for one: `a`, or `a,b`."""
    return ",".join(marks[note] for note in entry.notes if note != but)
