"""Results against what they should be: numbers that papers report, or other results. Everything is a rate.

Tolerances are in a file, not here: `benchmarks/check/tolerances.yaml` says how they come about. Imports no torch.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Literal

from oodbench.config.cards import folder
from oodbench.config.schema import Document
from oodbench.errors import UserError
from oodbench.report import layouts
from oodbench.report.cells import Cell, failures
from oodbench.report.numbers import SHOWN
from oodbench.report.reported import PAPER, reference
from oodbench.report.tables import Row, Table
from oodbench.results.ledger import Ledger, Place, as_ledger
from oodbench.results.measurement import Runs
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
    """The keys of the file: how far one run may be from one run at a rate of 50 %, by metric."""

    least: float
    reported: dict[str, dict[str, float]]  # by protocol
    same_machine: dict[str, float]
    other_machine: ByMachine


@cache
def tolerances() -> Tolerances:
    """As rates; the file has points of percent."""
    stated = Document(folder("benchmarks") / "check" / "tolerances.yaml").conform(Tolerances)
    machines = stated.other_machine
    return Tolerances(
        stated.least / 100,
        {protocol: _as_rates(points) for protocol, points in stated.reported.items()},
        _as_rates(stated.same_machine),
        ByMachine(_as_rates(machines.default), {name: _as_rates(points) for name, points in machines.suites.items()}),
    )


def _as_rates(points: dict[str, float]) -> dict[str, float]:
    return {metric: value / 100 for metric, value in points.items()}


def allowed(stated: float, measured: float, expected: float, runs: tuple[int, int]) -> float:
    """The tolerance for the means of so many runs, at the rate half-way between the two sides."""
    rate = (measured + expected) / 2
    spread = 2 * math.sqrt(max(rate * (1 - rate), 0.0))
    return max(stated * spread * math.sqrt((1 / runs[0] + 1 / runs[1]) / 2), tolerances().least)


@dataclass(frozen=True)
class Verdict:
    """One cell compared."""

    suite: str
    table: str  # the layout; empty against results
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

    @property
    def points(self) -> str:
        """The difference in percent; one that rounds to nothing is +0.00."""
        return "" if self.difference is None else f"{round(100 * self.difference, 2) + 0.0:+.2f}"

    def __str__(self) -> str:
        place = " / ".join(filter(None, [self.suite, self.table, self.setting, self.row, SHOWN[self.metric].title]))
        if self.difference is None or self.tolerance is None:
            return f"{place}: {self.note}"
        shown = [100 * rate for rate in (self.measured or 0.0, self.expected or 0.0, self.tolerance)]
        text = "{:.2f}, expected {:.2f} within {:.2f}".format(*shown) + f", off by {self.points}"
        return f"{place}: {text}" + (f" ({self.note})" if self.note else "")


def with_source(results: Ledger | Sequence[Result], source: str = PAPER) -> list[Verdict]:
    """Every cell of the tables of a source on the suites that were run at full size."""
    suites = [ledger for ledger in as_ledger(results).suites.values() if ledger.newest.preset in FULL_SIZE]
    tables = [table for ledger in suites for table in layouts.all_of(ledger, source=source)]
    if not tables:
        raise UserError(
            f"nothing here is in {reference(source).source.label}: none of its suites was run at full size; "
            "compare with other results by --against DIR"
        )
    return [verdict for table in tables for verdict in _of_table(table)]


def _of_table(table: Table) -> list[Verdict]:
    columns = list(product(table.settings, table.metrics))
    return [
        _with_reported(table, row, setting, metric.name, cell)
        for row in table.rows
        for (setting, metric), cell in zip(columns, row.cells, strict=True)
    ]


def _with_reported(table: Table, row: Row, setting: str, metric: str, cell: Cell) -> Verdict:
    place = (table.suite, table.layout, setting, row.name, metric)
    if cell.mean is None:
        return Verdict(*place, *(("FAIL", None, None, None, cell.note) if cell.note else ("missing",)))
    measured = cell.mean
    number = min(cell.reported, key=lambda each: abs(each.value - measured))  # where sources differ, the nearest
    stated = tolerances().reported[number.protocol][metric]
    tolerance = allowed(stated, measured, number.value, (number.runs, cell.seeds)) + number.rounding
    if number.is_doubtful:
        status: Status = "suspect"
    else:
        status = "pass" if abs(measured - number.value) <= tolerance else "FAIL"
    return Verdict(*place, status, measured, number.value, tolerance, "; ".join(filter(None, [number.note, cell.note])))


def with_results(
    results: Ledger | Sequence[Result], expected: Ledger | Sequence[Result], same_machine: bool = False
) -> list[Verdict]:
    """Every cell of the other results on the suites that were run here, by the mean over the seeds of both."""
    ours, theirs = as_ledger(results).suites, as_ledger(expected).suites
    shared = [suite for suite in theirs if suite in ours]
    if not shared:
        raise UserError(
            f"nothing to compare: here is {', '.join(ours)}, there is {', '.join(theirs)}; run one of these suites"
        )
    verdicts = []
    for suite in shared:
        limits = tolerances().other_machine
        by_suite = limits.suites.get(theirs[suite].newest.suite, limits.default)
        stated = tolerances().same_machine if same_machine else by_suite
        here, there = _runs(ours[suite]), _runs(theirs[suite])
        for (setting, method), runs in sorted(((s, m), runs) for (m, s), runs in there.items()):
            for metric in [each for each in stated if _has(runs, each)]:
                place = (suite, "", setting, method, metric)
                verdicts.append(_with_runs(place, here.get((method, setting)), runs, stated[metric], same_machine))
    return verdicts


def _has(runs: Runs, metric: str) -> bool:
    """Whether runs that went well would show this metric: without a semantic set there is no detection to compare."""
    return not runs.ok or any(metric in each.metrics for each in runs.ok)


def _runs(ledger: Ledger) -> dict[Place, Runs]:
    """As tables show them."""
    kinds = [select(some, last_only=last_only) for some, last_only in by_protocol(ledger)]
    return {place: runs for selected in kinds for place, runs in selected.items()}


def _with_runs(
    place: tuple[str, str, str, str, str], ours: Runs | None, theirs: Runs, stated: float, flat: bool
) -> Verdict:
    metric = place[-1]
    wanted = _by_seed(theirs, metric)
    if ours is None or not wanted:
        return Verdict(*place, "missing", note="" if wanted else "no number there")
    if ours.failed:
        return Verdict(*place, "FAIL", note="; ".join(failures(ours)))
    own = _by_seed(ours, metric)
    seeds = sorted(own.keys() & wanted.keys())
    if not seeds:
        return Verdict(*place, "missing", note="no seed in common")
    measured = statistics.fmean(own[seed] for seed in seeds)
    expected = statistics.fmean(wanted[seed] for seed in seeds)
    tolerance = stated if flat else allowed(stated, measured, expected, (len(seeds), len(seeds)))
    return Verdict(*place, "pass" if abs(measured - expected) <= tolerance else "FAIL", measured, expected, tolerance)


def _by_seed(runs: Runs, metric: str) -> dict[int, float]:
    values = {each.seed: each.metrics.get(metric, math.nan) for each in runs.ok}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}
