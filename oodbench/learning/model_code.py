"""Networks that are code of the user's: a function or class in a Python file, or of an installed package.

Such a file is named by the user, and runs.
"""

import inspect
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import InspectLoader
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from torch import nn

from oodbench import digests
from oodbench.errors import UserError, said, shown, unknown
from oodbench.user_files import read_text, user_path

GROUP = "oodbench.networks"  # of the entry points by which packages offer networks


def in_file(text: str) -> tuple[Any, Path]:
    """What `FILE.py:name` names, and the file. Running the file is the point of naming it."""
    name = text.rpartition(":")[2]
    path = user_path(text.rpartition(":")[0])
    module = _run(path, read_text(path, "Python"))
    if name not in vars(module):
        own = [each for each, value in vars(module).items() if _is_offered(value, module)]
        error = unknown("function", name, own)
        raise UserError(f"{path}: {error}")
    return vars(module)[name], path


def installed(name: str) -> Any:
    """What a package offers as a network of that name."""
    offered = {each.name: each for each in entry_points(group=GROUP)}
    if name not in offered:
        kinds = "timm:NAME, torchvision:NAME, openood:NAME, oodbench:NAME or FILE.py:function"
        if not offered:
            raise UserError(f"unknown network '{name}'; give --model {kinds}")
        raise unknown("network", name, offered)
    with in_one_line(offered[name].value):
        return offered[name].load()


def built(factory: Any, label: str, path: Path | None, num_classes: int | None) -> nn.Module:
    """The network that a function or class of the user's makes; a network that is made already is taken as it is.

    It is told the number of classes if it asks for `num_classes`.
    """
    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise UserError(f"'{label}' is {shown(factory)}; name a function or class that makes a torch.nn.Module")
    arguments = _arguments(factory, label, num_classes)
    with in_one_line(label, path):
        made: Any = factory(**arguments)
    if not isinstance(made, nn.Module):
        raise UserError(f"'{label}' returns '{type(made).__name__}'; let it return a torch.nn.Module")
    return made


def _arguments(factory: Callable[..., Any], label: str, num_classes: int | None) -> dict[str, int]:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # of what was not written in Python
        return {}
    wanted = [
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if missing := [name for name in wanted if name != "num_classes"]:
        raise UserError(
            f"'{label}' needs {', '.join(missing)}, which oodbench does not give it; give the arguments defaults"
        )
    if "num_classes" in wanted and num_classes is None:
        raise UserError(f"'{label}' needs num_classes, which nothing here says; give the argument a default")
    return {"num_classes": num_classes} if "num_classes" in parameters and num_classes is not None else {}


@contextmanager
def in_one_line(label: str, path: Path | None = None) -> Iterator[None]:
    """What the user's code raises is the user's to mend: what it is, and in which line of the file."""
    before = list(sys.path)
    if path is not None:  # so that it may import what lies beside it, or where the user is
        sys.path[:] = [str(path.resolve().parent), *before, str(Path.cwd())]
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if path is not None and Path(frame.filename) == path]
        where = f"{path}:{lines[-1]}" if lines else label
        if isinstance(error, SystemExit):
            raise UserError(f"{where} ends the process; raise an exception instead") from error
        raise UserError(f"{type(error).__name__} at {where}: {said(error)}; correct the code") from error
    finally:
        sys.path[:] = before


class _FromText(InspectLoader):
    """Runs a file from its text: a compiled copy beside it could be older."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self.text, str(self.path))


def _run(path: Path, text: str) -> types.ModuleType:
    name = f"oodbench_model_{digests.of_text(f'{path.resolve()} {text}')}"
    if name in sys.modules:
        return sys.modules[name]
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        with in_one_line(str(path), path):
            try:
                _FromText(path, text).exec_module(module)
            except SyntaxError as error:
                raise UserError(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}") from None
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_offered(value: Any, module: types.ModuleType) -> bool:
    is_own = getattr(value, "__module__", None) == module.__name__
    return isinstance(value, nn.Module) or (callable(value) and is_own)
