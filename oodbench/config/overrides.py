"""A suite's values changed as the command line or Python says: every function gives new contents, already checked."""

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

from oodbench.config import networks
from oodbench.config.contents import (
    FOLDER,
    NONE,
    SECTIONS,
    WILD,
    Column,
    Contents,
    NetworkChoice,
    Option,
    Precision,
    Recipes,
    Source,
)
from oodbench.config.families import corruption_kinds
from oodbench.config.schema import Misfit, parse, values_of
from oodbench.config.validation import ABOUT_THREADS, MOST_THREADS, OWN_RECIPE, check, check_setting
from oodbench.errors import UserError, shortened, shown, unknown
from oodbench.user_files import user_path

TIMM = "timm"  # the network, and what stands before the name of one of its models: timm:resnet18


def with_value(contents: Contents, section: str, key: str, text: str) -> Contents:
    """`--set recipe.epochs=3`: one value of all recipes changed; or of `id`, `splits`, the network's options."""
    if section == "network":
        types = {name: p.type for name, p in networks.card(contents.network.name).parameters.items()}
    else:
        types = {f.name: f.type for f in fields(SECTIONS[section])}
    if key not in types:
        raise unknown(f"key of '{section}'", key, types)
    change = {key: parse(text, types[key], (section, key))}
    if section == "recipe":
        recipes = {name: recipe.changed(**change) for name, recipe in values_of(contents.recipes).items()}
        changed = replace(contents, recipes=Recipes(**recipes), methods=_without(contents.methods, key))
    elif section == "network":
        network = contents.network
        changed = replace(contents, network=replace(network, options={**network.options, **change}))
    else:
        values: dict[str, Any] = {section: replace(getattr(contents, section), **change)}
        changed = replace(contents, **values)
    try:
        check(changed)
    except Misfit as error:
        raise UserError(f"{section}.{key}={shortened(text)}: {error.message}") from None
    return changed


def with_network(contents: Contents, text: str | None) -> Contents:
    """`--model`: another network than the suite's; None is the suite's own, whose options only itself keeps."""
    if text is None:
        return contents
    library, _, model = text.partition(":")
    name, given = (library, {"model": model}) if library == TIMM and model else (text, {})
    before = contents.network
    options: dict[str, Option] = {**(before.options if name == before.name else {}), **given}
    changed = replace(contents, network=NetworkChoice(name, options))
    try:
        check(changed)
    except Misfit as error:
        raise UserError(f"--model {shortened(text)}: {error.message}") from None
    return changed


def with_recipe(contents: Contents, kind: str, values: Mapping[str, Any]) -> Contents:
    """Values of one of the recipes changed to a method's or to drawn ones, which `check` has found to make sense."""
    recipe = getattr(contents.recipes, kind).changed(**values)
    if recipe == getattr(contents.recipes, kind):
        return contents
    return replace(contents, recipes=replace(contents.recipes, **{kind: recipe}))


def _without(methods: Mapping[str, dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    """What a suite states for its methods, without this value of their recipes."""
    return {
        name: {
            part: {k: v for k, v in value.items() if k != key} if part == OWN_RECIPE else value
            for part, value in values.items()
        }
        for name, values in methods.items()
    }


def with_precision(contents: Contents, name: str | None) -> Contents:
    """`--precision`; None is the suite's own."""
    if name is None:
        return contents
    if name not in get_args(Precision):
        raise unknown("precision", name, get_args(Precision))
    chosen: Any = {"precision": name}
    return replace(contents, **chosen)


def with_threads(contents: Contents, count: int | None) -> Contents:
    """`--cpu-threads`; None is the suite's own."""
    if count is None:
        return contents
    if count < 1:
        raise UserError(f"--cpu-threads {count} is none; choose 1 or more")
    if count > MOST_THREADS:
        raise UserError(f"--cpu-threads {shown(count)} is too many; {ABOUT_THREADS}")
    return replace(contents, cpu_threads=count)


def with_pairs(contents: Contents) -> Contents:
    """With a covariate set a+b of every two that hold out one domain each, in the order of the suite file."""
    sources, domains = contents.covariate, contents.domains_of
    pairs = {f"{a}+{b}": replace(sources[a], domains=[*domains(a), *domains(b)]) for a, b in contents.pairs()}
    return replace(contents, covariate={**sources, **pairs})


def with_sets(contents: Contents, semantic: Sequence[str], covariate: Sequence[str]) -> Contents:
    """`--semantic` and `--covariate`: settings of these sets instead; each a name of the suite, or folder:PATH."""
    if not semantic and not covariate:
        return contents
    kinds = {"semantic": dict(contents.semantic), "covariate": dict(contents.covariate)}
    family = contents.corruptions
    reserved = {
        "semantic": {NONE: None},
        "covariate": dict.fromkeys(corruption_kinds(family) if family is not None else ()),
    }
    names: dict[str, list[str]] = {"semantic": [], "covariate": []}
    for kind, words in (("semantic", semantic), ("covariate", covariate)):
        for word in words:
            name = word
            if word.startswith(FOLDER):
                name = _name_of_folder(word, {**reserved[kind], **kinds[kind]})
                kinds[kind][name] = Source(word)
            names[kind].append(name)
    for both in set(names["semantic"]) & set(names["covariate"]):
        if kinds["semantic"].get(both) == kinds["covariate"].get(both, NONE):
            raise UserError(f"'{both}' cannot be both semantic and covariate shift; choose another for one of them")
    semantics = names["semantic"] or [column.semantic for column in contents.settings]
    covariates: Sequence[str | None] = names["covariate"] or [column.covariate for column in contents.settings]
    columns = dict.fromkeys(Column(s, c) for s in semantics for c in covariates)
    changed = replace(contents, semantic=kinds["semantic"], covariate=kinds["covariate"], settings=list(columns))
    for column in changed.settings:
        try:
            check_setting(changed.completed(column), changed)
        except Misfit as error:
            raise UserError(error.message) from None
    return changed


def with_outliers(contents: Contents, text: str | None) -> Contents:
    """`--outliers`: an auxiliary set in place of the suite's, or the wild mixture; None is the suite's own."""
    if text is None:
        return contents
    changed = replace(contents, outliers=None if text == WILD else Source(text))
    try:
        check(changed)
    except Misfit as error:
        raise UserError(f"--outliers {shortened(text)}: {error.message}") from None
    return changed


def _name_of_folder(word: str, taken: Mapping[str, Source | None]) -> str:
    """The folder's own name, as results may bear it, or a longer one if another set is called so."""
    path = os.path.realpath(user_path(word.removeprefix(FOLDER)))
    name = re.sub(r"[^\w.+-]", "_", os.path.basename(path).split(".")[0]).lstrip("_.+-") or "folder"
    names = itertools.chain([name, f"folder-{name}"], (f"folder-{name}-{i}" for i in itertools.count(2)))
    return next(each for each in names if each not in taken or taken[each] == Source(word))
