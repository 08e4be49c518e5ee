"""What the parameters of a function declare, read as text: options with types and defaults."""

import ast
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from oodbench.config.annotations import PLAIN, Unknown, read_type
from oodbench.config.declarations import Parameter, literal
from oodbench.errors import UserError


def read_signature(
    node: ast.FunctionDef, text: str, path: Path, given: Container[str]
) -> tuple[dict[str, Parameter], frozenset[str]]:
    """The parameters that may be set, and those of `given` that it takes.

    A parameter whose values cannot be written in a suite file, a class or a function say, keeps its default.
    """
    lines = text.splitlines()
    options: dict[str, Parameter] = {}
    taken = set()
    for argument, default in _arguments(node):
        if argument.arg in given:
            taken.add(argument.arg)
        elif default is None:
            raise UserError(
                f"{path}:{argument.lineno}: the parameter '{argument.arg}' of '{node.name}' has no default; give it one"
            )
        else:
            value = literal(default)
            type_ = _type(argument, value)
            if type_ is not None:
                options[argument.arg] = Parameter(argument.arg, type_, value, _comment(lines, default))
    return options, frozenset(taken)


def _arguments(node: ast.FunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Those that have a name, with their defaults; of a method, not the object itself."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = [*zip(positional, [*defaults, *arguments.defaults], strict=True)]
    yield from pairs[1:] if node.name == "__init__" else pairs
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _type(argument: ast.arg, default: Any) -> Any:
    """As annotated, or else that of the default; None where that is no plain value."""
    if argument.annotation is None:
        return type(default) if type(default) in PLAIN.values() else None
    try:
        return read_type(argument.annotation)
    except Unknown:
        return None


def _comment(lines: list[str], default: ast.expr) -> str:
    """Behind a parameter that stands alone on its line."""
    line = lines[(default.end_lineno or 1) - 1].encode()[default.end_col_offset or 0 :].decode()
    found = re.fullmatch(r",?\s*#\s*(.*)", line)
    return found[1].strip() if found else ""
