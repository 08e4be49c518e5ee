"""One number of a table: runs in, mean and standard error over seeds out, with what a reader must know about them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oodbench.report.numbers import Number
from oodbench.results import selection as model_selection
from oodbench.results.metrics import Metric
from oodbench.results.result import Result

LONGEST_NOTE = 200  # characters of an error message under a table; the result file has all of it


@dataclass(frozen=True)
class Cell:
    """One number, a rate in [0, 1], or the reason why there is none."""

    mean: float | None
    standard_error: float | None  # None below two seeds
    seeds: int
    note: str  # what a reader must know about the number; empty if nothing
    best: bool = False
    setting: str = ""
    decimals: int = 2
    reported: tuple[Number, ...] = ()  # the first is what the difference is to

    @property
    def percent(self) -> str:
        return "–" if self.mean is None else f"{100 * self.mean:.{self.decimals}f}"

    @property
    def error_percent(self) -> str:
        return "" if self.standard_error is None else f"{100 * self.standard_error:.{self.decimals}f}"

    @property
    def difference(self) -> float | None:
        """To what is reported, in points."""
        return None if self.mean is None or not self.reported else 100 * self.mean - self.reported[0].value


@dataclass(frozen=True)
class Runs:
    """One method in one setting, in the configuration that was run last."""

    ok: list[Result]
    notes: list[str]


def last_runs(results: list[Result], seeds: int | None = None) -> Runs:
    """Of results in the order they were written; `seeds` keeps that many of the lowest."""
    variant = results[-1].variant
    newest = {r.seed: r for r in results if r.variant == variant}
    kept = [newest[seed] for seed in sorted(newest)[:seeds]]
    ok = [r for r in kept if r.status == "ok"]
    failed: dict[str, list[Result]] = {}
    for r in kept:
        if r.status != "ok":
            failed.setdefault(_cut(r.error or "no message"), []).append(r)
    notes = [f"failed: {error} ({_seeds(rs)})" for error, rs in failed.items()]
    if ok and failed:
        notes.insert(0, f"only {_seeds(ok)}")
    incomplete = [r for r in ok if model_selection.is_selected(r) and r.notes["selection"]["passed_over"]]
    if incomplete:
        notes.append(f"selected without draws that failed or lack pairs ({_seeds(incomplete)})")
    left_out = sum(r.variant != variant for r in results)
    if left_out:
        notes.append(f"{left_out} result file{'s' * (left_out > 1)} of other configurations left out")
    return Runs(ok, notes)


def measured(runs: Runs, metric: Metric) -> Cell:
    recorded = {r.seed: float(r.metrics.get(metric.name, math.nan)) for r in runs.ok}
    lacking = [r for r in runs.ok if not math.isfinite(recorded[r.seed])]
    notes = list(runs.notes)
    earlier = [r for r in lacking if model_selection.is_selected(r) and not r.notes["selection"]["is_last"]]
    if earlier:
        notes.append(f"{metric.title} is known at the last checkpoint, and an earlier one selected ({_seeds(earlier)})")
    unknown_why = [r for r in lacking if r not in earlier]
    if unknown_why:
        notes.append(f"{metric.title} not recorded ({_seeds(unknown_why)})")
    return summary([value for value in recorded.values() if math.isfinite(value)], notes)


def average(columns: Sequence[Runs], metric: Metric) -> Cell:
    """Of several settings, taken for each seed that all of them have and then over seeds."""
    by_seed = [{r.seed: r.metrics[metric.name] for r in runs.ok if metric.name in r.metrics} for runs in columns]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    notes = dict.fromkeys(note for runs in columns for note in runs.notes)
    return summary([sum(values[seed] for values in by_seed) / len(by_seed) for seed in seeds], list(notes))


def summary(values: Sequence[float], notes: Sequence[str] = ()) -> Cell:
    """Mean and standard error over seeds."""
    mean = statistics.fmean(values) if values else None
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Cell(mean, error, len(values), "; ".join(notes))


def mark_best(grid: list[list[Cell]], metrics: Sequence[Metric]) -> None:
    """The best of each column. Means are compared as printed, so that equal figures are equally bold."""
    for column, metric in enumerate(metrics):
        printed = [(float(cells[column].percent), cells) for cells in grid if cells[column].mean is not None]
        if len(printed) > 1:
            best = (max if metric.higher_is_better else min)(value for value, _ in printed)
            for value, cells in printed:
                if value == best:
                    cells[column] = replace(cells[column], best=True)


def _seeds(results: list[Result]) -> str:
    return ("seed " if len(results) == 1 else "seeds ") + ", ".join(str(r.seed) for r in results)


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def plain(text: str) -> str:
    """On one line, without what a terminal or TeX would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
