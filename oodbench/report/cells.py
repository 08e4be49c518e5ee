"""One number of a table: runs in; its mean over seeds, the interval, and what a reader must know about them out."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from oodbench.config.registry import outlier_trainers
from oodbench.config.suite import NONE
from oodbench.report.numbers import Number
from oodbench.results.measurement import Measurement, Runs
from oodbench.results.metrics import Metric
from oodbench.results.resampling import splits_of
from oodbench.results.result import WILD_MIXTURE, Result
from oodbench.results.samples import Interval, Sample, interval_of_rate

BELOW_CHANCE = "below 50 is worse than chance: ID images tend to score higher than semantic OOD images"
RANKINGS = ("auroc", "auroc_full")  # metrics whose value by chance is 50 %
VIOLATION = re.compile(r"violated, (\d+\.?\d*) where (\d*\.?\d*[1-9]) is allowed")  # as a training notes it
LONGEST_NOTE = 200  # characters of an error message under a table; the result file has all of it


@dataclass(frozen=True)
class Cell:
    """One number, a rate in [0, 1], or the reason why there is none."""

    sample: Sample | None = None  # the number under each seed, and how it varies with images
    remarks: tuple[str, ...] = ()  # what a reader must know about this number alone
    best: bool = False  # of its column, as printed
    setting: str = ""
    decimals: int = 2
    reported: tuple[Number, ...] = ()  # the first is what the difference is to
    flag: str = ""  # a further remark, which follows from the number alone
    runs: tuple[Runs, ...] = ()  # behind it; several of a mean over settings
    twin: str = ""  # which row has the same numbers in this setting, and why

    @property
    def note(self) -> str:
        """All that a reader must know who sees no other number; a table says once for a row what concerns its runs."""
        return "; ".join(filter(None, (self.twin, *notes_of(self.runs), *self.remarks)))

    @property
    def mean(self) -> float | None:
        return None if self.sample is None else self.sample.mean

    @property
    def seeds(self) -> int:
        return 0 if self.sample is None else len(self.sample.values)

    @cached_property
    def interval(self) -> Interval | None:
        """Of 95 %; None where nothing is known but one value."""
        return None if self.sample is None else interval_of_rate(self.sample)

    @property
    def percent(self) -> str:
        return "–" if self.mean is None else f"{100 * self.mean:.{self.decimals}f}"

    @property
    def margin_percent(self) -> str:
        """Half of the interval: what stands after ±."""
        return "" if self.interval is None else f"{100 * self.interval.margin:.{self.decimals}f}"

    @property
    def difference(self) -> float | None:
        """To what is reported, as that is printed; None where only directions compare."""
        if self.mean is None or not self.reported or not self.reported[0].is_comparable:
            return None
        return (100 * self.mean - self.reported[0].percent) / 100


def notes_of(runs: Sequence[Runs]) -> tuple[str, ...]:
    """What a reader must know about the runs of a row, one for each setting, whichever metric they are shown by."""
    notes = [(some.newest.setting, note) for some in runs for note in _of_setting(some)]
    return (*once(notes, len(runs)), *_not_converged(runs))


def once(notes: Iterable[tuple[str, str]], settings: int) -> list[str]:
    """Notes of settings, each said once: what does not hold in all of them names those where it does."""
    where: dict[str, list[str]] = {}
    for setting, note in notes:
        where.setdefault(note, []).append(setting)
    return [note if len(own) == settings else f"{', '.join(own)}: {note}" for note, own in where.items()]


def _of_setting(runs: Runs) -> list[str]:
    failed = failures(runs)
    if runs.ok and failed:
        failed.insert(0, f"only {_seeds(runs.ok)}")
    notes = ["; ".join(failed)] if failed else []
    few = [count for each in runs.ok if isinstance(count := each.result.notes.get("few_validation"), int)]
    if few:
        notes.append(f"fitted on as few as {min(few)} ID validation images per class")
    outliers = dict.fromkeys(filter(None, (_outliers(each.result) for each in runs.ok)))
    if outliers:
        notes.append(f"its outliers are {' and '.join(outliers)}")
    incomplete = [each for each in runs.ok if each.choice is not None and each.choice.passed_over]
    if incomplete:
        notes.append(f"model selection skipped draws that failed or lack pairs ({_seeds(incomplete)})")
    if runs.left_out:
        files = "1 result file" if runs.left_out == 1 else f"{runs.left_out} result files"
        notes.append(f"{files} with another configuration left out")
    return notes


def _outliers(result: Result) -> str | None:
    """What a trainer learned from as outliers; results of earlier versions do not say that it was the wild mixture."""
    if "outliers" in result.notes:
        return str(result.notes["outliers"])
    method = result.config.method
    return method.outliers or WILD_MIXTURE if method.trainer.name in outlier_trainers() else None


def failures(runs: Runs) -> list[str]:
    """Why runs failed, and under which seeds."""
    reasons: dict[str, list[Measurement]] = {}
    for each in runs.failed:
        reasons.setdefault(_cut(each.problem or ""), []).append(each)
    return [f"failed: {reason} ({_seeds(some)})" for reason, some in reasons.items()]


def _not_converged(runs: Sequence[Runs]) -> list[str]:
    """Of networks shown as they were at the end of a training that says so; of several reasons the worst violation."""
    unfinished: list[tuple[str, list[Measurement]]] = []  # by setting
    for some in runs:
        shown = (each for each in some.ok if each.choice is None or each.choice.is_last)
        if own := [each for each in shown if each.result.notes.get("not_converged")]:
            unfinished.append((some.newest.setting, own))
    if not unfinished:
        return []
    every = [each for _, own in unfinished for each in own]
    reasons = list(dict.fromkeys(_cut(str(each.result.notes["not_converged"])) for each in every))
    by_seeds: dict[str, list[str]] = {}
    for setting, own in unfinished:
        by_seeds.setdefault(_seeds(own), []).append(setting)
    is_everywhere = len(by_seeds) == 1 and len(unfinished) == len(runs)
    where = "; ".join(seeds if is_everywhere else f"{seeds} in {', '.join(own)}" for seeds, own in by_seeds.items())
    if len(reasons) == 1:
        return [f"did not converge: {reasons[0]} ({where})"]
    told = [
        (
            f"seed {each.seed}" if len(runs) == 1 else f"{setting}, seed {each.seed}",
            str(each.result.notes["not_converged"]),
        )
        for setting, own in unfinished
        for each in own
    ]
    whose, reason = max(told, key=lambda one: _violation(one[1]))  # the first, if no constraint is violated
    at_worst = "at worst, " if _violation(reason) else ""
    return [f"did not converge for {where} ({at_worst}{whose}: {_cut(reason)})"]


def _violation(reason: str) -> float:
    """What the worse constraint of a training came to, as a multiple of its limit; 0 if none is violated."""
    return max((float(value) / float(limit) for value, limit in VIOLATION.findall(reason)), default=0.0)


def measured(runs: Sequence[Runs], metric: Metric, sample: Sample | None) -> Cell:
    """Of one setting, or the mean over several."""
    lacking = dict.fromkeys(note for some in runs for note in _lacking(some, metric))
    is_below = metric.name in RANKINGS and sample is not None and round(100 * sample.mean, Cell.decimals) < 50
    return Cell(sample, tuple(lacking), flag=BELOW_CHANCE if is_below else "", runs=tuple(runs))


def _lacking(runs: Runs, metric: Metric) -> list[str]:
    lacking = [each for each in runs.ok if not math.isfinite(each.metrics.get(metric.name, math.nan))]
    known = [each for each in lacking if metric.name in each.result.metrics]
    earlier = [each for each in known if each.choice is not None and not each.choice.is_last]
    others = [each for each in lacking if each not in earlier]
    notes = []
    if earlier:
        notes.append(
            f"{metric.title} is known only at the last checkpoint, and an earlier one was selected ({_seeds(earlier)})"
        )
    if others:
        absent = _absent_sets(runs, metric)
        notes.append(absent or f"{metric.title} was not recorded ({_seeds(others)})")
    return notes


def _absent_sets(runs: Runs, metric: Metric) -> str:
    """Which sets a metric would need and the setting lacks; empty if that is not the reason."""
    setting = runs.newest.config.setting
    sets = {"covariate": setting.covariate, "semantic": setting.semantic}
    absent = [kind for kind in splits_of(metric.name) if sets.get(kind) == NONE]
    return f"{metric.title} needs a {' and a '.join(absent)} set, which this setting lacks" if absent else ""


def summary(values: Mapping[int, float]) -> Cell:
    """Of a number that raw scores do not give, by seed."""
    return Cell(Sample(dict(values))) if values else Cell()


def mark_best(grid: list[list[Cell]], metrics: Sequence[Metric]) -> None:
    """In each column the best mean as it is printed; a number that stands alone is not marked."""
    for column, metric in enumerate(metrics):
        printed = {i: float(row[column].percent) for i, row in enumerate(grid) if row[column].mean is not None}
        if len(printed) > 1:
            best = (max if metric.higher_is_better else min)(printed.values())
            for i in (i for i, number in printed.items() if number == best):
                grid[i][column] = replace(grid[i][column], best=True)


def _seeds(some: list[Measurement]) -> str:
    return seeds_in_words(each.seed for each in some)


def seeds_in_words(seeds: Iterable[int]) -> str:
    """`seed 3`, `seeds 0, 1` or, where three or more follow each other, `seeds 0–4, 7`."""
    ordered = sorted(set(seeds))
    runs: list[list[int]] = []
    for seed in ordered:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    folded = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("seed " if len(ordered) == 1 else "seeds ") + ", ".join(folded)


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def plain(text: str) -> str:
    """On one line, without what a terminal or TeX would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
