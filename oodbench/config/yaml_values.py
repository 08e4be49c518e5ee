"""YAML text to plain values and the line of each, at a cost that its length bounds. Knows nothing of types.

A tag may say what the text says already, as in `!!int "3"`; others are refused, and so are merge keys. What lies behind
an alias counts every time it is named, so that ten lines cannot mean a billion values.
"""

import re
from typing import Any

import yaml

from oodbench.errors import shortened
from oodbench.user_files import TEXT_LIMIT

Place = tuple[str | int, ...]

NODES = 50_000  # keys and values of a text; the largest file of ours has 3,000, and this many take seconds
DEPTH = 50  # of lists and mappings in each other; ours have 9
WHOLE = 2**63  # no array holds a larger whole number, and Python does not print one of 4,300 digits
TAG = "tag:yaml.org,2002:"
SCALARS = {f"{TAG}{name}" for name in ("null", "bool", "int", "float", "str", "timestamp")}


class Unreadable(Exception):
    """What is wrong with a text, and in which line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


def _too_deep(line: int) -> Unreadable:
    return Unreadable(line, "nested too deeply, or inside itself through an alias; write it out")


def _too_much(line: int) -> Unreadable:
    return Unreadable(line, f"more than {NODES:,} keys and values, counting aliases; write less")


class _Loader(yaml.SafeLoader):
    """YAML 1.2 numbers: 1e-3 is one, which PyYAML takes for text. It stops where a text is too much."""

    nodes = depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > NODES:
            raise _too_much(self.peek_event().start_mark.line + 1)
        if self.depth > DEPTH:
            raise _too_deep(self.peek_event().start_mark.line + 1)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read(text: str) -> tuple[Any, dict[Place, int]]:
    """The values of a text, and the line of each by its place; `Unreadable` otherwise. An empty text is None."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        twice = error.problem == "second occurrence"  # all that PyYAML says of it
        problem = "an anchor with this name was defined above" if twice else error.problem or error.context or ""
        raise Unreadable(line, f"not valid YAML: {shortened(problem)}") from None
    except yaml.YAMLError as error:
        raise Unreadable(1, f"not valid YAML: {shortened(' '.join(str(error).split()))}") from None
    reader = _Reader()
    return (None if node is None else reader.value(node, ())), reader.lines


class _Reader:
    def __init__(self) -> None:
        self.lines: dict[Place, int] = {}
        self.nodes = self.letters = 0
        self.plain = _Loader("")  # which reads a single value, and knows what its text says

    def value(self, node: yaml.Node, place: Place) -> Any:
        line = self.lines[place] = node.start_mark.line + 1
        self.nodes += 1
        if len(place) > DEPTH:
            raise _too_deep(line)
        if self.nodes > NODES:
            raise _too_much(line)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if node.tag != (f"{TAG}seq" if isinstance(node, yaml.SequenceNode) else f"{TAG}map"):
            raise Unreadable(line, f"the tag '{_spelled(node.tag)}' is not supported; leave it out")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, i)) for i, item in enumerate(node.value)]
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise Unreadable(line, "a list or mapping where a key is expected")
            key = self.scalar(key_node)
            if key in values:
                raise Unreadable(line, f"the key '{shortened(str(key))}' occurs twice; keep one")
            values[key] = self.value(value_node, (*place, key))
            self.lines[(*place, key)] = line
        return values

    def scalar(self, node: yaml.ScalarNode) -> Any:
        line, quoted = node.start_mark.line + 1, shortened(node.value)
        self.letters += len(node.value)
        if self.letters > TEXT_LIMIT:
            raise _too_much(line)
        if node.tag == f"{TAG}merge":
            raise Unreadable(line, "merge keys (<<) are not supported; write out the keys")
        if node.tag not in SCALARS:
            raise Unreadable(line, f"the tag '{_spelled(node.tag)}' is not supported; leave it out or quote the text")
        said = self.plain.resolve(yaml.ScalarNode, node.value, (True, False))
        if node.tag not in (said, f"{TAG}str") and (said, node.tag) != (f"{TAG}int", f"{TAG}float"):
            raise Unreadable(line, f"'{quoted}' is not of type {_spelled(node.tag)}; leave out the tag")
        try:
            value = self.plain.construct_object(node)
        except (ValueError, OverflowError) as error:  # 2026-13-45 looks like a date
            raise Unreadable(line, f"cannot read '{quoted}' ({error}); put text in quotes") from None
        if isinstance(value, int) and abs(value) >= WHOLE:
            raise Unreadable(line, f"the whole number {quoted} is too large; write one of at most 18 digits")
        return value


def _spelled(tag: str) -> str:
    return shortened(tag.replace(TAG, "!!", 1))
