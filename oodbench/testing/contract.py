"""What the rules of a method's contract are made of, and the rules that trainers and scorers share."""

import ast
import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Union, get_args, get_origin

import torch

from oodbench.config.annotations import stated_type
from oodbench.config.cards import Card
from oodbench.config.registry import DEFAULT_SCORER
from oodbench.errors import UserError
from oodbench.learning.method import Scorer, Trainer
from oodbench.learning.outputs import Outputs
from oodbench.learning.scoring import fit, forward_for
from oodbench.testing.toy_problem import Toy

Cases = Literal["defaults", "values", "modes", "hyperparameters"]


class Violation(AssertionError):
    """A rule that a method breaks, and how."""


@dataclass(frozen=True)
class Subject:
    """A method under test: its class under some values, and the hyperparameter that a rule is about."""

    card: Card
    cls: Any
    values: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None

    @property
    def label(self) -> str:
        changed = [f"{name}={value}" for name, value in self.values.items()]
        return ",".join([self.card.name if self.key is None else f"{self.card.name}.{self.key}", *changed])

    def make(self, **more: Any) -> Any:
        return self.cls(**{**self.values, **more})

    def outputs(self, problem: Toy) -> tuple[Outputs, Outputs, Outputs]:
        """Of training, validation and unseen rows, with what the scorer reads in their feature maps."""
        train, validation, unseen = map(self.reading, problem.outputs())
        return train, validation, unseen

    def reading(self, out: Outputs, size: int | None = None) -> Outputs:
        """The same with what the scorer reads in the feature maps, if it needs these, `size` rows at a time."""
        if "feature-maps" not in self.card.needs:
            return out
        return replace(out, maps=forward_for(self.make(), out.model, out.images, size=size).maps)

    def fitted(self, train: Outputs, validation: Outputs) -> Scorer:
        """As a run fits it."""
        scorer: Scorer = self.make()
        with torch.no_grad():
            fit(scorer, train, validation if "validation" in self.card.needs else None)
        return scorer


@dataclass(frozen=True)
class Rule:
    """What a method promises, and how that is seen."""

    sentence: str
    kind: str  # Trainer, Scorer, or empty for both
    cases: Cases
    holds: Callable[[Subject, Toy], None]


RULES: list[Rule] = []


def rule(kind: str, cases: Cases, sentence: str) -> Callable[[Callable[[Subject, Toy], None]], Rule]:
    def add(holds: Callable[[Subject, Toy], None]) -> Rule:
        RULES.append(Rule(sentence, kind, cases, holds))
        return RULES[-1]

    return add


def require(condition: Any, details: str) -> None:
    if not condition:
        raise Violation(details)


def subjects(card: Card, cls: type, cases: Cases) -> Iterator[Subject]:
    """The defaults; then each hyperparameter changed, or only those that name a mode; or one for each of them."""
    if cases == "hyperparameters":
        yield from (Subject(card, cls, key=name) for name in card.parameters)
        return
    yield Subject(card, cls)
    if cases != "defaults":
        for parameter in card.parameters.values():
            others = other_values(parameter.type, parameter.default)
            for value in [value for value in others if isinstance(value, str) or cases == "values"][:1]:
                yield Subject(card, cls, {parameter.name: value})


def other_values(type_: Any, default: Any) -> list[Any]:
    """Values of a type that are not the default, the likeliest to be accepted first."""
    origin, args = get_origin(type_), get_args(type_)
    found: list[Any] = []
    if origin in (Union, types.UnionType):
        found = [value for option in args for value in other_values(option, default)]
    elif origin is Literal:
        found = list(args)
    elif origin is list and isinstance(default, list):
        found = [[other_values(args[0], item)[0] for item in default], default[:-1]]
    elif type_ is bool:
        found = [not default]
    elif type_ is float:
        known = isinstance(default, float) and default != 0
        found = [2 * default, default / 2, default / 100, default + 1, 0.0] if known else [0.01, 1.0]
    elif type_ is int:
        found = [default + 1, 2 * default, default // 2, 1, 0] if isinstance(default, int) else [2, 3]
    elif type_ is str and isinstance(default, str):
        found = [re.sub(r"\d+", lambda number: str(int(number[0]) + 1), default), "random:3"]  # environments
    return [value for value in found if value != default]


def require_some_effect(
    subject: Subject, outcome: Callable[[Subject], Any], differs: Callable[[Any, Any], bool]
) -> None:
    """That some other value of a hyperparameter changes the outcome; the refusal if the method refuses them all."""
    assert subject.key is not None
    parameter, refusal, was_tried = subject.card.parameters[subject.key], None, False
    default = outcome(replace(subject, key=None))
    for value in other_values(parameter.type, parameter.default):
        try:
            other = outcome(replace(subject, key=None, values={**subject.values, subject.key: value}))
        except UserError as error:
            refusal = error
            continue
        was_tried = True
        if differs(other, default):
            return
    if refusal is not None and not was_tried:
        raise refusal
    raise Violation(f"'{subject.key}' has no effect, whatever its value")


@rule("", "defaults", "the class says in its docstring what it does")
def describes_itself(subject: Subject, problem: Toy) -> None:
    is_said = subject.card.summary != "(no description)" and subject.card.summary.endswith(".")
    require(is_said, f"the first line of the docstring of class {subject.card.class_name} is no sentence; write one")


@rule("", "defaults", "the card read from the source agrees with the class")
def agrees_with_its_card(subject: Subject, problem: Toy) -> None:
    card, cls = subject.card, subject.cls
    base = {"Trainer": Trainer, "Scorer": Scorer}[card.kind]
    require(issubclass(cls, base) and dataclasses.is_dataclass(cls), f"it is no dataclass derived from {card.kind}")
    order = list(inspect.signature(cls).parameters)
    require(list(card.parameters) == order, f"the source has {list(card.parameters)}, the constructor {order}")
    types_, made = {each.name: stated_type(each.type) for each in dataclasses.fields(cls)}, cls()
    for name, parameter in card.parameters.items():
        said, is_so = (parameter.type, parameter.default), (types_[name], getattr(made, name))
        require(said == is_so, f"the source has {said} for '{name}', the class {is_so}")
    variables: dict[str, tuple[Any, Any]] = {"needs": (card.needs, cls.needs), "group": (card.group, cls.group)}
    variables["display"] = (card.display, vars(cls).get("display") or card.display)
    if card.kind == "Scorer":
        variables["reads"] = (card.reads, cls.reads)
    if card.kind == "Trainer":
        search = {name: text for name, text in cls.search.items() if name in card.parameters}
        variables |= {"scorer": (card.scorer or DEFAULT_SCORER, cls.scorer), "search": (card.search, search)}
        variables |= {"starts_from": (card.starts_from, cls.starts_from), "adds": (card.adds, cls.adds)}
    for name, (read, actual) in variables.items():
        require(read == actual, f"the source says {name} = {read!r}, the class {actual!r}; write it out in the class")
    module = inspect.getmodule(cls)
    require(card.summary == inspect.cleandoc(cls.__doc__ or "").splitlines()[0], "the docstring is made by code")
    require(card.paper == inspect.cleandoc((module and module.__doc__) or ""), "the module's docstring is made by code")


@rule("", "values", "a method reads back from its repr")
def reads_back(subject: Subject, problem: Toy) -> None:
    method = subject.make()
    call = ast.parse(repr(method), mode="eval").body
    is_call = isinstance(call, ast.Call) and ast.unparse(call.func) == subject.cls.__qualname__
    require(is_call, f"its repr is {method!r}, which is not how it is built")
    assert isinstance(call, ast.Call)
    values = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
    require(subject.cls(**values) == method, f"{method!r} is another")
    kept = all(getattr(method, key) == value for key, value in subject.values.items())
    require(kept, "a hyperparameter is not stored as it was given")


@rule("", "defaults", "a new method holds nothing but its hyperparameters")
def holds_nothing_else(subject: Subject, problem: Toy) -> None:
    found, expected = set(vars(subject.make())), set(subject.card.parameters)
    require(found == expected, f"it also holds {', '.join(sorted(found ^ expected))}; set that in fit or train")
