"""What a figure is drawn from: which results of a folder, and which of their runs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from matplotlib.figure import Figure

from oodbench.config.suite import NONE, Setting
from oodbench.report import labels, tables
from oodbench.report.labels import by_paper
from oodbench.report.model import Table
from oodbench.results.result import Result

if TYPE_CHECKING:
    from oodbench.learning.networks import Classifier


class NotDrawn(Exception):
    """Why a folder's results do not make this figure, and what would."""


Load = Callable[[Result], "Classifier"]


@dataclass(frozen=True)
class Asked:
    """What a user wants of a figure."""

    methods: Sequence[str] = ()  # it is restricted to these, if any are named
    compared: Sequence[str] = ()  # stand beside each other if none are
    width: float = 6.75  # inches
    is_titled: bool = False
    networks: Load | None = None  # loads the trained network of a result


@dataclass(frozen=True)
class Study:
    """One suite in one setting: what a figure is drawn from."""

    suite: str
    setting: str
    results: list[Result]
    ratios: list[Result]  # of the settings that differ from this one in nothing but pi_c, itself included
    shifts: list[Result] = field(default_factory=list)  # and of those that differ in nothing but the covariate shift
    first: str = ""  # the setting of the first study that has these shifts

    @property
    def words(self) -> str:
        """Suite and setting, as a caption names them."""
        return f"{labels.suite_in_words(self.results[-1])}, {labels.setting_name(self.results[-1])}"

    @property
    def when(self) -> str:
        """Where tables choose a checkpoint and figures do not: a sentence for the caption, or nothing."""
        chosen = any(result.domain_accuracies for result in self.results)
        return " The networks are those at the end of training; tables select a checkpoint." if chosen else ""

    @property
    def is_given(self) -> bool:
        """Whether all of it is of networks that were given."""
        return all(result.config.given is not None for result in self.results)

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
    chosen: list[Study] = []
    for table in tables.build(list(results), images=False):
        own = [r for r in results if r.suite_label == table.suite]
        names = {r.setting for r in own}
        for setting in [s for s in table.settings if s in names]:
            shown = [r for r in own if r.setting == setting]
            families = {_without_ratio(r) for r in shown}
            ratios = [r for r in own if _without_ratio(r) in families]
            kinds = {_without_shift(r) for r in shown}
            shifts = [r for r in own if _without_shift(r) in kinds]
            is_point_of_another = not any(map(_has_usual_ratio, shown)) and any(map(_has_usual_ratio, ratios))
            if setting in settings or (not settings and not is_point_of_another):
                same = (s for s in chosen if s.suite == table.suite and kinds & {*map(_without_shift, s.results)})
                first = next((each.setting for each in same), setting)
                chosen.append(Study(table.suite, setting, shown, ratios, shifts, first))
    return chosen


def _without_ratio(result: Result) -> Setting:
    """What settings have in common that differ in pi_c alone."""
    return replace(result.config.setting, pi_c=0.0)


def _without_shift(result: Result) -> Setting:
    """What settings have in common that differ in the covariate set and its severity alone."""
    return replace(result.config.setting, covariate="", severity=0)


def _has_usual_ratio(result: Result) -> bool:
    return result.config.setting.pi_c == result.config.suite.defaults.pi_c


def runs_by_method(results: Sequence[Result], methods: Sequence[str]) -> dict[str, list[Result]]:
    """By method, the runs a table would count: of the configuration run last, one per seed, successful ones.

    Without `methods`, a method with changed hyperparameters is left out where the method itself is there.
    """
    by_method: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.written, r.key)):
        by_method.setdefault(result.method, []).append(result)
    counted: dict[str, list[Result]] = {}
    for method in methods or by_method:
        runs = by_method.get(method, [])
        newest = {r.seed: r for r in runs if r.variant == runs[-1].variant}
        ok = [newest[seed] for seed in sorted(newest) if newest[seed].status == "ok"]
        if not ok:
            continue
        name = ok[-1].config.method.name
        if methods or method == name or name not in by_method:
            counted[method] = ok
    return counted


def beside_each_other(study: Study, asked: Asked) -> list[Result]:
    """One run of each method, under the lowest seed that all of them have.

    Where none of the usual pair is there, the first two of the table are, unless some are named.
    """
    runs = runs_by_method(study.results, asked.methods or asked.compared)
    if not runs and not asked.methods:
        every = in_order(runs_by_method(study.results, ()))
        runs = {method: every[method] for method in list(every)[:2]}
    if not runs:
        raise NotDrawn(
            f"no run of {' or '.join(asked.methods) or 'any method'} succeeded; run some, or name other methods"
        )
    common = set.intersection(*({r.seed for r in each} for each in runs.values()))
    if not common:
        raise NotDrawn(f"{' and '.join(runs)} have no seed in common; run them with the same --seeds")
    return [next(r for r in each if r.seed == min(common)) for each in runs.values()]


def in_order(runs: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """As tables have them."""
    return {method: runs[method] for method in by_paper({m: each[-1].config.method for m, each in runs.items()})}


def at_most(runs: dict[str, list[Result]], count: int, asked: Asked) -> tuple[dict[str, list[Result]], list[str]]:
    """So many methods, if none are named: the usual pair and then others, in order; and a remark about the rest."""
    if asked.methods or len(runs) <= count:
        return runs, []
    first = [method for method in asked.compared if method in runs]
    kept = {*first, *[method for method in runs if method not in first][: count - len(first)]}
    remark = f"shows {count} of {len(runs)} methods; choose others with --methods"
    return {method: each for method, each in runs.items() if method in kept}, [remark]


def by_network(runs: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """Of methods that share their networks, one: accuracies do not depend on the scorer.

    Of equals the method that is named after the trainer, or else the first.
    """
    trainings = {method: {(r.setting, r.seed, r.training) for r in each} for method, each in runs.items()}
    rank = {
        method: (-len(trainings[method]), each[-1].config.method.name != each[-1].config.method.trainer.name)
        for method, each in runs.items()
    }
    kept: list[str] = []
    for method in sorted(runs, key=lambda each: rank[each]):
        if not any(trainings[method] <= trainings[other] for other in kept):
            kept.append(method)
    return {method: each for method, each in runs.items() if method in kept}


def need_sets(study: Study, *kinds: Literal["covariate", "semantic"]) -> None:
    absent = [kind for kind in kinds if all(getattr(r.config.setting, kind) == NONE for r in study.results)]
    if absent:
        raise NotDrawn(f"needs a {' and a '.join(absent)} set, which this setting lacks")


def table_of(runs: dict[str, list[Result]], metrics: Sequence[str] | None = None) -> Table:
    return tables.build([r for each in runs.values() for r in each], metrics, selection=None)[0]


def printed_name(result: Result) -> str:
    return labels.method_name(result.config.method)


def seeds_of(table: Table) -> str:
    return table.seeds[0].lower() + table.seeds[1:]
