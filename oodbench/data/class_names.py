"""Which output of a network stands for which class of the ID images, by the names of both."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from oodbench.errors import UserError, shortened
from oodbench.user_files import read_text

INDEXED = re.compile(r"(\d{1,7})\s*[\s,:;]\s*(\S.*)")  # a line of an index and a name


@dataclass(frozen=True)
class Matching:
    """The outputs of the ID classes."""

    outputs: list[int] | None  # for each ID class; None: there are as many outputs as classes, in the same order
    note: str = ""  # what the user should know of it


def match(
    outputs: Sequence[tuple[str, ...]], id_classes: tuple[str, ...], count: int, given: Path | None = None
) -> Matching:
    """By name where both have names; otherwise in order, if there are as many outputs as classes.

    `outputs` are all names of each output, () where nobody knows them; `count` is how many outputs there are; `given`
    is a file of the user's with their names.
    """
    if given is not None:
        return _by_file(given, id_classes, count)
    if not id_classes or not outputs:
        if not id_classes or len(id_classes) == count:
            return Matching(None)
        raise _too_many(id_classes, count, "and its outputs have no names")
    by_name = _by_name(outputs)
    found = [by_name(name) for name in id_classes]
    if all(len(each) == 1 for each in found):
        rows = [each[0] for each in found]
        if len(set(rows)) == len(rows):
            return Matching(None if rows == list(range(count)) else rows)
    unclear = next((i for i, each in enumerate(found) if len(each) != 1), None)
    if len(id_classes) == count:
        return Matching(None, _in_order(id_classes, found))
    if unclear is None:
        raise _too_many(id_classes, count, "and two of these are one of its outputs")
    name, several = id_classes[unclear], found[unclear]
    if several:
        raise _too_many(id_classes, count, f"and '{shortened(name)}' is the name of {len(several)} of its outputs")
    raise _too_many(id_classes, count, f"and '{shortened(name)}' is none of its names")


def _in_order(id_classes: tuple[str, ...], found: list[list[int]]) -> str:
    clear = sum(len(each) == 1 for each in found)
    names = f"{clear} of the {len(found)} ID classes" if clear else "none of the ID classes"
    return f"{names} bear a name of the network's outputs: the order of the folders is taken for that of the outputs"


def _too_many(id_classes: tuple[str, ...], count: int, why: str) -> UserError:
    return UserError(
        f"the network has {count:,} classes, the ID images {len(id_classes):,}, {why}; "
        "give --classes FILE, a line for each output of the network in its order"
    )


def plain(name: str) -> str:
    """A name without what people write differently: capitals, spaces, underscores, hyphens."""
    return re.sub(r"[\s_-]+", "", name).casefold()


class _by_name:
    """The outputs that bear a name: as a whole or, if none does so, as one of several between commas."""

    def __init__(self, outputs: Sequence[tuple[str, ...]]) -> None:
        self.whole: dict[str, list[int]] = {}
        self.pieces: dict[str, list[int]] = {}
        for number, names in enumerate(outputs):
            for name in {plain(each) for each in names}:
                self.whole.setdefault(name, []).append(number)
            for name in {plain(piece) for each in names for piece in each.split(",")}:
                self.pieces.setdefault(name, []).append(number)

    def __call__(self, name: str) -> list[int]:
        return self.whole.get(plain(name)) or self.pieces.get(plain(name)) or []


def read_names(path: Path) -> list[str]:
    """The names of outputs that a user has written down, a line each, or behind their numbers in any order."""
    lines = [line.strip() for line in read_text(path, "a name per line").splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    if not names:
        raise UserError(f"'{path}' is empty; write a line for each output of the network, in its order")
    indexed = [INDEXED.fullmatch(name) for name in names]
    pairs = {int(each[1]): each[2] for each in indexed if each is not None}
    if all(indexed) and pairs.keys() == set(range(len(names))):
        names = [pairs[number] for number in range(len(names))]
    seen: dict[str, str] = {}
    for name in names:
        if plain(name) in seen:
            raise UserError(f"'{path}' names '{shortened(name)}' twice; give every output a name of its own")
        seen[plain(name)] = name
    return names


def _by_file(path: Path, id_classes: tuple[str, ...], count: int) -> Matching:
    names = read_names(path)
    if len(names) != count:
        raise UserError(
            f"'{path}' names {len(names):,} outputs, and the network has {count:,}; write a line for each, in its order"
        )
    if not id_classes:
        raise UserError("the ID images have no class names that --classes could tell apart; leave it out")
    numbers = {plain(name): number for number, name in enumerate(names)}
    for name in id_classes:
        if plain(name) not in numbers:
            near = get_close_matches(name, names, n=3)
            hint = "did you mean " + " or ".join(f"'{each}'" for each in near) + "?" if near else "write it there"
            raise UserError(f"the ID class '{shortened(name)}' is not in '{path}'; {hint}")
    rows = [numbers[plain(name)] for name in id_classes]
    if len(set(rows)) < len(rows):
        raise UserError(f"two ID classes are one of the names in '{path}'; give their folders names of their own")
    return Matching(None if rows == list(range(count)) else rows)
