"""What a request means: the cells it asks for, the trainings they share, which exist already. Imports no torch."""

import dataclasses
import itertools
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench.config import search
from oodbench.config import suite as suites
from oodbench.config.cards import NEEDS, NOT_YET, catalogue
from oodbench.config.registry import DEFAULT_TRAINER, Component, MethodSpec, Registry, distributions
from oodbench.config.search import Distribution
from oodbench.config.suite import NONE, SECTIONS, Setting, Suite, Sweep
from oodbench.data import availability, lookup
from oodbench.errors import UserError
from oodbench.results import selection
from oodbench.results.result import ComponentRun, Result
from oodbench.results.selection import LEAVE_ONE_OUT, ORACLE, TRAINING_DOMAIN
from oodbench.running.cells import Cell, Training
from oodbench.running.request import Request, alternatives, as_values, request

ALL = "all"


@dataclass(frozen=True)
class Waiting:
    """A cell whose data is not there: without it nobody knows whether it was run."""

    setting: str
    method: str
    seed: int
    lacks: tuple[str, ...]  # names of data sets and files of weights

    def __str__(self) -> str:
        return f"{self.setting} / {self.method} / seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Cells in the order they will run, those that need not, and those that wait for data."""

    request: Request
    suite: Suite
    cells: list[Cell]
    done: list[Cell]
    left_out: dict[str, str]  # methods of `all` that do not fit the suite, and why
    for_selection: list[Cell]  # those that only select among the others: with two domains held out
    waiting: list[Waiting] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)  # what they wait for, and how to get it

    @property
    def folder(self) -> Path:
        return self.request.folder

    @cached_property
    def todo(self) -> list[Cell]:
        done = {cell.path for cell in self.done}
        return [cell for cell in self.cells if cell.path not in done]

    @cached_property
    def trainings(self) -> dict[str, tuple[Training, list[Cell]]]:
        """The trainings that the cells still to run need, by key, each with its cells."""
        grouped: dict[str, tuple[Training, list[Cell]]] = {}
        for cell in self.todo:
            grouped.setdefault(cell.training.key, (cell.training, []))[1].append(cell)
        return grouped

    @cached_property
    def all_trainings(self) -> dict[str, Training]:
        """With the ones that others start from, which come before these."""
        chains = [each for training, _ in self.trainings.values() for each in training.chain]
        return {each.key: each for each in chains}

    def cell(self, key: str) -> Cell:
        return self._by_key(key, {cell.key: cell for cell in self.cells}, "cell")

    def training(self, key: str) -> Training:
        chains = [each for cell in self.cells for each in cell.training.chain]
        return self._by_key(key, {each.key: each for each in chains}, "training")

    @staticmethod
    def _by_key(key: str, known: Mapping[str, Any], what: str) -> Any:
        if key not in known:
            raise UserError(f"the plan has no {what} '{key}' here; it was made by other code or for other data")
        return known[key]

    def to_json(self) -> str:
        """The request, and what came of it here: whoever plans it again can compare."""
        done = {cell.path for cell in self.done}
        chains = {each.key: each for cell in self.cells for each in cell.training.chain}
        trainings = [{"key": key, "parent": each.parent.key if each.parent else None} for key, each in chains.items()]
        cells = [
            {"key": cell.key, "training": cell.training.key, "cell": str(cell), "done": cell.path in done}
            for cell in self.cells
        ]
        waiting = [{"cell": str(each), "lacks": [*each.lacks]} for each in self.waiting]
        values = {"request": as_values(self.request), "trainings": trainings, "cells": cells, "waiting": waiting}
        return json.dumps(values, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The plan of the same request with the code and data of this machine; refused where its keys differ."""
        try:
            values = json.loads(text)
            asked, keys = request(**values["request"]), [each["key"] for each in values["cells"]]
        except (ValueError, TypeError, KeyError):
            raise UserError("this is not a plan of oodbench; write one with Plan.to_json()") from None
        here = plan(asked)
        own = [cell.key for cell in here.cells]
        if own != keys:
            differs = next((cell for cell, key in zip(here.cells, keys, strict=False) if cell.key != key), None)
            where = f" of '{differs}'" if differs is not None else ""
            raise UserError(
                f"the key{where} differs here: this machine has other code or other data than the planner's"
            )
        return here


def plan(asked: Request) -> Plan:
    """Everything that can be wrong with a request is found here, before anything is fetched or trained."""
    if asked.folder.exists() and not asked.folder.is_dir():
        raise UserError(f"the results folder '{asked.folder}' is a file; choose another with --results")
    suite = suites.load(asked.suite, asked.preset).with_sets(asked.semantic, asked.covariate)
    return of_suite(asked, suite.with_precision(asked.precision).with_threads(asked.cpu_threads))


def of_suite(asked: Request, suite: Suite) -> Plan:
    """The plan of a request on this suite, whatever its file says."""
    selection.check(asked.selection)
    swept = suite.sweep(asked.sweep)
    registry = Registry(asked.plugins)
    init = Path(asked.init) if asked.init else None
    suite, specs, named, left_out = _choose_methods(asked, suite, registry, swept)
    chosen = _choose_settings(asked, suite, swept)
    paired, pairs = _pairs(suite, chosen) if asked.selection == LEAVE_ONE_OUT else (suite, [])
    for spec in list(specs):
        reason = _misfit(paired, spec, [*chosen, *pairs])
        if reason is not None:
            if spec.name in named:
                elsewhere = "" if spec.needs & NOT_YET else " or choose another suite"
                raise UserError(f"the method '{spec.name}' {reason}; leave it out{elsewhere}")
            left_out[spec.name] = reason
            specs.remove(spec)
    fixed = {_target(assignment) for assignment in asked.set} | {*(swept.set if swept is not None else ())}
    searched = _searches(asked, suite, specs, named, fixed, init)
    cells: list[Cell] = []
    waiting: list[Waiting] = []
    lacking: dict[str, str] = {}
    for setting in [*chosen, *pairs]:
        own = paired if setting in pairs else suite
        missing = availability.lacking(own, setting)
        lacking |= missing
        for seed, spec in itertools.product(dict.fromkeys(asked.seeds), specs):
            if missing:
                waiting.append(Waiting(own.setting_name(setting), spec.label, seed, (*missing,)))
            else:
                cells += _cells(own, registry, spec, setting, seed, init, asked, searched[spec.label])
    order = {place: i for i, place in enumerate(itertools.product(asked.seeds, [spec.label for spec in specs]))}
    cells.sort(key=lambda cell: order[cell.seed, cell.method.label])  # all settings of a method beside each other
    done = [] if asked.force else [cell for cell in cells if cell.is_done()]
    for_selection = [cell for cell in cells if cell.setting in pairs]
    return Plan(asked, paired, cells, done, left_out, for_selection, waiting, lacking)


def _choose_methods(
    asked: Request, suite: Suite, registry: Registry, swept: Sweep | None
) -> tuple[Suite, list[MethodSpec], set[str], dict[str, str]]:
    """The suite and the methods with all values set; the names that the user wrote; what cannot be used and why."""
    words = asked.methods or (tuple(swept.methods.split(",")) if swept else (ALL,))
    names = [word.strip() for word in words if word.strip()]
    if not names:
        raise UserError("no method given; name at least one, for example --methods msp,knn")
    named = [registry.method(name) for name in names if name != ALL]
    specs = list({spec.name: spec for spec in [*(registry.all() if ALL in names else ()), *named]}.values())
    grids = [alternatives(assignment) for assignment in asked.set]
    suite, specs = assign(suite, specs, [grid[0] for grid in grids if len(grid) == 1])
    choices = [grid for grid in grids if len(grid) > 1]
    for grid in choices:
        if _target(grid[0]).partition(".")[0] in SECTIONS:
            raise UserError(f"'{grid[0]}' and others: a grid is of hyperparameters of methods; set one value here")
    if swept is not None:
        choices += [[f"{name}={value}" for value in values] for name, values in swept.set.items()]
    variants = [assign(suite, specs, choice)[1] for choice in itertools.product(*choices)]
    unique = {spec.label: spec for variant in variants for spec in variant}
    rank = {spec.name: i for i, spec in enumerate(specs)}
    specs = sorted(unique.values(), key=lambda spec: rank[spec.name])
    left_out = {name: f"cannot be used: {why}" for name, why in registry.broken.items() if ALL in names}
    return suite, specs, {spec.name for spec in named}, left_out


def _choose_settings(asked: Request, suite: Suite, swept: Sweep | None) -> list[Setting]:
    """Those that the user names, or the suite's; a sweep goes over the named ones, or else over the first."""
    chosen = [suite.setting(text) for text in asked.settings] or suite.settings
    if swept is not None:
        chosen = [
            suite.setting(",".join([suite.setting_name(setting), *choice]))
            for setting in (chosen if asked.names_settings else chosen[:1])
            for choice in _choices(swept.setting)
        ]
    return list(dict.fromkeys(chosen))


def _searches(
    asked: Request, suite: Suite, specs: Sequence[MethodSpec], named: Container[str], fixed: Container[str],
    init: Path | None,
) -> dict[str, dict[str, Distribution]]:  # fmt: skip
    """What a random search draws for each method, by label."""
    searched = {spec.label: _searched(suite, spec, fixed, init) for spec in specs}
    for spec in specs:
        if asked.draws > 1 and not searched[spec.label] and (spec.name in named or not any(searched.values())):
            raise UserError(
                f"the method '{spec.name}' has nothing to draw on '{suite.name}': neither states a distribution of "
                "what --set leaves open; leave out --draws"
            )
    return searched


def _cells(
    suite: Suite, registry: Registry, spec: MethodSpec, setting: Setting, seed: int, init: Path | None,
    asked: Request, searched: Mapping[str, Distribution],
) -> list[Cell]:  # fmt: skip
    """One method in one setting under one seed, with every draw of a search."""
    marks = lookup.fingerprints(suite, setting)
    training = _training(suite, registry, spec.trainer, setting, seed, init, marks)
    cell = Cell(setting, spec, training, asked.folder, marks)
    cells = {cell.key: cell}
    for number in range(1, asked.draws):
        drawn = _at(cell, search.draw(searched, seed, number))
        cells.setdefault(drawn.key, drawn)  # where there are few values to draw from, the same may come again
    return list(cells.values())


def _pairs(suite: Suite, settings: Sequence[Setting]) -> tuple[Suite, list[Setting]]:
    """The settings that hold out another domain with the one of each setting, and the suite that knows them."""
    pairs = list(dict.fromkeys(pair for setting in settings for pair in suite.pairs_with(setting)))
    suite = suite.with_pairs()
    if not pairs or not all(_training_domains(suite, pair) for pair in pairs):
        raise UserError(
            f"{LEAVE_ONE_OUT} trains without two domains and needs three or more, held out one by one, which "
            f"'{suite.name}' does not have; choose --selection {TRAINING_DOMAIN} or {ORACLE}"
        )
    return suite, pairs


def _training_domains(suite: Suite, setting: Setting) -> list[str]:
    """The domains of the ID data that a setting leaves."""
    id, held_out = suite.contents.id, suite.held_out(setting)
    return [name for name in id.domains or lookup.dataset(id.dataset).domains if name not in held_out]


def _misfit(suite: Suite, spec: MethodSpec, settings: Sequence[Setting]) -> str | None:
    """Why a method cannot be used, if so: it needs what the suite lacks, or more domains than a setting leaves."""
    if spec.needs & NOT_YET:
        return f"needs {' and '.join(sorted(spec.needs & NOT_YET))}, which this version of oodbench does not provide"
    missing = (spec.needs & {*NEEDS["Trainer"]}) - suite.provides
    if missing:
        return f"needs {' and '.join(sorted(missing))} data, which the suite '{suite.name}' does not have"
    if "validation" in spec.needs:
        for setting in settings:
            if setting.semantic == NONE:
                return f"needs validation images, which '{suite.setting_name(setting)}' does not have"
    network = suite.contents.network.name
    if "nonnegative-features" in spec.needs and catalogue("networks")[network].nonnegative_features is False:
        return f"needs nonnegative-features, which the network '{network}' does not give"
    if spec.trainer.values.get("environments") in ("native", "auto") or "environments" in spec.needs:
        for setting in settings:
            left = _training_domains(suite, setting)
            if suite.held_out(setting) and len(left) < 2:
                return f"compares domains, two or more, and '{suite.setting_name(setting)}' leaves {len(left)}"
    return None


def _searched(suite: Suite, spec: MethodSpec, fixed: Container[str], init: Path | None) -> dict[str, Distribution]:
    """What a search draws for a method: all that has a distribution and is not fixed by the user."""
    trainer = spec.trainer.card
    if init is not None and trainer.name == DEFAULT_TRAINER:  # which is not trained then
        return {}
    found = {**suite.distributions, **distributions(trainer)}
    return {name: each for name, each in found.items() if name not in fixed}


def _at(cell: Cell, draw: search.Draw) -> Cell:
    """The cell under drawn values of its recipe and trainer; what it starts from keeps its own."""
    training, method = cell.training, cell.method.at(draw)
    suite = training.suite.with_recipe(training.recipe_name, draw.of("recipe"))
    training = dataclasses.replace(training, suite=suite, trainer=method.trainer, draw=draw)
    return dataclasses.replace(cell, method=method, training=training, drawn_from=cell)


def _choices(values: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Every combination, each as assignments key=value; of nothing, the one that changes nothing."""
    return [
        [f"{key}={value}" for key, value in zip(values, choice, strict=True)]
        for choice in itertools.product(*values.values())
    ]


def _training(
    suite: Suite,
    registry: Registry,
    trainer: Component,
    setting: Setting,
    seed: int,
    init: Path | None,
    marks: Mapping[str, str],
    later: tuple[str, ...] = (),
) -> Training:
    if trainer.card.name in later:
        raise UserError(f"'{trainer.card.path}' starts from itself; name another trainer in starts_from")
    base = registry.start_of(trainer.card)
    later = (*later, trainer.card.name)
    parent = _training(suite, registry, Component(base), setting, seed, init, marks, later) if base else None
    given = init if trainer.card.name == DEFAULT_TRAINER else None
    training = Training(suite, trainer, seed, setting, parent, given, marks=marks)
    # Weights depend on the setting by the mixture, by what they start from, or by the domain that is held out.
    depends = training.reads_wild or (parent is not None and parent.setting is not None) or suite.held_out(setting)
    if depends:
        return training
    name = lookup.dataset(suite.contents.id.dataset).name
    return dataclasses.replace(training, setting=None, marks={name: training.marks[name]})


def cell_of(result: Result, registry: Registry, folder: Path) -> Cell:
    """The cell that a result was made for, from what the result says and without its data."""
    ran = result.config.method
    method = registry.method(ran.name)
    trainer, scorer = _as_ran(method.trainer, ran.trainer), _as_ran(method.scorer, ran.scorer)
    marks = {name: each.fingerprint for name, each in result.data.sets.items()}
    setting = result.config.setting
    training = _training(result.ran_suite, registry, trainer, setting, result.seed, None, marks)
    return Cell(setting, dataclasses.replace(method, trainer=trainer, scorer=scorer), training, folder, marks)


def _as_ran(part: Component, ran: ComponentRun) -> Component:
    """With the values of a run: those that the user set, and those that a search drew."""
    others = {name: value for name, value in ran.values.items() if value != part.values.get(name)}
    drawn = {name: value for name, value in others.items() if name not in ran.changed}
    return dataclasses.replace(part, changed=ran.changed, drawn=drawn)


def _target(assignment: str) -> str:
    """What an assignment sets: i-mixup.alpha of i_mixup.alpha=1."""
    part, dot, key = assignment.partition("=")[0].strip().partition(".")
    return part.replace("_", "-") + dot + key


def assign(suite: Suite, specs: list[MethodSpec], assignments: Iterable[str]) -> tuple[Suite, list[MethodSpec]]:
    """`--set scone.margin=-5` for a trainer or scorer among the chosen, `--set recipe.epochs=3` for the training."""
    for assignment in assignments:
        target, equals, text = assignment.partition("=")
        part, dot, key = _target(target).partition(".")
        if not equals or not dot:
            raise UserError(f"'{assignment}' is not an assignment; write --set method.hyperparameter=value")
        text = text.strip()
        if part in SECTIONS:
            suite = suite.with_value(part, key, text)
            continue
        present = {each.card.name for spec in specs for each in (spec.trainer, spec.scorer)}
        if part not in present:
            raise UserError(
                f"'{assignment}' sets nothing: no chosen method uses '{part}'; used are {', '.join(sorted(present))}"
            )
        specs = [spec.with_value(part, key, text) for spec in specs]
    return suite, specs
