"""What types cannot say about a suite: names that must exist, numbers that must make sense."""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from oodbench.config import networks, search
from oodbench.config.cards import EVERY, catalogue, command_name
from oodbench.config.contents import FOLDER, NONE, Contents, Option, Setting, Source
from oodbench.config.families import corruption_kinds, severities
from oodbench.config.recipe import Recipe
from oodbench.config.schema import Misfit, Place, conform, values_of
from oodbench.errors import UserError, shown, unknown

RECIPE = "recipe."  # before the name of a value that `search` draws
# torch ends the process if it cannot have its threads. The cores of this machine are no bound: threads are in the key,
# and whoever repeats a result on a smaller machine needs as many as it was made with.
MOST_THREADS = 1024
ABOUT_THREADS = f"choose {MOST_THREADS} or fewer (this machine has {os.cpu_count()} cores)"
MOST = {"epochs": 10**9, "iterations": 10**9, "batch_size": 10**6}  # what still makes sense of a recipe
MOST_IMAGES = 10**9  # of a data set
OWN_RECIPE = "recipe"  # the key, beside the hyperparameters of a method, of what differs from the suite's recipe


def check(contents: Contents) -> None:
    """A misfit names the place in the suite file."""
    _check_sources(contents)
    _check_names(contents)
    _check_groups(contents)
    _check_network(contents)
    _check_methods(contents)
    _check_recipes(contents)
    _check_splits(contents)
    _check_embedding(contents)
    if contents.cpu_threads is not None and contents.cpu_threads < 1:
        raise Misfit(("cpu_threads",), f"expected 1 or more, got {contents.cpu_threads}")
    if contents.cpu_threads is not None and contents.cpu_threads > MOST_THREADS:
        raise Misfit(("cpu_threads",), f"{contents.cpu_threads} is too many; {ABOUT_THREADS}")
    _check_settings(contents)


def _check_sources(contents: Contents) -> None:
    datasets = catalogue("datasets")
    sources: dict[Place, Source] = {("id",): contents.id}
    sources |= {("semantic", name): source for name, source in contents.semantic.items()}
    sources |= {("covariate", name): source for name, source in contents.covariate.items()}
    sources |= {("outliers",): contents.outliers} if contents.outliers is not None else {}
    for place, source in sources.items():
        if source.dataset not in datasets and not source.dataset.startswith(FOLDER):
            raise Misfit((*place, "dataset"), str(unknown("data set", source.dataset, datasets)))
        if source.classes is not None and (not source.classes or len(set(source.classes)) < len(source.classes)):
            raise Misfit((*place, "classes"), f"expected at least one class and none twice, got {source.classes}")
        if place[0] == "semantic" and _overlap(source, contents.id):
            raise Misfit(place, f"shares classes of '{source.dataset}' with the ID data; choose others")
        if place[0] == "outliers" and source.dataset == contents.id.dataset:
            raise Misfit(place, f"'{source.dataset}' is the ID data set; choose another set")
        if place[0] == "covariate" and source.dataset == contents.id.dataset and not source.domains:
            raise Misfit(place, f"is the ID data set '{source.dataset}' itself; name the domains to hold out")
        if source.jpeg is not None and not 1 <= source.jpeg <= 100:
            raise Misfit((*place, "jpeg"), f"expected a quality from 1 to 100, got {source.jpeg}")
        if source.size is not None and not 8 <= source.size <= 1024:
            raise Misfit((*place, "size"), f"expected a side of 8 to 1024 pixels, got {source.size}")
        for key in ("size", "jpeg", "embed"):
            if place != ("id",) and getattr(source, key) is not None:
                raise Misfit((*place, key), f"'{key}' belongs to the ID data; other sets follow it")


def _overlap(a: Source, b: Source) -> bool:
    return a.dataset == b.dataset and (a.classes is None or b.classes is None or bool({*a.classes} & {*b.classes}))


def _check_names(contents: Contents) -> None:
    for place in [(kind, name) for kind in ("semantic", "covariate", "presets") for name in getattr(contents, kind)]:
        if not re.fullmatch(r"\w[\w.+-]*", str(place[-1])):
            raise Misfit(place, "expected a name of only letters, digits and . + - _, since it names folders")


def _check_groups(contents: Contents) -> None:
    for name, members in contents.groups.items():
        for i, member in enumerate(members):
            if member not in contents.semantic:
                raise Misfit(("groups", name, i), str(unknown("semantic set", member, contents.semantic)))
        if not members or len(set(members)) < len(members):
            raise Misfit(("groups", name), f"expected at least one semantic set and none twice, got {members}")


def _check_network(contents: Contents) -> None:
    try:
        known = networks.card(contents.network.name).parameters
    except UserError as error:
        raise Misfit(("network", "name"), str(error)) from None
    for option, value in contents.network.options.items():
        place = ("network", "options", option)
        if option not in known:
            raise Misfit(place, str(unknown("option of the network", option, known)))
        conform(value, known[option].type, place)
        conform(value, Option, place)  # which a user's network may not have asked for


def _check_methods(contents: Contents) -> None:
    """Of the names alone: which methods there are, and with which hyperparameters, is for a plan to know."""
    for name, stated in contents.methods.items():
        if command_name(name) in EVERY and stated:
            key = next(iter(stated))
            raise Misfit(("methods", name, key), f"'{name}' states no values; state '{key}' under the name of a method")


def _check_recipes(contents: Contents) -> None:
    """Those of the suite and of its methods, and those that a search may draw."""
    for place, recipe in _recipes(contents):
        _check_recipe(recipe, place)
    for name, distribution in distributions(contents).items():
        for value in distribution.extremes:
            drawn = contents.recipes.scratch.changed(**{name.removeprefix(RECIPE): value})
            try:
                _check_recipe(drawn, ())
            except Misfit as error:
                raise Misfit(("search", name), f"'{contents.search[name]}' may draw {value}: {error.message}") from None


def _recipes(contents: Contents) -> list[tuple[Place, Recipe]]:
    """Every recipe that a training may have. Which of the two a method's values change is known to its trainer."""
    recipes = values_of(contents.recipes)
    found: list[tuple[Place, Recipe]] = [(("recipes", kind), recipe) for kind, recipe in recipes.items()]
    for name, stated in contents.methods.items():
        own = recipe_values(name, stated)
        found += [(("methods", name, OWN_RECIPE), recipe.changed(**own)) for recipe in recipes.values()]
    return found


def recipe_values(method: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    """What a suite states for the recipe of a method."""
    place = ("methods", method, OWN_RECIPE)
    types = {f.name: f.type for f in dataclasses.fields(Recipe)}
    values = conform(stated.get(OWN_RECIPE, {}), dict[str, Any], place)
    for key in values:
        if key not in types:
            raise Misfit((*place, key), str(unknown("key of 'recipe'", key, types)))
    return {key: conform(value, types[key], (*place, key)) for key, value in values.items()}


def _check_recipe(recipe: Recipe, place: Place) -> None:
    if (recipe.epochs is None) == (recipe.iterations is None):
        which = "neither is" if recipe.epochs is None else "both are"
        raise Misfit(
            place,
            f"a training has a number of epochs or of iterations, and {which} stated; set one, and the other to null",
        )
    for key in ("epochs", "iterations", "batch_size", "lr", "bn_bias_lr", "lookahead"):
        value = getattr(recipe, key)
        if value is not None and value <= 0:
            raise Misfit((*place, key), f"expected more than 0, got {value}")
        if value is not None and key in MOST and value > MOST[key]:
            raise Misfit((*place, key), f"expected {MOST[key]:,} or fewer, got {shown(value)}")
    for key in ("momentum", "warmup"):
        if not 0 <= getattr(recipe, key) < 1:
            raise Misfit((*place, key), f"expected 0 to below 1, got {getattr(recipe, key)}")
    for key in ("unaugmented", "warmup_from", "final", "bn_momentum"):
        value = getattr(recipe, key)
        if value is not None and not 0 <= value <= 1:
            raise Misfit((*place, key), f"expected 0 to 1, got {value}")
    for key in ("weight_decay", "decay"):
        if getattr(recipe, key) < 0:
            raise Misfit((*place, key), f"expected 0 or more, got {getattr(recipe, key)}")


def distributions(contents: Contents) -> dict[str, search.Distribution]:
    types = {f"{RECIPE}{f.name}": f.type for f in dataclasses.fields(Recipe)}
    for name in contents.search:
        if name not in types:
            raise Misfit(("search", name), str(unknown("value to draw", name, types)))
    return {name: search.read(text, types[name], ("search", name)) for name, text in contents.search.items()}


def _check_splits(contents: Contents) -> None:
    for name, share in values_of(contents.splits).items():
        may_count = name in ("labelled", "base")
        if isinstance(share, float) and not 0 < share < 1 and not (may_count and 1 <= share <= MOST_IMAGES):
            raise Misfit(("splits", name), f"expected a share between 0 and 1, got {share}")
    if contents.splits.mixed_validation + contents.splits.id_validation >= 1:
        raise Misfit(("splits", "mixed_validation"), "mixed_validation + id_validation leave nothing for the mixture")


def _check_embedding(contents: Contents) -> None:
    if contents.id.embed is None:
        return
    if contents.corruptions is not None:
        raise Misfit(("id", "embed"), "embedded images cannot be corrupted; leave out 'embed' or 'corruptions'")
    for place, recipe in _recipes(contents):
        if recipe.augment != "none":
            raise Misfit((*place, "augment"), f"'{recipe.augment}' is for pixels, not features; choose none")


def _check_settings(contents: Contents) -> None:
    if not contents.settings:
        raise Misfit(("settings",), "expected at least one setting")
    if contents.corruptions is not None:
        taken = set(corruption_kinds(contents.corruptions)) & set(contents.covariate)
        if taken:
            raise Misfit(("covariate", min(taken)), f"'{min(taken)}' is a kind of {contents.corruptions}; rename it")
    for i, column in enumerate(contents.settings):
        try:
            check_setting(contents.completed(column), contents)
        except Misfit as error:
            own = getattr(column, str(error.place[0])) is not None
            where: Place = ("settings", i) if own else ("defaults",)
            raise Misfit((*where, *error.place), error.message) from None


def check_setting(setting: Setting, contents: Contents) -> None:
    """A misfit names the key."""
    if setting.semantic != NONE and setting.semantic not in contents.semantic:
        raise Misfit(("semantic",), str(unknown("semantic set", setting.semantic, contents.semantic)))
    kinds = corruption_kinds(contents.corruptions) if contents.corruptions is not None else []
    if setting.covariate not in (*kinds, *contents.covariate):
        what = "corruption" if kinds else "covariate set"
        raise Misfit(("covariate",), str(unknown(what, setting.covariate, [*kinds, *contents.covariate])))
    steps = severities(contents.corruptions) if setting.covariate in kinds and contents.corruptions else [1]
    if setting.severity not in steps and setting.covariate in kinds:
        choice = f"{steps[0]} to {steps[-1]}" if len(steps) > 1 else str(steps[0])
        raise Misfit(("severity",), f"severity {setting.severity} does not exist; choose {choice}")
    for key in ("pi_c", "pi_s"):
        share = getattr(setting, key)
        if not 0 <= share <= 1:
            raise Misfit((key,), f"{key}={share:g} is not a share; choose a number from 0 to 1")
    if setting.pi_c + setting.pi_s > 1 + 1e-9:
        whole = f"pi_c + pi_s = {setting.pi_c + setting.pi_s:g}"
        raise Misfit(("pi_c",), f"{whole} is more than the whole; choose shares that sum to 1 or less")
