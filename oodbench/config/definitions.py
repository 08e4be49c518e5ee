"""What a piece of code consists of: its own definition and every top-level definition that it reaches by name.

Source files are read as text and never imported. Imports, comments, docstrings, formatting and the annotations of
functions do not count, nor does the module that a definition lies in: what is moved, or imported another way, stays the
same code. A definition is written out node by node and not by `ast.unparse`, whose text differs between Pythons.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from oodbench import digests

DESCRIPTIVE = frozenset(
    {"display", "group", "reads", "search", "nonnegative_features", "feature_maps"}
)  # what a class says of itself and no number depends on
IGNORED_FIELDS = frozenset({"ctx", "type_comment", "type_params", "kind", "annotation", "returns"})
Definition = tuple[str, str]  # module and name
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass
class Module:
    """A source file: the statements that make up each of its top-level names, and what it imports under which name."""

    name: str
    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)  # local name to a dotted one
    decorated: list[str] = field(default_factory=list)  # definitions that a decorator of the module may register

    @classmethod
    def read(cls, name: str, path: Path) -> "Module":
        module = cls(name)
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            module._add(statement)
        return module

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self.imports |= dict(_imported(statement))
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.statements.setdefault(statement.name, []).append(statement)
            if statement.decorator_list:
                self.decorated.append(statement.name)
        elif isinstance(statement, ast.Expr):  # a call that changes what it names, such as a registration
            owner = _base(statement.value)
            if owner is not None:
                self.statements.setdefault(owner, []).append(statement)
        elif isinstance(statement, ast.If | ast.Try):
            self._add_block(statement)
        else:
            for name in _bound([statement]):
                self.statements.setdefault(name, []).append(statement)

    def _add_block(self, block: ast.If | ast.Try) -> None:
        """What stands under a condition is part of every name that is bound there; imports are imports."""
        for node in ast.walk(block):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports |= dict(_imported(node))
        for name in _bound([block]) - self.imports.keys():
            self.statements.setdefault(name, []).append(block)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}"
        else:
            top = alias.name.split(".")[0]
            yield alias.asname or top, alias.name if alias.asname else top


def _base(node: ast.expr) -> str | None:
    """The name that a call or an attribute begins with."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _bound(body: Iterable[ast.AST]) -> set[str]:
    """Names that these statements bind, without looking into functions and classes, which bind their own."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Lambda | Comprehension):
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        names |= _bound(ast.iter_child_nodes(node))
    return names


class Code:
    """The source files below some packages, and what is reached in them.

    `find` gives the file of a dotted module name, None for a module of somebody else. A name of a package that merely
    stands for one of another module is followed through `exports`. Definitions of `by_value` modules are not followed:
    what they give counts by its value or content elsewhere.
    """

    def __init__(
        self,
        find: Callable[[str], Path | None],
        exports: dict[str, str],
        by_value: Callable[[str], bool] = lambda module: False,
    ) -> None:
        self._find, self._exports, self._by_value = find, exports, by_value
        self._modules: dict[str, Module | None] = {}
        self._written: dict[Definition, tuple[str, frozenset[Definition]]] = {}

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            path = self._find(name)
            self._modules[name] = None if path is None else Module.read(name, path)
        return self._modules[name]

    def resolve(self, dotted: str) -> Definition | None:
        """The top-level definition that a dotted name means, wherever it was imported through; None if not ours."""
        dotted = self._exports.get(dotted, dotted)
        owner, _, name = dotted.rpartition(".")
        module = self.module(owner) if owner else None
        if module is None:
            return None
        if name in module.statements:
            return owner, name
        if name in module.imports and module.imports[name] != dotted:
            return self.resolve(module.imports[name])
        return None

    def digest(self, roots: Iterable[Definition], stop: Iterable[Definition] = ()) -> str:
        """Of everything that the roots reach, not looking into definitions of `stop`."""
        waiting, stop = list(roots), set(stop)
        seen, texts = set(waiting), set()
        while waiting:
            text, reached = self._write(waiting.pop())
            texts.add(text)
            for each in reached - seen - stop:
                seen.add(each)
                if not self._by_value(each[0]):
                    waiting.append(each)
        return digests.of_text("\n".join(sorted(texts)))

    def _write(self, definition: Definition) -> tuple[str, frozenset[Definition]]:
        if definition not in self._written:
            module = self.module(definition[0])
            assert module is not None
            writer = _Writer(self, module)
            text = ";".join(writer.write(statement, frozenset()) for statement in module.statements[definition[1]])
            self._written[definition] = text, frozenset(writer.reached)
        return self._written[definition]


class _Writer:
    """One definition as text, its references by the names of what they mean."""

    def __init__(self, code: Code, module: Module) -> None:
        self.code, self.module = code, module
        self.imports = dict(module.imports)
        self.reached: set[Definition] = set()

    def write(self, node: object, local: frozenset[str]) -> str:
        if isinstance(node, list):
            some = [each for each in node if not isinstance(each, ast.Import | ast.ImportFrom)]
            return "[" + ",".join(self.write(each, local) for each in some) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Name | ast.Attribute):
            reference = self._reference(node, local)
            if reference is not None:
                return reference
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):  # which error counts, its words do not
            return f"Raise({self.write(node.exc.func, local)})"
        if isinstance(node, Scope | Comprehension):
            local = local | self._locals(node)
        return f"{type(node).__name__}({self._fields(node, local)})"

    def _fields(self, node: ast.AST, local: frozenset[str]) -> str:
        words = []
        for name, value in ast.iter_fields(node):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and name == "body":
                value = _without_docstring(node)
            if isinstance(node, ast.ClassDef) and name == "body":
                value = [each for each in value if not _is_descriptive(each)]
                words += [self._annotation(each) for each in node.body]
            if value in (None, []) or name in IGNORED_FIELDS:
                continue
            words.append(f"{name}={self.write(value, local)}")
        return " ".join(filter(None, words))

    def _annotation(self, statement: ast.stmt) -> str:
        """The type of a class's field says what its values are, unlike the annotations of functions."""
        if not isinstance(statement, ast.AnnAssign) or _is_descriptive(statement):
            return ""
        annotation: ast.expr = statement.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        return f"type={self.write(annotation, frozenset())}"

    def _reference(self, node: ast.Name | ast.Attribute, local: frozenset[str]) -> str | None:
        """A name, or a path of attributes that begins with an import; None where there is nothing to look up."""
        path: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            path.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or base.id in local:
            return None
        if base.id in self.module.statements and base.id not in self.imports:
            if path:
                return None  # the attribute is written as one, and its base comes here again
            self.reached.add((self.module.name, base.id))
            return f"ref:{base.id}"
        if base.id not in self.imports:
            return None
        dotted = self.imports[base.id]
        for i in range(len(path) + 1):
            found = self.code.resolve(".".join([dotted, *path[:i]]))
            if found is not None:
                self.reached.add(found)
                return ".".join([f"ref:{found[1]}", *path[i:]])
        return ".".join(["name:" + dotted, *path])

    def _locals(self, node: ast.AST) -> frozenset[str]:
        if isinstance(node, Scope):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            names = {each.arg for each in every if each is not None}
            if isinstance(node, ast.Lambda):
                return frozenset(names)
            for each in ast.walk(node):
                if isinstance(each, ast.Import | ast.ImportFrom):
                    self.imports |= dict(_imported(each))
            return frozenset(names | _bound(node.body))
        assert isinstance(node, Comprehension)
        return frozenset(_bound([generator.target for generator in node.generators]))


def _without_docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def _is_descriptive(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and statement.target.id in DESCRIPTIVE
    names = _bound([statement]) if isinstance(statement, ast.Assign) else set()
    return bool(names) and names <= DESCRIPTIVE  # `self.x = y` binds no name, and counts


@cache
def exports_of(package: Path, variable: str) -> dict[str, str]:
    """The dictionary of names to modules in a package's `__init__`, as dotted names to dotted names."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and _bound([node]) == {variable}:
            table: dict[str, str] = ast.literal_eval(node.value)
            return {f"{package.name}.{name}": f"{module}.{name}" for name, module in table.items()}
    raise LookupError(f"{package} defines no {variable}")
