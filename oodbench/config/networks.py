"""Names to networks: those of oodbench, those of installed packages, and a user's function as `FILE.py:function`.

Files are read as text here; a network's code runs when it is about to be built.
"""

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from oodbench.config.cards import FACTORY, NETWORK, Card, catalogue, command_name, parse, read_cards
from oodbench.config.contents import NetworkChoice
from oodbench.config.registry import module_file
from oodbench.config.signatures import read_signature
from oodbench.errors import UserError, line_in, said, shortened, unknown
from oodbench.user_files import read_text, user_path

GROUP = "oodbench.networks"  # of entry points
GIVEN = ("channels", "num_classes")  # what a run says to a function that has parameters of these names
INSTEAD = "write FILE.py:function, with the path of a file of yours"
Definition = ast.FunctionDef | ast.ClassDef


def card(name: str) -> Card:
    """What the source of a network says of it."""
    if name in catalogue("networks"):
        return catalogue("networks")[name]
    own = _file_and_function(name)
    if own is not None:
        return _of_file(*own)
    cards, broken = installed()
    wanted = command_name(name)
    if wanted in broken:
        raise UserError(f"the installed network '{wanted}' cannot be used: {broken[wanted]}")
    if wanted not in cards:
        raise unknown("network", name, [*catalogue("networks"), *cards])
    return cards[wanted]


def recorded(choice: NetworkChoice) -> NetworkChoice:
    """As a result names it: of a file its name, not its place."""
    own = _file_and_function(choice.name)
    return choice if own is None else replace(choice, name=f"{Path(own[0]).name}:{own[1]}")


def placed(choice: NetworkChoice, folder: Path) -> NetworkChoice:
    """As a suite file in this folder means it: a path is of a file beside it or, if there is none, from here."""
    own = _file_and_function(choice.name)
    beside = None if own is None else folder / own[0]
    return choice if own is None or beside is None or not os.path.isfile(beside) else _at(choice, beside)


def brought(choice: NetworkChoice, files: Iterable[str | Path]) -> NetworkChoice:
    """A network that a result names, from the file of its name among these; without one, as it stands."""
    named = [file for file in files if is_of(choice, file)]
    return _at(choice, named[0]) if named else choice


def is_of(choice: NetworkChoice, file: str | Path) -> bool:
    """Whether a file has the name of the network's."""
    own = _file_and_function(choice.name)
    return own is not None and Path(own[0]).name == Path(file).name


def is_file(name: str) -> bool:
    """Whether a name is of a function in a file."""
    return _file_and_function(name) is not None


def is_own(name: str) -> bool:
    """Whether it is a user's: of a file or an installed package."""
    return is_file(name) or any(command_name(name) in some for some in installed())


def _at(choice: NetworkChoice, file: str | Path) -> NetworkChoice:
    return replace(choice, name=f"{file}:{choice.name.rpartition(':')[2]}")


def _file_and_function(name: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(.+\.py)(?::(.*))?", name, flags=re.DOTALL)
    return (match[1], match[2] or "") if match else None


def _of_file(file: str, function: str) -> Card:
    path = user_path(file)
    if not os.path.isfile(path):
        raise UserError(f"there is no file '{shortened(file)}' with a network; {INSTEAD}")
    path = path.resolve()
    return _read(path, f"oodbench_plugin_{path.stem}", path.stem, function, read_text(path, "Python"))


def installed() -> tuple[dict[str, Card], dict[str, str]]:
    """The networks of installed packages, and those that cannot be read, and why."""
    return _installed(tuple(sys.path))


@cache
def _installed(path: tuple[str, ...]) -> tuple[dict[str, Card], dict[str, str]]:
    """The places where packages are looked for are part of the call, for they may change."""
    cards: dict[str, Card] = {}
    broken: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        name = command_name(entry.name)
        try:
            if name in {**catalogue("networks"), **cards}:
                raise UserError("another network has this name")
            file = module_file(entry.module)
            cards[name] = _read(file, entry.module, name, entry.attr, read_text(file, "Python"))
        except Exception as error:  # whatever an installed package does, the other networks stay at hand
            broken[name] = said(error)
    return cards, broken


@cache
def _read(path: Path, module: str, name: str, function: str, text: str) -> Card:
    """The text is part of the call, for the file may change."""
    tree = parse(path, text)
    defined = {node.name: node for node in tree.body if isinstance(node, Definition)}
    if not function:
        raise UserError(f"'{path}' alone names no network; name a function of it too, as in {path.name}:build")
    if function not in defined:
        raise unknown(f"function of '{path}'", function, [each for each in defined if not each.startswith("_")])
    node = defined[function]
    if isinstance(node, ast.ClassDef):
        for derived in read_cards(path, module):
            if derived.class_name == function and derived.kind == NETWORK:
                return replace(derived, name=name)
    signature = _signature(node)
    options, taken = ({}, frozenset[str]()) if signature is None else read_signature(signature, text, path, GIVEN)
    words = (ast.get_docstring(node) or "(no description)").splitlines()[0]
    about = ast.get_docstring(tree) or ""
    return Card(name, FACTORY, path, function, module, words, about, options, display=name, needs=taken)


def _signature(node: Definition) -> ast.FunctionDef | None:
    """What is called: the function, or the constructor that a class has of its own."""
    if isinstance(node, ast.FunctionDef):
        return node
    own = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return next(own, None)


@contextmanager
def mistakes(name: str) -> Iterator[None]:
    """While code of a network runs: what goes wrong in a user's is the user's to mend; in one of ours it is a bug."""
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        own = card(name)
        if own.is_ours:
            raise
        reason = f"{type(error).__name__} at {line_in(own.path, error)}: {said(error)}"
        raise UserError(f"the network '{name}' cannot be used: {reason}") from error
