"""`oodbench show`: a method, suite, data set or network in its files' own words, or a result."""

import argparse
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oodbench.cli import shown_values
from oodbench.cli.json_output import add_json, print_json
from oodbench.cli.output import terminal_width
from oodbench.cli.parser import add_plugins
from oodbench.cli.show_result import read_result, show_result
from oodbench.cli.times import time_of
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
from oodbench.running.plan import of_suite
from oodbench.running.request import request

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
    _say(f"{suite.name}: ", contents.title)
    print()
    _say("network:  ", f"{contents.network.name} {contents.network.options or ''}")
    for kind, recipe in vars(contents.recipes).items():
        _say(f"{kind + ':':9} ", ", ".join(f"{key} {value}" for key, value in vars(recipe).items()))
    if contents.methods:
        _say("methods:  ", _methods(contents.methods))
    _say("presets:  ", ", ".join(contents.presets) or "none")
    for preset, values in contents.presets.items():
        if "methods" in values:
            _say(f"methods under {preset}: ", _methods(values["methods"]))
    _say("semantic: ", ", ".join(contents.semantic) or "none, unless --semantic names one")
    if contents.covariate:
        _say("covariate: ", ", ".join(contents.covariate))
    if contents.corruptions is not None:
        steps = severities(contents.corruptions)
        steps_shown = f"severities {steps[0]}-{steps[-1]}" if len(steps) > 1 else "one severity"
        _say("covariate: ", f"{', '.join(corruption_kinds(contents.corruptions))} ({steps_shown})")
    if contents.search:
        _say("--draws:  ", ", ".join(f"{name} from {text}" for name, text in contents.search.items()))
    for name, sweep in contents.sweeps.items():
        values = {**sweep.set, **sweep.setting}
        listed = "; ".join(f"{k} {', '.join(map(str, v))}" for k, v in values.items())
        _say(f"sweep {name}: ", f"{sweep.methods}, {listed}")
    _show_times(suite)
    for setting in suite.settings:
        print()
        _say(f"setting {suite.setting_name(setting)}: ", _describe(suite, setting))
        if availability.lacking(suite, setting):  # which stand below, each once
            print("  data is missing, see below")
            continue
        try:
            parts = build_parts(suite, setting, seed=0)
        except UserError as error:
            _say("  ", str(error))
            continue
        for name, part in parts.items().items():
            if len(part):
                print(f"  {name:20} {len(part):6,} images of {part.origin}")
    print()
    for name in sorted({source.dataset for source in (contents.id, *contents.semantic.values())}):
        word, details = availability.state(name)
        address = availability.addresses(name) if word == "missing" else ""
        _say(f"data set {name}: ", f"{word}, {f'from {address}, ' if address else ''}{details}")
    print(f"file: {suite.path}")


def _show_times(suite: suites.Suite) -> None:
    """How long one seed of everything takes from the start, under each preset."""
    registry = Registry()
    print("\nhow long a run with one seed takes:")
    for preset in (None, *suite.contents.presets):
        shown = suites.load(suite.name if suite.name in suites.suite_files() else str(suite.path), preset)
        time = time_of(of_suite(request(suite=suite.name, preset=preset, force=True), shown, registry))
        _say(
            f"  {f'--preset {preset}' if preset else 'without a preset'}: ", time or "not known; --dry-run measures it"
        )


def _say(head: str, text: str) -> None:
    """A line, which goes on below itself on a terminal that is narrower."""
    width = terminal_width()
    if width is None:
        print(f"{head}{text}")
        return
    indent = " " * (len(head) if len(head) <= 12 else 4)
    for line in textwrap.wrap(
        f"{head}{text}", width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ):
        print(line)


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
