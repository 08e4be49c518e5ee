"""What a request chooses of a suite and the registry: methods with their values, settings, and what a search draws."""

import itertools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oodbench.config import networks
from oodbench.config.cards import EVERY, NEEDS, OOD_HEAD, Card, command_name
from oodbench.config.registry import DEFAULT_METHODS, DEFAULT_TRAINER, MethodSpec, Registry, distributions
from oodbench.config.search import Distribution
from oodbench.config.stated import Stated
from oodbench.config.suite import NONE, SECTIONS, Setting, Suite, Sweep
from oodbench.data import lookup
from oodbench.errors import UserError, shortened
from oodbench.results.selection import LEAVE_ONE_OUT, ORACLE, TRAINING_DOMAIN
from oodbench.running.request import Request, alternatives, check_count

WORDS = {  # the needs of trainers, to be said of a suite that lacks them
    "wild": "wild data",
    "environments": "environments",
    "views": "images that can be augmented",
    "outliers": "outliers",
    "labels": "labels of wild data",
}


def choose_methods(
    asked: Request, suite: Suite, registry: Registry, swept: Sweep | None
) -> tuple[Suite, list[MethodSpec], set[str], dict[str, str]]:
    """The suite and the methods with all values set; the names that the user wrote; what cannot be used and why."""
    words = asked.methods or (swept.methods.split(",") if swept else _unasked(suite, registry))
    names = [word.strip() for word in words if word.strip()]
    if not names:
        raise UserError("no method given; name at least one, for example --methods msp,knn")
    stated = Stated.of(suite, registry)
    read = None if suite.contents.outliers is None else lookup.dataset(suite.contents.outliers.dataset).name
    listed = {name: stated.method(name) for name in names if command_name(name) not in EVERY}
    chosen = [spec for name in names for spec in ([listed[name]] if name in listed else stated.every(name))]
    specs = list({spec.name: _with_outliers(spec, read, registry) for spec in chosen}.values())
    if asked.outliers is not None and not any(_needs_outliers(spec, registry) for spec in specs):
        raise UserError("no chosen method learns from outliers; leave out --outliers, or name one, such as oe")
    named = {spec.name for spec in listed.values()} if asked.methods or swept else set()
    grids = [alternatives(assignment) for assignment in asked.set]
    suite, specs = assign(suite, specs, [grid[0] for grid in grids if len(grid) == 1])
    choices = [grid for grid in grids if len(grid) > 1]
    for grid in choices:
        if target_of(grid[0]).partition(".")[0] in SECTIONS:
            raise UserError(
                f"'{grid[0]}' and others: only hyperparameters of methods can be a grid; set one value here"
            )
    if swept is not None:
        choices += [[f"{name}={value}" for value in values] for name, values in swept.set.items()]
    check_count(math.prod(map(len, choices)) * len(specs))
    variants = [assign(suite, specs, choice)[1] for choice in itertools.product(*choices)]
    unique = {spec.label: spec for variant in variants for spec in variant}
    rank = {spec.name: i for i, spec in enumerate(specs)}
    specs = sorted(unique.values(), key=lambda spec: rank[spec.name])
    left_out = {name: f"cannot be used: {why}" for name, why in registry.broken.items() if {*names} - {*listed}}
    return suite, specs, named, left_out


def _with_outliers(spec: MethodSpec, name: str | None, registry: Registry) -> MethodSpec:
    """The method with the auxiliary set that it reads, where it reads one."""
    return replace(spec, outliers=name) if _needs_outliers(spec, registry) else spec


def _needs_outliers(spec: MethodSpec, registry: Registry) -> bool:
    """Whether its training needs outliers, or one that this starts from."""
    card: Card | None = spec.trainer.card
    for _ in registry.cards:  # as often as there can be starts: a trainer that starts from itself is refused later
        if card is None or "outliers" in card.needs:
            break
        card = registry.start_of(card)
    return card is not None and "outliers" in card.needs


def _unasked(suite: Suite, registry: Registry) -> list[str]:
    """What runs where nothing is named: the suite's own list, and whatever was given as a plugin."""
    return [*(suite.contents.methods or DEFAULT_METHODS), *registry.plugins]


def unlisted(suite: Suite, stated: Stated, specs: Sequence[MethodSpec], settings: Sequence[Setting]) -> dict[str, int]:
    """How many others fit the suite, by the word that runs them. A scorer tells nothing without a semantic set."""
    has_semantic = any(setting.semantic != NONE for setting in settings)
    counts = {}
    for word in ("all-scorers", "all-trainers") if has_semantic else ("all-trainers",):
        others = [spec for spec in stated.every(word) if spec.name not in {each.name for each in specs}]
        counts[word] = sum(misfit(suite, spec, settings) is None for spec in others)
    return {word: count for word, count in counts.items() if count}


def choose_settings(asked: Request, suite: Suite, swept: Sweep | None) -> list[Setting]:
    """Those that the user names, or the suite's; a sweep goes over the named ones, or else over the first."""
    chosen = [suite.setting(text) for text in asked.settings] or suite.settings
    if swept is not None:
        check_count(math.prod(map(len, swept.setting.values())))
        chosen = [
            suite.setting(",".join([suite.setting_name(setting), *choice]))
            for setting in (chosen if asked.names_settings else chosen[:1])
            for choice in _choices(swept.setting)
        ]
    return list(dict.fromkeys(chosen))


def searches(
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


def pairs_of(suite: Suite, settings: Sequence[Setting]) -> tuple[Suite, list[Setting]]:
    """The settings that hold out another domain with the one of each setting, and the suite that knows them."""
    pairs = list(dict.fromkeys(pair for setting in settings for pair in suite.pairs_with(setting)))
    suite = suite.with_pairs()
    if not pairs or not all(_training_domains(suite, pair) for pair in pairs):
        raise UserError(
            f"{LEAVE_ONE_OUT} trains without two domains and needs three or more, held out one by one, which "
            f"'{suite.name}' does not have; choose --selection {TRAINING_DOMAIN} or {ORACLE}"
        )
    return suite, pairs


def misfit(suite: Suite, spec: MethodSpec, settings: Sequence[Setting]) -> str | None:
    """Why a method cannot be used, if so: it needs what the suite lacks, or more domains than a setting leaves."""
    if OOD_HEAD in spec.needs - spec.adds:
        return f"needs an OOD head, which the trainer '{spec.trainer.card.name}' does not add to the network"
    for setting in settings if spec.outliers is not None else ():
        shared = lookup.shared_with_outliers(suite, setting)
        if shared is not None:
            return f"would train on outliers of '{shared}', which '{suite.setting_name(setting)}' tests on"
    missing = (spec.needs & {*NEEDS["Trainer"]}) - suite.provides
    if missing:
        words = " and ".join(WORDS[need] for need in WORDS if need in missing)
        return f"needs {words}, which the suite '{suite.name}' does not have"
    if "validation" in spec.needs:
        for setting in settings:
            if setting.semantic == NONE:
                return f"needs validation images, which '{suite.setting_name(setting)}' does not have"
    network = suite.contents.network.name
    if "nonnegative-features" in spec.needs and networks.card(network).nonnegative_features is False:
        return f"needs nonnegative features, which the network '{network}' does not give"
    if "feature-maps" in spec.needs and networks.card(network).feature_maps is False:
        return f"needs feature maps, which the network '{network}' does not have"
    if spec.trainer.values.get("environments") in ("native", "auto") or "environments" in spec.needs:
        for setting in settings:
            left = _training_domains(suite, setting)
            if suite.held_out(setting) and len(left) < 2:
                return f"compares domains, two or more, and '{suite.setting_name(setting)}' leaves {len(left)}"
    return None


def advice(spec: MethodSpec) -> str:
    """What to do about a method that cannot be used."""
    if OOD_HEAD in spec.needs - spec.adds:
        return f"name a trainer that does, TRAINER+{spec.scorer.card.name}, or leave it out"
    return "leave it out or choose another suite" if spec.outliers is None else "choose other outliers, or leave it out"


def target_of(assignment: str) -> str:
    """What an assignment sets: i-mixup.alpha of i_mixup.alpha=1."""
    part, dot, key = assignment.partition("=")[0].strip().partition(".")
    return part.replace("_", "-") + dot + key


def assign(suite: Suite, specs: list[MethodSpec], assignments: Iterable[str]) -> tuple[Suite, list[MethodSpec]]:
    """`--set scone.margin=-5` for a trainer or scorer among the chosen, `--set recipe.epochs=3` for the training."""
    for assignment in assignments:
        target, equals, text = assignment.partition("=")
        part, dot, key = target_of(target).partition(".")
        if not equals or not dot:
            raise UserError(f"'{shortened(assignment)}' is not an assignment; write --set method.hyperparameter=value")
        text = text.strip()
        if part in SECTIONS:
            suite = suite.with_value(part, key, text)
            continue
        present = {each.card.name for spec in specs for each in (spec.trainer, spec.scorer)}
        if part not in present:
            raise UserError(
                f"'{shortened(assignment)}' sets nothing: no chosen method uses '{shortened(part)}'; "
                f"used are {', '.join(sorted(present))}"
            )
        specs = [spec.with_value(part, key, text) for spec in specs]
    return suite, specs


def _searched(suite: Suite, spec: MethodSpec, fixed: Container[str], init: Path | None) -> dict[str, Distribution]:
    """What a search draws for a method: all that has a distribution and is not fixed by the user."""
    trainer = spec.trainer.card
    if init is not None and trainer.name == DEFAULT_TRAINER:  # which is not trained then
        return {}
    found = {**suite.distributions, **distributions(trainer)}
    return {name: each for name, each in found.items() if name not in fixed}


def _training_domains(suite: Suite, setting: Setting) -> list[str]:
    """The domains of the ID data that a setting leaves."""
    id, held_out = suite.contents.id, suite.held_out(setting)
    return [name for name in id.domains or lookup.dataset(id.dataset).domains if name not in held_out]


def _choices(values: Mapping[str, Sequence[Any]]) -> list[list[str]]:
    """Every combination, each as assignments key=value; of nothing, the one that changes nothing."""
    return [
        [f"{key}={value}" for key, value in zip(values, choice, strict=True)]
        for choice in itertools.product(*values.values())
    ]
