"""What a source file says about its classes, read as text: listing and planning never wait for torch.

A class is imported only when it is about to be used.
"""

import ast
import hashlib
import importlib
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from oodbench.errors import UserError
from oodbench.schema import Misfit, conform

PACKAGE = Path(__file__).parent
KINDS = ("Trainer", "Scorer")


@dataclass(frozen=True)
class Parameter:
    """One hyperparameter as its source file declares it."""

    name: str
    type: Any
    default: Any
    comment: str


@dataclass(frozen=True)
class Card:
    """What a source file says about its class, read without importing it."""

    name: str
    kind: str  # "Trainer", "Scorer", or another base class
    path: Path
    class_name: str
    module: str
    summary: str
    paper: str  # the module's docstring
    parameters: dict[str, Parameter]
    settings: dict[str, Any]  # literal class variables: needs, scorer, starts_from, ...
    sources: tuple[Path, ...] = field(repr=False)  # this file and those of its base classes

    @property
    def is_ours(self) -> bool:
        """Not a user's: what goes wrong in it is a bug."""
        return self.module.startswith("oodbench.")

    def digest(self) -> str:
        """Changes when the code changes; comments, docstrings and layout do not count."""
        texts = [code_of(path.read_text(encoding="utf-8")) for path in self.sources]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@cache
def code_of(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def command_name(stem: str) -> str:
    return stem.replace("_", "-")


def folder(name: str) -> Path:
    """`methods` or `benchmarks`: inside the installed package, or beside it in a checkout."""
    return PACKAGE / name if (PACKAGE / name).is_dir() else PACKAGE.parent / name


def read_cards(path: Path, module: str, name: str | None = None) -> list[Card]:
    """A card for every public class of a file that derives from a class of the harness."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}; check the name and its permissions") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UserError(f"{path}:{line}: not valid Python: {getattr(error, 'msg', error)}") from None
    cards = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_") or not node.bases:
            continue
        lineage = list(_lineage(node, tree, path))
        kind = lineage[-1][0]
        if isinstance(kind, ast.ClassDef):
            continue  # derives from nothing the harness knows
        parameters: dict[str, Parameter] = {}
        settings: dict[str, Any] = {}
        for ancestor, source in reversed(lineage[:-1]):
            assert isinstance(ancestor, ast.ClassDef)
            _read_body(ancestor, source, parameters, settings)
        own_name = settings.get("name") if kind not in KINDS else None
        docstring = ast.get_docstring(node) or ""
        cards.append(
            Card(
                name=own_name or command_name(name or path.stem),
                kind=kind,
                path=path,
                class_name=node.name,
                module=module,
                summary=docstring.splitlines()[0] if docstring else "(no description)",
                paper=ast.get_docstring(tree) or "",
                parameters=parameters,
                settings=settings,
                sources=tuple(dict.fromkeys(source for _, source in lineage[:-1])),
            )
        )
    return cards


def _lineage(
    node: ast.ClassDef, tree: ast.Module, path: Path, below: tuple[ast.ClassDef, ...] = ()
) -> Iterable[tuple[ast.ClassDef | str, Path]]:
    """The class, its bases in this and other method files, and last the name of the harness's class, if any."""
    yield node, path
    if not node.bases or node in below:  # a class cannot derive from itself; importing it says so
        return
    below = (*below, node)
    base = node.bases[0]
    name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
    for other in tree.body:
        if isinstance(other, ast.ClassDef) and other.name == name:
            yield from _lineage(other, tree, path, below)
            return
        if isinstance(other, ast.ImportFrom) and any((a.asname or a.name) == name for a in other.names):
            original = next(a.name for a in other.names if (a.asname or a.name) == name)
            source = _method_file(other.module or "")
            if source is None:
                if (other.module or "").split(".")[0] == "oodbench":
                    yield original, path
                return
            parent = ast.parse(source.read_text(encoding="utf-8"))
            for candidate in parent.body:
                if isinstance(candidate, ast.ClassDef) and candidate.name == original:
                    yield from _lineage(candidate, parent, source)
            return
    if isinstance(base, ast.Attribute) and name in KINDS:  # class KNN(oodbench.Scorer)
        yield name, path


def _method_file(module: str) -> Path | None:
    parts = module.split(".")
    if parts[:2] == ["oodbench", "methods"] and len(parts) == 3:
        path = folder("methods") / f"{parts[2]}.py"
        return path if path.is_file() else None
    return None


_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "Literal": Literal, "list": list}


def _read_body(node: ast.ClassDef, path: Path, parameters: dict[str, Parameter], settings: dict[str, Any]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    value: ast.expr | None
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, annotation, value = statement.targets[0].id, None, statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, annotation, value = statement.target.id, _annotation(statement.annotation), statement.value
        else:
            continue
        where = f"{path}:{statement.lineno}"
        literal = None if value is None else _literal(value)
        if annotation is None or annotation.startswith(("ClassVar", "typing.ClassVar")):
            settings[name] = literal
            if name in parameters:  # WOODS fixes SCONE's margin: no longer a hyperparameter
                del parameters[name]
            continue
        try:
            type_ = eval(annotation, {"__builtins__": {}}, _TYPES)
        except Exception:
            raise UserError(
                f"{where}: hyperparameter '{name}' has the type {annotation}; use bool, int, float, str or Literal"
            ) from None
        if value is None:
            raise UserError(f"{where}: hyperparameter '{name}' has no default; give it one")
        if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            raise UserError(f"{where}: hyperparameter '{name}' has no effect; write @dataclass above class {node.name}")
        if not isinstance(literal, _Expression):
            try:
                literal = conform(literal, type_)
            except Misfit as error:
                raise UserError(f"{where}: the default of hyperparameter '{name}': {error}") from None
        line = lines[statement.end_lineno - 1] if statement.end_lineno else ""
        comment = line[statement.end_col_offset or 0 :].strip().removeprefix("#").strip()
        parameters[name] = Parameter(name, type_, literal, comment)


class _Expression(str):
    """The text of a value that is not written out."""


def _annotation(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "frozenset":
        return frozenset(_literal(node.args[0])) if node.args else frozenset()
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _Expression(ast.unparse(node))


def load_class(card: Card) -> type:
    """Import the file of a card; what goes wrong in a user's file is the user's to mend, in one line."""
    try:
        if card.module.startswith("oodbench_plugin_"):
            module = _plugin(card.module, card.path, card.path.read_text(encoding="utf-8"))
        else:
            module = importlib.import_module(card.module)
        loaded: type = getattr(module, card.class_name)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        if card.is_ours:
            raise
        raise UserError(f"'{card.path}' does not import: {type(error).__name__}: {error}") from error
    return loaded


@cache
def _plugin(name: str, path: Path, text: str) -> types.ModuleType:
    """Run a plugin file once, from its text: a compiled copy beside it could be older."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look their module up by name
    exec(compile(text, path, "exec"), vars(module))
    return module


@cache
def catalogue(package: str) -> dict[str, Card]:
    """The networks or data sets of the harness, by name."""
    cards: dict[str, Card] = {}
    for path in sorted((PACKAGE / package).glob("[a-z]*.py")):
        for card in read_cards(path, f"oodbench.{package}.{path.stem}"):
            cards[card.name] = card
    return cards
