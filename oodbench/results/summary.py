"""A result in one line, and as a few lines of HTML for a notebook."""

from html import escape
from itertools import islice
from textwrap import shorten
from typing import TYPE_CHECKING

from oodbench.results.metrics import METRICS

if TYPE_CHECKING:
    from oodbench.results.result import Result

SHORT = 4  # metrics in one line: the first of METRICS are those of the tables
LONGEST_ERROR = 120  # characters in one line


def one_line(result: "Result") -> str:
    """`<Result digits-c / unseen-digits / scone / seed 0: OOD Acc. 80.1, …>`, in percent; or why it failed."""
    if result.status == "ok":
        outcome = ", ".join(f"{title} {value}" for title, value in islice(_percent(result).items(), SHORT))
    else:
        outcome = shorten(f"failed: {result.error or 'no message'}", LONGEST_ERROR, placeholder=" …")
    return _printable(f"<Result {_place(result)}: {outcome}>")


def as_html(result: "Result") -> str:
    """A table of its metrics, or why it failed; names come from files and are escaped."""
    values = _percent(result) if result.status == "ok" else {"failed": result.error or "no message"}
    rows = "".join(f"<tr><th>{_text(title)}</th><td>{_text(value)}</td></tr>" for title, value in values.items())
    return f"<table><caption>{_text(_place(result))}</caption>{rows}</table>"


def _place(result: "Result") -> str:
    return f"{result.suite_label} / {result.setting} / {result.method} / seed {result.seed}"


def _percent(result: "Result") -> dict[str, str]:
    """What was recorded, under the titles of the tables."""
    shown = [metric for metric in METRICS.values() if metric.name in result.metrics]
    return {metric.title: f"{100 * result.metrics[metric.name]:.1f}" for metric in shown}


def _text(text: str) -> str:
    return escape(_printable(text))


def _printable(text: str) -> str:
    """On one line, without what a terminal would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
