"""The values that a suite states for its methods, checked against what these have, and under whose name they stand."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oodbench.config.cards import EVERY, Card, command_name
from oodbench.config.registry import Component, MethodSpec, Registry
from oodbench.config.schema import Misfit, conform
from oodbench.config.suite import Suite
from oodbench.config.validation import OWN_RECIPE, recipe_values
from oodbench.errors import UserError, unknown

ByComponent = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Stated:
    """What stands under a trainer's or scorer's name holds wherever it is used, so that all share one network of ERM.

    What stands under the name of a method that others name, `msp` of ERM and MSP, holds for that method alone.
    """

    registry: Registry
    values: Mapping[str, ByComponent] = field(default_factory=dict)  # by method
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by method

    @classmethod
    def of(cls, suite: Suite, registry: Registry) -> "Stated":
        values: dict[str, ByComponent] = {}
        recipes: dict[str, Mapping[str, Any]] = {}
        try:
            for word, stated in suite.contents.methods.items():
                if command_name(word) in EVERY:
                    continue
                method = _method(registry, word)
                values[method.name] = _by_component(method, word, stated)
                recipes[method.name] = recipe_values(word, stated)
        except Misfit as error:
            raise suite.error(error.place, error.message) from None
        return cls(registry, values, recipes)

    def method(self, name: str) -> MethodSpec:
        """A method of the registry with its values on this suite."""
        spec = self.registry.method(name)
        trainer, scorer = (self.component(part.card, spec.name) for part in (spec.trainer, spec.scorer))
        return replace(spec, trainer=trainer, scorer=scorer)

    def every(self, word: str) -> list[MethodSpec]:
        """The same of all that `all`, `all-scorers` or `all-trainers` stands for."""
        return [self.method(spec.name) for spec in self.registry.every(word)]

    def component(self, card: Card, method: str | None = None) -> Component:
        """A trainer or scorer as part of a method, or as what another starts from."""
        values: dict[str, Any] = {}
        for name in (card.name, method):
            values |= self.values.get(name or "", {}).get(card.name, {})
        return Component(card, values)

    def recipe(self, trainer: Card, method: str | None = None) -> dict[str, Any]:
        """What differs from the suite's recipe where this trainer trains."""
        return {**self.recipes.get(trainer.name, {}), **self.recipes.get(method or "", {})}


def _method(registry: Registry, word: str) -> MethodSpec:
    try:
        return registry.method(word)
    except UserError as error:
        raise Misfit(("methods", word), str(error)) from None


def _by_component(method: MethodSpec, word: str, stated: Mapping[str, Any]) -> ByComponent:
    """Hyperparameters by the trainer or scorer they are of: first of what the method is named after."""
    cards = sorted((method.trainer.card, method.scorer.card), key=lambda card: card.name != method.own.name)
    values: dict[str, dict[str, Any]] = {card.name: {} for card in cards}
    for key, value in stated.items():
        if key == OWN_RECIPE:
            continue
        place = ("methods", word, key)
        owner = next((card for card in cards if key in card.parameters), None)
        if owner is None:
            known = [name for card in cards for name in card.parameters]
            raise Misfit(place, str(unknown(f"hyperparameter of {method.name}", key, [*known, OWN_RECIPE])))
        values[owner.name][key] = conform(value, owner.parameters[key].type, place)
    return values
