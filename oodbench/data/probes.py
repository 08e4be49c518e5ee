"""Semantic OOD images for those who have none: noise, shuffled ID images, and what scikit-learn brings."""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from oodbench import digests
from oodbench.data.given_set import GivenSet
from oodbench.data.lookup import dataset
from oodbench.data.on_demand import OnDemand
from oodbench.data.preprocessing import scaled
from oodbench.seeds import derive

PROVES_LITTLE = (
    "probes are noise, shuffled ID images, cuttings of two photographs and digits: a detector that fails on them is "
    "broken, and one that finds them all may still miss every OOD image that you will meet"
)
GRID = 4  # patches in a row and in a column of a shuffled image
SMALLEST = 1 / 8  # of a photograph's height: the side of the smallest cutting

Draw = Callable[[np.random.Generator], np.ndarray]  # chance to an image, uint8 C x H x W


def probes(
    shape: tuple[int, int, int],
    count: int = 500,
    seed: int = 0,
    id_set: GivenSet | None = None,
    span: tuple[np.ndarray, np.ndarray] | None = None,
) -> dict[str, GivenSet]:
    """Sets by name, of images as the network takes them: channels, height, width. They are made when they are read.

    Images of `id_set`, which has that shape, are shuffled; without it there is no such set. For images that are already
    preprocessed, `span` says which numbers black and white have become, for each channel: see `span_of`.
    """
    photographs = [np.asarray(Image.open(path).convert("RGB")) for path in dataset("photo-patches").files()]
    digits, _, _ = dataset("digits").arrays(None)
    draws: dict[str, tuple[Draw, str]] = {
        "uniform-noise": (lambda lot: lot.integers(0, 256, shape, dtype=np.uint8), "uniform noise"),
        "gaussian-noise": (lambda lot: _gaussian(lot, shape), "Gaussian noise, mean 0.5 and deviation 0.25"),
        "bundled-photographs": (lambda lot: _cutting(lot, photographs, shape), dataset("photo-patches").source),
        "digits": (lambda lot: _digit(lot, digits, shape), dataset("digits").source),
    }
    made = {
        name: _made(name, draw, source, shape, count, seed, span, content="") for name, (draw, source) in draws.items()
    }
    if id_set is not None:
        images, words = id_set.images, f"images of '{id_set.name}' with their patches shuffled"
        made["shuffled-patches"] = _made(
            "shuffled-patches", lambda lot: _shuffled(lot, images), words, shape, count, seed, None, id_set.fingerprint
        )
    return made


def span_of(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest number of each channel, which stand for black and white."""
    return images.min(axis=(0, 2, 3)).astype(np.float32), images.max(axis=(0, 2, 3)).astype(np.float32)


def _made(
    name: str, draw: Draw, source: str, shape: tuple[int, int, int], count: int, seed: int,
    span: tuple[np.ndarray, np.ndarray] | None, content: str,
) -> GivenSet:  # fmt: skip
    """Every image has chance of its own, so that any of them can be made without the others."""

    def make(rows: np.ndarray) -> np.ndarray:
        images = np.stack([draw(np.random.default_rng(derive(seed, "probe", name, row))) for row in rows.tolist()])
        return images if span is None else _within(images, *span)

    first = make(np.arange(1))
    images = OnDemand(make, shape, np.arange(count), first.dtype)
    limits = None if span is None else [each.tolist() for each in span]
    mark = digests.of_values(["probe", name, shape, count, seed, limits, content])
    return GivenSet(name, images, None, (), None, mark, source)


def _within(images: np.ndarray, black: np.ndarray, white: np.ndarray) -> np.ndarray:
    black, white = (each.reshape(1, -1, 1, 1) for each in (black, white))
    return (black + images.astype(np.float32) / 255 * (white - black)).astype(np.float32)


def _gaussian(lot: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return np.rint(lot.normal(0.5, 0.25, shape).clip(0, 1) * 255).astype(np.uint8)


def _cutting(lot: np.random.Generator, photographs: list[np.ndarray], shape: tuple[int, int, int]) -> np.ndarray:
    """Of any place and scale of a photograph, mirrored or not."""
    channels, high, wide = shape
    whole = photographs[lot.integers(len(photographs))]
    largest = min(whole.shape[0], whole.shape[1] * high / wide)  # height of what fits, in these proportions
    tall = largest * lot.uniform(SMALLEST, 1)
    broad = tall * wide / high
    top, left = lot.uniform(0, whole.shape[0] - tall), lot.uniform(0, whole.shape[1] - broad)
    box = (left, top, left + broad, top + tall)
    cut = np.asarray(Image.fromarray(whole).resize((wide, high), Image.Resampling.BICUBIC, box=box))
    if lot.integers(2):
        cut = cut[:, ::-1]
    return cut.transpose(2, 0, 1) if channels == 3 else _grey(cut, channels)


def _grey(color: np.ndarray, channels: int) -> np.ndarray:
    return np.repeat(np.asarray(Image.fromarray(color).convert("L"))[None], channels, axis=0)


def _digit(lot: np.random.Generator, digits: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    some = digits[lot.integers(len(digits))][None]
    return np.repeat(scaled(some, shape[1:], "bicubic")[0], shape[0], axis=0)


def _shuffled(lot: np.random.Generator, images: Any) -> np.ndarray:
    """The patches of a grid in another order; what the grid does not divide stays at the right and the bottom."""
    row = lot.integers(len(images))
    image = np.asarray(images[row : row + 1])[0]
    down, across = (min(GRID, side) for side in image.shape[1:])
    high, wide = image.shape[1] // down, image.shape[2] // across
    corners = [(i * high, j * wide) for i in range(down) for j in range(across)]
    shuffled = image.copy()
    for (top, left), other in zip(corners, lot.permutation(corners).tolist(), strict=True):
        patch = image[:, other[0] : other[0] + high, other[1] : other[1] + wide]
        shuffled[:, top : top + high, left : left + wide] = patch
    return shuffled
