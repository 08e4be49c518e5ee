"""What a command means: the cells it asks for, the trainings they share, which exist already. Imports no torch."""

import dataclasses
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench.config import search
from oodbench.config.cards import NEEDS, NOT_YET, catalogue
from oodbench.config.registry import DEFAULT_TRAINER, Component, MethodSpec, Registry, distributions
from oodbench.config.search import Distribution
from oodbench.config.suite import NONE, SECTIONS, Setting, Suite
from oodbench.data import splits
from oodbench.errors import UserError
from oodbench.results import selection as model_selection
from oodbench.results.result import ComponentRun, Result
from oodbench.results.selection import LEAVE_ONE_OUT, ORACLE, TRAINING_DOMAIN
from oodbench.running.cells import Cell, Training


@dataclass(frozen=True)
class Plan:
    """Cells in the order they will run, and those that need not."""

    suite: Suite
    folder: Path
    cells: list[Cell]
    done: list[Cell]
    left_out: dict[str, str]  # methods of `all` that do not fit the suite, and why
    for_selection: list[Cell]  # those that only select among the others: with two domains held out

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
        """With the ones that others start from."""
        found: dict[str, Training] = {}
        for training, _ in self.trainings.values():
            chain: Training | None = training
            while chain is not None:
                found.setdefault(chain.key, chain)
                chain = chain.parent
        return found


def make(
    suite: Suite,
    registry: Registry,
    methods: str | Sequence[str],
    settings: Sequence[str],
    seeds: Sequence[int],
    assignments: Iterable[str],
    folder: Path,
    force: bool = False,
    init: Path | None = None,
    sweep: str | None = None,
    draws: int = 1,
    selection: str = TRAINING_DOMAIN,
) -> Plan:
    """Everything that can be wrong with a request is found here, before anything trains."""
    swept = suite.sweep(sweep)
    if draws < 1:
        raise UserError(f"{draws} draws are none; choose --draws 1, which is what the suite says, or more")
    model_selection.check(selection)
    assignments = list(assignments)
    words = methods.split(",") if isinstance(methods, str) else methods
    names = [word.strip() for word in words if word.strip()]
    if not names:
        raise UserError("no method given; name at least one, for example --methods msp,knn")
    named = [registry.method(name) for name in names if name != "all"]
    specs = list({spec.name: spec for spec in [*(registry.all() if "all" in names else ()), *named]}.values())
    suite, specs = assign(suite, specs, assignments)
    if swept is not None:
        variants = [assign(suite, specs, choice)[1] for choice in _choices(swept.set)]
        specs = list({spec.label: spec for variant in variants for spec in variant}.values())
    left_out = {name: f"cannot be used: {why}" for name, why in registry.broken.items() if "all" in names}
    chosen = [suite.setting(text) for text in settings] or suite.settings
    if swept is not None:
        chosen = [
            suite.setting(",".join([suite.setting_name(setting), *choice]))
            for setting in (chosen if settings else chosen[:1])
            for choice in _choices(swept.setting)
        ]
    chosen = list(dict.fromkeys(chosen))
    paired, pairs = _pairs(suite, chosen) if selection == LEAVE_ONE_OUT else (suite, [])
    by_name = {each.name for each in named}
    for spec in list(specs):
        reason = _misfit(paired, spec, [*chosen, *pairs])
        if reason is not None:
            if spec.name in by_name:
                elsewhere = "" if spec.needs & NOT_YET else " or choose another suite"
                raise UserError(f"the method '{spec.name}' {reason}; leave it out{elsewhere}")
            left_out[spec.name] = reason
            specs.remove(spec)
    fixed = {_target(assignment) for assignment in assignments} | set(swept.set if swept is not None else ())
    searched = {spec.label: _searched(suite, spec, fixed, init) for spec in specs}
    for spec in specs:
        if draws > 1 and not searched[spec.label] and (spec.name in by_name or not any(searched.values())):
            raise UserError(
                f"the method '{spec.name}' has nothing to draw on '{suite.name}': neither states a distribution of "
                "what --set leaves open; leave out --draws"
            )
    if not seeds:
        raise UserError("no seed given; name at least one, for example --seeds 0,1,2")
    cells: list[Cell] = []
    for seed in dict.fromkeys(seeds):
        if seed < 0:
            raise UserError(f"seed {seed} is negative; seeds are whole numbers from 0")
        for spec in specs:
            drawn = [search.draw(searched[spec.label], seed, number) for number in range(1, draws)]
            for setting in [*chosen, *pairs]:
                own = paired if setting in pairs else suite
                marks = splits.fingerprints(own, setting)
                training = _training(own, registry, spec.trainer, setting, seed, init, marks)
                cell = Cell(setting, spec, training, folder, marks)
                found = {cell.key: cell}
                for draw in drawn:  # where there are few values to draw from, the same may come again: it is one cell
                    at = _at(cell, draw)
                    found.setdefault(at.key, at)
                cells += found.values()
    done = [] if force else [cell for cell in cells if cell.is_done()]
    return Plan(paired, folder, cells, done, left_out, [cell for cell in cells if cell.setting in pairs])


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
    return [name for name in id.domains or splits.dataset(id.dataset).domains if name not in held_out]


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
    name = splits.dataset(suite.contents.id.dataset).name
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
