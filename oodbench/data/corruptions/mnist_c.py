"""The 15 corruptions of MNIST-C (Mu & Gilmer 2019), one fixed strength each, and the identity that goes with them.

A corruption is a function of gray images (uint8 N x 28 x 28) and, if it is random, of what DRAWS draws for them; its
result, 0 to 255, is cut to whole gray levels. The draws of an image depend on nothing but the kind and the image's
number in its data set, so a subset gets the same pixels as the whole.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import ndimage

from oodbench.data.corruptions import Corruption
from oodbench.data.corruptions._streams import Streams
from oodbench.errors import UserError

Matrix = tuple[tuple[float, float], tuple[float, float]]
Generators = Iterator[np.random.Generator]  # one for each row, good until the next

SEVERITIES = (1,)
SIDE = 28
PLASMA = 256  # side of the map that fog is cut from


def identity(images: np.ndarray) -> np.ndarray:
    """Unchanged."""
    return images


def shot_noise(images: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Photon counts: Poisson with mean 3 at white, over 3."""
    mean = np.arange(256) / 85
    none, one, two = np.exp(-mean), mean * np.exp(-mean), mean**2 / 2 * np.exp(-mean)
    # The count at which the distribution passes the uniform draw; 3 and more are white.
    below = (none, none + one, none + one + two)
    return 85 * np.sum([uniform >= share.astype(np.float32)[images] for share in below], axis=0)


def impulse_noise(images: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Pixels replaced by black or white."""
    return np.where(uniform < 0.085, 0, np.where(uniform < 0.17, 255, images))


def glass_blur(images: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Neighboring pixels swapped at random, between two blurs.

    `bits` is N x 2 passes x 26 rows x 26 columns x 3, from the lower right pixel on: whether to swap, and whether the
    partner lies one to the left, and one up. The published code takes columns for channels: it blurs vertically only.
    """
    count = len(images)
    blurred = 255 * ndimage.gaussian_filter1d(images / 255, 0.7, axis=1, mode="nearest")
    pixels = np.ascontiguousarray(blurred.astype(np.uint8).reshape(count, -1).T)  # each swap acts on all images
    back = (bits[..., 0] * (bits[..., 1] + SIDE * bits[..., 2])).reshape(count, -1).T
    steps = np.arange(SIDE - 1, 1, -1)
    visited = np.tile((steps[:, None] * SIDE + steps).ravel(), 2)
    partners = (visited[:, None] - back) * count + np.arange(count)
    flat = pixels.reshape(-1)
    for pixel, partner in zip(visited, partners, strict=True):
        here = pixels[pixel].copy()
        pixels[pixel] = flat[partner]
        flat[partner] = here
    return 255 * ndimage.gaussian_filter1d(pixels.T.reshape(images.shape) / 255, 0.7, axis=1, mode="nearest")


def motion_blur(images: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """One-sided streaks along `angle` (radians, within 45 degrees), as ImageMagick draws them in 16 bits."""
    taps = np.arange(21)
    weights = np.exp(-(taps**2) / 18)
    right = np.ceil(taps * np.cos(angle)[:, None] - 0.5).astype(int)
    down = np.ceil(taps * np.sin(angle)[:, None] - 0.5).astype(int)
    padded = np.pad(images, ((0, 0), (14, 14), (0, 20)), mode="edge")
    blurred = np.zeros(images.shape)
    for tap, weight in enumerate(weights / weights.sum()):
        blurred += weight * _windows(padded, 14 + down[:, tap], right[:, tap])
    return np.floor(257 * blurred + 0.5) // 257


def shear(images: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Slanted by 0.4, left or right; with the stretch that scikit-image then gave a shear."""
    return _warp_either_way(images, signs, lambda angle: ((1, -np.sin(angle)), (0, np.cos(angle))))


def scale(images: np.ndarray) -> np.ndarray:
    """Shrunk to 70 %."""
    return _warp(images, ((1 / 0.7, 0), (0, 1 / 0.7)))


def rotate(images: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Turned by 0.4, left or right."""
    return _warp_either_way(
        images, signs, lambda angle: ((np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle)))
    )


def translate(images: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Moved by 3 pixels in both directions; `signs` of columns, then of rows."""
    padded = np.pad(images, ((0, 0), (3, 3), (3, 3)))
    return _windows(padded, 3 + 3 * signs[:, 1], 3 + 3 * signs[:, 0])


def brightness(images: np.ndarray) -> np.ndarray:
    """Half of white added."""
    return np.minimum(images + 127.5, 255)


def stripe(images: np.ndarray) -> np.ndarray:
    """Negative in the left and right quarters."""
    striped = images.copy()
    striped[:, :, :7] = 255 - images[:, :, :7]
    striped[:, :, 21:] = 255 - images[:, :, 21:]
    return striped


def fog(images: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """A cloud in front: a corner of a plasma map."""
    thickness = 3
    white = images.max(axis=(1, 2), keepdims=True) / np.float32(255)
    return (images + 255 * thickness * _plasma(noise)) * (white / (white + thickness))


def spatter(images: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Specks of mud where blurred noise is high."""
    wet = ndimage.gaussian_filter(0.65 + 0.3 * noise, (0, 1, 1), mode="nearest") > 0.65
    mud = ndimage.gaussian_filter(wet.astype(np.float32), (0, 1.5, 1.5), mode="nearest")
    mud[mud < 0.8] = 0
    return images * (1 - mud) + 63 * mud


def dotted_line(images: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Dots on a line from the left to the right edge; `ends` are its rows there."""
    return np.minimum(images + _dotted_lines()[ends[:, 0], ends[:, 1]], 255)


def zigzag(images: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A zigzag about a line through the image; `ends` are the line's first row, and how far it descends."""
    return np.minimum(images + _zigzags()[ends[:, 0], ends[:, 1] + 5], 255)


def canny_edges(images: np.ndarray) -> np.ndarray:
    """Nothing but edges, by Canny's method as in scikit-image."""
    whole = ndimage.gaussian_filter(np.ones((SIDE, SIDE)), 1, mode="constant")
    whole += np.finfo(float).eps  # as scikit-image does, so that ties fall as they do there
    smooth = ndimage.gaussian_filter(images / 255, (0, 1, 1), mode="constant") / whole
    down = ndimage.correlate1d(ndimage.correlate1d(smooth, (-1, 0, 1), axis=1), (1, 2, 1), axis=2)
    right = ndimage.correlate1d(ndimage.correlate1d(smooth, (-1, 0, 1), axis=2), (1, 2, 1), axis=1)
    slope = np.hypot(down, right)
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[1:-1, 1:-1] = True
    candidates = np.flatnonzero(inside & (slope >= 0.1))

    down, right, flat = down.ravel()[candidates], right.ravel()[candidates], slope.ravel()
    steep = np.abs(down) >= np.abs(right)
    vertical, horizontal = SIDE * np.sign(down).astype(int), np.sign(right).astype(int)
    straight, diagonal = np.where(steep, vertical, horizontal), vertical + horizontal
    weight = np.where(steep, np.abs(right), np.abs(down)) / np.where(steep, np.abs(down), np.abs(right))
    ridge = np.ones(len(candidates), dtype=bool)
    for way in (-1, 1):
        neighbor = flat[candidates + way * diagonal] * weight + flat[candidates + way * straight] * (1 - weight)
        ridge &= flat[candidates] >= neighbor

    edges = np.zeros(slope.shape, dtype=bool)
    edges.ravel()[candidates[ridge]] = True
    touching = np.zeros((3, 3, 3), dtype=bool)
    touching[1] = True  # all 8 neighbors, but none of another image
    lines, count = ndimage.label(edges, touching)
    strong = np.zeros(count + 1, dtype=bool)
    strong[lines[edges & (slope >= 0.2)]] = True
    return np.where(strong[lines], np.uint8(255), np.uint8(0))


def _windows(padded: np.ndarray, top: np.ndarray, left: np.ndarray) -> np.ndarray:
    """From each padded image, the 28 x 28 pixels whose upper left corner is given."""
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), axis=(1, 2))
    return windows[np.arange(len(padded)), top, left]


def _warp(images: np.ndarray, matrix: Matrix) -> np.ndarray:
    """Each pixel (x, y) from its place under `matrix` about the center: bilinear, black outside."""
    y, x = np.indices((SIDE, SIDE)) - (SIDE - 1) / 2
    (xx, xy), (yx, yy) = matrix
    column, row = xx * x + xy * y + (SIDE - 1) / 2, yx * x + yy * y + (SIDE - 1) / 2
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1))).reshape(-1, (SIDE + 2) ** 2)
    warped = np.zeros(images.shape)
    for near_row in (np.floor(row), np.floor(row) + 1):
        for near_column in (np.floor(column), np.floor(column) + 1):
            weight = (1 - np.abs(row - near_row)) * (1 - np.abs(column - near_column))
            place = np.clip((near_row + 1, near_column + 1), 0, SIDE + 1).astype(int)
            warped += weight * padded[:, place[0] * (SIDE + 2) + place[1]]
    return warped


def _warp_either_way(images: np.ndarray, signs: np.ndarray, matrix: Callable[[float], Matrix]) -> np.ndarray:
    warped = np.empty(images.shape)
    for sign in (-1, 1):
        chosen = signs[:, 0] == sign
        warped[chosen] = _warp(images[chosen], matrix(0.4 * sign))
    return warped


def _plasma(noise: np.ndarray) -> np.ndarray:
    """The upper left corners of diamond-square maps that wrap around and reach from 0 to 1.

    `noise` is N x 65535 whole steps of 1/32768 from -1 to 1, the coarsest level first: for each cell of a level's grid
    that of its center, then for each that of the middle of its upper side, then that of the middle of its left side.
    """
    known = np.zeros((len(noise), 1, 1), dtype=np.float32)
    size, amplitude = 1, 100.0**2  # the published code multiplies noise between -w and w by w again
    while True:
        jitter = noise[:, size**2 - 1 : 4 * size**2 - 1].reshape(-1, 3, size, size)
        points = np.empty((4, *known.shape), dtype=np.float32)
        corner, upper, left, centre = points
        corner[:] = known
        np.add(corner, np.roll(corner, -1, axis=2), out=upper)
        np.add(corner, np.roll(corner, -1, axis=1), out=left)
        np.add(upper, np.roll(upper, -1, axis=1), out=centre)
        step = np.float32(amplitude / 2**15)
        centre /= 4
        centre += step * jitter[:, 0]
        for axis, middle in ((1, upper), (2, left)):
            middle += centre + np.roll(centre, 1, axis)
            middle /= 4
            middle += step * jitter[:, axis]
        if size == PLASMA // 2:
            break
        known = _woven(points)
        size, amplitude = 2 * size, amplitude / 1.4**2
    # Of the last level, most of the work, only the extremes and the corner are wanted.
    low, high = (extreme[:, None, None] for extreme in (points.min(axis=(0, 2, 3)), points.max(axis=(0, 2, 3))))
    return (_woven(points[..., : SIDE // 2, : SIDE // 2]) - low) / (high - low)


def _woven(points: np.ndarray) -> np.ndarray:
    """One grid of corners, middles of upper sides, of left sides, and centers of cells."""
    _, count, size, _ = points.shape
    return points.reshape(2, 2, count, size, size).transpose(2, 3, 0, 4, 1).reshape(count, 2 * size, 2 * size)


def _line(column0: np.ndarray, row0: np.ndarray, column1: np.ndarray, row1: np.ndarray) -> np.ndarray:
    """Grey levels of soft lines, each from one point to another further right."""
    y, x = np.indices((SIDE, SIDE))
    column0, row0, column1, row1 = (end[..., None, None] for end in (column0, row0, column1, row1))
    away = np.abs(y - row0 - (x - column0) * (row1 - row0) / (column1 - column0))
    grey = 255 * (1 + np.log(np.maximum(1 - away / 2.3, np.exp(-1))))
    return np.where((x >= np.floor(column0)) & (x < np.ceil(column1)), grey, 0)


@cache
def _dotted_lines() -> np.ndarray:
    """Those of all first and last rows."""
    first, last = np.indices((SIDE - 1, SIDE - 1))
    dots = np.arange(SIDE) // 2 % 2
    return dots * _line(np.zeros_like(first), first, np.full_like(first, SIDE - 1), last)


@cache
def _zigzags() -> np.ndarray:
    """Those of all first rows and of descents by -5 to 4 rows."""
    first, descent = np.indices((SIDE - 1, 10))
    slant = np.arctan((descent - 5) / 23)
    length = 23 / np.cos(slant)
    bends: list[tuple[Any, Any]] = [(4 * turn + 2, 2 * (-1) ** turn) for turn in range(6)]  # along the line, beside it
    bends = [(0, 0), *bends, (length, -1 / (length - 20))]
    points = [
        (2 + u * np.cos(slant) - v * np.sin(slant), first + u * np.sin(slant) + v * np.cos(slant)) for u, v in bends
    ]
    return np.sum([_line(*start, *end) for start, end in pairwise(points)], axis=0)


def _streams(kind: str, rows: np.ndarray) -> Generators:
    """For each row its own stretch of the kind's Philox sequence."""
    streams = Streams("mnist-c", kind, word=3)
    return (streams.of(row) for row in rows)


def _uniform(streams: Generators, *shape: int) -> np.ndarray:
    return np.array([stream.random(shape, dtype=np.float32) for stream in streams])


def _words(streams: Generators, count: int) -> np.ndarray:
    """64 random bits each, in the same byte order everywhere."""
    return np.array([stream.bit_generator.random_raw(count) for stream in streams], dtype="<u8")


def _signs(streams: Generators, count: int) -> np.ndarray:
    return np.where(_uniform(streams, count) < 0.5, -1, 1)


def _swaps(streams: Generators) -> np.ndarray:
    shape = (2, SIDE - 2, SIDE - 2, 3)
    bits = np.unpackbits(_words(streams, 64).view(np.uint8), axis=1, count=math.prod(shape))
    return bits.reshape(-1, *shape)


DRAWS: dict[str, Callable[[Generators], np.ndarray]] = {
    "shot_noise": lambda streams: _uniform(streams, SIDE, SIDE),
    "impulse_noise": lambda streams: _uniform(streams, SIDE, SIDE),
    "glass_blur": _swaps,
    "motion_blur": lambda streams: np.deg2rad(90 * _uniform(streams) - 45),
    "shear": lambda streams: _signs(streams, 1),
    "rotate": lambda streams: _signs(streams, 1),
    "translate": lambda streams: _signs(streams, 2),
    # Noise in 65,536 steps, under a hundredth of a gray level at the coarsest: a quarter of the bits of a float.
    "fog": lambda streams: _words(streams, PLASMA**2 // 4).view("<i2")[:, 1:],
    "spatter": lambda streams: np.array([stream.standard_normal((SIDE, SIDE), np.float32) for stream in streams]),
    "dotted_line": lambda streams: (_uniform(streams, 2) * (SIDE - 1)).astype(int),
    "zigzag": lambda streams: (_uniform(streams, 2) * (SIDE - 1, 10)).astype(int) - (0, 5),
}


def _corrupt(function: Callable[..., np.ndarray], images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    if severity != 1:
        raise UserError("mnist_c corruptions have one strength; use severity 1")
    if images.dtype != np.uint8 or images.shape[1:] != (1, SIDE, SIDE):
        shape = " x ".join(map(str, images.shape))
        raise UserError(f"mnist_c corruptions need uint8 images of N x 1 x 28 x 28, not {images.dtype} of {shape}")
    if len(images) != len(rows):
        raise ValueError(f"{len(images)} images, but numbers of {len(rows)}")
    kind = function.__name__
    corrupted = np.empty(images.shape, dtype=np.uint8)
    chunk = 16 if kind == "fog" else 1024  # a fog map is 84 times the size of an image
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        drawn = [DRAWS[kind](_streams(kind, rows[part]))] if kind in DRAWS else []
        corrupted[part, 0] = function(images[part, 0], *drawn)
    return corrupted


KINDS: dict[str, Corruption] = {
    function.__name__: partial(_corrupt, function)
    for function in (
        shot_noise,
        impulse_noise,
        glass_blur,
        motion_blur,
        shear,
        scale,
        rotate,
        translate,
        brightness,
        stripe,
        fog,
        spatter,
        dotted_line,
        zigzag,
        canny_edges,
        identity,
    )
}
