"""The type of a hyperparameter, read from its annotation in the source: parsed, never evaluated."""

import ast
from typing import Any, Literal, Union

PLAIN = {"bool": bool, "int": int, "float": float, "str": str}


class Unknown(Exception):
    """An annotation that is no type of a hyperparameter, and what to write instead."""


def read_type(node: ast.expr) -> Any:
    """`float | Literal["auto"]` and the like as a type, or Unknown; text is read as the expression it holds."""
    if isinstance(node, ast.Constant) and node.value is None:
        return type(None)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return read_type(_expression(node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[read_type(node.left), read_type(node.right)]  # noqa: UP007  (of types that are not known here)
    name = _name(node)
    if name in PLAIN:
        return PLAIN[name]
    if name in ("list", "List"):
        raise Unknown("say of what; write list[int], list[float] or list[str]")
    if isinstance(node, ast.Subscript):
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _read_subscript(_name(node.value), inside)
    raise Unknown("use bool, int, float, str, Literal[...], list[...], None or a union of these")


def text_of(node: ast.expr) -> str:
    """The annotation as its author wrote it."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def _read_subscript(name: str, inside: list[ast.expr]) -> Any:
    if name == "Literal":
        return Literal[tuple(_read_choice(choice) for choice in inside)]
    if name in ("list", "List") and len(inside) == 1:
        return list[read_type(inside[0])]  # type: ignore[misc]  # known only here
    if name == "Optional" and len(inside) == 1:
        return Union[read_type(inside[0]), None]  # noqa: UP007
    if name == "Union":
        return Union[tuple(read_type(each) for each in inside)]  # noqa: UP007
    raise Unknown("use bool, int, float, str, Literal[...], list[...], None or a union of these")


def _read_choice(node: ast.expr) -> bool | int | float | str | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if value is not None and not isinstance(value, bool | int | float | str):
        raise Unknown("write the choices of Literal out, as texts or numbers")
    return value


def _expression(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise Unknown("use bool, int, float, str, Literal[...], list[...], None or a union of these") from None


def _name(node: ast.expr) -> str:
    """`Literal` of `Literal`, `typing.Literal` and `t.Literal`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
