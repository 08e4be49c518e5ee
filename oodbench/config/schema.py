"""Values against types, for suite files and for `--set`: what does not fit is an error that says where.

Types are plain ones: bool, int, float, str, None, Literal, unions, list[T], dict[str, T] and dataclasses of these.
"""

import dataclasses
import math
import types
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from oodbench.config import yaml_values
from oodbench.config.yaml_values import Place as Place
from oodbench.config.yaml_values import Unreadable
from oodbench.errors import UserError, shortened, shown, unknown
from oodbench.user_files import read_text

T = TypeVar("T")


class Misfit(UserError):
    """A value that does not fit its type, and where in the file or command it stands."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{spell(place)}: {message}" if place else message)
        self.place, self.message = place, message


def spell(place: Place) -> str:
    return ".".join(shortened(str(step)) for step in place)


def describe(type_: Any) -> str:
    """A type in a user's words."""
    origin = get_origin(type_)
    if origin is Literal:
        return " or ".join(repr(choice) if isinstance(choice, str) else str(choice) for choice in get_args(type_))
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in get_args(type_))
    if origin is list:
        return f"a list ({describe(get_args(type_)[0])} each)"
    if origin is dict or dataclasses.is_dataclass(type_):
        return "a mapping"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(type_, "nothing")


def conform(value: Any, type_: Any, place: Place = ()) -> Any:
    """`value` as `type_` (a whole number may stand for a number), or Misfit."""
    if type_ is Any or (type(value) is type_ and (type_ is not float or math.isfinite(value))):
        return value  # most values, and quickly: a large results folder holds millions
    origin, args = get_origin(type_), get_args(type_)
    if dataclasses.is_dataclass(type_) and isinstance(value, dict):
        return _record(value, type_, place)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in args):
            return value
    elif origin in (Union, types.UnionType):
        if value is None and types.NoneType in args:
            return None
        for option in args:
            try:
                return conform(value, option, place)
            except Misfit:
                continue
    elif origin is list and isinstance(value, list):
        return [conform(item, args[0], (*place, i)) for i, item in enumerate(value)]
    elif origin is dict and isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                conform(key, str, place)
        if args[1] is Any:
            return dict(value)
        return {key: conform(item, args[1], (*place, key)) for key, item in value.items()}
    elif type_ is float and isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number may be too large
            if math.isfinite(float(value)):
                return float(value)
    elif type_ in (None, types.NoneType):
        if value is None:
            return None
    elif isinstance(type_, type) and type(value) is type_:
        return value
    raise Misfit(place, f"expected {describe(type_)}, got {shown(value)}")


def _record(value: dict[Any, Any], type_: Any, place: Place) -> Any:
    hints = get_type_hints(type_)
    fields = {field.name: field for field in dataclasses.fields(type_)}
    for key in value:
        renamed = getattr(type_, "RENAMED", {}).get(key)
        if renamed is not None:
            raise Misfit((*place, key), f"the key '{key}' is now called '{renamed}'; rename it")
        if key not in fields:
            raise Misfit((*place, str(key)), str(unknown("key", str(key), fields)))
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise Misfit(place, f"the key '{name}' is missing; expected {describe(hints[name])}")
    return type_(**{key: conform(item, hints[key], (*place, key)) for key, item in value.items()})


def values_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name. Unlike `vars`, also those that a reader left at their defaults."""
    return {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}


class Document:
    """A YAML file as plain values that remembers the line of each, so that errors can name it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.values, self.lines = yaml_values.read(read_text(path, "YAML"))
        except Unreadable as error:
            raise UserError(f"{path}:{error.line}: {error.reason}") from None
        if not self.lines:  # an empty file
            self.values = {}

    def overlaid(self, place: Place, replaced: Container[str] = ()) -> "Document":
        """This document with the mapping at `place` laid over its top level, where some keys do not join."""
        other = object.__new__(Document)
        other.path, over = self.path, self.values
        for step in place:
            over = over[step]
        kept = {key: value for key, value in self.values.items() if key not in replaced or key not in over}
        other.values = merge(kept, over)
        inner = {path[len(place) :]: line for path, line in self.lines.items() if path[: len(place)] == place}
        other.lines = {**self.lines, **inner}
        return other

    def conform(self, type_: type[T]) -> T:
        """The whole document as a dataclass; a misfit names file and line."""
        try:
            if not isinstance(self.values, dict):
                raise Misfit((), "expected a mapping of keys to values")
            return conform(self.values, type_)
        except Misfit as error:
            raise self.error(error.place, error.message) from None

    def error(self, place: Place, message: str) -> UserError:
        known = place
        while known and known not in self.lines:
            known = known[:-1]
        where = f"'{spell(place)}': " if place else ""
        return UserError(f"{self.path}:{self.lines.get(known, 1)}: {where}{message}")


def text_under(path: Path, wanted: str) -> str | None:
    """The text under a key of a YAML file's top level; the file is read no further than there."""
    depth, key = 0, None  # the key whose value comes next
    for event in yaml.parse(read_text(path, "YAML"), Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            key = None
        elif isinstance(event, yaml.ScalarEvent) and depth == 1:
            if key == wanted:
                return str(event.value)
            key = event.value if key is None else None
    return None


def merge(base: Any, over: Any) -> Any:
    """`over` laid on `base`: mappings join key by key, unless `over` has another name; anything else is replaced."""
    if isinstance(base, Mapping) and isinstance(over, Mapping) and over.get("name") in (None, base.get("name")):
        return {**base, **{key: merge(base.get(key), value) for key, value in over.items()}}
    return over


def parse(text: str, type_: Any, place: Place) -> Any:
    """The text after `=` in `--set name.key=text` as a value of `type_`."""
    try:
        value = yaml_values.read(text)[0]
    except Unreadable:
        value = text
    try:
        return conform(value, type_, place)
    except Misfit:
        return conform(text, type_, place)
