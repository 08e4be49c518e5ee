"""The families of corruptions, read as text: the kinds of each, in its order, and how strong these may be.

A kind is a function that the decorator `_kind` enters, or one that the comprehension of KINDS lists. To import a family
would mean to import SciPy, for names alone.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from oodbench.config.cards import PACKAGE
from oodbench.config.schema import Misfit
from oodbench.errors import unknown

FOLDER = PACKAGE / "data" / "corruptions"


@dataclass(frozen=True)
class Family:
    kinds: list[str]
    severities: Sequence[int] = range(1, 6)  # unless the module says otherwise


def family_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def corruption_kinds(family: str) -> list[str]:
    return list(_read(_checked(family)).kinds)


def severities(family: str) -> Sequence[int]:
    return _read(_checked(family)).severities


def _checked(family: str) -> str:
    if family not in family_names():
        raise Misfit(("corruptions",), str(unknown("family of corruptions", family, family_names())))
    return family


@cache
def _read(family: str) -> Family:
    body = ast.parse((FOLDER / f"{family}.py").read_text(encoding="utf-8")).body
    values = dict(_assigned(body))
    kinds = [node.name for node in body if isinstance(node, ast.FunctionDef) and _is_entered(node)]
    kinds += _listed(values["KINDS"])
    assert kinds, f"corruptions/{family}.py says in no known way which kinds it has"
    return Family(kinds, ast.literal_eval(values["SEVERITIES"])) if "SEVERITIES" in values else Family(kinds)


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                yield target.id, value


def _is_entered(function: ast.FunctionDef) -> bool:
    calls = [each.func for each in function.decorator_list if isinstance(each, ast.Call)]
    return any(isinstance(name, ast.Name) and name.id == "_kind" for name in calls)


def _listed(value: ast.expr) -> list[str]:
    """The functions that `{function.__name__: ... for function in (a, b, c)}` goes through."""
    functions = value.generators[0].iter if isinstance(value, ast.DictComp) else None
    return (
        [each.id for each in functions.elts if isinstance(each, ast.Name)] if isinstance(functions, ast.Tuple) else []
    )
