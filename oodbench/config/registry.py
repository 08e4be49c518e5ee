"""Names to methods. The folder is the registry: a file in `methods/` is a method, and so is a plugin file."""

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from oodbench.config import identity
from oodbench.config.cards import BUDGET, EVERY, KINDS, Card, command_name, folder, load_class, read_cards
from oodbench.config.schema import Misfit, parse
from oodbench.config.search import Distribution, Draw, read
from oodbench.config.shipped import DETECTION, DETECTION_BY, GENERALIZATION, LABELS, OUTLIERS, WILD_DATA
from oodbench.errors import UserError, said, shortened, unknown

RESERVED = (*EVERY, "recipe", "id", "splits", "network")  # they mean something else in `--methods` and `--set`
DEFAULT_TRAINER, DEFAULT_SCORER = "erm", "energy"
DEFAULT_METHODS = (
    "erm",
    "msp",
    "energy",
    "knn",
)  # of a suite that lists none: one training, and what is quick to score


class Registry:
    """Every method at hand: built in, from entry points, and from the plugin files of this command."""

    def __init__(self, plugins: Iterable[str | Path] = ()) -> None:
        self.broken: dict[str, str] = {}  # entry points that cannot be read, and why
        ours = sorted(folder("methods").glob("[a-z]*.py"))
        self.cards = dict(_built_in(tuple((path, path.stat().st_mtime_ns) for path in ours)))
        for entry in sorted(entry_points(group="oodbench.methods"), key=lambda e: e.name):
            try:
                self._add(module_file(entry.module), entry.module, entry.name, entry.attr)
            except Exception as error:  # whatever an installed package does, the other methods stay at hand
                self.broken[command_name(entry.name)] = " ".join(str(error).split())
        files = dict.fromkeys(map(_plugin_file, plugins))
        self.plugins = [self._add(path, f"oodbench_plugin_{path.stem}") for path in files]  # their names

    def _add(self, path: Path, module: str, name: str | None = None, class_name: str | None = None) -> str:
        card = read_method(path, module, name, class_name)
        _enter(card, self.cards)
        return card.name

    def card(self, name: str) -> Card:
        wanted = command_name(name)
        if wanted in self.cards:
            return self.cards[wanted]
        if wanted in self.broken:
            raise UserError(f"the installed method '{wanted}' cannot be used: {self.broken[wanted]}")
        if wanted in EVERY:
            raise UserError(f"'{wanted}' means several methods, and one is needed here; name it")
        raise unknown("method", name, [*self.cards, *EVERY])

    def scorer_of(self, trainer: Card) -> Card:
        return self._named_by(trainer, "scorer", trainer.scorer or DEFAULT_SCORER, "Scorer")

    def start_of(self, trainer: Card) -> Card | None:
        name = trainer.starts_from
        return None if name is None else self._named_by(trainer, "starts_from", name, "Trainer")

    def _named_by(self, trainer: Card, key: str, name: str, kind: str) -> Card:
        where = f"'{trainer.path}' says {key} = '{name}'"
        try:
            card = self.card(name)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if card.kind != kind:
            raise UserError(f"{where}, which is a {card.kind.lower()}; name a {kind.lower()}")
        return card

    def method(self, name: str) -> "MethodSpec":
        """`scone` is SCONE with its own scorer, `knn` is ERM with KNN, `mixup+knn` any trainer with any scorer."""
        parts = [part.strip() for part in name.split("+")]
        cards = [self.card(part) for part in parts] if all(parts) else []
        kinds = [card.kind for card in cards]
        if kinds == ["Trainer"]:
            return MethodSpec(cards[0].name, Component(cards[0]), Component(self.scorer_of(cards[0])))
        if kinds == ["Scorer"]:
            return MethodSpec(cards[0].name, Component(self.card(DEFAULT_TRAINER)), Component(cards[0]))
        if kinds == ["Trainer", "Scorer"]:
            label = cards[1].name if cards[0].name == DEFAULT_TRAINER else f"{cards[0].name}+{cards[1].name}"
            return MethodSpec(label, Component(cards[0]), Component(cards[1]))
        raise UserError(f"'{name}' is not a method; a pair is written trainer+scorer, for example 'mixup+knn'")

    def every(self, word: str) -> "list[MethodSpec]":
        """What `all`, `all-scorers` or `all-trainers` stands for: scorers on ERM, trainers with their own scorer."""
        return [self.method(name) for name, card in self.cards.items() if card.kind in EVERY[command_name(word)]]


@cache
def _built_in(files: tuple[tuple[Path, int], ...]) -> Mapping[str, Card]:
    """The cards of these files, each with the time of its last change; a process reads them once."""
    cards: dict[str, Card] = {}
    for path, _ in files:
        _enter(read_method(path, f"oodbench.methods.{path.stem}"), cards)
    return cards


def _enter(card: Card, cards: dict[str, Card]) -> None:
    if card.name in cards:
        other = cards[card.name].path
        raise UserError(f"the method name '{card.name}' is taken by '{other}'; rename '{card.path}'")
    cards[card.name] = card


def read_method(path: Path, module: str, name: str | None = None, class_name: str | None = None) -> Card:
    """The card of the one method of a file, or of the class of this name."""
    cards = [card for card in read_cards(path, module, name) if card.kind in KINDS]
    cards = [card for card in cards if class_name in (None, "", card.class_name)]
    if len(cards) != 1:
        classes = "no class" if not cards else " and ".join(card.class_name for card in cards)
        raise UserError(f"'{path}' defines {classes} derived from Trainer or Scorer; a method file defines just one")
    card = cards[0]
    if not re.fullmatch(r"\w[\w-]*", card.name) or card.name in RESERVED:
        raise UserError(f"'{card.name}' cannot name a method; rename '{path}' with letters, digits and _")
    if card.kind == "Trainer":
        distributions(card)
    return card


def defines_method(path: Path) -> bool:
    """Whether a file has a method at all."""
    return any(card.kind in KINDS for card in read_cards(path, ""))


@cache
def display_names() -> dict[str, str]:
    """How the methods of oodbench itself are printed, by name."""
    return {name: card.display for name, card in Registry().cards.items() if card.is_ours}


def distributions(trainer: Card) -> dict[str, Distribution]:
    """What a random search draws a trainer's hyperparameters from, by TRAINER.NAME."""
    drawn_from = {}
    try:
        for name, text in trainer.search.items():
            place = ("search", name)
            if name not in trainer.parameters:
                raise Misfit(place, str(unknown(f"hyperparameter of {trainer.name}", name, trainer.parameters)))
            drawn_from[f"{trainer.name}.{name}"] = read(text, trainer.parameters[name].type, place)
    except Misfit as error:
        raise UserError(f"'{trainer.path}': {error}") from None
    return drawn_from


@dataclass(frozen=True)
class Component:
    """A trainer or a scorer with its hyperparameters."""

    card: Card
    stated: Mapping[str, Any] = field(default_factory=dict)  # by the suite, and not in the label
    changed: Mapping[str, Any] = field(default_factory=dict)  # by the user
    drawn: Mapping[str, Any] = field(default_factory=dict)  # by a random search, and not in the label

    @property
    def values(self) -> dict[str, Any]:
        return {name: p.default for name, p in self.card.parameters.items()} | self._given

    @property
    def _given(self) -> dict[str, Any]:
        return {**self.stated, **self.changed, **self.drawn}

    @property
    def label(self) -> str:
        return ",".join([self.card.name, *(f"{key}={_short(value)}" for key, value in sorted(self.changed.items()))])

    def with_value(self, name: str, text: str) -> "Component":
        if name not in self.card.parameters:
            raise unknown(f"hyperparameter of {self.card.name}", name, self.card.parameters)
        parameter = self.card.parameters[name]
        value = parse(text, parameter.type, (self.card.name, name))
        changed = {k: v for k, v in self.changed.items() if k != name}
        same = value == self.stated.get(name, parameter.default)
        return replace(self, changed=changed if same else {**changed, name: value})

    def identity(self) -> dict[str, Any]:
        """What a result depends on: the code and every value, defaults included."""
        return {"code": identity.of_card(self.card), "values": self.values}

    def make(self) -> Any:
        """Import the class and build it."""
        loaded = load_class(self.card)
        try:
            return loaded(**self._given)
        except (UserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if self.card.is_ours:
                raise
            reason = f"{type(error).__name__}: {said(error)}"
            raise UserError(f"'{self.card.path}': {self.card.class_name} cannot be built: {reason}") from error


@dataclass(frozen=True)
class MethodSpec:
    """A trainer and a scorer under the name the user gave them."""

    name: str
    trainer: Component
    scorer: Component
    outliers: str | None = None  # the auxiliary set that its training reads, by name; None: none, or the wild mixture

    @property
    def label(self) -> str:
        """The name with every changed hyperparameter, a budget of labels and a set of outliers, as tables show it."""
        changed = {each.card.name: {**each.changed} for each in (self.trainer, self.scorer)}
        own = changed[self.trainer.card.name]
        if "labels" in self.needs:
            own[BUDGET] = self.trainer.values[BUDGET]
        if self.outliers is not None:
            own["outliers"] = self.outliers
        return ",".join([self.name, *changed_words(self.name, changed)])

    @property
    def needs(self) -> frozenset[str]:
        needs = self.trainer.card.needs | self.scorer.card.needs
        # Environments that are not native are drawn from the labeled images, so that the data needs none.
        drawn = self.trainer.values.get("environments", "native") != "native"
        return needs - {"environments"} if drawn else needs

    @property
    def own(self) -> Card:
        """The card of what the method is named after; of a pair, the trainer's."""
        return self.scorer.card if self.scorer.card.name == self.name else self.trainer.card

    @property
    def display(self) -> str:
        """The name as its authors spell it, without changed hyperparameters: Mixup + KNN."""
        spelled = {each.card.name: each.card.display for each in (self.trainer, self.scorer)}
        return " + ".join(spelled[name] for name in self.name.split("+"))

    @property
    def group(self) -> str:
        """Of a table's rows: what the method says, or one of the paper's three.

        What a scorer of ours reads is looked up when a table is made, so that older results are grouped too. The file
        of a plugin is not at hand then, and a result says it.
        """
        if self.own.group is not None:
            return self.own.group
        if "labels" in self.needs:
            return LABELS
        if self.outliers is not None and "wild" not in self.needs:
            return OUTLIERS
        if self.needs & {"wild", "outliers"}:
            return WILD_DATA
        if self.trainer.card.name == DEFAULT_TRAINER and self.name != DEFAULT_TRAINER:
            reads = None if self.scorer.card.is_ours else self.scorer.card.reads
            return DETECTION if reads is None else DETECTION_BY[reads]
        return GENERALIZATION

    def with_value(self, component: str, key: str, text: str) -> "MethodSpec":
        """This method with one hyperparameter of its trainer or scorer changed; itself if it has none of that name."""
        trainer, scorer = self.trainer, self.scorer
        if trainer.card.name == component:
            trainer = trainer.with_value(key, text)
        if scorer.card.name == component:
            scorer = scorer.with_value(key, text)
        return replace(self, trainer=trainer, scorer=scorer)

    @property
    def adds(self) -> frozenset[str]:
        """What its network has for scorers to read."""
        return self.trainer.card.adds

    def at(self, draw: Draw) -> "MethodSpec":
        """This method with what a random search has drawn for its trainer, under the same name and label."""
        return replace(self, trainer=replace(self.trainer, drawn=draw.of(self.trainer.card.name)))


def changed_words(method: str, changed: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The changed hyperparameters of a method's components, by their names: `k=5` of `knn`, `knn.k=5` of a pair."""
    return [
        f"{'' if component == method else f'{component}.'}{key}={_short(value)}"
        for component, values in changed.items()
        for key, value in sorted(values.items())
    ]


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _plugin_file(given: str | Path) -> Path:
    if not os.path.isfile(given) or Path(given).suffix != ".py":
        raise UserError(f"there is no plugin file '{shortened(str(given))}'; give the path of a file that ends in .py")
    return Path(given).resolve()


def module_file(module: str) -> Path:
    """Where an installed module lies, without importing the packages around it."""
    top, *inner = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is not None and not inner and spec.origin is not None:
        return Path(spec.origin)
    for location in (spec and spec.submodule_search_locations) or []:
        path = Path(location, *inner)
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
    raise UserError(f"the module '{module}' is not installed")
