"""Functions, classes and constants of oodbench, torch, NumPy and Python: a plugin leaves them as they were.

Only code that replaces some on purpose is met here, but a number must not depend on it all the same.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter, is_
from types import FunctionType, ModuleType
from typing import Any

# Modules whose definitions count, and packages, which have a dot at the end: what a run is computed and written with.
WATCHED = (
    *("oodbench.", "torch", "torch._tensor", "torch._C._nn", "torch.linalg", "torch.special", "torch.autograd."),
    *("torch.optim.", "torch.nn.functional", "torch.nn.init", "torch.nn.modules.", "torch.serialization"),
    *(
        "numpy",
        "numpy.linalg",
        "numpy.random",
        "builtins",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "functools",
    ),
    *("hashlib", "io", "json", "json.encoder", "math", "nt", "os", "pathlib", "posix", "random", "shutil"),
    *("statistics", "sys", "tempfile", "time", "traceback", "zipfile"),
)
BODY = ("__code__", "__defaults__", "__kwdefaults__")  # of a function
ENDING = ("_exit", "execv", "execve")  # functions of `os` after which a process is over, with status 0 if they like


@contextmanager
def restored() -> Iterator[None]:
    """Functions and classes of oodbench, torch, NumPy and Python are afterwards what they were.

    Nobody ends the process meanwhile, and what standard streams lead to stays open. It takes some milliseconds, so it
    is for code that is not ours.
    """
    before = [(owner, dict(vars(owner))) for owner in _owners()]
    functions = [each for _, names in before for each in names.values() if type(each) is FunctionType]
    bodies = {part: _of_each(functions, part) for part in BODY}
    process = os.getpid()
    for module in {os, sys.modules[os.name]}:
        for name in ENDING:
            setattr(module, name, _unless_in(process, getattr(module, name)))
    streams = [(number, os.dup(number)) for number in (0, 1, 2) if _is_open(number)]
    try:
        yield
    finally:
        for number, copy in streams:
            os.dup2(copy, number)
            os.close(copy)
        for owner, names in before:
            if not _are(vars(owner).values(), names.values()):
                _restore(owner, names)
        for part, values in bodies.items():
            if not _are(_of_each(functions, part), values):
                for function, value in zip(functions, values, strict=True):
                    setattr(function, part, value)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _of_each(functions: list[FunctionType], part: str) -> list[Any]:
    return list(map(attrgetter(part), functions))


def _are(some: Collection[Any], others: Collection[Any]) -> bool:
    """Whether these are the very objects, in this order: there are tens of thousands, so Python's own loop looks."""
    return len(some) == len(others) and all(map(is_, some, others))


def _unless_in(process: int, ending: Callable[..., object]) -> Callable[..., object]:
    """A function that ends a process, as it is in children of this one."""

    def end(*arguments: Any) -> object:
        if os.getpid() != process:
            return ending(*arguments)
        raise SystemExit(arguments[0])

    return end


def _owners() -> list[Any]:
    """The watched modules and the classes that they define."""
    packages = tuple(name for name in WATCHED if name.endswith("."))
    modules = [m for name, m in list(sys.modules.items()) if name in WATCHED or f"{name}.".startswith(packages)]
    classes = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if issubclass(type(value), type) and value.__module__ == module.__name__
    }
    return [*modules, *classes.values()]


def _restore(owner: Any, names: dict[str, Any]) -> None:
    current = vars(owner)
    for name, value in names.items():
        if current.get(name, owner) is not value and _is_definition(owner, name, value):
            with suppress(TypeError, AttributeError):  # of built-in classes nothing can be changed
                setattr(owner, name, value)
    for name in [name for name in current if name not in names] if isinstance(owner, type) else ():
        is_inherited = any(name in vars(base) for base in owner.__mro__[1:])
        if is_inherited and _is_definition(owner, name, current[name]):
            delattr(owner, name)  # which would hide what is inherited


def _is_definition(owner: Any, name: str, value: Any) -> bool:
    """What code is made of, of oodbench also its constants; but not what Python notes about a class or a module."""
    if type(value) is FunctionType:
        return True
    if isinstance(owner, type):
        return not name.startswith(("_abc_", "__"))
    return (
        callable(value) or isinstance(value, ModuleType) or (owner.__name__.startswith("oodbench.") and name.isupper())
    )
