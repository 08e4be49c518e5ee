"""Names to classes. The folder is the registry: a file in `methods/` is a method, in `networks/` a network.

Files are read as text first (`Card`), so that listing, planning and usage errors never wait for torch; a class is
imported only when it is about to be used.
"""

import ast
import hashlib
import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from oodbench.errors import UserError, unknown
from oodbench.schema import Misfit, conform, parse

PACKAGE = Path(__file__).parent
KINDS = ("Trainer", "Scorer")
NEEDS = ("wild", "environments")
RESERVED = ("all", "recipe")  # they mean something else in `--methods` and `--set`
DEFAULT_TRAINER, DEFAULT_SCORER = "erm", "energy"


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
        texts = [_code(path.read_text(encoding="utf-8")) for path in self.sources]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@cache
def _code(text: str) -> str:
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


class Registry:
    """Every method at hand: built in, from entry points, and from the plugin files of this command."""

    def __init__(self, plugins: Iterable[str | Path] = ()) -> None:
        self.cards: dict[str, Card] = {}
        self.broken: dict[str, str] = {}  # entry points that cannot be read, and why
        for path in sorted(folder("methods").glob("[a-z]*.py")):
            self._add(path, f"oodbench.methods.{path.stem}")
        for entry in sorted(entry_points(group="oodbench.methods"), key=lambda e: e.name):
            try:
                self._add(_module_file(entry.module), entry.module, entry.name, entry.attr)
            except Exception as error:  # whatever an installed package does, the other methods stay at hand
                self.broken[command_name(entry.name)] = " ".join(str(error).split())
        for path in dict.fromkeys(Path(plugin).resolve() for plugin in plugins):
            if not path.is_file() or path.suffix != ".py":
                raise UserError(f"there is no plugin file '{path}'; give the path of a file that ends in .py")
            self._add(path, f"oodbench_plugin_{path.stem}")

    def _add(self, path: Path, module: str, name: str | None = None, class_name: str | None = None) -> None:
        cards = [card for card in read_cards(path, module, name) if card.kind in KINDS]
        cards = [card for card in cards if class_name in (None, "", card.class_name)]
        if len(cards) != 1:
            found = "no class" if not cards else " and ".join(card.class_name for card in cards)
            raise UserError(f"'{path}' defines {found} derived from Trainer or Scorer; a method file defines just one")
        card = cards[0]
        if not re.fullmatch(r"\w[\w-]*", card.name) or card.name in RESERVED:
            raise UserError(f"'{card.name}' cannot name a method: rename '{path}', letters, digits and _ will do")
        needs = card.settings.get("needs", frozenset())
        if not isinstance(needs, set | frozenset):
            raise UserError(f"'{path}': expected needs = frozenset({{...}}) of {' and '.join(NEEDS)}, got {needs!r}")
        for need in needs - {*NEEDS}:
            raise UserError(f"'{path}': {unknown('need', str(need), NEEDS)}")
        if card.name in self.cards:
            other = self.cards[card.name].path
            raise UserError(f"the method name '{card.name}' is taken by '{other}'; rename '{path}'")
        self.cards[card.name] = card

    def card(self, name: str) -> Card:
        wanted = command_name(name)
        if wanted in self.cards:
            return self.cards[wanted]
        if wanted in self.broken:
            raise UserError(f"the installed method '{wanted}' cannot be used: {self.broken[wanted]}")
        raise unknown("method", name, self.cards)

    def scorer_of(self, trainer: Card) -> Card:
        return self._named_by(trainer, "scorer", trainer.settings.get("scorer", DEFAULT_SCORER), "Scorer")

    def start_of(self, trainer: Card) -> Card | None:
        name = trainer.settings.get("starts_from")
        return None if name is None else self._named_by(trainer, "starts_from", name, "Trainer")

    def _named_by(self, trainer: Card, key: str, name: str, kind: str) -> Card:
        where = f"'{trainer.path}' says {key} = '{name}'"
        try:
            found = self.card(name)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if found.kind != kind:
            raise UserError(f"{where}, which is a {found.kind.lower()}; name a {kind.lower()}")
        return found

    def method(self, name: str) -> "MethodSpec":
        """`scone` is SCONE with its own scorer, `knn` is ERM with KNN, `mixup+knn` any trainer with any scorer."""
        parts = [part.strip() for part in name.split("+")]
        cards = [self.card(part) for part in parts] if all(parts) else []
        kinds = [card.kind for card in cards]
        if kinds == ["Trainer"]:
            return MethodSpec(cards[0].name, Part(cards[0]), Part(self.scorer_of(cards[0])))
        if kinds == ["Scorer"]:
            return MethodSpec(cards[0].name, Part(self.card(DEFAULT_TRAINER)), Part(cards[0]))
        if kinds == ["Trainer", "Scorer"]:
            label = cards[1].name if cards[0].name == DEFAULT_TRAINER else f"{cards[0].name}+{cards[1].name}"
            return MethodSpec(label, Part(cards[0]), Part(cards[1]))
        raise UserError(f"'{name}' is not a method; a pair is written trainer+scorer, for example 'mixup+knn'")

    def all(self) -> "list[MethodSpec]":
        return [self.method(name) for name in self.cards]


@dataclass(frozen=True)
class Part:
    """A trainer or a scorer with its hyperparameters."""

    card: Card
    changed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        return {name: self.changed.get(name, p.default) for name, p in self.card.parameters.items()}

    @property
    def label(self) -> str:
        return ",".join([self.card.name, *(f"{key}={_short(value)}" for key, value in sorted(self.changed.items()))])

    def with_value(self, name: str, text: str) -> "Part":
        if name not in self.card.parameters:
            raise unknown(f"hyperparameter of {self.card.name}", name, self.card.parameters)
        parameter = self.card.parameters[name]
        value = parse(text, parameter.type, (self.card.name, name))
        changed = {k: v for k, v in self.changed.items() if k != name}
        return Part(self.card, changed if value == parameter.default else {**changed, name: value})

    def identity(self) -> dict[str, Any]:
        """What a result depends on: the code and every value, defaults included."""
        return {"name": self.card.name, "code": self.card.digest(), "values": self.values}

    def make(self) -> Any:
        """Import the class and build it."""
        loaded = load_class(self.card)
        try:
            return loaded(**self.changed)
        except UserError:
            raise
        except Exception as error:
            if self.card.is_ours:
                raise
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"'{self.card.path}': {self.card.class_name} cannot be built: {reason}") from error


@dataclass(frozen=True)
class MethodSpec:
    """A trainer and a scorer under the name the user gave them."""

    name: str
    trainer: Part
    scorer: Part

    @property
    def label(self) -> str:
        """The name with every changed hyperparameter, as folders and tables show it."""
        words = [self.name]
        for part in (self.trainer, self.scorer):
            prefix = "" if part.card.name == self.name else f"{part.card.name}."
            words += [f"{prefix}{key}={_short(value)}" for key, value in sorted(part.changed.items())]
        return ",".join(words)

    @property
    def needs(self) -> frozenset[str]:
        needs = frozenset(self.trainer.card.settings.get("needs", frozenset()))
        made = self.trainer.values.get("environments", "native") != "native"  # from the labelled images themselves
        return needs - {"environments"} if made else needs

    @property
    def group(self) -> str:
        """The paper's three groups of rows."""
        if "wild" in self.needs:
            return "Learning with wild data"
        if self.trainer.card.name == DEFAULT_TRAINER and self.name != DEFAULT_TRAINER:
            return "OOD detection"
        return "OOD generalization"

    def with_value(self, part: str, key: str, text: str) -> "MethodSpec":
        """This method with one hyperparameter of its trainer or scorer changed; itself if it has no such part."""
        trainer, scorer = self.trainer, self.scorer
        if trainer.card.name == part:
            trainer = trainer.with_value(key, text)
        if scorer.card.name == part:
            scorer = scorer.with_value(key, text)
        return MethodSpec(self.name, trainer, scorer)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


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


def _module_file(module: str) -> Path:
    """Where an installed module lies, without importing the packages around it."""
    top, *inner = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is not None and not inner and spec.origin is not None:
        return Path(spec.origin)
    for location in (spec and spec.submodule_search_locations) or []:
        path = Path(location, *inner)
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
    raise UserError(f"the module '{module}' is not installed")


def catalogue(package: str) -> dict[str, Card]:
    """The networks or data sets of the harness, by name."""
    cards: dict[str, Card] = {}
    for path in sorted((PACKAGE / package).glob("[a-z]*.py")):
        for card in read_cards(path, f"oodbench.{package}.{path.stem}"):
            cards[card.name] = card
    return cards
