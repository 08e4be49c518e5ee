"""`--json`: what a command says, as one JSON object on standard output and nothing else there.

The fields are described in docs/defaults.md.
"""

import argparse
import json
from collections.abc import Mapping
from typing import Any

SCHEMA = 1  # raised when a field changes its meaning or goes; new fields may come without that


def add_json(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")


def print_json(values: Mapping[str, Any]) -> None:
    print(as_json(values))


def as_json(values: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **values}, indent=1, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON has no form for: sets as sorted lists, paths and the like as text."""
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
