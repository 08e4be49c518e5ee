"""A stand-in for SVHN that is made from MNIST: handwritten digits as if they were house numbers.

Nothing but integers is computed with, so that every processor makes the same images.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from oodbench.config import identity
from oodbench.config.cards import catalogue
from oodbench.data import store
from oodbench.data.dataset import Dataset
from oodbench.data.sets.idx import MNIST
from oodbench.seeds import derive

SIDE = 32
ROWS = {"train": 20000, "test": 5000}
CONTRAST = 60  # least difference, of 255, between the luma of a digit's color and that of its ground
ONE = 256  # a pixel, or a weight of 1, as a fixed-point number
LIGHT = 4096  # the same for illumination
BLANK = 64  # what is fainter is no part of a digit when its edges are looked for
AT_A_TIME = 1000  # images


class StreetDigits(Dataset):
    """25,000 MNIST digits as house numbers at 32x32: colored, beside others that are cut off, ten classes."""

    name = "street-digits"
    has_test_part = True
    source = "MNIST"
    made_from = "mnist"
    mean, std = (0.5003, 0.4998, 0.5003), (0.2631, 0.2652, 0.2616)

    def files(self) -> list[Path]:
        return MNIST().files()

    @cached_property
    def fingerprint(self) -> str:
        """Of MNIST, and of what is made from it here."""
        return f"{MNIST().fingerprint}-{identity.of_card(catalogue('datasets')[self.name])}"

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        images = store.cached_array(f"{self.name}-images", self.fingerprint, self.make)
        _, labels, in_test = MNIST().load()
        middle = np.concatenate([rows for _, rows, _ in _divided(in_test)])
        return images, labels[middle], in_test[middle]

    def make(self) -> np.ndarray:
        digits, _, in_test = MNIST().load()
        return np.concatenate([_street(digits[:, 0], middle, pool, part) for part, middle, pool in _divided(in_test)])


def _generator(*purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive(StreetDigits.name, *purpose))


def _divided(in_test: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each part, the rows of MNIST in the middle of its images, none of them twice, and all rows it may draw from."""
    for part, pool in (("train", np.flatnonzero(~in_test)), ("test", np.flatnonzero(in_test))):
        yield part, _generator(part, "middle").permutation(pool)[: ROWS[part]], pool


def _street(digits: np.ndarray, middle: np.ndarray, pool: np.ndarray, part: str) -> np.ndarray:
    """The images of a part: N x 3 x 32 x 32."""
    count = len(middle)
    neighbors = _generator(part, "neighbors").choice(pool, (2, count))
    sides = _generator(part, "sides").integers(1, 4, count)  # 1: one to the left, 2: to the right, 3: both
    places = _places(_generator(part, "places"), count)
    ground, color = _colors(_generator(part, "colors"), count)
    slopes = _generator(part, "light").integers(-14, 15, (2, count, 1, 1))  # at most a tenth in each direction
    softness = _generator(part, "blur").integers(24, 73, (count, 1, 1))
    images = np.empty((count, 3, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, count, AT_A_TIME):
        some = slice(start, start + AT_A_TIME)
        shown = [digits[rows[some]].astype(np.int32) for rows in (middle, *neighbors)]
        ink = _blurred(_written(shown, sides[some], places[:, some]), softness[some])
        images[some] = _painted(ink, ground[some], color[some], slopes[:, some])
    return images


def _places(random: np.random.Generator, count: int) -> np.ndarray:
    """How high and wide a pixel is, in parts of MNIST's pixels; by how many pixels the middle digit is too far right
    and down; how wide the gaps are on its left and right, and by how much the neighbors there are lower.
    """
    high = random.integers(197, 257, count)  # 20 pixels of MNIST become 26 to 20
    wide = high * random.integers(280, 400, count) // ONE  # painted numbers are narrower than handwritten ones
    right, down = random.integers(-1, 2, (2, count))
    gaps = random.integers(1, 3, (2, count))
    tilts = random.integers(-1, 2, (2, count))
    return np.stack([high, wide, right, down, *gaps, *tilts]).astype(np.int32)


def _luma(colors: np.ndarray) -> np.ndarray:
    return (colors * np.array([299, 587, 114])).sum(axis=-1) // 1000


def _colors(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the ground and of the digits, mostly dull as paint and stone are; drawn again where they are too alike."""

    def drawn(number: int) -> np.ndarray:
        tint = random.integers(-48, 49, (number, 3))
        return (random.integers(16, 240, (number, 1)) + tint).clip(0, 255)

    ground, color = drawn(count), drawn(count)
    while (alike := np.abs(_luma(ground) - _luma(color)) < CONTRAST).any():
        again = int(alike.sum())
        ground[alike], color[alike] = drawn(again), drawn(again)
    return ground, color


def _edges(digits: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the ink of each digit begins and ends, in parts of a pixel; a pixel reaches half a pixel around it."""
    inked = digits.max(axis=axis) > BLANK
    first, last = inked.argmax(axis=1), inked.shape[1] - 1 - inked[:, ::-1].argmax(axis=1)
    return first[:, None] * ONE - ONE // 2, last[:, None] * ONE + ONE // 2


def _written(shown: list[np.ndarray], sides: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Where there is how much ink, 0 to 255, of the middle digit and its neighbors on the left and right.

    A pixel wider than the image all around, for the blur.
    """
    high, wide, right, down, *beside = places[:, :, None]
    (left_gap, right_gap), lower = beside[:2], (0, *beside[2:])
    pixels = 2 * np.arange(-1, SIDE + 1) - (SIDE - 1)  # in halves, from the center
    first, last = zip(*(_edges(digits, axis=1) for digits in shown), strict=True)
    x = (pixels - 2 * right) * wide // 2 + (first[0] + last[0]) // 2
    columns = (x, x - first[0] + left_gap * wide + last[1], x - last[0] - right_gap * wide + first[2])
    visible = (np.ones_like(sides), sides & 1, sides >> 1)
    ink = np.zeros((len(sides), SIDE + 2, SIDE + 2), dtype=np.int32)
    for i, digits in enumerate(shown):
        top, bottom = _edges(digits, axis=2)
        y = (pixels - 2 * down - 2 * lower[i]) * high // 2 + (top + bottom) // 2
        ink = np.maximum(ink, _sampled(digits, columns[i], y) * visible[i][:, None, None])
    return ink


def _sampled(digits: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Digits at columns x and rows y, in parts of a pixel, bilinearly; there is no ink outside of them."""
    end = digits.shape[1] * ONE
    ink = np.pad(digits, ((0, 0), (1, 2), (1, 2)))
    for axis, place in ((1, y[:, :, None]), (2, x[:, None, :])):
        index, share = np.divmod(place.clip(-ONE, end).astype(np.int32) + ONE, ONE)
        here, next_one = (np.take_along_axis(ink, each, axis) for each in (index, index + 1))
        ink = here * (ONE - share) + next_one * share
    return (ink + ONE * ONE // 2) // (ONE * ONE)


def _blurred(ink: np.ndarray, softness: np.ndarray) -> np.ndarray:
    """Each pixel mixed with its neighbors, which takes the margin away."""
    ink = ink[:, 1:-1] * (ONE - 2 * softness) + (ink[:, :-2] + ink[:, 2:]) * softness
    ink = ink[:, :, 1:-1] * (ONE - 2 * softness) + (ink[:, :, :-2] + ink[:, :, 2:]) * softness
    return (ink + ONE * ONE // 2) // (ONE * ONE)


def _painted(ink: np.ndarray, ground: np.ndarray, color: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """In color, under light that grows evenly in some direction."""
    pixels = 2 * np.arange(SIDE) - (SIDE - 1)
    light = (LIGHT + slopes[0] * pixels + slopes[1] * pixels[:, None])[:, None]
    ink, ground, color = ink[:, None], ground[:, :, None, None], color[:, :, None, None]
    paint = (ground * (255 - ink) + color * ink) * light
    return ((paint + 255 * LIGHT // 2) // (255 * LIGHT)).clip(0, 255).astype(np.uint8)
