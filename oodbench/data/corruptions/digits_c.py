"""Corruptions of 8x8 digits. The random ones draw from (kind, severity, row), so a subset gets the same pixels.

Images are uint8 N x 1 x H x W; `rows` are the images' numbers in their data set.
"""

import numpy as np
from scipy import ndimage

from oodbench.data.corruptions import Corruption
from oodbench.seeds import derive


def _draws(kind: str, severity: int, row: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=derive("digits-c", kind, severity, int(row))))


def _to_uint8(images: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


def gaussian_noise(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    """Normal noise added to every pixel."""
    sigma = 255 * (0.1, 0.2, 0.3, 0.4, 0.5)[severity - 1]
    noise = [_draws("gaussian_noise", severity, row).normal(0, sigma, images.shape[1:]) for row in rows]
    return _to_uint8(images + np.asarray(noise).reshape(images.shape))


def impulse_noise(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    """Pixels replaced by black or white."""
    share = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    draws = [_draws("impulse_noise", severity, row).random(images.shape[1:]) for row in rows]
    uniform = np.asarray(draws).reshape(images.shape)
    corrupted = images.copy()
    corrupted[uniform < share] = 255
    corrupted[uniform < share / 2] = 0
    return corrupted


def blur(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    """Gaussian blur."""
    sigma = (0.5, 0.7, 0.9, 1.1, 1.3)[severity - 1]
    return _to_uint8(ndimage.gaussian_filter(images.astype(float), (0, 0, sigma, sigma), mode="nearest"))


def contrast(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    """Pixels drawn toward the image's mean."""
    factor = (0.6, 0.45, 0.3, 0.2, 0.1)[severity - 1]
    mean = images.mean(axis=(2, 3), keepdims=True)
    return _to_uint8((images - mean) * factor + mean)


def rotation(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    """Turned about the center, left or right."""
    degrees = (15, 25, 35, 45, 60)[severity - 1]
    corrupted = np.empty_like(images)
    for sign in (-1, 1):
        chosen = np.array([_draws("rotation", severity, row).choice((-1, 1)) == sign for row in rows], dtype=bool)
        turned = ndimage.rotate(images[chosen].astype(float), sign * degrees, (2, 3), reshape=False, order=1)
        corrupted[chosen] = _to_uint8(turned)
    return corrupted


KINDS: dict[str, Corruption] = {
    function.__name__: function for function in (gaussian_noise, blur, contrast, rotation, impulse_noise)
}
