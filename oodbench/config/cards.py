"""What a source file says about its classes, read as text: listing and planning never wait for torch.

A class is imported only when it is about to be used.
"""

import ast
import importlib
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from oodbench.config.declarations import Body, Parameter, read_body
from oodbench.config.schema import Misfit, conform
from oodbench.errors import UserError, said, unknown
from oodbench.user_files import read_text

PACKAGE = Path(__file__).parents[1]
INTERFACE = PACKAGE / "learning" / "method.py"  # defines the classes that methods derive from
NEEDS = {  # what a method may ask for, in its `needs`
    "Trainer": ("wild", "environments", "views", "outliers", "labels"),
    "Scorer": ("validation", "images", "nonnegative-features", "feature-maps", "ood-head"),
}
READS = ("logits", "features and head", "distances", "gradients")  # what a scorer may read, as tables order them
OOD_HEAD = "ood-head"  # what a trainer may add to a network, for the scorers that need it
BUDGET = "budget"  # the hyperparameter of a trainer that needs labels of wild images: how many it may ask for
KINDS = tuple(NEEDS)
NETWORK = "Network"  # the class that networks derive from
FACTORY = "Factory"  # in its place, a function of the user's that gives a network
# Words among the names of methods, and the kinds that they stand for every method of.
EVERY = {"all": KINDS, "all-scorers": ("Scorer",), "all-trainers": ("Trainer",)}
CATALOGUES = {"networks": "learning.networks", "datasets": "data.sets"}  # their packages
PARTLY_MADE = ("DomainTrainer", "BankScorer", "ReshapingScorer")  # classes of the interface that methods build on


@dataclass(frozen=True)
class Card:
    """What a source file says about its class, read without importing it."""

    name: str
    kind: str  # "Trainer", "Scorer", another base class, or FACTORY
    path: Path
    class_name: str  # or that of a function
    module: str
    summary: str
    paper: str  # the module's docstring
    parameters: dict[str, Parameter]
    display: str  # how tables print it
    group: str | None = None  # of a table's rows, where the method names its own
    reads: str | None = None  # of a scorer, what its numbers come from: one of READS
    needs: frozenset[str] = frozenset()  # of a function that gives a network, what it takes of a run
    scorer: str | None = None  # of a trainer, unless the user names another
    starts_from: str | None = None  # the trainer whose weights a trainer fine-tunes
    adds: frozenset[str] = frozenset()  # what a trainer gives a network for scorers to read
    search: dict[str, str] = field(default_factory=dict)  # what `--draws` draws hyperparameters from
    source: str | None = None  # of a data set
    made_from: str | None = None  # the data set that one is made from by our code
    nonnegative_features: bool | None = None  # of a network, where that is certain
    feature_maps: bool | None = None  # whether a network has maps before pooling, where that is certain

    @property
    def is_ours(self) -> bool:
        """Not a user's: what goes wrong in it is a bug."""
        return self.module.startswith("oodbench.")


def command_name(stem: str) -> str:
    return stem.replace("_", "-")


def folder(name: str) -> Path:
    """`methods` or `benchmarks`: inside the installed package, or beside it in a checkout."""
    return PACKAGE / name if (PACKAGE / name).is_dir() else PACKAGE.parent / name


def read_cards(path: Path, module: str, name: str | None = None) -> list[Card]:
    """A card for every public class of a file that derives from a class of the harness."""
    tree = parse(path, read_text(path, "Python"))
    try:
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        cards = [_card(node, tree, path, module, name) for node in classes if node.bases]
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, or a value nested as deep
        raise UserError(f"'{path}' cannot be read: {error}; write smaller values") from None
    return [card for card in cards if card is not None]


def parse(path: Path, text: str) -> ast.Module:
    """The text of a file of the user's as Python."""
    try:
        return ast.parse(text, filename=str(path))
    except (RecursionError, MemoryError):  # MemoryError is how Python's parser says that nesting is too deep for it
        raise UserError(f"'{path}' is nested too deeply to be read; write it plainly") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UserError(f"{path}:{line}: not valid Python: {getattr(error, 'msg', error)}") from None


def _card(node: ast.ClassDef, tree: ast.Module, path: Path, module: str, name: str | None) -> Card | None:
    """Of a class; None if it derives from nothing the harness knows."""
    lineage = list(_lineage(node, tree, path))
    kind = lineage[-1][0]
    if isinstance(kind, ast.ClassDef):
        return None
    body = Body()
    for ancestor, source in reversed(lineage[:-1]):
        assert isinstance(ancestor, ast.ClassDef)
        if kind in (*KINDS, NETWORK):
            _refuse_own_init(ancestor, source)
        body.variables.pop("display", None)  # of a base, which is another method
        read_body(ancestor, source, body)
    docstring = ast.get_docstring(node) or ""
    said: dict[str, Any] = {"name": command_name(name or path.stem)}
    said |= _said_of_method(body, kind) if kind in KINDS else _said_of_piece(body)
    said["display"] = body.text("display") or _spelled(node.name, said["name"])
    return Card(
        kind=kind,
        path=path,
        class_name=node.name,
        module=module,
        summary=docstring.splitlines()[0] if docstring else "(no description)",
        paper=ast.get_docstring(tree) or "",
        parameters=dict(sorted(body.parameters.items(), key=lambda item: item[1].keyword_only)),
        **said,
    )


def _said_of_method(body: Body, kind: str) -> dict[str, Any]:
    """The class variables that a trainer or scorer may set, as fields of its card."""
    said: dict[str, Any] = {name: body.text(name) for name in ("group", "scorer", "starts_from")}
    if kind == "Scorer":
        said["reads"] = _checked_reads(body)
    needs, search = (body.variables.get(name) for name in ("needs", "search"))
    if needs is not None:
        said["needs"] = _checked_needs(needs.value, kind, needs.where)
        if "labels" in said["needs"] and BUDGET not in body.parameters:
            raise UserError(f"{needs.where}: a trainer that needs labels states how many; add a field {BUDGET}: int")
    adds = body.variables.get("adds")
    if kind == "Trainer" and adds is not None:
        if not isinstance(adds.value, set | frozenset) or adds.value - {OOD_HEAD}:
            raise UserError(f'{adds.where}: expected adds = frozenset({{"{OOD_HEAD}"}}), got {adds.value!r}')
        said["adds"] = frozenset(adds.value)
    if search is not None:
        try:
            stated = conform(search.value, dict[str, str], ("search",))
        except Misfit as error:
            raise UserError(f"{search.where}: {error}") from None
        said["search"] = {name: text for name, text in stated.items() if name not in body.fixed}
    return said


def _checked_reads(body: Body) -> str | None:
    reads = body.text("reads")
    if reads is not None and reads not in READS:
        raise UserError(f"{body.variables['reads'].where}: {unknown('kind of reading', reads, READS)}")
    return reads


def _checked_needs(needs: Any, kind: str, where: str) -> frozenset[str]:
    if not isinstance(needs, set | frozenset):
        raise UserError(f"{where}: expected needs = frozenset({{...}}) of {', '.join(NEEDS[kind])}, got {needs!r}")
    for need in sorted(map(str, needs - {*NEEDS[kind]})):
        other = next((each for each in KINDS if need in NEEDS[each]), None)
        if other is not None:
            known = ", ".join(NEEDS[kind])
            raise UserError(f"{where}: '{need}' is a need of {other.lower()}s; a {kind.lower()} may need {known}")
        raise UserError(f"{where}: {unknown('need', need, NEEDS[kind])}")
    return frozenset(needs)


def _spelled(class_name: str, name: str) -> str:
    """`knn` as the class KNN is spelled: methods have the paper's name in the paper's case."""
    return class_name if class_name.lower() == name.replace("-", "") else name


def _said_of_piece(body: Body) -> dict[str, Any]:
    """The same of a data set or network; what is not set keeps its default."""
    names = ("name", "source", "made_from", "nonnegative_features", "feature_maps")
    stated = {name: body.value(name) for name in names}
    return {name: value for name, value in stated.items() if value is not None}


def _refuse_own_init(node: ast.ClassDef, path: Path) -> None:
    """Fields are the constructor: what else an object holds would be in no key and in no result."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            raise UserError(
                f"{path}:{statement.lineno}: class {node.name} has an __init__ of its own; write @dataclass above it "
                "and make every argument a field with a type and a default (checks go into __post_init__)"
            )


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
    if path == INTERFACE:
        yield name, path
        return
    for other in tree.body:
        if isinstance(other, ast.ClassDef) and other.name == name:
            yield from _lineage(other, tree, path, below)
            return
        if isinstance(other, ast.ImportFrom) and any((a.asname or a.name) == name for a in other.names):
            original = next(a.name for a in other.names if (a.asname or a.name) == name)
            source = _method_file(other.module or "")
            if source is not None:
                yield from _lineage_in(source, original)
            elif (other.module or "").split(".")[0] == "oodbench":
                yield from _of_interface(original, path)
            return
    if isinstance(base, ast.Attribute) and name in (*KINDS, NETWORK, *PARTLY_MADE):  # class KNN(oodbench.Scorer)
        yield from _of_interface(name, path)


def _of_interface(name: str, path: Path) -> Iterable[tuple[ast.ClassDef | str, Path]]:
    return _lineage_in(INTERFACE, name) if name in PARTLY_MADE else [(name, path)]


def _lineage_in(source: Path, name: str) -> Iterable[tuple[ast.ClassDef | str, Path]]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for candidate in tree.body:
        if isinstance(candidate, ast.ClassDef) and candidate.name == name:
            yield from _lineage(candidate, tree, source)


def _method_file(module: str) -> Path | None:
    parts = module.split(".")
    if parts[:2] == ["oodbench", "methods"] and len(parts) == 3:
        path = folder("methods") / f"{parts[2]}.py"
        return path if path.is_file() else None
    return None


def load_class(card: Card) -> type:
    """Import the file of a card; what goes wrong in a user's file is the user's to mend, in one line."""
    try:
        if card.module.startswith("oodbench_plugin_"):
            module = _plugin(card.module, card.path, read_text(card.path, "Python"))
        else:
            module = importlib.import_module(card.module)
        loaded: type = getattr(module, card.class_name)
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if card.is_ours:
            raise
        raise UserError(f"'{card.path}' does not import: {type(error).__name__}: {said(error)}") from error
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
    for path in sorted(PACKAGE.joinpath(*CATALOGUES[package].split(".")).glob("[a-z]*.py")):
        for card in read_cards(path, f"oodbench.{CATALOGUES[package]}.{path.stem}"):
            cards[card.name] = card
    return cards
