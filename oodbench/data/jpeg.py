"""Lossless images as a JPEG file would give them back: beside a set of JPEGs, a detector could learn the encoding."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image


def encoded(images: np.ndarray, quality: int) -> np.ndarray:
    """uint8 N x C x H x W after Pillow's encoder and decoder."""
    result = np.empty(images.shape, dtype=np.uint8)

    def one(i: int) -> None:
        pixels = images[i].transpose(1, 2, 0)
        file = io.BytesIO()
        Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]).save(file, "JPEG", quality=quality)
        decoded = np.asarray(Image.open(file))
        result[i] = decoded.transpose(2, 0, 1) if decoded.ndim == 3 else decoded

    with ThreadPoolExecutor() as pool:
        for _ in pool.map(one, range(len(images)), chunksize=256):
            pass
    return result
