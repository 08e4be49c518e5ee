"""Results against what they should be: the paper's numbers, or other results. Tolerances are in a file, not here.

`benchmarks/reported/tolerances.yaml` says how they come about. Imports no torch.
"""

import math
import statistics
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from oodbench.config.cards import folder
from oodbench.config.schema import Document
from oodbench.errors import UserError
from oodbench.report import layouts
from oodbench.report.cells import Cell, Runs, last_runs
from oodbench.report.numbers import SHOWN
from oodbench.report.tables import Row, Table, by_suite
from oodbench.results.result import Result
from oodbench.results.selection import by_protocol, select

Status = Literal["pass", "FAIL", "suspect", "missing"]
FULL_SIZE = (None, "paper")  # presets; the others are too small to be held against the paper


@dataclass(frozen=True)
class ByMachine:
    default: dict[str, float]
    suites: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tolerances:
    """The keys of the file: points between one run and one run at a rate of 50 %, by metric."""

    least: float
    paper: dict[str, dict[str, float]]  # by protocol
    same_machine: dict[str, float]
    other_machine: ByMachine


@cache
def tolerances() -> Tolerances:
    return Document(folder("benchmarks") / "reported" / "tolerances.yaml").conform(Tolerances)


def allowed(points: float, measured: float, expected: float, runs: tuple[int, int]) -> float:
    """The tolerance for the means of so many runs, at the rate half-way between the two sides; all in percent."""
    rate = (measured + expected) / 200
    spread = 2 * math.sqrt(max(rate * (1 - rate), 0.0))
    return max(points * spread * math.sqrt((1 / runs[0] + 1 / runs[1]) / 2), tolerances().least)


@dataclass(frozen=True)
class Verdict:
    """One cell compared; numbers in percent."""

    suite: str
    table: str  # of the paper; empty against results
    setting: str
    row: str
    metric: str
    status: Status
    measured: float | None = None
    expected: float | None = None
    tolerance: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.measured is None or self.expected is None else self.measured - self.expected

    def __str__(self) -> str:
        place = " / ".join(filter(None, [self.suite, self.table, self.setting, self.row, SHOWN[self.metric].title]))
        if self.difference is None or self.tolerance is None:
            return f"{place}: {self.note}"
        told = f"{self.measured:.2f}, expected {self.expected:.2f} within {self.tolerance:.2f}"
        return f"{place}: {told}, off by {self.difference:+.2f}" + (f" ({self.note})" if self.note else "")


def with_paper(results: list[Result]) -> list[Verdict]:
    """Every cell of the paper's tables on the suites that were run at full size."""
    suites = {label: found for label, found in by_suite(results).items() if found[0].preset in FULL_SIZE}
    tables = [table for found in suites.values() for table in layouts.all_of(found)]
    if not tables:
        raise UserError(
            "nothing here is in the paper: none of its suites was run at full size; "
            "compare with other results by --against DIR"
        )
    return [verdict for table in tables for verdict in _of_table(table)]


def _of_table(table: Table) -> list[Verdict]:
    found = []
    for row in table.rows:
        for i, cell in enumerate(row.cells):
            column, metric = divmod(i, len(table.metrics))
            found.append(_with_reported(table, row, table.settings[column], table.metrics[metric].name, cell))
    return found


def _with_reported(table: Table, row: Row, setting: str, metric: str, cell: Cell) -> Verdict:
    place = (table.suite, table.layout, setting, " ".join(row.heads), metric)
    if cell.mean is None:
        return Verdict(*place, *(("FAIL", None, None, None, cell.note) if cell.note else ("missing",)))
    measured = 100 * cell.mean
    number = min(cell.reported, key=lambda each: abs(each.value - measured))  # where sources differ, the nearest
    points = tolerances().paper[number.protocol][metric]
    tolerance = allowed(points, measured, number.value, (number.runs, cell.seeds)) + number.rounding
    if number.is_doubtful:
        status: Status = "suspect"
    else:
        status = "pass" if abs(measured - number.value) <= tolerance else "FAIL"
    return Verdict(*place, status, measured, number.value, tolerance, "; ".join(filter(None, [number.note, cell.note])))


def with_results(results: list[Result], expected: list[Result], same_machine: bool = False) -> list[Verdict]:
    """Every cell of the other results on the suites that were run here, by the mean over the seeds of both."""
    ours, theirs = by_suite(results), by_suite(expected)
    shared = [suite for suite in theirs if suite in ours]
    if not shared:
        raise UserError(
            f"nothing to compare: here is {', '.join(ours)}, there is {', '.join(theirs)}; run one of these suites"
        )
    found = []
    for suite in shared:
        limits = tolerances().other_machine
        points = (
            tolerances().same_machine if same_machine else limits.suites.get(theirs[suite][0].suite, limits.default)
        )
        cells, wanted = _cells(ours[suite]), _cells(theirs[suite])
        for place, runs in wanted.items():
            for metric in [each for each in points if _has(runs, each)]:
                where = (suite, "", *place, metric)
                found.append(_with_runs(where, cells.get(place, []), runs, points[metric], same_machine))
    return found


def _has(runs: list[Result], metric: str) -> bool:
    """Whether runs that went well would show this metric: without a semantic set there is no detection to compare."""
    ok = [run for run in runs if run.status == "ok"]
    return not ok or any(metric in run.metrics for run in ok)


def _cells(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    """By setting and method, as tables show them."""
    grouped: dict[tuple[str, str], list[Result]] = {}
    for result in [r for some, last_only in by_protocol(results) for r in select(some, last_only=last_only)]:
        grouped.setdefault((result.setting, result.method), []).append(result)
    return dict(sorted(grouped.items()))


def _with_runs(
    place: tuple[str, str, str, str, str], ours: list[Result], theirs: list[Result], points: float, flat: bool
) -> Verdict:
    metric = place[-1]
    here, there = (last_runs(runs) if runs else Runs([], []) for runs in (ours, theirs))
    found, wanted = (
        {r.seed: r.metrics[metric] for r in side.ok if math.isfinite(r.metrics.get(metric, math.nan))}
        for side in (here, there)
    )
    failed = [note for note in here.notes if note.startswith("failed: ")]
    seeds = sorted(found.keys() & wanted.keys())
    if not ours or not wanted:
        return Verdict(*place, "missing", note="" if wanted else "no number there")
    if failed:
        return Verdict(*place, "FAIL", note="; ".join(failed))
    if not seeds:
        return Verdict(*place, "missing", note="no seed in common")
    measured = 100 * statistics.fmean(found[seed] for seed in seeds)
    expected = 100 * statistics.fmean(wanted[seed] for seed in seeds)
    tolerance = points if flat else allowed(points, measured, expected, (len(seeds), len(seeds)))
    return Verdict(*place, "pass" if abs(measured - expected) <= tolerance else "FAIL", measured, expected, tolerance)
