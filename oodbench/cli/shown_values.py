"""What `oodbench show --json` prints: the same that `show` says in words, as values. Described in docs/defaults.md."""

import json
from pathlib import Path
from typing import Any

from oodbench.config import suite as suites
from oodbench.config.cards import Card
from oodbench.config.families import corruption_kinds, severities
from oodbench.config.registry import MethodSpec
from oodbench.config.schema import describe, values_of
from oodbench.data import availability
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.results.result import Result
from oodbench.running.repeat import command


def of_card(card: Card, kind: str) -> dict[str, Any]:
    """A data set or a network."""
    said = {"name": card.name, "summary": card.summary, "paper": card.paper, "source": card.source}
    return {"kind": kind, **said, "options": _parameters(card), "file": card.path}


def of_method(method: MethodSpec) -> dict[str, Any]:
    trainer, scorer = method.trainer.card, method.scorer.card
    return {
        "kind": "method",
        "name": method.name,
        "summary": method.own.summary,
        "paper": method.own.paper,
        "group": method.group,
        "trainer": trainer.name,
        "scorer": scorer.name,
        "reads": scorer.reads,
        "needs": method.needs,
        "starts_from": trainer.starts_from,
        "hyperparameters": {card.name: _parameters(card) for card in (trainer, scorer)},
        "search": trainer.search,
        "file": method.own.path,
    }


def _parameters(card: Card) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "default": each.default, "type": describe(each.type), "comment": each.comment}
        for each in card.parameters.values()
    ]


def of_suite(suite: suites.Suite) -> dict[str, Any]:
    contents = suite.contents
    family = contents.corruptions
    sets = sorted({source.dataset for source in (contents.id, *contents.semantic.values())})
    return {
        "kind": "suite",
        "name": suite.name,
        "title": contents.title,
        "network": {"name": contents.network.name, "options": contents.network.options},
        "recipes": {kind: vars(recipe) for kind, recipe in vars(contents.recipes).items()},
        "methods": contents.methods,
        "presets": contents.presets,
        "semantic": [*contents.semantic],
        "covariate": [*contents.covariate],
        "corruptions": None if family is None else [*corruption_kinds(family)],
        "severities": None if family is None else [*severities(family)],
        "search": contents.search,
        "sweeps": {name: values_of(sweep) for name, sweep in contents.sweeps.items()},
        "settings": [_setting(suite, setting) for setting in suite.settings],
        "datasets": [_state(name) for name in sets],
        "file": suite.path,
    }


def _setting(suite: suites.Suite, setting: suites.Setting) -> dict[str, Any]:
    values = {"name": suite.setting_name(setting), **vars(setting), "held_out": suite.held_out(setting)}
    try:
        parts = build_parts(suite, setting, seed=0).items()
    except UserError as error:  # the data is not here yet
        return {**values, "images": None, "missing": str(error)}
    counts = {name: {"count": len(part), "of": part.origin} for name, part in parts.items() if len(part)}
    return {**values, "images": counts, "missing": None}


def _state(name: str) -> dict[str, str]:
    word, details = availability.state(name)
    return {"name": name, "state": word, "details": details}


def of_result(result: Result, path: Path) -> dict[str, Any]:
    """The content of the file, and the command that makes it again."""
    words, remarks = command(result)
    stored = json.loads(path.read_text(encoding="utf-8-sig"))
    return {"kind": "result", "command": words, "remarks": [*remarks], "result": stored}
