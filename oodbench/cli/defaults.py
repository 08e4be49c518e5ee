"""What a command takes where a flag says nothing: environment variables, then the nearest oodbench.toml.

A flag comes first, then the environment, then the file. All of it ends in the same request that flags would make: keys
and results do not depend on where a value came from.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oodbench.config.schema import Misfit, conform
from oodbench.errors import UserError, unknown
from oodbench.user_files import read_text, user_path

FILE = "oodbench.toml"
VARIABLES = {"results": "OODBENCH_RESULTS", "device": "OODBENCH_DEVICE"}
KEYS: dict[str, Any] = {"results": str, "device": str, "workers": int, "plugins": list[str]}
RESULTS = "results"  # where neither says anything
# The arguments of commands that take a default, by its name.
ARGUMENTS = {
    "results": ("results", "folder", "folders"),
    "device": ("device",),
    "workers": ("workers",),
    "plugins": ("plugins", "plugin"),
}


@dataclass(frozen=True)
class Default:
    """A value, and who supplied it: a variable, or a file."""

    value: Any
    origin: str


@dataclass
class Used:
    """The defaults that a command took."""

    defaults: dict[str, Default] = field(default_factory=dict)

    def line(self) -> str | None:
        """For whoever reads what a run printed."""
        by_origin: dict[str, list[str]] = {}
        for name, default in self.defaults.items():
            by_origin.setdefault(default.origin, []).append(name)
        said = [f"{', '.join(names)} from {origin}" for origin, names in by_origin.items()]
        return f"defaults: {'; '.join(said)}" if said else None

    def blamed(self, message: str) -> str:
        """An error, with where a value came from that it quotes and the user did not type."""
        for name, default in self.defaults.items():
            for value in default.value if isinstance(default.value, list) else [default.value]:
                for spelled in (str(value), os.path.abspath(str(value))):
                    if f"'{spelled}" in message or message.startswith((f"--{name} {spelled} ", f"{spelled}:")):
                        return f"{message}; the default for {name} came from {default.origin}"
        return message


def apply(given: argparse.Namespace) -> Used:
    """Fill in what flags left open in the arguments of a command."""
    used = Used()
    if getattr(given, "request", None) is not None:  # a file that says everything about a run
        return used
    for name, default in _known().items():
        for argument in ARGUMENTS[name]:
            if not hasattr(given, argument):
                continue
            stated = getattr(given, argument)
            if name == "plugins":
                setattr(given, argument, [*default.value, *(stated or [])])
            elif _is_open(stated) and not (name == "workers" and given.on is not None):  # workers are of this machine
                setattr(given, argument, [default.value] if argument == "folders" else default.value)
            else:
                continue
            used.defaults[name] = default
    for argument in ARGUMENTS["results"]:
        if _is_open(getattr(given, argument, RESULTS)):
            setattr(given, argument, [RESULTS] if argument == "folders" else RESULTS)
    return used


def _is_open(stated: Any) -> bool:
    """Whether a flag or an argument says nothing: no folder of several is an empty list."""
    return stated is None or stated == []


def _known() -> dict[str, Default]:
    path = find(Path.cwd())
    known = {} if path is None else _read(path)
    for name, variable in VARIABLES.items():
        value = os.environ.get(variable)
        if value:
            known[name] = Default(value, variable)
    return known


def find(start: Path) -> Path | None:
    """The file in a folder, or in the nearest above it up to the root of the repository, or up to the home folder.

    Outside of both, only the folder itself is looked at: what lies above may be anybody's.
    """
    for folder in _searched(start):
        if os.path.isfile(folder / FILE):
            return folder / FILE
    return None


def _searched(start: Path) -> Iterator[Path]:
    above, home = [start, *start.parents], Path(os.path.realpath(os.path.expanduser("~")))
    ends = (number for number, folder in enumerate(above) if folder == home or os.path.exists(folder / ".git"))
    return iter(above[: next(ends, 0) + 1])


def _read(path: Path) -> dict[str, Default]:
    values = _parsed(path)
    origin = _shown(path)
    known = {}
    for name, value in values.items():
        if name not in KEYS:
            raise UserError(f"{origin}: {unknown('key', name, KEYS)}")
        try:
            known[name] = Default(_placed(name, conform(value, KEYS[name], (name,)), path.parent), f"'{origin}'")
        except Misfit as error:
            raise UserError(f"{origin}: '{name}': {error.message}") from None
    return known


def _parsed(path: Path) -> Mapping[str, Any]:
    text = read_text(path, "TOML")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: no TOML, or a number of 5,000 digits
        raise UserError(f"{_shown(path)}: not valid TOML: {error}; see docs/defaults.md") from None


def _placed(name: str, value: Any, folder: Path) -> Any:
    """Paths in a file are meant from its folder; a command is told them from the current one."""
    if name == "results":
        return _from_here(value, folder)
    return [_from_here(each, folder) for each in value] if name == "plugins" else value


def _from_here(text: str, folder: Path) -> str:
    path = user_path(text)
    return str(path) if path.is_absolute() or folder == Path.cwd() else os.path.relpath(folder / path)


def _shown(path: Path) -> str:
    return FILE if path.parent == Path.cwd() else str(path)


def help_of(name: str) -> str:
    """The end of a help text: where the default of an argument comes from."""
    return f"(default: {VARIABLES[name]}, or {'auto' if name == 'device' else RESULTS})"
