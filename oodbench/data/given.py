"""The sets of images that a user brings: folders, data sets by name, and what a Python program has in memory.

Loaders are read by `learning.loaders`, since they give tensors.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from oodbench.config.cards import catalogue
from oodbench.config.contents import FOLDER
from oodbench.data import row_digests
from oodbench.data.given_set import GivenSet, check_channels, name_of
from oodbench.data.in_memory import from_memory
from oodbench.data.lookup import dataset
from oodbench.data.one_size import prepared
from oodbench.data.pictures import PictureSet
from oodbench.data.preprocessing import Preprocessing, resized
from oodbench.data.views import in_channels
from oodbench.errors import UserError, unknown

__all__ = ["GivenSet", "as_set", "read_set"]


def read_set(text: str, preprocessing: Preprocessing, channels: int | None = None) -> GivenSet:
    """`folder:PATH`, or a data set of the catalogue, as the network wants it; decoded when it is read.

    `channels` are those that the network takes: gray images become color or color gray, as in suites.
    """
    if not text.startswith(FOLDER) and text not in catalogue("datasets"):
        if Path(text).is_dir():
            raise UserError(f"'{text}' is a folder and not the name of a data set; write {FOLDER}{text}")
        raise unknown("data set", text, catalogue("datasets"))
    data = dataset(text)
    if isinstance(data, PictureSet):
        images: Any = prepared(data.root, data.index.names, preprocessing, name_of(text))
        pixels = [bytes.fromhex(each) for each in data.index.pixels]
    else:
        array = data.arrays(None)[0]
        images, pixels = resized(array, preprocessing), row_digests.of_rows(array)
    in_test = data.in_test()
    return GivenSet(
        name=name_of(text),
        images=images if channels is None else in_channels(images, channels),
        labels=data.labels(),
        classes=data.class_names,
        in_test=in_test if in_test.any() and not in_test.all() else None,
        fingerprint=data.fingerprint,
        source=data.source,
        pixels=pixels,
        typed=text,
    )


def as_set(given: Any, name: str, preprocessing: Preprocessing, channels: int | None = None) -> GivenSet:
    """A set of whatever a Python caller gives for one; without a name, a folder or data set brings its own.

    What a program has in memory is as its author made it, and is refused where the network takes other `channels`.
    """
    if isinstance(given, GivenSet):
        return given
    if isinstance(given, str | Path):
        found = _named(given, preprocessing, channels)
        return replace(found, name=name_of(name)) if name else found
    found = from_memory(given, name_of(name) if name else "set", preprocessing)
    if channels is not None:
        check_channels(found, channels)
    return found


def _named(given: str | Path, preprocessing: Preprocessing, channels: int | None) -> GivenSet:
    text = str(given)
    if text.startswith(FOLDER) or (isinstance(given, str) and text in catalogue("datasets")):
        return read_set(text, preprocessing, channels)
    if isinstance(given, str) and not Path(text).expanduser().exists():
        raise unknown("data set or folder", text, catalogue("datasets"))
    return read_set(f"{FOLDER}{text}", preprocessing, channels)
