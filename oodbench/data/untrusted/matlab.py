"""SVHN's files, which are MATLAB's. Not through SciPy, which a damaged file can make crash with the whole process."""

import math
import struct
import zlib
from pathlib import Path

import numpy as np

from oodbench.data.untrusted import ARRAY_LIMIT, blamed
from oodbench.errors import UserError

MATRIX, COMPRESSED = 14, 15  # types of elements of a MATLAB 5 file
STORED_AS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 9: "<f8"}
REAL_NUMBERS = range(6, 14)  # classes of arrays: double, single, and whole numbers of 8 to 32 bits
MAT_HEADER = 1024  # bytes within which an array says what it is


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a MATLAB 5 file with X, 32 x 32 x 3 x N, and y, N x 1, in which 10 is the digit 0."""
    with blamed(path):
        if path.stat().st_size > ARRAY_LIMIT:
            raise UserError(f"'{path}' has over {ARRAY_LIMIT:,} bytes; it is not a file of SVHN")
        content = memoryview(path.read_bytes())
        if bytes(content[124:128]) != b"\x00\x01IM":
            raise UserError(f"'{path}' is not a MATLAB 5 file; get it again")
        arrays = _mat_arrays(content)
        if set(arrays) != {"X", "y"}:
            raise UserError(f"'{path}' does not hold X and y; it is not a file of SVHN")
        images, labels = arrays["X"], arrays["y"]
        if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
            raise UserError(f"'{path}': X is {_sizes(images)}, not 32 x 32 x 3 x N uint8; it is not a file of SVHN")
        if labels.shape not in ((images.shape[3], 1), (1, images.shape[3])):
            raise UserError(f"'{path}': y is {_sizes(labels)} for {images.shape[3]:,} images; get it again")
        with np.errstate(invalid="ignore"):
            whole = labels.reshape(-1).astype(np.int64)
        if (whole != labels.reshape(-1)).any():
            raise ValueError("its labels are not whole numbers")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), np.where(whole == 10, 0, whole)


def _sizes(array: np.ndarray) -> str:
    return f"{' x '.join(map(str, array.shape))} {array.dtype}"


def _mat_arrays(content: memoryview) -> dict[str, np.ndarray]:
    """X and y of a file."""
    arrays, at = {}, 128
    while at < len(content):
        kind, body, after = _mat_element(content, at)
        if kind == COMPRESSED:
            name, after = _inflated_name(body), at + 8 + len(body)  # which are not padded
        elif kind == MATRIX:
            name = _mat_head(body)[0]
        else:
            raise ValueError(f"an element of type {kind}")
        if name in ("X", "y"):
            arrays[name] = _mat_array(_inflated(body) if kind == COMPRESSED else body)
        at = after
    return arrays


def _mat_element(content: memoryview, at: int) -> tuple[int, memoryview, int]:
    """Type, content and end of the element at a place: type and length, the content, to a multiple of eight bytes."""
    kind, length = struct.unpack_from("<II", content, at)
    if kind >> 16:  # a short one, all in eight bytes
        kind, length, start, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
    else:
        start, after = at + 8, at + 8 + length + -length % 8
    if start + length > min(len(content), after):
        raise ValueError("it breaks off")
    return kind, content[start : start + length], after


def _mat_head(body: memoryview) -> tuple[str, int, tuple[int, ...], int]:
    """Name, class and sizes of an array, and where its values begin."""
    _, flags, at = _mat_element(body, 0)
    _, sizes, at = _mat_element(body, at)
    _, name, at = _mat_element(body, at)
    flag = struct.unpack_from("<I", flags)[0]
    if flag & 0x0800:
        raise ValueError("complex numbers")
    return bytes(name).decode("latin1"), flag & 0xFF, struct.unpack(f"<{len(sizes) // 4}i", sizes), at


def _mat_array(body: memoryview) -> np.ndarray:
    name, kind, shape, at = _mat_head(body)
    stored, values, _ = _mat_element(body, at)
    if kind not in REAL_NUMBERS or stored not in STORED_AS or min(shape, default=0) < 1:
        raise ValueError(f"{name} is an array of class {kind}, type {stored}, sizes {shape}")
    numbers = np.frombuffer(values, STORED_AS[stored])
    if len(numbers) != math.prod(shape):
        raise ValueError(f"{name} has {len(numbers):,} values for {math.prod(shape):,}")
    return numbers.reshape(shape, order="F")


def _inflated_name(packed: memoryview) -> str:
    start = memoryview(zlib.decompressobj().decompress(packed, MAT_HEADER))
    return _mat_head(start[8:])[0]


def _inflated(packed: memoryview) -> memoryview:
    """The body of a compressed array, once it says that it is of a size we take."""
    inflate = zlib.decompressobj()
    tag = inflate.decompress(packed, 8)
    kind, length = struct.unpack("<II", tag)
    if kind != MATRIX or not 0 < length <= ARRAY_LIMIT + MAT_HEADER:
        raise ValueError(f"an array of {length:,} bytes")
    body = inflate.decompress(inflate.unconsumed_tail, length)
    # To the end, where the checksum stands.
    if len(body) != length or inflate.decompress(inflate.unconsumed_tail, 1) or not inflate.eof:
        raise ValueError("an array that is not as long as it says")
    return memoryview(body)
