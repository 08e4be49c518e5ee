"""Image files through a detector, batch by batch: a folder of any size takes the memory of a few batches."""

import heapq
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from oodbench.data.decoder import decode_whole, in_threads
from oodbench.data.listing import images_below
from oodbench.data.preprocessing import ALREADY, Preprocessing
from oodbench.data.views import in_channels
from oodbench.errors import UserError
from oodbench.learning.rows import ahead
from oodbench.running.given.detector import Detector

STDIN = "-"  # in place of a path: a list of paths, a line each
BATCH = 64  # images


@dataclass(frozen=True)
class Prediction:
    """What a detector says of one file, or why it says nothing."""

    image: str  # its path, as it was given
    label: str | int | None = None  # the predicted class: its name, or its number where nobody knows names
    score: float | None = None
    is_ood: bool | None = None
    quantile: float | None = None  # the share of held-out ID images with this score or a smaller one
    error: str | None = None
    pixels: np.ndarray | None = field(default=None, repr=False, compare=False)  # as the network has seen it

    @property
    def verdict(self) -> str | None:
        return None if self.is_ood is None else "OOD" if self.is_ood else "ID"


def image_paths(given: Iterable[str], listed: Iterable[bytes]) -> Iterator[str | Prediction]:
    """Files as they are, all images below a folder, paths of a list for `-`; what cannot be read, with the reason."""
    for each in given:
        if each == STDIN:
            lines = (os.fsdecode(line.rstrip(b"\n").rstrip(b"\r")) for line in listed)
            yield from image_paths((line for line in lines if line not in ("", STDIN)), ())
        elif os.path.isdir(each):
            try:
                yield from (os.path.join(each, name) for name in images_below(Path(each)))
            except UserError as error:
                yield Prediction(each, error=str(error))
        else:
            yield each


def predict(detector: Detector, paths: Iterable[str | Prediction], batch: int = BATCH) -> Iterator[list[Prediction]]:
    """Of each path, in order; the next batches are decoded while one is scored."""
    if batch < 1:
        raise UserError(f"--batch {batch} holds no images; choose 1 or more")
    if detector.preprocessing.stated_by == ALREADY.stated_by:
        raise UserError(
            "this detector was fitted on preprocessed images, and how to preprocess files is unknown; give it "
            "preprocessed images in Python: oodbench.Detector.load(...)(images)"
        )
    for some in ahead(_decoded_batches(detector, iter(paths), batch)):
        yield _scored(detector, some)


def _decoded_batches(detector: Detector, paths: Iterator[str | Prediction], batch: int) -> Iterator[list[Prediction]]:
    preprocessing, shape = detector.preprocessing, detector.card.network.input

    def decoded(path: str | Prediction) -> Prediction:
        if isinstance(path, Prediction):
            return path
        try:
            return Prediction(path, pixels=decode_prepared(Path(path), preprocessing, shape))
        except UserError as error:
            return Prediction(path, error=str(error))

    while some := list(islice(paths, batch)):
        yield list(in_threads(decoded, some))


def decode_prepared(path: Path, preprocessing: Preprocessing, shape: tuple[int, int, int]) -> np.ndarray:
    """uint8, channels x height x width: a file as the detector's own images were, which had this shape."""
    pixels = decode_whole(path, preprocessing.apply)
    if pixels.shape[1:] != shape[1:]:
        given, wanted = (f"{wide}x{high}" for high, wide in (pixels.shape[1:], shape[1:]))
        raise UserError(
            f"'{path}' is {given}, the detector was fitted on images of {wanted}; resize it, or fit with --size"
        )
    found: np.ndarray = in_channels(pixels[None], shape[0])[0]
    return found


def _scored(detector: Detector, some: list[Prediction]) -> list[Prediction]:
    readable = [each for each in some if each.pixels is not None]
    if not readable:
        return some
    said = detector(np.stack([each.pixels for each in readable if each.pixels is not None]))
    values = zip(*(each.tolist() for each in said), strict=True)
    found = iter([_prediction(each, detector.classes, *row) for each, row in zip(readable, values, strict=True)])
    return [each if each.pixels is None else next(found) for each in some]


def _prediction(
    read: Prediction, classes: tuple[str, ...], score: float, is_ood: bool, label: int, quantile: float
) -> Prediction:
    return Prediction(read.image, classes[label] if classes else label, score, is_ood, quantile, pixels=read.pixels)


class Extremes:
    """The most and the least OOD of all predictions that have passed by, so many of either and none twice."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = most, 0
        self._high: list[tuple[float, int, Prediction]] = []
        self._low: list[tuple[float, int, Prediction]] = []

    def add(self, some: Iterable[Prediction]) -> None:
        for each in some:
            if each.score is None:
                continue
            self._seen += 1  # which also keeps the earlier of two with one score
            height = math.inf if math.isnan(each.score) else each.score
            for heap, value in ((self._high, height), (self._low, -height)):
                push = heapq.heappush if len(heap) < self._most else heapq.heappushpop
                push(heap, (value, -self._seen, each))

    @property
    def highest(self) -> list[Prediction]:
        """The most OOD first."""
        return self._ordered(self._high, (self._seen + 1) // 2)

    @property
    def lowest(self) -> list[Prediction]:
        """The least OOD first."""
        return self._ordered(self._low, self._seen // 2)

    def _ordered(self, heap: list[tuple[float, int, Prediction]], most: int) -> list[Prediction]:
        return [each for *_, each in sorted(heap, key=lambda entry: entry[:2], reverse=True)[:most]]
