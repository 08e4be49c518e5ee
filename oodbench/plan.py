"""What a command means: the cells it asks for, the trainings they share, which exist already. Imports no torch.

A cell is suite x setting x method with its hyperparameters x seed. Its key is a hash of everything its numbers depend
on: code of the method, values, recipe, network, splits, content of the data. Equal keys, equal numbers.
"""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench import model_selection, results, search, splits
from oodbench.cards import NEEDS, NOT_YET, catalogue
from oodbench.errors import UserError
from oodbench.model_selection import LEAVE_ONE_OUT, ORACLE, TRAINING_DOMAIN
from oodbench.registry import DEFAULT_TRAINER, Component, MethodSpec, Registry, distributions
from oodbench.search import Distribution
from oodbench.suite import FOLDER, NONE, SECTIONS, NetworkChoice, Setting, Source, Suite

PROTOCOL = 2  # raised when the harness itself (loop, splits, metrics, a default) changes what numbers come out


def _stated(record: Any) -> dict[str, Any]:
    """The fields that differ from their defaults: one that oodbench learns later leaves old keys alone.

    Changing a default therefore takes a new PROTOCOL.
    """
    values = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    defaults = {
        f.name: f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        for f in dataclasses.fields(record)
    }
    return {name: value for name, value in values.items() if value != defaults[name]}


def _source(source: Source) -> dict[str, Any]:
    """A folder counts by its content, which is among the fingerprints, and not by its place or name."""
    stated = {**_stated(source), "dataset": FOLDER if source.dataset.startswith(FOLDER) else source.dataset}
    if source.embed is not None:
        stated["embed"] = [source.embed, splits.embedding_code()]
    return stated


def _network(choice: NetworkChoice) -> dict[str, Any]:
    """A file of weights counts by its content."""
    options = dict(choice.options)
    if options.get("weights"):
        options["weights"] = _file_digest(Path(str(options["weights"])), "network.weights")
    return {"name": choice.name, "options": options, "code": catalogue("networks")[choice.name].digest()}


def _file_digest(path: Path, option: str) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}; {option} takes a file of weights") from None


def _shift(suite: Suite, setting: Setting) -> dict[str, Any]:
    """Where the images of a setting come from."""
    contents = suite.contents
    corrupted = setting.covariate not in contents.covariate and contents.corruptions is not None
    return {
        "setting": _stated(setting),
        "semantic": _source(contents.semantic[setting.semantic]) if setting.semantic != NONE else None,
        "covariate": None if corrupted else _source(contents.covariate[setting.covariate]),
        "corruptions": [contents.corruptions, splits.corruption_code(contents.corruptions)] if corrupted else None,
        "data": {
            f"{FOLDER}{mark}" if name.startswith(FOLDER) else name: mark
            for name, mark in splits.fingerprints(suite, setting).items()
        },
    }


def _hash(identity: Any) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Training:
    """One set of weights. What does not read the wild mixture is the same training in every setting."""

    suite: Suite
    trainer: Component
    seed: int
    setting: Setting | None  # None where the weights do not depend on it
    parent: "Training | None"  # whose weights it starts from
    init: Path | None = None  # weights given by the user that stand for this training
    draw: search.Draw | None = None  # of a random search; its values are those of suite and trainer

    @property
    def root(self) -> "Training":
        return self if self.parent is None else self.parent.root

    @cached_property
    def init_digest(self) -> str | None:
        return None if self.init is None else _file_digest(self.init, "--init")

    @property
    def reads_wild(self) -> bool:
        return "wild" in self.trainer.card.needs

    @property
    def recipe(self) -> str:
        return "scratch" if self.parent is None else "finetune"

    def identity(self, with_seed: bool = True) -> dict[str, Any]:
        contents = self.suite.contents
        return {
            "protocol": PROTOCOL,
            "trainer": self.trainer.identity(),
            "network": _network(contents.network),
            "recipe": _stated(getattr(contents.recipes, self.recipe)),
            "id": _source(contents.id),
            "data": splits.dataset(contents.id.dataset).fingerprint,
            "splits": _stated(contents.splits),
            "mixture": contents.mixture if self.reads_wild else None,
            "shift": self._shift(),
            "seed": self.seed if with_seed else None,
            "init": self.init_digest,
            "parent": self.parent.identity(with_seed) if self.parent else None,
            **({} if contents.precision == "fp32" else {"precision": contents.precision}),
        }

    def _shift(self) -> dict[str, Any] | None:
        if self.setting is None:
            return None
        held_out = self.suite.held_out(self.setting)
        if not held_out or self.reads_wild:
            return _shift(self.suite, self.setting)
        # Of the setting it sees the domains that are left, and without a mixture to feed all of their images.
        return {"held_out": held_out, "mixture": self.setting.semantic != NONE}

    @cached_property
    def key(self) -> str:
        return _hash(self.identity())


@dataclass(frozen=True)
class Cell:
    """The unit that is planned, run, stored and resumed."""

    setting: Setting
    method: MethodSpec
    training: Training
    folder: Path
    drawn_from: "Cell | None" = None  # of a random search: its draw 0

    @property
    def suite(self) -> Suite:
        return self.training.suite

    @property
    def seed(self) -> int:
        return self.training.seed

    def _identity(self, with_seed: bool) -> dict[str, Any]:
        return {
            "training": self.training.identity(with_seed),
            "scorer": self.method.scorer.identity(),
            "shift": _shift(self.suite, self.setting),
        }

    @cached_property
    def key(self) -> str:
        return _hash(self._identity(with_seed=True))

    @cached_property
    def variant(self) -> str:
        """The key without the seed: what a mean over seeds must have in common."""
        return _hash(self._identity(with_seed=False))

    @cached_property
    def path(self) -> Path:
        setting = self.suite.setting_name(self.setting)
        method = re.sub(r"[^\w.,=+-]", "_", self.method.label)[:200]  # a hyperparameter may be any text
        name = f"seed{self.seed}-{self.key[:8]}.json"
        return self.folder / self.suite.label / setting / method / name

    def __str__(self) -> str:
        draw = f" / {self.training.draw}" if self.training.draw is not None else ""
        return f"{self.suite.setting_name(self.setting)} / {self.method.label} / seed {self.seed}{draw}"

    def is_done(self) -> bool:
        try:
            found = results.read(self.path)
        except results.Unreadable:
            return False
        return found.cell == self.key and found.status == "ok"


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
                training = _training(paired if setting in pairs else suite, registry, spec.trainer, setting, seed, init)
                cell = Cell(setting, spec, training, folder)
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
    suite = training.suite.with_recipe(training.recipe, draw.of("recipe"))
    training = dataclasses.replace(training, suite=suite, trainer=method.trainer, draw=draw)
    return Cell(cell.setting, method, training, cell.folder, drawn_from=cell)


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
    later: tuple[str, ...] = (),
) -> Training:
    if trainer.card.name in later:
        raise UserError(f"'{trainer.card.path}' starts from itself; name another trainer in starts_from")
    base = registry.start_of(trainer.card)
    later = (*later, trainer.card.name)
    parent = _training(suite, registry, Component(base), setting, seed, init, later) if base else None
    given = init if trainer.card.name == DEFAULT_TRAINER else None
    training = Training(suite, trainer, seed, setting, parent, given)
    # Weights depend on the setting by the mixture, by what they start from, or by the domain that is held out.
    depends = training.reads_wild or (parent is not None and parent.setting is not None) or suite.held_out(setting)
    return training if depends else dataclasses.replace(training, setting=None)


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
