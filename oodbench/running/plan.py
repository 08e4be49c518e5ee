"""What a request means: the cells it asks for, the trainings they share, which exist already. Imports no torch."""

import dataclasses
import itertools
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench import digests
from oodbench.config import search
from oodbench.config import suite as suites
from oodbench.config.registry import DEFAULT_TRAINER, Component, MethodSpec, Registry
from oodbench.config.schema import values_of
from oodbench.config.search import Distribution
from oodbench.config.stated import Stated
from oodbench.config.suite import Setting, Suite
from oodbench.data import availability, lookup
from oodbench.errors import UserError
from oodbench.results import selection
from oodbench.results.result import ComponentRun, Result
from oodbench.results.selection import LEAVE_ONE_OUT
from oodbench.running import choice
from oodbench.running.cells import Cell, Source, Training, files_of_training, must_train
from oodbench.running.request import Request, as_values, check_count, recorded, request
from oodbench.running.shards import PARENTS, Shard, shard_of, trainings_of


@dataclass(frozen=True)
class Waiting:
    """A cell whose data is not there: without it nobody knows whether it was run."""

    setting: str
    method: str
    seed: int
    lacks: tuple[str, ...]  # names of data sets and files of weights
    cells: tuple[Cell, ...] = ()  # with every draw of a search, under keys that they will not have

    def __str__(self) -> str:
        return f"{self.setting} / {self.method} / seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Cells in the order they will run, those that need not, and those that wait for data."""

    request: Request
    suite: Suite
    cells: list[Cell]
    done: list[Cell]
    left_out: dict[str, str]  # methods that nobody named and that do not fit the suite, and why
    for_selection: list[Cell]  # those that only select among the others: with two domains held out
    unlisted: dict[str, int]  # where nobody named methods, how many more would fit, by the word that runs them
    waiting: list[Waiting] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)  # what they wait for, and how to get it
    only: frozenset[str] | None = None  # keys of the trainings to carry out, without any cell; None: all, with cells

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
        return {each.key: each for each in chains if self.only is None or each.key in self.only}

    def sources(self) -> "list[Source]":
        """What there is to do, users' code apart."""
        found = []
        for training in self.needed():
            own = files_of_training(training)
            every = [cell.files for cell in self._cells_left(training)]
            if own in every or must_train(training, self.folder, self.request.force):
                found.append(Source(training, own))
            found += [Source(training, files, is_loaded=True) for files in dict.fromkeys(every) if files != own]
        return found

    def needed(self) -> "list[Training]":
        """Trainings with cells to do, and those whose weights such a one starts from and lacks; parents come first."""
        needed: dict[str, Training] = {}
        for training, _ in self.trainings.values():
            chain = [training]
            # What is trained already needs nothing that it starts from.
            while must_train(chain[0], self.folder, self.request.force) and chain[0].parent is not None:
                chain.insert(0, chain[0].parent)
            needed |= {each.key: each for each in chain}
        mine = [
            each
            for key, each in needed.items()
            if (self.only is None or key in self.only)
            and (self._cells_left(each) or must_train(each, self.folder, self.request.force))
        ]
        return sorted(mine, key=lambda each: not self.starts_others(each))

    def starts_others(self, training: "Training") -> bool:
        return training.key in self._parents

    @cached_property
    def _parents(self) -> set[str]:
        return {each.key for cell in self.cells for each in cell.training.chain[:-1]}

    def cells_of(self, source: Source) -> "list[Cell]":
        """Those still to run."""
        return [cell for cell in self._cells_left(source.training) if cell.files == source.files]

    def parent_of(self, source: Source) -> Source | None:
        parent = source.training.parent
        return None if parent is None else Source(parent, files_of_training(parent))

    def source(self, key: str) -> Source:
        return self._by_key(key, self._sources, "source")

    @cached_property
    def _sources(self) -> dict[str, Source]:
        """Of all cells, done or not."""
        sources = [Source(each, files_of_training(each)) for each in self.trainings_by_key.values()]
        sources += [Source(cell.training, cell.files, is_loaded=True) for cell in self.cells]
        return {each.key: each for each in sources}

    def _cells_left(self, training: "Training") -> "list[Cell]":
        return self.trainings[training.key][1] if self.only is None and training.key in self.trainings else []

    def setting_of(self, training: "Training") -> Setting:
        """One whose images a training may take."""
        return self._settings[training.key]

    @cached_property
    def _settings(self) -> dict[str, Setting]:
        return {each.key: cell.setting for cell in reversed(self.cells) for each in cell.training.chain}

    @cached_property
    def cells_by_name(self) -> dict[str, Cell]:
        return {cell.name: cell for cell in self.cells}

    @cached_property
    def trainings_by_key(self) -> dict[str, Training]:
        """Those of all cells, done or not, and the ones that others start from."""
        return {each.key: each for cell in self.cells for each in cell.training.chain}

    def cell(self, name: str) -> Cell:
        return self._by_key(name, self.cells_by_name, "cell")

    def training(self, key: str) -> Training:
        return self._by_key(key, self.trainings_by_key, "training")

    @staticmethod
    def _by_key(key: str, known: Mapping[str, Any], what: str) -> Any:
        if key not in known:
            raise UserError(
                f"the plan has no {what} '{key}' here; it was made with different code or for different data"
            )
        return known[key]

    @property
    def keys(self) -> str:
        """A digest of the keys of all cells."""
        return digests.of_values(sorted(cell.key for cell in self.cells))

    def share(self, shard: Shard, stage: str | None) -> "Plan":
        """The part of the plan that is one shard's, the same whatever is done already."""
        mine = trainings_of(self.cells, shard, stage)

        def own(cells: list[Cell]) -> list[Cell]:
            if stage != PARENTS:
                return [cell for cell in cells if cell.training.key in mine]
            return [cell for cell in cells if any(each.key in mine for each in cell.training.chain[:-1])]

        only = frozenset(mine) if stage == PARENTS else None
        return dataclasses.replace(
            self, cells=own(self.cells), done=own(self.done), for_selection=own(self.for_selection), only=only
        )

    def to_json(self) -> str:
        """The request, and what came of it here: whoever plans it again can compare."""
        done = {cell.path for cell in self.done}
        trainings = [
            {"key": key, "parent": each.parent.key if each.parent else None}
            for key, each in self.trainings_by_key.items()
        ]
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
            raise UserError("this is not an oodbench plan; write one with Plan.to_json()") from None
        here = plan(asked)
        own = [cell.key for cell in here.cells]
        if own != keys:
            differs = next((cell for cell, key in zip(here.cells, keys, strict=False) if cell.key != key), None)
            where = f" of '{differs}'" if differs is not None else ""
            raise UserError(f"the key{where} differs here: this machine's code or data differs from the planner's")
        return here


def plan(asked: Request) -> Plan:
    """Everything that can be wrong with a request is found here, before anything is fetched or trained."""
    if os.path.exists(asked.folder) and not os.path.isdir(asked.folder):
        raise UserError(f"the results folder '{asked.folder}' is a file; choose another with --results")
    suite = suites.load(asked.suite, asked.preset).with_network(asked.model).with_sets(asked.semantic, asked.covariate)
    suite = suite.with_outliers(asked.outliers)
    whole = of_suite(asked, suite.with_precision(asked.precision).with_threads(asked.cpu_threads))
    if asked.keys is not None and whole.keys != asked.keys:
        raise UserError(
            "keys differ from those of the plan, because code, data or a file has changed since; submit it again"
        )
    return whole if asked.shard is None else whole.share(shard_of(asked.shard), asked.stage)


def of_suite(asked: Request, suite: Suite, registry: Registry | None = None) -> Plan:
    """The plan of a request on this suite, whatever its file says, with the methods of a registry that is at hand."""
    selection.check(asked.selection)
    swept = suite.sweep(asked.sweep)
    registry = registry or Registry(asked.plugins)
    init = Path(asked.init) if asked.init else None
    suite, specs, named, left_out = choice.choose_methods(asked, suite, registry, swept)
    chosen = choice.choose_settings(asked, suite, swept)
    paired, pairs = choice.pairs_of(suite, chosen) if asked.selection == LEAVE_ONE_OUT else (suite, [])
    for spec in list(specs):
        reason = choice.misfit(paired, spec, [*chosen, *pairs])
        if reason is not None:
            if spec.name in named:
                raise UserError(f"the method '{spec.name}' {reason}; {choice.advice(spec)}")
            left_out[spec.name] = reason
            specs.remove(spec)
    stated = Stated.of(suite, registry)
    names_any = bool(asked.methods) or swept is not None
    unlisted = {} if names_any else choice.unlisted(paired, stated, specs, [*chosen, *pairs])
    fixed = {choice.target_of(assignment) for assignment in asked.set} | {*(swept.set if swept is not None else ())}
    searched = choice.searches(asked, suite, specs, named, fixed, init)
    check_count(len([*chosen, *pairs]) * len(asked.seeds) * len(specs) * asked.draws)
    cells: list[Cell] = []
    waiting: list[Waiting] = []
    lacking: dict[str, str] = {}
    for setting in [*chosen, *pairs]:
        own = paired if setting in pairs else suite
        missing = availability.lacking(own, setting)
        lacking |= missing
        for seed, spec in itertools.product(dict.fromkeys(asked.seeds), specs):
            made = _cells(own, stated, spec, setting, seed, init, asked, searched[spec.label], missing)
            if missing:
                waiting.append(Waiting(own.setting_name(setting), spec.label, seed, (*missing,), (*made,)))
            else:
                cells += made
    order = {place: i for i, place in enumerate(itertools.product(asked.seeds, [spec.label for spec in specs]))}
    cells.sort(key=lambda cell: order[cell.seed, cell.method.label])  # all settings of a method beside each other
    done = [] if asked.force else [cell for cell in cells if cell.is_done()]
    for_selection = [cell for cell in cells if cell.setting in pairs]
    return Plan(asked, paired, cells, done, left_out, for_selection, unlisted, waiting, lacking)


def _cells(
    suite: Suite, stated: Stated, spec: MethodSpec, setting: Setting, seed: int, init: Path | None,
    asked: Request, searched: Mapping[str, Distribution], missing: Collection[str],
) -> list[Cell]:  # fmt: skip
    """One method in one setting under one seed, with every draw of a search."""
    marks = lookup.fingerprints(suite, setting, missing)
    if spec.outliers is not None:
        marks = dict(sorted({**marks, **lookup.outlier_mark(suite, missing)}.items()))
    recipe = stated.recipe(spec.trainer.card, spec.name)
    training = _training(suite, stated, spec.trainer, recipe, setting, seed, init, marks)
    cell = Cell(setting, spec, training, asked.folder, marks, request=recorded(asked))
    cells = {cell.key: cell}
    for number in range(1, asked.draws):
        drawn = _at(cell, search.draw(searched, seed, number))
        cells.setdefault(drawn.key, drawn)  # where there are few values to draw from, the same may come again
    return list(cells.values())


def _at(cell: Cell, draw: search.Draw) -> Cell:
    """The cell under drawn values of its recipe and trainer; what it starts from keeps its own."""
    training, method = cell.training, cell.method.at(draw)
    suite = training.suite.with_recipe(training.recipe_name, draw.of("recipe"))
    training = dataclasses.replace(training, suite=suite, trainer=method.trainer, draw=draw)
    return dataclasses.replace(cell, method=method, training=training, drawn_from=cell)


def _training(
    suite: Suite,
    stated: Stated,
    trainer: Component,
    recipe: Mapping[str, Any],  # what differs from the suite's
    setting: Setting,
    seed: int,
    init: Path | None,
    marks: Mapping[str, str],
    later: tuple[str, ...] = (),
) -> Training:
    if trainer.card.name in later:
        raise UserError(f"'{trainer.card.path}' starts from itself; name another trainer in starts_from")
    base, parent = stated.registry.start_of(trainer.card), None
    if base is not None:
        start, own, later = stated.component(base), stated.recipe(base), (*later, trainer.card.name)
        parent = _training(suite, stated, start, own, setting, seed, init, marks, later)
        suite = suite.with_recipe("scratch", values_of(parent.root.recipe))  # so that a result says it
    given = init if trainer.card.name == DEFAULT_TRAINER else None
    training = Training(suite, trainer, seed, setting, parent, given, marks=marks)
    training = dataclasses.replace(training, suite=suite.with_recipe(training.recipe_name, recipe))
    # Weights depend on the setting by the mixture, by what they start from, or by the domain that is held out.
    depends = training.reads_wild or (parent is not None and parent.setting is not None) or suite.held_out(setting)
    if depends:
        return training
    names = [lookup.dataset(suite.contents.id.dataset).name]
    if suite.contents.outliers is not None and any(each.reads_outliers for each in training.chain):
        names.append(lookup.dataset(suite.contents.outliers.dataset).name)
    return dataclasses.replace(training, setting=None, marks={name: training.marks[name] for name in names})


def cell_of(result: Result, registry: Registry, folder: Path) -> Cell:
    """The cell that a result was made for, from what the result says and without its data."""
    ran = result.config.method
    method = registry.method(ran.name)
    trainer, scorer = _as_ran(method.trainer, ran.trainer), _as_ran(method.scorer, ran.scorer)
    marks = {name: each.fingerprint for name, each in result.data.sets.items()}
    setting = result.config.setting
    starts = Stated(registry, {each.name: {each.name: each.values} for each in ran.starts_from})
    training = _training(result.ran_suite, starts, trainer, {}, setting, result.seed, None, marks)
    method = dataclasses.replace(method, trainer=trainer, scorer=scorer, outliers=ran.outliers)
    return Cell(setting, method, training, folder, marks)


def _as_ran(part: Component, ran: ComponentRun) -> Component:
    """With the values of a run: those that the user set, and those that the suite stated or a search drew."""
    others = {name: value for name, value in ran.values.items() if value != part.values.get(name)}
    stated = {name: value for name, value in others.items() if name not in ran.changed}
    return dataclasses.replace(part, stated=stated, changed=ran.changed)
