"""The Python reference, read off the public names: signatures, fields and docstrings as their sources have them."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import docstrings

import oodbench
from oodbench import functional

COMMANDS = """# Python reference

These names are imported from `oodbench`. The functions do what the commands of the same names do, print nothing, and
return what was made. The reference is generated from the code.
"""
RETURNED = """## What they return

These classes are not imported by users; the functions above return them.
"""
METHODS = """# For method files

A method file imports these names from `oodbench`. [Add a method](../add-a-method.md) is the tutorial.
"""
FUNCTIONAL = """## oodbench.functional

Pieces that several methods share, imported from `oodbench.functional`.
"""
TESTING = """## oodbench.testing

The contract tests, for a method of your own.
"""
# Classes that the functions return, by the modules that define them.
RETURNS = {
    "ResultSet": "oodbench.report.result_set",
    "Result": "oodbench.results.result",
    "Verdicts": "oodbench.running.given.detector",
}
SHOWN = ("property", "classmethod")  # decorators that say how to call
FOR_METHODS = ("oodbench.learning", "oodbench.errors")  # the rooms whose public names method files use


def pages() -> dict[str, str]:
    """The text of every page, by its name."""
    public = {name: getattr(import_module(module), name) for name, module in oodbench._PUBLIC.items()}
    for_methods = {name: each for name, each in public.items() if each.__module__.startswith(FOR_METHODS)}
    commands = {name: each for name, each in public.items() if name not in for_methods}
    returned = {name: getattr(import_module(module), name) for name, module in RETURNS.items()}
    shared = {name: getattr(functional, name) for name in functional.__all__}
    tests = {"check_method": import_module("oodbench.testing").check_method}
    return {
        "python/index.md": "\n\n".join([COMMANDS, *_entries(commands, 2), RETURNED, *_entries(returned, 3)]),
        "python/methods.md": "\n\n".join(
            [
                METHODS,
                *_entries(for_methods, 2),
                FUNCTIONAL,
                *_entries(shared, 3),
                TESTING,
                *_entries(tests, 3),
            ]
        ),
    }


def _entries(named: Mapping[str, Any], level: int) -> Iterable[str]:
    for name, each in named.items():
        yield f"{'#' * level} {name}"
        if inspect.isclass(each):
            yield from _class(each)
        elif inspect.isfunction(each):
            yield from _function(each)
        else:
            yield _fenced(f"{name} = {each}")


def _class(defined: type) -> Iterable[str]:
    source = textwrap.dedent(inspect.getsource(defined))
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.ClassDef)
    yield _fenced(_declaration(node, source))
    yield docstrings.markdown(ast.get_docstring(node) or "")
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and not _is_setter(each):
            yield f"**`{each.name}`**"
            yield _fenced(_signature(each))
            yield docstrings.markdown(ast.get_docstring(each) or "")


def _is_setter(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in node.decorator_list)


def _function(defined: Any) -> Iterable[str]:
    node = ast.parse(textwrap.dedent(inspect.getsource(defined))).body[0]
    assert isinstance(node, ast.FunctionDef)
    given = inspect.signature(defined).parameters
    node.args.defaults = [  # a constant of another module by its value
        ast.Constant(given[argument.arg].default) if isinstance(each, ast.Name) else each
        for argument, each in zip(node.args.args[-len(node.args.defaults) :], node.args.defaults, strict=False)
    ]
    yield _fenced(_signature(node))
    yield docstrings.markdown(ast.get_docstring(node) or "")


def _declaration(node: ast.ClassDef, source: str) -> str:
    """The head of a class and its fields, with their comments, in the lines of its source."""
    lines = source.splitlines()
    head = [f"@{ast.unparse(each)}" for each in node.decorator_list]
    head.append(f"class {node.name}({', '.join(map(ast.unparse, node.bases))}):".replace("():", ":"))
    shown: list[str] = []
    for each in node.body:
        if not isinstance(each, ast.AnnAssign) or ast.unparse(each.target).startswith("_"):
            continue
        first = each.lineno - 1
        while lines[first - 1].strip().startswith("#"):  # a comment above the field
            first -= 1
        shown += lines[first : each.end_lineno]
    return "\n".join([*head, *(shown or ["    ..."])])


def _signature(node: ast.FunctionDef) -> str:
    """On one line or, where that is long, a line for each argument."""
    for each in (*node.args.args, *node.args.kwonlyargs):
        each.annotation = _unquoted(each.annotation)
    returns = f" -> {ast.unparse(_unquoted(node.returns))}" if node.returns is not None else ""
    marks = [f"@{each.id}\n" for each in node.decorator_list if isinstance(each, ast.Name) and each.id in SHOWN]
    arguments = _arguments(node.args)
    line = f"def {node.name}({', '.join(arguments)}){returns}"
    if len(line) > 100:
        inner = ",\n".join(f"    {each}" for each in arguments)
        line = f"def {node.name}(\n{inner},\n){returns}"
    return "".join(marks) + line


def _unquoted(annotation: Any) -> Any:
    """A type that is written as a text, without its quotation marks."""
    is_text = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    return ast.Name(annotation.value) if is_text else annotation


def _arguments(given: ast.arguments) -> list[str]:
    """Each argument as text, with its default, in order."""
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + [*given.defaults]
    words = [_argument(each, default) for each, default in zip(positional, defaults, strict=True)]
    if given.vararg is not None:
        words.append(f"*{ast.unparse(given.vararg)}")
    elif given.kwonlyargs:
        words.append("*")
    words += [_argument(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return words + ([f"**{ast.unparse(given.kwarg)}"] if given.kwarg is not None else [])


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    words = ast.unparse(argument)
    if default is None:
        return words
    return f"{words} = {ast.unparse(default)}" if argument.annotation is not None else f"{words}={ast.unparse(default)}"


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```"
