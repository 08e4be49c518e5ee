"""What a network wants of an image: size, crop, mean and deviation; and images made so, as torchvision makes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from PIL import Image

from oodbench.data.on_demand import OnDemand
from oodbench.errors import UserError, shortened

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Sides = tuple[int, int]  # height, width

LARGEST = 16_384  # pixels of a side; more is a slip of the pen
RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True)
class Preprocessing:
    """What a network wants of an image; stored in results and detectors."""

    mean: tuple[float, ...] = (0.0,)  # of pixels in [0, 1], per channel; one number stands for all channels
    std: tuple[float, ...] = (1.0,)
    size: Sides | None = None  # None: images as they are
    resize: int | Sides | None = None  # the short side, or both, before the central crop; None: both go to `size`
    interpolation: Interpolation = "bilinear"
    stated_by: str = "nobody"  # "timm", "torchvision", "the user", "nobody" (images in [0, 1]), "already preprocessed"

    def for_channels(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation, a number for each channel."""
        return _each(self.mean, channels, "mean"), _each(self.std, channels, "std")

    def sides(self, of: Sides) -> Sides:
        """Height and width of what becomes of an image that is so high and wide."""
        return self.size or self._resized_sides(of)

    def _resized_sides(self, of: Sides) -> Sides:
        """Before the crop. The long side is truncated, as torchvision does."""
        wanted = self.resize or self.size or of
        if isinstance(wanted, tuple):
            return wanted
        long = int(wanted * max(of) / min(of))
        return (wanted, long) if of[0] <= of[1] else (long, wanted)

    def apply(self, picture: Image.Image) -> Image.Image:
        """To the pixel what torchvision's Resize and CenterCrop make of it; a crop beyond the image shows black."""
        high, wide = self._resized_sides((picture.height, picture.width))
        if picture.size != (wide, high):
            picture = picture.resize((wide, high), RESAMPLING[self.interpolation])
        if self.size in (None, (high, wide)):
            return picture
        tall, broad = self.size
        # Where the image is smaller the border has the odd pixel at the end; where it is larger, Python's rounding,
        # halves to the even number, decides.
        left = -((broad - wide) // 2) if broad > wide else round((wide - broad) / 2)
        top = -((tall - high) // 2) if tall > high else round((high - tall) / 2)
        return picture.crop((left, top, left + broad, top + tall))

    def in_words(self) -> str:
        """For a printed line."""
        if self.stated_by == ALREADY.stated_by:
            return "images are already preprocessed"
        steps = []
        if isinstance(self.resize, int):
            steps.append(f"short side to {self.resize}")
        elif self.resize is not None:
            steps.append(f"resized to {_by(self.resize)}")
        if self.size is not None and self.size != self.resize:
            steps.append(f"central {_by(self.size)}" if self.resize is not None else f"resized to {_by(self.size)}")
        steps.append(self.interpolation if steps else "images as large as they are")
        steps += [f"mean {_numbers(self.mean)}", f"std {_numbers(self.std)}"]
        return f"{', '.join(steps)} ({self.stated_by})"


ALREADY = Preprocessing(stated_by="already preprocessed")


def _each(values: tuple[float, ...], channels: int, what: str) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        numbers = "1 number" if channels == 1 else f"1 or {channels} numbers"
        raise UserError(
            f"the {what} has {len(values)} numbers, and the images have {channels} "
            f"{'channel' if channels == 1 else 'channels'}; give --{what} {numbers}"
        )
    return values * (channels // len(values))


def _by(sides: Sides) -> str:
    return f"{sides[0]}x{sides[1]}"


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}".replace("0.", ".", 1) if 0 < value < 1 else f"{value:.4g}" for value in values)


def stated(mean: str | None, std: str | None, size: str | None, base: Preprocessing | None = None) -> Preprocessing:
    """What a network's own configuration says, with what the user says in its place.

    A size for a network that says nothing itself: the short side goes to it, then the central part, as folders are
    read in a suite. Where it says how much larger images are before the crop, that share stays.
    """
    found = base or Preprocessing()
    if mean is None and std is None and size is None:
        return found
    means = found.mean if mean is None else _parsed(mean, "mean")
    deviations = found.std if std is None else _parsed(std, "std")
    if len({len(means), len(deviations)} - {1}) > 1:
        raise UserError(
            f"the mean has {len(means)} numbers and the std {len(deviations)}; give both as many as the images have "
            "channels"
        )
    told_all = None not in (mean, std, size) or found.stated_by in ("nobody", "the user")
    by = "the user" if told_all else f"{found.stated_by} and the user"
    found = replace(found, mean=means, std=deviations, stated_by=by)
    if size is None:
        return found
    sides = _sides(size)
    return replace(found, size=sides, resize=_in_proportion(base, sides))


def _in_proportion(base: Preprocessing | None, sides: Sides) -> int | Sides | None:
    if base is None or base.size is None:
        return max(sides)
    if base.resize is None:
        return None
    if isinstance(base.resize, int):
        return round(base.resize * max(sides) / max(base.size))
    return (round(base.resize[0] * sides[0] / base.size[0]), round(base.resize[1] * sides[1] / base.size[1]))


def _parsed(text: str, what: str) -> tuple[float, ...]:
    """Numbers with commas between them, of pixels in [0, 1]."""
    try:
        values = tuple(float(each) for each in text.split(","))
    except ValueError:
        raise UserError(
            f"--{what} is '{shortened(text)}'; give a number, or one for each channel as in 0.5,0.5,0.5"
        ) from None
    wrong = next((value for value in values if not 0 <= value <= 1), None)
    if wrong is not None:
        hint = "; divide it by 255" if math.isfinite(wrong) and 1 < wrong <= 255 else "; give numbers from 0 to 1"
        raise UserError(f"--{what} holds {wrong:g}, and it is of pixels in [0, 1]{hint}")
    if what == "std" and 0 in values:
        raise UserError("--std holds 0, which nothing can be divided by; give numbers above 0, or leave it out")
    return values


def _sides(text: str) -> Sides:
    words = text.lower().split("x")
    if len(words) > 2 or not all(word.isascii() and word.isdigit() and 0 < int(word[:9]) <= LARGEST for word in words):
        raise UserError(
            f"--size is '{shortened(text)}'; give a number of pixels as in 224, or height and width, 224x160"
        )
    return int(words[0]), int(words[-1])


def resized(images: Any, preprocessing: Preprocessing) -> Any:
    """uint8 images of a suite, N x C x H x W, as large as the network takes them; the same object where they are.

    They are scaled and nothing is cut off: squares at the size of their set show no border that could go. Arrays are
    scaled when they are read, for a set that fits in memory may not fit in it at another size.
    """
    size = preprocessing.size
    if size is None or tuple(images.shape[-2:]) == size:
        return images

    def scale(pixels: np.ndarray) -> np.ndarray:
        return scaled(pixels, size, preprocessing.interpolation)

    if not isinstance(images, np.ndarray):  # Pictures, which keep what is to be done to them
        return images.then(lambda pixels, rows: scale(pixels), sides=size)
    return OnDemand(lambda rows: scale(images[rows]), (images.shape[1], *size), np.arange(len(images)))


def scaled(images: np.ndarray, size: Sides, interpolation: Interpolation) -> np.ndarray:
    """uint8 images, N x C x H x W, with other sides."""
    whole = Preprocessing(size=size, interpolation=interpolation)
    return _applied(images, whole, size)


def fitted(images: np.ndarray, preprocessing: Preprocessing) -> Any:
    """Pixels of a user's array as the network takes them: in proportion as `resized`, otherwise resized and cropped."""
    size = preprocessing.size
    high, wide = images.shape[-2:]
    if size is None and preprocessing.resize is not None:
        size = preprocessing.sides((high, wide))
    if size is None or high * size[1] == wide * size[0]:
        return resized(images, replace(preprocessing, size=size))
    return OnDemand(
        lambda rows: _applied(images[rows], preprocessing, size), (images.shape[1], *size), np.arange(len(images))
    )


def _applied(images: np.ndarray, preprocessing: Preprocessing, size: Sides) -> np.ndarray:
    pixels = np.empty((*images.shape[:2], *size), dtype=np.uint8)
    for image, into in zip(images, pixels, strict=True):
        for channel, plane in zip(image, into, strict=True):  # of which Pillow makes what it makes of all together
            plane[:] = preprocessing.apply(Image.fromarray(channel))
    return pixels
