"""One image file to RGB pixels of a wanted size, and threads that do this for many."""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import PIL
from PIL import Image

from oodbench.config import identity
from oodbench.data import row_digests
from oodbench.errors import UserError
from oodbench.seeds import derive
from oodbench.user_files import open_regular, read_regular

# Tried whatever a name ends in, since endings are often wrong. Some of Pillow's other formats start programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
FILE_LIMIT = 2**28  # bytes of an image file; every core may hold one
CIFAR_MEAN = (125, 123, 114)

Item = TypeVar("Item")
Result = TypeVar("Result")


def centre(picture: Image.Image, size: int, row: int) -> Image.Image:
    """Short side to `size`, then the central square."""
    return _central(picture, size, size)


def inner_centre(picture: Image.Image, size: int, row: int) -> Image.Image:
    """ImageNet's: short side to 256/224 of `size`, then the central square."""
    return _central(picture, round(size * 256 / 224), size)


def squeezed(picture: Image.Image, size: int, row: int) -> Image.Image:
    """Both sides to `size`, whatever becomes of the proportions."""
    return _resized(picture, (size, size), (0, 0, size, size))


def padded_crop(picture: Image.Image, size: int, row: int) -> Image.Image:
    """LSUN-C in the paper's code: a random crop, 32 out of 36 pixels, after padding by 4; in proportion elsewhere.

    It pads with zeros after normalizing, so the border has the color of CIFAR's mean. The place follows from the row,
    so that a subset has the same pixels as the whole.
    """
    wide, high = _scaled(picture.size, round(size * 36 / 32))
    border = round(size * 4 / 32)
    padded = Image.new("RGB", (wide + 2 * border, high + 2 * border), CIFAR_MEAN)
    padded.paste(_resized(picture, (wide, high), (0, 0, wide, high)), (border, border))
    lefts, tops = padded.width - size + 1, padded.height - size + 1
    top, left = divmod(derive("padded crop", row) % (lefts * tops), lefts)
    return padded.crop((left, top, left + size, top + size))


STYLES = {style.__name__: style for style in (centre, inner_centre, squeezed, padded_crop)}


def _central(picture: Image.Image, short: int, size: int) -> Image.Image:
    wide, high = _scaled(picture.size, short)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    return _resized(picture, (wide, high), (left, top, left + size, top + size))


def _scaled(size: tuple[int, int], short: int) -> tuple[int, int]:
    """With a short side of `short`; the long one is truncated, as torchvision does."""
    long = int(short * max(size) / min(size))
    return (short, long) if size[0] <= size[1] else (long, short)


def _resized(picture: Image.Image, whole: tuple[int, int], box: tuple[int, int, int, int]) -> Image.Image:
    """What `box` shows of the picture resized to `whole`, without making the rest."""
    # A large JPEG is decoded at a half, a quarter or an eighth of its size. With twice the wanted size or more left for
    # the resizing, that is 3 to 4 times as fast and under one gray level from decoding it whole; with less, 3 levels.
    picture.draft("RGB", (2 * whole[0], 2 * whole[1]))
    x, y = picture.width / whole[0], picture.height / whole[1]
    left, top, right, bottom = box
    return _rgb(picture).resize(
        (right - left, bottom - top), Image.Resampling.BILINEAR, box=(left * x, top * y, right * x, bottom * y)
    )


def _rgb(picture: Image.Image) -> Image.Image:
    """Transparency is dropped, not composited: so does the loader of torchvision that published numbers come from."""
    if picture.mode.startswith("I"):  # 16 bits, which Pillow would clip instead of scale
        return Image.fromarray((np.asarray(picture) >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if picture.mode == "F":
        raise ValueError("its pixels are fractions")
    if picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")
    return picture.convert("RGB")


def decode(path: Path, size: int, style: str, row: int) -> np.ndarray:
    """uint8, 3 x size x size."""
    with _described(path):
        picture = Image.open(io.BytesIO(read_regular(path, FILE_LIMIT)), formats=FORMATS)
        return np.asarray(STYLES[style](picture, size, row)).transpose(2, 0, 1)


def decode_whole(path: Path, prepare: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    """uint8, 3 x height x width: what is made of the picture at its full size, in RGB."""
    with _described(path):
        picture = Image.open(io.BytesIO(read_regular(path, FILE_LIMIT)), formats=FORMATS)
        return np.asarray(prepare(_rgb(picture))).transpose(2, 0, 1)


def sides_of(path: Path) -> tuple[int, int]:
    """Height and width, by the head of the file."""
    with _described(path), open_regular(path) as file:
        picture = Image.open(file, formats=FORMATS)
        return picture.height, picture.width


@dataclass(frozen=True)
class Examined:
    """What an image file holds."""

    digest: bytes
    length: int
    kind: str  # format and size, such as "JPEG 32x32"
    pixels: bytes  # a digest of what it shows, whatever its format; of a JPEG at an eighth of its size


def examine(path: Path) -> Examined:
    """Read a file whole and decode it as coarsely as that finds every break."""
    with _described(path):
        content = read_regular(path, FILE_LIMIT)
        picture = Image.open(io.BytesIO(content), formats=FORMATS)
        kind = f"{picture.format} {picture.width}x{picture.height}"
        picture.draft("RGB", (1, 1))
        rows = np.asarray(picture)[..., None] if picture.mode == "L" else np.asarray(_rgb(picture))
        is_gray = bool((rows == rows[..., :1]).all())  # which many programs save in color
        pixels = (rows[..., :1] if is_gray else rows).transpose(2, 0, 1)
        return Examined(hashlib.sha256(content).digest(), len(content), kind, row_digests.of_row(pixels))


class _described:
    """Whatever goes wrong inside is the file's fault."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):  # damaged files raise nearly anything
            raise UserError(
                f"'{self.path}' is not an image that can be read ({_reason(error)}); fix or remove it"
            ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, PIL.UnidentifiedImageError):
        return "unknown format"
    if isinstance(error, Image.DecompressionBombError):
        return "it says that it has more pixels than any photograph"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


@cache
def code() -> str:
    """Changes with the pixels that files give: with this code, and with the decoders that Pillow brings."""
    return f"{identity.of_harness('decoder')}-{PIL.__version__}"


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results in order; the first error ends it. Pillow and hashlib let other threads run while they work."""
    return _pool(os.getpid()).map(function, items)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One for all; a forked process has none of its parent's threads and makes its own."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="decoder")
