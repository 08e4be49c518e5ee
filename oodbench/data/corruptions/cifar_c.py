"""The 19 corruptions of CIFAR-10-C, and with ImageNet-C's constants for larger images (Hendrycks & Dietterich 2019).

Written from the published definitions, for whole batches. What those do by accident (glass that copies where it should
swap, a photograph that is never drawn) is kept. The published draws had no seed, so random pixels agree in distribution
only. In place of ImageMagick, which the originals call for motion, stands the same arithmetic.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from oodbench.data.corruptions import _noise
from oodbench.data.corruptions._filters import (
    affine_sources,
    along_both,
    blurred,
    box_matrix,
    correlated,
    disc,
    gaussian_matrix,
    glass_sources,
    motion_blurred,
    plasma,
    sampled,
    sparse_map,
    zoom_matrix,
)
from oodbench.data.corruptions._frost import frost_photographs, photograph
from oodbench.data.corruptions._kinds import Draw, Kind, cut
from oodbench.data.corruptions._water import light
from oodbench.data.jpeg import through_jpeg

KINDS: dict[str, Kind] = {}
Function = Callable[..., np.ndarray]
Generator = np.random.Generator


def _kind(small: tuple[Any, ...], large: tuple[Any, ...], draw: Draw | None = None) -> Callable[[Function], Function]:
    """Enters a function of (uint8 images, the constants of a severity, draws...) in KINDS under its name."""

    def enter(function: Function) -> Function:
        KINDS[function.__name__] = Kind(function.__name__, small, large, function, draw)
        return function

    return enter


def _floats(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32)


def _noise_draws(generator: Generator, side: int, _: Any) -> tuple[np.ndarray]:
    return (_noise.random_bits(generator, "<u4", (3, side, side)),)


@_kind((0.04, 0.06, 0.08, 0.09, 0.10), (0.08, 0.12, 0.18, 0.26, 0.38), _noise_draws)
def gaussian_noise(images: np.ndarray, sigma: float, bits: np.ndarray) -> np.ndarray:
    """Normal noise added to every value."""
    return _noise.gaussian(sigma)(images, bits)


@_kind((500, 250, 100, 75, 50), (60, 25, 12, 5, 3), _noise_draws)
def shot_noise(images: np.ndarray, photons: int, bits: np.ndarray) -> np.ndarray:
    """Values as counts of few photons."""
    return _noise.shot(photons)(images, bits)


@_kind((0.01, 0.02, 0.03, 0.05, 0.07), (0.03, 0.06, 0.09, 0.17, 0.27), _noise_draws)
def impulse_noise(images: np.ndarray, share: float, bits: np.ndarray) -> np.ndarray:
    """Some values, each channel for itself, replaced by 0 or 255."""
    return _noise.impulse(share)(images, bits)


@_kind((0.06, 0.10, 0.12, 0.16, 0.20), (0.15, 0.20, 0.35, 0.45, 0.60), _noise_draws)
def speckle_noise(images: np.ndarray, sigma: float, bits: np.ndarray) -> np.ndarray:
    """Normal noise in proportion to the value."""
    return _noise.speckle(sigma)(images, bits)


@_kind((0.4, 0.6, 0.7, 0.8, 1), (1, 2, 3, 4, 6))
def gaussian_blur(images: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur."""
    return blurred(_floats(images), sigma)


def _glass_draws(generator: Generator, side: int, constants: Any) -> tuple[np.ndarray]:
    _, reach, passes = constants
    return (_noise.random_bits(generator, "<u2", (passes, side - 2 * reach, side - 2 * reach, 2)),)


@_kind(
    ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    _glass_draws,
)
def glass_blur(images: np.ndarray, constants: tuple[float, int, int], bits: np.ndarray) -> np.ndarray:
    """Pixels replaced by ones nearby, between two blurs; `bits` for (right, down), N x passes x rows x columns x 2."""
    sigma, reach, passes = constants
    count, channels, side = images.shape[:3]
    moves = (bits.astype(np.int32) * (2 * reach) >> 16) - reach
    source = glass_sources(moves[:, 0], side, reach)
    for i in range(1, passes):
        source = np.take_along_axis(source, glass_sources(moves[:, i], side, reach), axis=1)
    soft = blurred(_floats(images), sigma)
    pixels = cut(soft + np.float32(1e-4)).reshape(count, channels, -1)  # what is whole must not lose a level twice
    source += np.arange(0, pixels.size, pixels[0].size)[:, None]
    for channel in range(channels):
        pixels[:, channel] = pixels.ravel()[channel * side * side :].take(source)
    return blurred(_floats(pixels).reshape(images.shape), sigma)


@_kind(
    ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
)
def defocus_blur(images: np.ndarray, constants: tuple[float, float]) -> np.ndarray:
    """A disc in place of each point."""
    return correlated(_floats(images), disc(*constants))


def _motion_draws(generator: Generator, side: int, _: Any) -> tuple[float]:
    return (generator.uniform(-45, 45),)


@_kind(
    ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    _motion_draws,
)
def motion_blur(images: np.ndarray, constants: tuple[float, float], degrees: np.ndarray) -> np.ndarray:
    """A trail to one side."""
    return motion_blurred(images, degrees, *constants)


@_kind(
    ((0.01, 7), (0.01, 12), (0.01, 16), (0.01, 21), (0.01, 26)),
    ((0.01, 12), (0.01, 16), (0.02, 11), (0.02, 13), (0.03, 11)),
)
def zoom_blur(images: np.ndarray, constants: tuple[float, int]) -> np.ndarray:
    """The mean of the image and of ever larger zooms into it, the first of which is the image again."""
    return sparse_map(_zooms(images.shape[-1], *constants), _floats(images))


def zoom_factors(step: float, count: int) -> list[float]:
    """As numpy.arange computes them: the last of 26 is a hair over 1.25, which decides how its size is rounded."""
    return [1 + i * ((1 + step) - 1) for i in range(count)]


@lru_cache(maxsize=1)
def _zooms(side: int, step: float, count: int) -> sparse.csr_array:
    total = sparse.csr_array(sparse.identity(side * side))
    for factor in zoom_factors(step, count):
        axis = sparse.csr_array(zoom_matrix(side, factor))
        total = total + sparse.csr_array(sparse.kron(axis, axis))
    return (total / (count + 1)).astype(np.float32)


def _fog_draws(generator: Generator, side: int, _: Any) -> tuple[np.ndarray]:
    n = 32 if side == 32 else 256
    return (generator.random((n, n), dtype=np.float32),)


@_kind(
    ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    _fog_draws,
)
def fog(images: np.ndarray, constants: tuple[float, float], uniform: np.ndarray) -> np.ndarray:
    """A plasma cloud added, and the whole scaled back to the image's brightest value."""
    density, decay = constants
    side = images.shape[-1]
    cloud = plasma(2 * uniform - 1, decay)[:, None, :side, :side]
    brightest = images.max(axis=(1, 2, 3), keepdims=True) / np.float32(255)
    foggy = images + np.float32(255 * density) * cloud
    foggy *= brightest / (brightest + np.float32(density))
    return foggy


def _frost_draws(generator: Generator, side: int, _: Any) -> tuple[int, np.ndarray]:
    return int(generator.integers(5)), generator.random(2)


@_kind(
    ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    _frost_draws,
)
def frost(images: np.ndarray, constants: tuple[float, float], chosen: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Part of a photograph of frost laid over; of the six the last is never chosen, as in the release."""
    own, added = constants
    side, paths = images.shape[-1], frost_photographs()
    ice = np.empty(images.shape, dtype=np.uint8)
    for i, (number, (down, right)) in enumerate(zip(chosen.tolist(), place.tolist(), strict=True)):
        photo = photograph(paths[number], side == 32)
        y, x = int(down * (photo.shape[1] - side)), int(right * (photo.shape[2] - side))
        ice[i] = photo[:, y : y + side, x : x + side]
    return np.float32(own) * images + np.float32(added) * ice


def _snow_draws(generator: Generator, side: int, _: Any) -> tuple[np.ndarray, float]:
    return generator.standard_normal((side, side), dtype=np.float32), generator.uniform(-135, -45)


@_kind(
    (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    _snow_draws,
)
def snow(images: np.ndarray, constants: tuple[float, ...], field: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Flakes that fall both ways, over a paler image."""
    mean, spread, zoom, threshold, radius, sigma, own = constants
    flakes = along_both(mean + spread * field, zoom_matrix(field.shape[-1], zoom))
    flakes[flakes < threshold] = 0
    flakes = _floats(motion_blurred(cut(255 * flakes)[:, None], degrees, radius, sigma))
    pixels = _floats(images)
    red, green, blue = (pixels[:, k : k + 1] for k in range(3))
    paler = np.maximum(pixels, 1.5 * (0.299 * red + 0.587 * green + 0.114 * blue) + 127.5)
    paler -= pixels
    paler *= 1 - own
    pixels += paler
    pixels += flakes + flakes[..., ::-1, ::-1]
    return pixels


def _spatter_draws(generator: Generator, side: int, _: Any) -> tuple[np.ndarray]:
    return (generator.standard_normal((side, side), dtype=np.float32),)


WATER, MUD = (175, 238, 238), (63, 42, 20)


@_kind(
    (
        (0.62, 0.1, 0.7, 0.7, 0.5, WATER),
        (0.65, 0.1, 0.8, 0.7, 0.5, WATER),
        (0.65, 0.3, 1, 0.69, 0.5, WATER),
        (0.65, 0.1, 0.7, 0.69, 0.6, MUD),
        (0.65, 0.1, 0.5, 0.68, 0.6, MUD),
    ),
    (
        (0.65, 0.3, 4, 0.69, 0.6, WATER),
        (0.65, 0.3, 3, 0.68, 0.6, WATER),
        (0.65, 0.3, 2, 0.68, 0.5, WATER),
        (0.65, 0.3, 1, 0.65, 1.5, MUD),
        (0.67, 0.4, 1, 0.65, 1.5, MUD),
    ),
    _spatter_draws,
)
def spatter(images: np.ndarray, constants: tuple[Any, ...], field: np.ndarray) -> np.ndarray:
    """Drops of water that shine, or of mud that cover."""
    mean, spread, sigma, threshold, strength, liquid = constants
    drops = blurred(mean + spread * field.astype(float), sigma)  # in float64: one gray level can change an edge
    drops[drops < threshold] = 0
    pixels, color = _floats(images), np.array(liquid, dtype=np.float32)[:, None, None]
    if liquid == MUD:
        cover = blurred(_floats(drops > threshold), strength)[:, None]
        cover[cover < 0.8] = 0
        return pixels + cover * (color - pixels)
    layer = (255 * drops).astype(int).astype(np.uint8)  # what is over 255 starts again at 0, as in the published code
    shine = _floats(layer * light(layer))
    shine *= strength / np.maximum(shine.max(axis=(1, 2), keepdims=True), 1)  # without a drop nothing shines
    return pixels + shine[:, None] * color


@_kind((0.05, 0.10, 0.15, 0.20, 0.30), (0.1, 0.2, 0.3, 0.4, 0.5))
def brightness(images: np.ndarray, added: float) -> np.ndarray:
    """V of HSV raised: pixels scaled to it, black made gray."""
    levels = np.arange(256)
    raised = np.minimum(levels + 255 * added, 255)
    scale = (raised / np.maximum(levels, 1)).astype(np.float32)
    value = images.max(axis=1, keepdims=True)
    bright = images * scale[value]
    bright += (value == 0) * np.float32(raised[0])
    return bright


@_kind((0.75, 0.5, 0.4, 0.3, 0.15), (0.4, 0.3, 0.2, 0.1, 0.05))
def contrast(images: np.ndarray, factor: float) -> np.ndarray:
    """Values drawn toward their channel's mean."""
    pixels = _floats(images)
    mean = pixels.mean(axis=(2, 3), keepdims=True)
    pixels -= mean
    pixels *= factor
    pixels += mean
    return pixels


@_kind(
    ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
)
def saturate(images: np.ndarray, constants: tuple[float, float]) -> np.ndarray:
    """S of HSV scaled and shifted. Gray has the hue of red in HSV, so a shift makes it reddish."""
    factor, shift = constants
    pixels = images / np.float32(255)
    value, darkest = pixels.max(axis=1, keepdims=True), pixels.min(axis=1, keepdims=True)
    spread, grey = value - darkest, value == darkest
    saturation = np.clip(factor * spread / (value + (value == 0)) + shift, 0, 1)
    vivid = value * (1 - saturation * ((value - pixels) / (spread + grey)))
    vivid[:, 1:] -= grey * value * np.float32(shift)
    return 255 * vivid


@_kind((80, 65, 58, 50, 40), (25, 18, 15, 10, 7))
def jpeg_compression(images: np.ndarray, quality: int) -> np.ndarray:
    """Stored as JPEG with chroma at half resolution, and read again."""
    return np.stack([through_jpeg(image, quality) for image in images])


@_kind((0.95, 0.9, 0.85, 0.75, 0.65), (0.6, 0.5, 0.4, 0.3, 0.25))
def pixelate(images: np.ndarray, share: float) -> np.ndarray:
    """Fewer pixels, each the mean of those it replaces, rounded along rows first and then down columns."""
    matrix = box_matrix(images.shape[-1], int(images.shape[-1] * share))
    along_rows = np.floor(_floats(images) @ matrix.T + np.float32(0.5))
    return np.floor(matrix @ along_rows + np.float32(0.5))


def _elastic_draws(generator: Generator, side: int, constants: Any) -> tuple[np.ndarray, ...]:
    corners = generator.random((3, 2))
    if constants[0] == 0:
        return (corners,)
    return corners, generator.random((2, side, side), dtype=np.float32)


@_kind(
    ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
    ((488, 170.8, 24.4), (488, 19.52, 48.8), (12.2, 2.44, 4.88), (17.08, 2.44, 4.88), (29.28, 2.44, 4.88)),
    _elastic_draws,
)
def elastic_transform(
    images: np.ndarray, constants: tuple[float, float, float], corners: np.ndarray, field: np.ndarray | None = None
) -> np.ndarray:
    """An affine map that moves three corners, then a smooth displacement. All draws are uniform in 0..1."""
    strength, sigma, jitter = constants
    side = images.shape[-1]
    pixels = np.ascontiguousarray(images.transpose(0, 2, 3, 1), dtype=np.float32)
    x, y = affine_sources(side, (2 * corners - 1) * jitter)
    right, down = (np.float32(1 / 32) * (v & 31) for v in (x, y))
    pixels = sampled(pixels, y >> 5, x >> 5, down, right, "reflect101")
    if field is not None:
        smooth = along_both(2 * field - 1, gaussian_matrix(side, sigma, 3, "symmetric"))
        smooth *= strength
        whole = np.floor(smooth)
        smooth -= whole
        grid = np.arange(side, dtype=np.int32)
        x, y = whole[:, 0].astype(np.int32) + grid, whole[:, 1].astype(np.int32) + grid[:, None]
        pixels = sampled(pixels, y, x, smooth[:, 1], smooth[:, 0], "symmetric")
    return pixels.transpose(0, 3, 1, 2)
