"""Images per second of training batches with crop and flip, beside a DataLoader over PIL images; and peak memory.

    python benchmarks/speed/data.py

Both sides give normalized float32 batches of 128 from the same 10,000 images of 32x32, on one core, in turns; the
least CPU time counts. The loader is the usual one: torchvision's RandomCrop with padding, RandomHorizontalFlip,
ToTensor, Normalize, no worker processes (which move its work to other cores and do not lessen it). Then a process of
its own prepares a set of CIFAR-10's size with one corruption for a run, and its peak memory is read.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from timing import TURNS, Row, least, main

from oodbench.config.recipe import Recipe
from oodbench.data import store
from oodbench.learning.batches import Data, Split
from oodbench.torchvision_import import import_with_torchvision

MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
PREPARE = """
from timing import memory
from oodbench.config import suite
from oodbench.data.parts import build_parts
from oodbench.running.trained import training_data
chosen = suite.load("cifar10-c")
parts = build_parts(chosen, chosen.settings[0], 0)
training_data(chosen, parts, chosen.settings[0])
print(memory("VmHWM"))
"""


def ours(images: np.ndarray, labels: np.ndarray) -> Callable[[], None]:
    data = Data(Split(torch.from_numpy(images), torch.from_numpy(labels)), 10)
    recipe = Recipe(epochs=1, batch_size=128, lr=0.1, augment="crop-flip")
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def epoch() -> None:
        for batch in data.batches(recipe, 0, torch.device("cpu")):
            (batch.x - mean) / std  # as the network does

    return epoch


def loader(images: np.ndarray, labels: np.ndarray) -> Callable[[], None]:
    transforms = import_with_torchvision("torchvision.transforms")
    change = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    pixels = np.ascontiguousarray(images.transpose(0, 2, 3, 1))

    class Set(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(pixels)

        def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
            return change(Image.fromarray(pixels[i])), int(labels[i])

    batches = torch.utils.data.DataLoader(Set(), batch_size=128, shuffle=True)

    def epoch() -> None:
        for _ in batches:
            pass

    return epoch


def peak_of_preparing(rng: np.random.Generator, share: float) -> float:
    """Megabytes of a process that prepares a set of CIFAR-10's size, or a share of it, with one corruption."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, OODBENCH_DATA=folder):
        for name, count, test in (("cifar10", 60000, 10000), ("svhn", 99289, 26032)):
            count, test = int(share * count), int(share * test)
            rows = np.arange(count)
            noise = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
            store.save(name, store.Decoded(noise, rows % 10, rows >= count - test), "noise")
        command = [sys.executable, "-c", PREPARE]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    return float(done.stdout)


def rows(quick: bool) -> Iterator[Row]:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    count = 500 if quick else 10000
    images, labels = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8), np.arange(count) % 10
    few = count // 5
    sides = {"ours": ours(images, labels), "loader": loader(images[:few], labels[:few])}
    spent = least(sides, 1 if quick else TURNS)
    ratio = (spent["loader"] / few) / (spent["ours"] / count)
    yield Row("speed of batches with crop and flip : a DataLoader over PIL images", ratio, 20, at_least=True)
    peak = peak_of_preparing(rng, 0.02 if quick else 1)
    yield Row("peak memory of preparing CIFAR-10 and SVHN with a corruption", peak, 1500, "MB")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
