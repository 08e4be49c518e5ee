"""The type of a hyperparameter, read from its annotation in the source: parsed, never evaluated."""

import ast
import types
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

PLAIN = {"bool": bool, "int": int, "float": float, "str": str}
INSTEAD = "use bool, int, float, str, Literal[...], list[...], None or a union of these"
LONGEST = 2000  # letters of an annotation that is written as text


class Unknown(Exception):
    """An annotation that is no type of a hyperparameter, and what to write instead."""


def read_type(node: ast.expr) -> Any:
    """`float | Literal["auto"]` and the like as a type, or Unknown; text is read as the expression it holds."""
    try:
        return _read(node)
    except (RecursionError, MemoryError):  # MemoryError is how Python's parser says that nesting is too deep for it
        raise Unknown(f"that is nested too deeply; {INSTEAD}") from None


def _read(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and node.value is None:
        return type(None)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _read(_expression(node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[_read(node.left), _read(node.right)]  # noqa: UP007  (of types that are not known here)
    if isinstance(node, ast.Name) and node.id in PLAIN:
        return PLAIN[node.id]
    if _name(node) in ("list", "List"):
        raise Unknown("say of what; write list[int], list[float] or list[str]")
    if isinstance(node, ast.Subscript):
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _read_subscript(_name(node.value), inside)
    raise Unknown(INSTEAD)


def text_of(node: ast.expr) -> str:
    """The annotation as its author wrote it."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def stated_type(annotation: Any) -> Any:
    """The type that a class at hand states for a field: what of it is text is parsed like the source, never evaluated.

    `typing.get_type_hints` would evaluate it.
    """
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return read_type(ast.Constant(annotation))
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is list:
        return list[stated_type(inside[0])]  # type: ignore[misc]  # known only here
    if origin in (Union, types.UnionType):
        return Union[tuple(stated_type(each) for each in inside)]  # noqa: UP007
    return annotation


def _read_subscript(name: str, inside: list[ast.expr]) -> Any:
    if name == "Literal" and inside:
        return Literal[tuple(_read_choice(choice) for choice in inside)]
    if name in ("list", "List") and len(inside) == 1:
        return list[_read(inside[0])]  # type: ignore[misc]  # known only here
    if name == "Optional" and len(inside) == 1:
        return Union[_read(inside[0]), None]  # noqa: UP007
    if name == "Union" and inside:
        return Union[tuple(_read(each) for each in inside)]  # noqa: UP007
    raise Unknown(INSTEAD)


def _read_choice(node: ast.expr) -> bool | int | float | str | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):  # TypeError: a set of lists
        value = ...
    if value is not None and not isinstance(value, bool | int | float | str):
        raise Unknown("write the choices of Literal out, as texts or numbers")
    return value


def _expression(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise Unknown(INSTEAD)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise Unknown(INSTEAD) from None


def _name(node: ast.expr) -> str:
    """`Literal` of `Literal`, `typing.Literal` and `t.Literal`; not of `f().Literal`, which is no name of a type."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
