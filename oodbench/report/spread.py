"""How far numbers vary from seed to seed and from machine to machine, as measured.

`benchmarks/reported/spread.yaml` has standard deviations in points of percent, by suite, setting, group and method;
`benchmarks/check/measure_spread.py` writes it. What comes out are variances of rates. Imports no torch.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from oodbench.config.cards import folder
from oodbench.config.schema import Document
from oodbench.errors import UserError
from oodbench.report.labels import ERM
from oodbench.results.result import Result

Source = Literal["seeds", "machines"]
POST_HOC = "Scores of ERM's network"
FROM_GROUP = 3  # degrees of freedom that a method's group tells of it


@dataclass(frozen=True)
class Variance:
    """Of one run, and how well it is known."""

    value: float
    freedom: float


@dataclass(frozen=True)
class MethodSpread:
    """One method in one setting."""

    seeds: int  # run on each machine
    machines: int
    points: dict[str, list[float | None]]  # by metric: over seeds, and between machines at the same seed if several ran

    def variance(self, metric: str, source: Source) -> Variance | None:
        """Where one machine ran, that over seeds: training anew on another machine varies less than another seed."""
        over_seeds, between_machines = self.points.get(metric, [None, None])
        if source == "machines" and between_machines is not None:
            return Variance((between_machines / 100) ** 2, self.seeds * (self.machines - 1))
        return None if over_seeds is None else Variance((over_seeds / 100) ** 2, self.seeds - 1)


@dataclass(frozen=True)
class SuiteSpread:
    suite: str  # without its preset
    settings: dict[str, dict[str, dict[str, MethodSpread]]]  # by setting, group and method


@dataclass(frozen=True)
class Where:
    """A cell as spreads are looked up."""

    label: str  # of suite and preset
    suite: str
    setting: str
    group: str
    method: str


@dataclass(frozen=True, eq=False)
class Spread:
    """The keys of the file."""

    suites: dict[str, SuiteSpread] = field(default_factory=dict)

    @property
    def cells(self) -> Iterable[tuple[Where, MethodSpread]]:
        for label, suite in self.suites.items():
            for setting, groups in suite.settings.items():
                for group, methods in groups.items():
                    for method, measured in methods.items():
                        yield Where(label, suite.suite, setting, group, method), measured

    def of(self, where: Where, metric: str, source: Source) -> Variance:
        """A method's own variance; that of its group where it was not measured.

        Between machines most trainings end where they would have ended, and a few do not: ten seeds may miss those of
        one method, but not those of its group. So a method varies by at least the share of its variance over seeds that
        is usual in its group.
        """
        varied = _variances(self, metric, source)
        if where not in varied:
            return Variance(_mean(_nearest(varied, where)), FROM_GROUP)
        own = varied[where]
        if source == "machines":
            over_seeds = _variances(self, metric, "seeds")
            share = _mean(_nearest(varied, where)) / (_mean(_nearest(over_seeds, where)) or 1.0)
            return Variance(max(own.value, share * over_seeds[where].value), own.freedom)
        return own


@lru_cache(maxsize=100)
def _variances(measured: Spread, metric: str, source: Source) -> dict[Where, Variance]:
    cells = {cell: each.variance(metric, source) for cell, each in measured.cells}
    return {cell: variance for cell, variance in cells.items() if variance is not None}


def _nearest(varied: dict[Where, Variance], where: Where) -> list[Variance]:
    """The group in this setting, or else in this suite, under another preset, anywhere; or else every method."""
    scopes: list[Callable[[Where], bool]] = [
        lambda cell: (cell.label, cell.setting, cell.group) == (where.label, where.setting, where.group),
        lambda cell: (cell.label, cell.group) == (where.label, where.group),
        lambda cell: (cell.suite, cell.group) == (where.suite, where.group),
        lambda cell: cell.group == where.group,
        lambda cell: True,
    ]
    for within in scopes:
        some = [variance for cell, variance in varied.items() if within(cell)]
        if some:
            return some
    raise UserError(f"no spread was measured of any method; run benchmarks/check/measure_spread.py into '{path()}'")


def _mean(variances: list[Variance]) -> float:
    return sum(each.freedom * each.value for each in variances) / sum(each.freedom for each in variances)


def group_of(result: Result) -> str:
    """What varies alike: everything that scores ERM's network, or else the group of the method."""
    return POST_HOC if result.config.method.trainer.name == ERM else result.group


def where(result: Result) -> Where:
    return Where(result.suite_label, result.suite, result.setting, group_of(result), result.method)


def path() -> Path:
    return folder("benchmarks") / "reported" / "spread.yaml"


@cache
def measured() -> Spread:
    return Document(path()).conform(Spread)
