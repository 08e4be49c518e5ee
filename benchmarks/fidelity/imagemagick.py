"""How far motion blur and snow, which are made here without ImageMagick, are from the same made with it.

    apt-get install imagemagick && pip install wand
    python benchmarks/fidelity/imagemagick.py

On test images of CIFAR-10 and MNIST (`oodbench data get cifar10 mnist`) and on 224x224 parts of two photographs.
ImageMagick takes and gives back PNG files, as in the published code; everything else of a corruption is the same on
both sides. First with the same draws, value by value; then, since the published draws are not ours, with other draws
for ImageMagick, in mean and standard deviation. Ends with status 1 if a value differs by more than a gray level.
"""

import argparse
import io
import sys
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image
from wand.image import Image as MagickImage
from wand.version import MAGICK_VERSION

from oodbench.data.corruptions import cifar_c, mnist_c
from oodbench.data.lookup import dataset

OTHER = 10**6  # added to the rows, gives other draws
Corrupt = Callable[[np.ndarray, int, np.ndarray], np.ndarray]


def magick(images: np.ndarray, degrees: np.ndarray, radius: float, sigma: float) -> np.ndarray:
    """In place of `motion_blurred`: uint8 N x C x S x S, an angle each."""
    result = np.empty_like(images)
    for i, (image, angle) in enumerate(zip(images, degrees.tolist(), strict=True)):
        mode = "RGB" if len(image) == 3 else "L"
        file = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0) if mode == "RGB" else image[0]).save(file, "PNG")
        with MagickImage(blob=file.getvalue()) as picture:
            picture.motion_blur(radius, sigma, angle)
            blurred = picture.make_blob("png")
        if blurred[24] > 8:  # bits, in a PNG's header
            raise SystemExit(f"{MAGICK_VERSION} gives PNG files of {blurred[24]} bits; the published code reads 8")
        pixels = np.asarray(Image.open(io.BytesIO(blurred)).convert(mode))
        result[i] = pixels.transpose(2, 0, 1) if mode == "RGB" else pixels
    return result


def with_magick(kind: str) -> Corrupt:
    """A corruption of CIFAR-10-C in which ImageMagick blurs."""

    def corrupt(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
        with patch.object(cifar_c, "motion_blurred", magick):
            return cifar_c.KINDS[kind](images, severity, rows)

    return corrupt


def digits_with_magick(images: np.ndarray, severity: int, rows: np.ndarray) -> np.ndarray:
    """MNIST-C's motion blur by ImageMagick."""
    angles = mnist_c.DRAWS["motion_blur"](mnist_c._streams("motion_blur", rows))
    return magick(images, np.rad2deg(angles), 10, 3)


def test_images(name: str, count: int) -> np.ndarray:
    images, _, in_test = dataset(name).arrays(None)
    return np.asarray(images[np.flatnonzero(in_test)[:count]])


def photographs(count: int) -> np.ndarray:
    """224x224 parts of scikit-learn's two, in turn, at places of a fixed draw."""
    draw = np.random.default_rng(0)
    photos = [load_sample_image(name).transpose(2, 0, 1) for name in ("china.jpg", "flower.jpg")]
    parts = []
    for i in range(count):
        photo = photos[i % 2]
        y, x = (int(draw.integers(size - 224 + 1)) for size in photo.shape[1:])
        parts.append(photo[:, y : y + 224, x : x + 224])
    return np.stack(parts)


def print_table(title: str, rows: dict[str, list[str]]) -> None:
    print(f"\n| {title} | 1 | 2 | 3 | 4 | 5 |\n|---|---|---|---|---|---|")
    for name, cells in rows.items():
        print("| " + " | ".join([name, *cells, *[""] * (5 - len(cells))]) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=200, metavar="N", help="of CIFAR-10 and MNIST (default: 200)")
    parser.add_argument("--photographs", type=int, default=10, metavar="N", help="224x224 (default: 10)")
    given = parser.parse_args()
    cifar, photos = test_images("cifar10", given.images), photographs(given.photographs)
    compared: dict[str, tuple[np.ndarray, Corrupt, Corrupt, range]] = {
        f"{kind}, {images.shape[-1]}x{images.shape[-1]}": (
            images,
            cifar_c.KINDS[kind],
            with_magick(kind),
            range(1, 6),
        )
        for images in (cifar, photos)
        for kind in ("motion_blur", "snow")
    }
    digits = test_images("mnist", given.images)
    compared["MNIST-C motion_blur"] = (digits, mnist_c.KINDS["motion_blur"], digits_with_magick, range(1, 2))

    same: dict[str, list[str]] = {}
    other: dict[str, list[str]] = {}
    worst = 0
    for name, (images, ours, theirs, severities) in compared.items():
        same[name], other[name] = [], []
        rows = np.arange(len(images))
        for severity in severities:
            here = ours(images, severity, rows)
            apart = np.abs(here.astype(int) - theirs(images, severity, rows))
            worst = max(worst, int(apart.max()))
            same[name].append(f"{1e6 * apart.mean():.0f} ({apart.max()})")
            there = theirs(images, severity, rows + OTHER)
            other[name].append(" / ".join(f"{a.mean():.1f} ± {a.std():.1f}" for a in (here, there)))
    print(MAGICK_VERSION)
    print_table("same draws: mean difference in millionths of a gray level (largest, in gray levels)", same)
    print_table("other draws: mean ± standard deviation, here / ImageMagick", other)
    return int(worst > 1)


if __name__ == "__main__":
    sys.exit(main())
