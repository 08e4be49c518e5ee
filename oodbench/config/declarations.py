"""What the body of a class declares, read as text: hyperparameters with types and defaults, and class variables."""

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oodbench.config.annotations import Unknown, read_type, text_of
from oodbench.config.schema import Misfit, conform
from oodbench.errors import UserError, shortened


@dataclass(frozen=True)
class Parameter:
    """One hyperparameter as its source file declares it."""

    name: str
    type: Any
    default: Any
    comment: str
    keyword_only: bool = False


@dataclass(frozen=True)
class Variable:
    """A class variable, and the line that sets it."""

    value: Any
    where: str  # FILE:LINE


@dataclass
class Body:
    """What a class and its bases declare."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)  # hyperparameters that a derived class made class variables

    def value(self, name: str) -> Any:
        return self.variables[name].value if name in self.variables else None

    def text(self, name: str) -> str | None:
        """The text that a class variable holds."""
        value = self.value(name)
        if value is not None and type(value) is not str:
            raise UserError(f'{self.variables[name].where}: expected {name} = "...", got {value!r}; write a text')
        return value


def read_body(node: ast.ClassDef, path: Path, body: Body) -> None:
    """Add what a class declares to what its bases do."""
    try:
        _read_statements(node, path, body)
    except RecursionError:
        raise UserError(f"{path}:{node.lineno}: class {node.name} is nested too deeply; write it plainly") from None


def _read_statements(node: ast.ClassDef, path: Path, body: Body) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    annotation: ast.expr | None
    value: ast.expr | None
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    keyword_only = "kw_only=True" in decorators
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, annotation, value = statement.targets[0].id, None, statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, annotation, value = statement.target.id, statement.annotation, statement.value
        else:
            continue
        where = f"{path}:{statement.lineno}"
        text = "" if annotation is None else text_of(annotation)
        if annotation is None or text.startswith(("ClassVar", "typing.ClassVar")):
            body.variables[name] = Variable(None if value is None else literal(value), where)
            if body.parameters.pop(name, None) is not None:  # WOODS fixes SCONE's margin: no longer a hyperparameter
                body.fixed.add(name)
        elif text in ("KW_ONLY", "dataclasses.KW_ONLY"):
            keyword_only = True
        else:
            type_, default = _read_field(name, annotation, value, where)
            if "dataclass" not in decorators:
                reason = f"write @dataclass above class {node.name}"
                raise UserError(f"{where}: hyperparameter '{name}' has no effect; {reason}")
            line = lines[statement.end_lineno - 1] if statement.end_lineno else ""
            comment = line[statement.end_col_offset or 0 :].strip().removeprefix("#").strip()
            is_last = keyword_only or "kw_only=True" in ast.unparse(statement)
            body.parameters[name] = Parameter(name, type_, default, comment, is_last)
            body.fixed.discard(name)


def _read_field(name: str, annotation: ast.expr, value: ast.expr | None, where: str) -> tuple[Any, Any]:
    """The type and the default of a hyperparameter; what does not fit is refused with what to write instead."""
    written, of = shortened(text_of(annotation)), f"{where}: the default of hyperparameter '{name}'"
    try:
        type_ = read_type(annotation)
    except Unknown as error:
        raise UserError(f"{where}: hyperparameter '{name}' has the type {written}; {error}") from None
    if value is None:
        raise UserError(f"{where}: hyperparameter '{name}' has no default; give it one")
    default = _default(value)
    if isinstance(default, Expression):
        raise UserError(f"{of} is computed, {shortened(default)}; write the value itself")
    try:
        default = conform(default, type_)
    except Misfit as error:
        if default is None:
            raise UserError(f"{of} is None; write the type {written} | None, or another default") from None
        raise UserError(f"{of}: {error}; change the default or the type") from None
    if isinstance(value, ast.List):  # which dataclasses refuse
        raise UserError(f"{of} would be one list for all; write field(default_factory=lambda: {ast.unparse(value)})")
    return type_, default


def _default(node: ast.expr) -> Any:
    """The value of a default, also of one within `field(...)`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("field", "dataclasses.field"):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        factory = given.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return literal(factory.body)
        if isinstance(factory, ast.Name) and factory.id == "list":
            return []
        node = given.get("default", node)
    return literal(node)


class Expression(str):
    """The text of a value that is not written out."""


def literal(node: ast.expr) -> Any:
    try:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "frozenset":
            return frozenset(ast.literal_eval(node.args[0])) if node.args else frozenset()
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return Expression(ast.unparse(node))
