"""A set of images that a user brings, its name, and whether several sets fit together."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodbench.config.contents import FOLDER
from oodbench.data.image_part import ImagePart
from oodbench.errors import UserError

LIST = ".txt"  # how the name of an image list ends
LONGEST = 60  # letters of a name, which folders bear


@dataclass(frozen=True)
class GivenSet:
    """Images that a user brings, decoded or not, with what is known of them."""

    name: str  # of letters, digits and . + - _ alone, since folders of results bear it
    images: Any  # a uint8 or float32 array N x C x H x W, or what is such an array once it is read
    labels: np.ndarray | None  # int64; None: not known
    classes: tuple[str, ...]  # names in the order of the labels; () where they are not known
    in_test: np.ndarray | None  # bool per row, where the set has a train and a test part
    fingerprint: str  # of the content, wherever it lies
    source: str  # "a folder of images", "an array", "a DataLoader", or the data set's source
    pixels: Sequence[bytes] = ()  # a digest of what each image shows, as it was given; () where that is not known
    typed: str = ""  # what the user wrote for it on the command line

    def __len__(self) -> int:
        return len(self.images)

    @property
    def label(self) -> str:
        """What messages call it: what the user wrote, or its name."""
        return self.typed or self.name

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width; a loader tells these by its first batch, and its length only when it ends."""
        return getattr(self.images, "each", None) or self.images.shape[1:]

    @property
    def is_preprocessed(self) -> bool:
        """Whether it holds what a network takes, and not pixels."""
        return self.images.dtype != np.uint8

    def part(self, rows: np.ndarray | None = None) -> ImagePart:
        """These rows, or all, to play a part. Labels that nobody knows are -1."""
        rows = np.arange(len(self)) if rows is None else rows
        labels = np.full(len(rows), -1) if self.labels is None else self.labels[rows]
        return ImagePart(self.images, rows, labels, rows, f"{self.name} {self.fingerprint}")

    def counts(self) -> dict[str, int]:
        """How many images each class has, by its name or number."""
        if self.labels is None:
            return {}
        counts = np.bincount(self.labels, minlength=len(self.classes))
        names = self.classes or tuple(map(str, range(len(counts))))
        return dict(zip(names, counts.tolist(), strict=True))


def name_of(text: str) -> str:
    """A name for a set or a network, from the last part of a path or from anything else that a user wrote."""
    last = Path(text.removeprefix(FOLDER)).name or Path(text.removeprefix(FOLDER)).absolute().name
    last = last.removesuffix(LIST)
    plain = unicodedata.normalize("NFKD", last).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9.+_-]+", "-", plain).strip("-.")[:LONGEST] or "set"


def distinct(sets: Sequence[GivenSet]) -> list[GivenSet]:
    """The same sets, with -2, -3 and so on behind names that stand before, in capitals or not."""
    taken: set[str] = set()
    named = []
    for each in sets:
        name, number = each.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{each.name}-{number}"
        taken.add(name.lower())
        named.append(each if name == each.name else replace(each, name=name))
    return named


def check_channels(given: GivenSet, channels: int) -> None:
    """UserError unless the images have as many as the network takes."""
    own = given.image_shape[0]
    if own != channels:
        kinds = {1: "gray images (1 channel)", 3: "color images (3 channels)"}
        hint = {
            (1, 3): "repeat their channel, numpy.repeat(images, 3, axis=1), if it has learned gray images so",
            (3, 1): "make them gray, as PIL's convert('L') does",
        }.get((own, channels), "give images as it takes them")
        what = kinds.get(own, f"images of {own} channels")
        raise UserError(f"'{given.label}' has {what}, and the network takes {channels}; {hint}")


def check_alike(sets: Sequence[GivenSet]) -> None:
    """UserError unless all sets are pixels or all already preprocessed, with as many channels and of one size."""
    first = sets[0]
    for each in sets[1:]:
        if each.is_preprocessed != first.is_preprocessed:
            floats, pixels = (first, each) if first.is_preprocessed else (each, first)
            raise UserError(
                f"'{floats.label}' holds fractions, which count as already preprocessed, and '{pixels.label}' pixels "
                "(uint8); give all images in one of the two ways"
            )
        if each.image_shape != first.image_shape:
            shapes = ["x".join(map(str, some.image_shape)) for some in (first, each)]
            raise UserError(
                f"the images of '{first.label}' are {shapes[0]} (channels, height, width) and those of '{each.label}' "
                f"{shapes[1]}; give all as the network takes them, or say with --size how large that is"
            )
