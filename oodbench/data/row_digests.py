"""Fingerprints of images row by row: the same for an array, a list and a loader that hold the same images."""

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from oodbench import digests

LENGTH = 16  # bytes of a row's


def of_row(image: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(image).data).digest()[:LENGTH]


def of_rows(images: Iterable[np.ndarray]) -> list[bytes]:
    """None is copied, as long as each lies in memory in one piece."""
    return [of_row(image) for image in images]


def of_set(rows: Sequence[bytes], each: Sequence[int], dtype: Any, labels: np.ndarray | None) -> str:
    """Of the digests of all rows, the shape of an image, the kind of its numbers, and the labels if there are any."""
    head = repr((len(rows), *map(int, each), np.dtype(dtype).name)).encode()
    tail = b"" if labels is None else labels.astype("<i8").tobytes()
    return digests.of_pieces(itertools.chain([head], rows, [tail]))
