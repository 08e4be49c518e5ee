"""What a figure is drawn from: which results of a folder, and which of their runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from oodbench.report import tables
from oodbench.report.tables import Table
from oodbench.results.result import Result

SWEPT_RATIO = re.compile(r",pi_c=[^,]*")


class NotDrawn(Exception):
    """Why a folder's results do not make this figure, and what would."""


@dataclass(frozen=True)
class Study:
    """One suite in one setting: what a figure is drawn from."""

    suite: str
    setting: str
    results: list[Result]
    ratios: list[Result]  # of the settings that differ from this one in nothing but pi_c, itself included

    @property
    def folder(self) -> Path:
        """Where its figures go; names come from files and must not lead elsewhere."""
        suite, setting = (re.sub(r"[^\w.,=+-]|^\.", "_", name)[:200] for name in (self.suite, self.setting))
        return Path(suite, setting)


@dataclass(frozen=True)
class Drawing:
    figure: Figure
    caption: str
    sources: list[Result]
    remarks: list[str] = field(default_factory=list)  # what the figure lacks and could have


def studies(results: Sequence[Result], settings: Sequence[str]) -> list[Study]:
    """Of `settings`, or of all in the order of the tables; a ratio of a sweep is then no study of its own."""
    found = []
    for table in tables.build(list(results)):
        own = [r for r in results if r.suite_label == table.suite]
        for setting in [s for s in table.settings if s != tables.AVERAGE]:
            plain = SWEPT_RATIO.sub("", setting)
            if setting in settings or (not settings and (plain == setting or plain not in table.settings)):
                ratios = [r for r in own if SWEPT_RATIO.sub("", r.setting) == plain]
                found.append(Study(table.suite, setting, [r for r in own if r.setting == setting], ratios))
    return found


def runs_by_method(results: Sequence[Result], methods: Sequence[str]) -> dict[str, list[Result]]:
    """By method, the runs a table would count: of the configuration run last, one per seed, successful ones.

    Without `methods`, a method with changed hyperparameters is left out where the method itself is there.
    """
    by_method: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.written, r.key)):
        by_method.setdefault(result.method, []).append(result)
    kept: dict[str, list[Result]] = {}
    for method in methods or by_method:
        runs = by_method.get(method, [])
        newest = {r.seed: r for r in runs if r.variant == runs[-1].variant}
        ok = [newest[seed] for seed in sorted(newest) if newest[seed].status == "ok"]
        base = method.partition(",")[0]
        if ok and (methods or method == base or base not in by_method):
            kept[method] = ok
    return kept


def beside_each_other(study: Study, methods: Sequence[str], compared: Sequence[str]) -> list[Result]:
    """One run of each method, under the lowest seed that all of them have."""
    runs = runs_by_method(study.results, methods or compared)
    if not runs:
        raise NotDrawn(f"no results of {' or '.join(methods or compared)}; choose others with --methods")
    common = set.intersection(*({r.seed for r in each} for each in runs.values()))
    if not common:
        raise NotDrawn(f"{' and '.join(runs)} have no seed in common; run them with the same --seeds")
    return [next(r for r in each if r.seed == min(common)) for each in runs.values()]


def table_of(runs: dict[str, list[Result]], metrics: Sequence[str]) -> Table:
    return tables.build([r for each in runs.values() for r in each], metrics, selection=None)[0]


def printed_name(result: Result) -> str:
    return tables.printed_name(result.method, tables.display_of(result))


def seeds_of(table: Table) -> str:
    line = table.seeds_line.rstrip(".")
    return line[0].lower() + line[1:]
