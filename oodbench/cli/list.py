"""`oodbench list`: what there is, from the files' own words."""

import argparse
import textwrap
from collections.abc import Iterable
from typing import Any

from oodbench.cli.json_output import add_json, print_json
from oodbench.cli.output import terminal_width
from oodbench.cli.parser import add_plugins, one_of
from oodbench.config import networks
from oodbench.config import suite as suites
from oodbench.config.cards import EVERY, READS, Card, catalogue
from oodbench.config.registry import Registry

NARROWEST = 24  # columns for a summary, however narrow the terminal
BROKEN = "cannot be used"


def _methods(registry: Registry) -> list[dict[str, Any]]:
    """Scorers in the order of what they read, then trainers."""
    kinds: dict[str, list[str | None]] = {"Scorer": [*READS, None], "Trainer": [None]}
    cards = [card for kind, reads in kinds.items() for each in reads for card in _of(registry, kind, each)]
    return [
        {
            "name": card.name,
            "kind": card.kind.lower(),
            "reads": card.reads,
            "group": _heading(card),
            "summary": card.summary,
            "file": card.path,
        }
        for card in cards
    ] + _broken(registry.broken)


def _of(registry: Registry, kind: str, reads: str | None) -> Iterable[Card]:
    return (card for card in registry.cards.values() if card.kind == kind and card.reads == reads)


def _heading(card: Card) -> str:
    if card.kind == "Scorer":
        return f"scorers that read {card.reads}" if card.reads is not None else "other scorers"
    return "trainers"


def _broken(reasons: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "group": BROKEN, "summary": f"{BROKEN}: {reason}"} for name, reason in reasons.items()]


def _suites(registry: Registry) -> list[dict[str, Any]]:
    return [{"name": name, "summary": suites.title(path), "file": path} for name, path in suites.suite_files().items()]


def _datasets(registry: Registry) -> list[dict[str, Any]]:
    return [_piece(name, card) for name, card in catalogue("datasets").items()]


def _networks(registry: Registry) -> list[dict[str, Any]]:
    installed, broken = networks.installed()
    cards = {**catalogue("networks"), **installed}
    return [_piece(name, card) for name, card in cards.items()] + _broken(broken)


def _piece(name: str, card: Card) -> dict[str, Any]:
    return {"name": name, "summary": card.summary, "file": card.path}


LISTS = {"methods": _methods, "suites": _suites, "datasets": _datasets, "networks": _networks}
NOTES = {
    "methods": f"--methods also takes {', '.join(EVERY)}: every method, scorer or trainer that fits the suite.",
    "networks": "--model also takes FILE.py:FUNCTION, which is a network of yours, and timm:NAME.",
}


def main(given: argparse.Namespace) -> int:
    registry = Registry(given.plugin or ())
    found = {kind: LISTS[kind](registry) for kind in ([given.kind] if given.kind else LISTS)}
    if given.json:
        print_json(found)
        return 0
    width = terminal_width()
    for number, (kind, entries) in enumerate(found.items()):
        if number:
            print()
        if not given.kind:
            print(f"{kind}:")
        _print(entries, "" if given.kind else "  ", width)
        if kind in NOTES:
            print(f"\n{_folded(NOTES[kind], '' if given.kind else '  ', width)}")
    return 0


def _print(entries: list[dict[str, Any]], indent: str, width: int | None) -> None:
    """Under the heading of each group, if there are any; summaries are folded to the width of a terminal."""
    groups: dict[str | None, list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(entry.get("group"), []).append(entry)
    names = max(len(entry["name"]) for entry in entries)
    for number, (group, members) in enumerate(groups.items()):
        inner = indent if group is None else f"{indent}  "
        if group is not None:
            print(f"{chr(10) * (number > 0)}{indent}{group}:")
        for entry in members:
            lead = f"{inner}{entry['name']:{names}}  "
            print(lead + _folded(entry["summary"], " " * len(lead), width).lstrip())


def _folded(text: str, indent: str, width: int | None) -> str:
    """The lines of a text, each behind the indent; one line where there is no terminal."""
    if width is None:
        return indent + text
    room = max(width - len(indent), NARROWEST)
    return "\n".join(indent + line for line in textwrap.wrap(text, room, break_on_hyphens=False))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", type=one_of("list", LISTS), metavar="KIND", help=f"{', '.join(LISTS)} (default: all)"
    )
    add_plugins(parser)
    add_json(parser)
