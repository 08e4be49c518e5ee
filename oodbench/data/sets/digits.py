"""What scikit-learn carries with it: the digits, and patches of its two photographs.

E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998.
"""

import csv
import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from oodbench.data.dataset import Dataset
from oodbench.errors import UserError


def _bundled(name: str) -> Path:
    """A file of scikit-learn's, found without the second that importing it takes."""
    spec = find_spec("sklearn")
    path = Path(next(iter(spec.submodule_search_locations or []))) / "datasets" / name if spec else Path(name)
    if not path.is_file():
        raise UserError(f"scikit-learn's '{name}' is not installed; run: pip install --force-reinstall scikit-learn")
    return path


class Digits(Dataset):
    """1,797 handwritten digits at 8x8, ten classes, bundled with scikit-learn."""

    name = "digits"
    source = "scikit-learn's digits.csv.gz (UCI optical recognition of handwritten digits)"
    has_test_part = True
    mean = (0.3059,)
    std = (0.3753,)

    def files(self) -> list[Path]:
        return [_bundled("data/digits.csv.gz")]

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with gzip.open(self.files()[0], "rt", newline="") as lines:
            table = np.array(list(csv.reader(lines)), dtype=float)
        images = np.rint(table[:, :-1] * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8)  # 0..16 in the file
        # Rows come writer by writer, so the last 540 are by other hands than the first.
        in_test = np.arange(len(images)) >= len(images) - 540
        return images, table[:, -1].astype(np.int64), in_test


class PhotoPatches(Dataset):
    """1,040 gray 8x8 patches of the two photographs bundled with scikit-learn."""

    name = "photo-patches"
    source = "scikit-learn's china.jpg and flower.jpg"
    has_test_part = False
    mean = (0.4167,)
    std = (0.3084,)

    def files(self) -> list[Path]:
        return [_bundled("images/china.jpg"), _bundled("images/flower.jpg")]

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        patches = []
        for path in self.files():
            grey = np.asarray(Image.open(path).convert("L").reduce(2))  # coarser pixels hold more structure
            high, wide = grey.shape[0] // 8, grey.shape[1] // 8
            grid = grey[: high * 8, : wide * 8].reshape(high, 8, wide, 8).swapaxes(1, 2)
            patches.append(grid.reshape(-1, 1, 8, 8))
        images = np.concatenate(patches)[::2]
        return images, np.zeros(len(images), dtype=np.int64), np.zeros(len(images), dtype=bool)
