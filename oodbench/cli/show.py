"""`oodbench show`: a method, suite, data set or network in its files' own words, or a result."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oodbench.cli import shown_values
from oodbench.cli.json_output import add_json, print_json
from oodbench.cli.parser import add_plugins
from oodbench.cli.show_result import read_result, show_result
from oodbench.config import networks
from oodbench.config import suite as suites
from oodbench.config.cards import Card, catalogue
from oodbench.config.families import corruption_kinds, severities
from oodbench.config.registry import MethodSpec, Registry
from oodbench.config.schema import describe
from oodbench.config.validation import OWN_RECIPE
from oodbench.data import availability
from oodbench.data.parts import build_parts
from oodbench.errors import UserError, unknown

SHOWN_FOR = 3, 10  # channels and classes that the parameters of a user's network are counted for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a name of `oodbench list`, FILE.py:FUNCTION or a result's file")
    add_plugins(parser)
    add_json(parser)


def main(given: argparse.Namespace) -> int:
    if Path(given.name).suffix == ".json":
        result = read_result(Path(given.name))
        print_json(shown_values.of_result(result, Path(given.name))) if given.json else show_result(result)
        return 0
    registry = Registry(given.plugin or ())
    files = suites.suite_files()
    pieces = {**catalogue("datasets"), **catalogue("networks")}
    name = given.name
    if name in files or Path(name).suffix in (".yaml", ".yml"):
        suite = suites.load(name)
        print_json(shown_values.of_suite(suite)) if given.json else _show_suite(suite)
    elif name in pieces:
        kind = "data set" if name in catalogue("datasets") else "network"
        print_json(shown_values.of_card(pieces[name], kind)) if given.json else _show_card(pieces[name])
    elif networks.is_own(name):
        _show_own_network(name, given.json)
    elif "+" in name or name.replace("_", "-") in {**registry.cards, **registry.broken}:
        method = registry.method(name)
        print_json(shown_values.of_method(method)) if given.json else _show_method(method)
    else:
        raise unknown("name", name, [*registry.cards, *files, *pieces, *networks.installed()[0]])
    return 0


def _show_card(card: Card) -> None:
    print(f"{card.name}: {card.summary}")
    if card.paper:
        print(f"\n{card.paper}\n")
    _show_parameters(card)
    if card.source is not None:
        print(f"source: {card.source}")
    print(f"file: {card.path}")


def _show_own_network(name: str, as_json: bool) -> None:
    card = networks.card(name)
    from oodbench.running.own_networks import count

    parameters = count(name, *SHOWN_FOR)
    if as_json:
        print_json({**shown_values.of_card(card, "network"), "parameters": parameters})
        return
    _show_card(card)
    print(f"parameters: {parameters:,}, for {SHOWN_FOR[0]} channels and {SHOWN_FOR[1]} classes")


def _show_parameters(card: Card) -> None:
    if not card.parameters:
        return
    print(f"hyperparameters of {card.name}:" if card.kind in ("Trainer", "Scorer") else "options:")
    for p in card.parameters.values():
        print(f"  {p.name} = {p.default}  ({describe(p.type)})" + (f"  {p.comment}" if p.comment else ""))


def _show_method(method: MethodSpec) -> None:
    own = method.own
    print(f"{method.name}: {own.summary}")
    print(f"\n{own.paper}\n")
    print(f"group:    {method.group}")
    print(f"trainer:  {method.trainer.card.name}")
    reads = method.scorer.card.reads
    print(f"scorer:   {method.scorer.card.name}" + (f", which reads {reads}" if reads is not None else ""))
    base = method.trainer.card.starts_from
    print(
        f"needs:    {', '.join(sorted(method.needs)) or 'labeled images only'}"
        + (f"; starts from {base}" if base else "")
    )
    for part in (method.trainer, method.scorer):
        _show_parameters(part.card)
    drawn = method.trainer.card.search
    if drawn:
        print(f"--draws:  {', '.join(f'{name} from {text}' for name, text in drawn.items())}")
    print(f"file:     {own.path}")


def _show_suite(suite: suites.Suite) -> None:
    contents = suite.contents
    print(f"{suite.name}: {contents.title}\n")
    print(f"network:  {contents.network.name} {contents.network.options or ''}")
    for kind, recipe in vars(contents.recipes).items():
        print(f"{kind + ':':9} " + ", ".join(f"{key} {value}" for key, value in vars(recipe).items()))
    if contents.methods:
        print(f"methods:  {_methods(contents.methods)}")
    print(f"presets:  {', '.join(contents.presets) or 'none'}")
    for preset, values in contents.presets.items():
        if "methods" in values:
            print(f"methods under {preset}: {_methods(values['methods'])}")
    print(f"semantic: {', '.join(contents.semantic) or 'none, unless --semantic names one'}")
    if contents.covariate:
        print(f"covariate: {', '.join(contents.covariate)}")
    if contents.corruptions is not None:
        steps = severities(contents.corruptions)
        steps_shown = f"severities {steps[0]}-{steps[-1]}" if len(steps) > 1 else "one severity"
        print(f"covariate: {', '.join(corruption_kinds(contents.corruptions))} ({steps_shown})")
    if contents.search:
        print(f"--draws:  {', '.join(f'{name} from {text}' for name, text in contents.search.items())}")
    for name, sweep in contents.sweeps.items():
        values = {**sweep.set, **sweep.setting}
        print(
            f"sweep {name}: {sweep.methods}, " + "; ".join(f"{k} {', '.join(map(str, v))}" for k, v in values.items())
        )
    for setting in suite.settings:
        print(f"\nsetting {suite.setting_name(setting)}: {_describe(suite, setting)}")
        try:
            parts = build_parts(suite, setting, seed=0)
        except UserError as error:  # the data is not here yet
            print(f"  {error}")
            continue
        for name, part in parts.items().items():
            if len(part):
                print(f"  {name:20} {len(part):6,} images of {part.origin}")
    print()
    for name in sorted({source.dataset for source in (contents.id, *contents.semantic.values())}):
        word, details = availability.state(name)
        print(f"data set {name}: {word}, {details}")
    print(f"file: {suite.path}")


def _methods(stated: Mapping[str, Mapping[str, Any]]) -> str:
    """Those that run unless the user names others, with the values that the suite states for them."""
    words = []
    for name, values in stated.items():
        own = {key: value for key, value in values.items() if key != OWN_RECIPE}
        own |= {f"{OWN_RECIPE}.{key}": value for key, value in values.get(OWN_RECIPE, {}).items()}
        words.append(name + (f" ({', '.join(f'{key} {value}' for key, value in own.items())})" if own else ""))
    return ", ".join(words)


def _describe(suite: suites.Suite, setting: suites.Setting) -> str:
    words = [f"{setting.covariate} held out" if suite.held_out(setting) else setting.covariate]
    if setting.covariate not in suite.contents.covariate:
        words[0] += f" at severity {setting.severity}"
    if setting.semantic != suites.NONE:
        words.append(f"pi_c {setting.pi_c:g}, pi_s {setting.pi_s:g}")
    return ", ".join(words)
