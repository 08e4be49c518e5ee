"""`oodbench list`: what there is, from the files' own words."""

import argparse

from oodbench.cli.parser import add_plugins, one_of
from oodbench.config import networks
from oodbench.config import suite as suites
from oodbench.config.cards import EVERY, Card, catalogue
from oodbench.config.registry import Registry


def _methods(registry: Registry) -> list[tuple[str, str]]:
    return [(name, _described(card)) for name, card in registry.cards.items()] + [
        (name, f"cannot be used: {reason}") for name, reason in registry.broken.items()
    ]


def _described(card: Card) -> str:
    reads = f" (reads {card.reads})" if card.reads is not None else ""
    return f"{card.kind.lower():8}{card.summary}{reads}"


def _suites(registry: Registry) -> list[tuple[str, str]]:
    return [(name, suites.title(path)) for name, path in suites.suite_files().items()]


def _datasets(registry: Registry) -> list[tuple[str, str]]:
    return [(name, card.summary) for name, card in catalogue("datasets").items()]


def _networks(registry: Registry) -> list[tuple[str, str]]:
    installed, broken = networks.installed()
    cards = {**catalogue("networks"), **installed}
    return [(name, card.summary) for name, card in cards.items()] + [
        (name, f"cannot be used: {reason}") for name, reason in broken.items()
    ]


LISTS = {"methods": _methods, "suites": _suites, "datasets": _datasets, "networks": _networks}


def main(given: argparse.Namespace) -> int:
    registry = Registry(given.plugin or ())
    for kind in [given.kind] if given.kind else LISTS:
        rows = LISTS[kind](registry)
        if not given.kind:
            print(f"{kind}:")
        width = max(len(name) for name, _ in rows)
        indent = "" if given.kind else "  "
        for name, summary in rows:
            print(f"{indent}{name:{width}}  {summary}")
        if kind == "methods":
            print(
                f"{indent}--methods also knows {', '.join(EVERY)}: every method, scorer or trainer that fits the suite"
            )
        if kind == "networks":
            print(f"{indent}--model also takes FILE.py:FUNCTION, a network of yours, and timm:NAME")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", type=one_of("list", LISTS), metavar="KIND", help=f"{', '.join(LISTS)} (default: all)"
    )
    add_plugins(parser)
