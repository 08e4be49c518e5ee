"""Image files that become an array: as large as the network says or, where it takes any size, all of one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oodbench.data.decoder import in_threads, sides_of
from oodbench.data.pictures import Pictures
from oodbench.data.preprocessing import Preprocessing, Sides
from oodbench.errors import UserError


def prepared(root: Path, names: Sequence[str], preprocessing: Preprocessing, name: str) -> Pictures:
    """Image files as the network wants them; where it takes any size, all have to come out as large as the first."""
    if preprocessing.size is None:
        first: Sides | None = None
        for own in in_threads(lambda each: sides_of(root / each), names):
            first = first or own
            if preprocessing.sides(own) != preprocessing.sides(first):
                raise differing(name, first, own)
        assert first is not None
        preprocessing = replace(preprocessing, size=preprocessing.sides(first))
    return Pictures.prepared(root, names, preprocessing)


def differing(name: str, one: Sides, other: Sides) -> UserError:
    """Heights and widths, which are told as photographers do: the width first."""
    sizes = " and ".join(f"{wide}x{high}" for high, wide in (one, other))
    return UserError(
        f"the images of '{name}' have different sizes, the first two {sizes}; say with --size what the network takes"
    )
