"""One number of a table: runs in, mean and standard error over seeds out, with what a reader must know about them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oodbench.report.numbers import Number
from oodbench.results.measurement import Measurement, Runs
from oodbench.results.metrics import Metric

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
        """To what is reported, as that is printed."""
        return None if self.mean is None or not self.reported else (100 * self.mean - self.reported[0].percent) / 100


def notes_of(runs: Runs) -> list[str]:
    """What a reader must know about the runs, whichever metric they are shown by."""
    notes = failures(runs)
    if runs.ok and runs.failed:
        notes.insert(0, f"only {_seeds(runs.ok)}")
    incomplete = [each for each in runs.ok if each.choice is not None and each.choice.passed_over]
    if incomplete:
        notes.append(f"selected without draws that failed or lack pairs ({_seeds(incomplete)})")
    if runs.left_out:
        notes.append(f"{runs.left_out} result file{'s' * (runs.left_out > 1)} of other configurations left out")
    return notes


def failures(runs: Runs) -> list[str]:
    """Why runs failed, and under which seeds."""
    reasons: dict[str, list[Measurement]] = {}
    for each in runs.failed:
        reasons.setdefault(_cut(each.problem or ""), []).append(each)
    return [f"failed: {reason} ({_seeds(some)})" for reason, some in reasons.items()]


def measured(runs: Runs, metric: Metric) -> Cell:
    recorded = {each.seed: float(each.metrics.get(metric.name, math.nan)) for each in runs.ok}
    lacking = [each for each in runs.ok if not math.isfinite(recorded[each.seed])]
    notes = notes_of(runs)
    earlier = [each for each in lacking if each.choice is not None and not each.choice.is_last]
    if earlier:
        notes.append(f"{metric.title} is known at the last checkpoint, and an earlier one selected ({_seeds(earlier)})")
    unknown_why = [each for each in lacking if each not in earlier]
    if unknown_why:
        notes.append(f"{metric.title} not recorded ({_seeds(unknown_why)})")
    return summary([value for value in recorded.values() if math.isfinite(value)], notes)


def average(columns: Sequence[Runs], metric: Metric) -> Cell:
    """Of several settings, taken for each seed that all of them have and then over seeds."""
    by_seed = [{r.seed: r.metrics[metric.name] for r in runs.ok if metric.name in r.metrics} for runs in columns]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    notes = dict.fromkeys(note for runs in columns for note in notes_of(runs))
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


def _seeds(some: list[Measurement]) -> str:
    return ("seed " if len(some) == 1 else "seeds ") + ", ".join(str(each.seed) for each in some)


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def plain(text: str) -> str:
    """On one line, without what a terminal or TeX would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
