"""Images per second of training batches with crop and flip, beside a DataLoader over PIL images; and peak memory.

    python benchmarks/speed/data.py

Both sides give normalised float32 batches of 128 from the same 10,000 images of 32x32, on one core, in turns; the
fastest turn counts. The loader is the usual one: torchvision's RandomCrop with padding, RandomHorizontalFlip, ToTensor,
Normalize, no worker processes (which move its work to other cores and do not lessen it). Then a process of its own
prepares a set of CIFAR-10's size with one corruption for a run, and its peak memory is read. Ends with status 1 if an
aim is missed.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from oodbench.data import Data, Split
from oodbench.datasets import store
from oodbench.recipe import Recipe
from oodbench.torchvision_import import import_with_torchvision

FASTER, GIGABYTES = 20, 1.5
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
PREPARE = """
import resource
from oodbench import suite, splits
from oodbench.runner import training_data
chosen = suite.load("cifar10-c")
parts = splits.build(chosen, chosen.settings[0], 0)
training_data(chosen, parts, chosen.settings[0])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="%(default)s")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (10000, 3, 32, 32), dtype=np.uint8), np.arange(10000) % 10
    sides = {"oodbench": ours(images, labels), "PIL DataLoader": loader(images[:2000], labels[:2000])}
    counts = {"oodbench": 10000, "PIL DataLoader": 2000}
    fastest = dict.fromkeys(sides, np.inf)
    for _ in range(options.turns):
        for name, epoch in sides.items():
            started = time.perf_counter()
            epoch()
            fastest[name] = min(fastest[name], (time.perf_counter() - started) / counts[name])
    for name, seconds in fastest.items():
        print(f"{name:24}{1 / seconds:12,.0f} images/s")
    ratio = fastest["PIL DataLoader"] / fastest["oodbench"]
    print(f"{'ratio':24}{ratio:12.1f}   aim {FASTER}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OODBENCH_DATA"] = folder
        for name, count, test in (("cifar10", 60000, 10000), ("svhn", 99289, 26032)):
            rows = np.arange(count)
            noise = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
            store.save(name, store.Decoded(noise, rows % 10, rows >= count - test), "noise")
        answer = subprocess.run(
            [sys.executable, "-c", PREPARE],
            capture_output=True,
            text=True,
            check=True,
        )
    peak = float(answer.stdout)
    print(f"{'peak of preparing':24}{peak:12.2f} GB  aim below {GIGABYTES}")
    return int(ratio < FASTER or peak >= GIGABYTES)


if __name__ == "__main__":
    sys.exit(main())
