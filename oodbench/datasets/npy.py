"""Arrays as numpy writes them, `.npy` and `.npz`, read without trust: no pickles, and no memory before sizes fit."""

import io
import math
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy_format

from oodbench.datasets.archives import RATIO
from oodbench.datasets.store import Decoded
from oodbench.errors import UserError

LIMIT = 2**30  # bytes of one array; the largest of a known set has 225 million
HEAD = 12 + 10000  # bytes that a header may have, as numpy limits it
NAMES = (
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),  # as Keras names them
)


@dataclass(frozen=True)
class Head:
    """What a file says that it holds; its length has been found to fit."""

    shape: tuple[int, ...]
    dtype: np.dtype
    by_column: bool
    start: int  # of the values, in bytes
    size: int  # of the values, in bytes


def _head(file: IO[bytes], length: int, where: str) -> Head:
    try:
        head = io.BytesIO(file.read(HEAD))  # so that a header cannot ask for more
        version = npy_format.read_magic(head)
        read = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}[version]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            sizes, by_column, dtype = read(head)
        shape = tuple(map(int, sizes))  # of which True is one for numpy
    except Exception as error:  # a damaged header raises nearly anything
        reason = " ".join(str(error).split())[:100]
        raise UserError(f"'{where}' has no header of an .npy file ({reason}); get it again") from None
    if dtype.hasobject:
        raise UserError(f"'{where}' holds Python objects, which could run code; save plain numbers")
    if dtype.kind not in "buif":
        raise UserError(f"'{where}' holds values of type {dtype}; save plain numbers")
    if min(shape, default=0) < 1:
        raise UserError(f"'{where}' is empty (shape {shape}); get it again")
    size = math.prod(shape) * dtype.itemsize
    if size > LIMIT:
        raise UserError(f"'{where}' says that it holds {size:,} bytes of values; it is not to be trusted")
    if head.tell() + size != length:
        raise UserError(
            f"'{where}' is truncated or damaged: {max(length - head.tell(), 0):,} bytes for {size:,}; get it again"
        )
    return Head(shape, dtype, by_column, head.tell(), size)


def _values(file: IO[bytes], head: Head, where: str) -> np.ndarray:
    file.seek(head.start)
    content = file.read(head.size)
    if len(content) != head.size:
        raise UserError(f"'{where}' breaks off after {len(content):,} bytes of {head.size:,}; get it again")
    return np.frombuffer(content, head.dtype).reshape(head.shape, order="F" if head.by_column else "C")


def _unreadable(where: str | Path, error: Exception) -> UserError:
    return UserError(f"'{where}' cannot be read ({getattr(error, 'strerror', None) or error}); get it again")


def mapped(path: Path) -> np.ndarray:
    """An `.npy` file whose values stay on the disk until they are used."""
    try:
        with open(path, "rb") as file:
            head = _head(file, path.stat().st_size, str(path))
        return np.memmap(path, head.dtype, "r", head.start, head.shape, "F" if head.by_column else "C")
    except OSError as error:
        raise _unreadable(path, error) from None


def read_npy(path: Path) -> np.ndarray:
    try:
        with open(path, "rb") as file:
            return _values(file, _head(file, path.stat().st_size, str(path)), str(path))
    except OSError as error:
        raise _unreadable(path, error) from None


def read_npz(path: Path, shape: tuple[int, int, int]) -> Decoded | None:
    """A data set in one `.npz`; None if none of the known names are in it."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = {member.filename.removesuffix(".npy"): member for member in packed.infolist()}
            for names in NAMES:
                if _whole(names, set(members), path):
                    return _joined([_member(packed, members[name], path) for name in names], names, shape, path)
    except UserError:
        raise
    except Exception as error:  # a damaged zip raises many kinds
        raise _unreadable(path, error) from None
    return None


def _member(packed: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    where = f"{path}/{member.filename}"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack all at once
        raise UserError(f"'{where}' is compressed in a rare way; save it with numpy.savez")
    if member.file_size > RATIO * member.compress_size + 2**20:
        raise UserError(f"'{where}' unpacks to far more than its size; it is not to be trusted")
    with packed.open(member) as file:
        return _values(file, _head(file, member.file_size, where), where)


def read_npz_in(folder: Path, shape: tuple[int, int, int]) -> Decoded | None:
    """From the first `.npz` in a folder that holds a data set."""
    for path in sorted(folder.glob("*.npz")):
        decoded = read_npz(path, shape)
        if decoded is not None:
            return decoded
    return None


def read_folder(folder: Path, names: tuple[str, ...], shape: tuple[int, int, int]) -> Decoded | None:
    """From four `.npy` files; None if there is none of them."""
    found = {name for name in names if (folder / f"{name}.npy").is_file()}
    if not _whole(names, found, folder):
        return None
    return _joined([read_npy(folder / f"{name}.npy") for name in names], names, shape, folder)


def _whole(names: tuple[str, ...], found: set[str], where: Path) -> bool:
    lacking = [name for name in names if name not in found]
    if 0 < len(lacking) < len(names):
        raise UserError(f"'{where}' lacks '{lacking[0]}.npy'; all of {', '.join(names)} are needed")
    return not lacking


def _joined(arrays: list[np.ndarray], names: tuple[str, ...], shape: tuple[int, int, int], where: Path) -> Decoded:
    images, labels = [], []
    for i in (0, 2):
        images.append(as_images(arrays[i], shape, f"{where}/{names[i]}"))
        labels.append(as_labels(arrays[i + 1], len(images[-1]), f"{where}/{names[i + 1]}"))
    both = np.concatenate(labels)
    return Decoded(np.concatenate(images), both, np.arange(len(both)) >= len(labels[0]))


def check_images(shape: tuple[int, ...], dtype: np.dtype, wanted: tuple[int, int, int], where: str) -> None:
    """Whether an array holds images of `wanted` C x H x W, whichever axis its channels are on."""
    channels, height, width = wanted
    if dtype != np.uint8:
        raise UserError(f"'{where}' holds {dtype} values; images must be uint8 from 0 to 255: convert and save them")
    if shape[1:] not in (wanted, (height, width, channels)) and (channels > 1 or shape[1:] != (height, width)):
        raise UserError(
            f"'{where}' has shape {' x '.join(map(str, shape))}; "
            f"needed are N x {height} x {width}{f' x {channels}' if channels > 1 else ''} images"
        )


def as_images(array: np.ndarray, wanted: tuple[int, int, int], where: str) -> np.ndarray:
    """As N x C x H x W."""
    check_images(array.shape, array.dtype, wanted, where)
    if array.ndim == 4 and array.shape[1:] != wanted:
        array = array.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(array.reshape(-1, *wanted))


def as_labels(array: np.ndarray, rows: int, where: str) -> np.ndarray:
    """As N whole numbers; a second axis of length 1 is how Keras and MATLAB write them."""
    if array.dtype.kind not in "iu":
        raise UserError(f"'{where}' holds {array.dtype} values; labels must be whole numbers: convert and save them")
    if array.shape not in ((rows,), (rows, 1)):
        raise UserError(f"'{where}' has shape {' x '.join(map(str, array.shape))} for {rows:,} images; get it again")
    return array.reshape(-1).astype(np.int64)
