"""What stands above a column of numbers."""

from oodbench.report.numbers import OUT_SHARE
from oodbench.results.metrics import Metric


def arrow(metric: Metric) -> str:
    """Which way is better; out% is neither good nor bad."""
    return "" if metric is OUT_SHARE else "↑" if metric.higher_is_better else "↓"


def title_of(metric: Metric) -> str:
    return f"{metric.title} {arrow(metric)}".strip()
