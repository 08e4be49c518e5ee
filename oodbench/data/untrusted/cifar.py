"""CIFAR's files: Python batches, which are pickles, binary batches, and what packages make of them.

An allow-list of NumPy's own names would not do for pickles: NumPy believes whatever the state of an array or type says,
and can be made to take numbers for addresses. So the names on the list stand for classes of ours, which take nothing
but plain numbers.
"""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from oodbench.data.untrusted import blamed
from oodbench.errors import UserError


class _Array:
    """Stands for a numpy array."""

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
    """Builds arrays and plain values, and nothing else.

    The unpickler in Python, since that in C takes gigabytes when a number of its memo is damaged.
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
    """One official Python batch of CIFAR: N x 3 x 32 x 32 bytes and N labels."""
    with blamed(path):
        try:
            values = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        except UserError as error:
            raise UserError(f"'{path}': {error}") from None
        images, labels = (
            np.asarray(value.values if isinstance(value, _Array) else value)
            for value in (values["data"], values[label_key])
        )
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise ValueError("its labels are not whole numbers")
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
            raise ValueError(f"data of shape {images.shape} for {len(labels)} labels")
        return images.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def read_binary(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """One official binary batch: rows of label bytes (the last counts) and 3072 pixels."""
    with blamed(path):
        content = np.fromfile(path, dtype=np.uint8)
    width = label_bytes + 3072
    if len(content) == 0 or len(content) % width:
        raise UserError(f"'{path}' is truncated: {len(content):,} bytes are not rows of {width:,}; get it again")
    table = content.reshape(-1, width)
    return table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, label_bytes - 1].astype(np.int64)


def read_labels(path: Path) -> np.ndarray:
    """A list of whole numbers in JSON."""
    with blamed(path):
        labels = np.array(json.loads(path.read_bytes()))
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise ValueError("not a list of whole numbers")
        return labels.astype(np.int64)


def read_picture(path: Path) -> np.ndarray:
    """Images from a PNG of 1,024 x N pixels; larger than Pillow opens without a word, so its size is checked first."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with blamed(path), Image.open(path, formats=["PNG"]) as picture:
            if picture.width != 1024 or picture.height > 20000 or picture.mode != "RGB":
                raise UserError(
                    f"'{path}' is {picture.width}x{picture.height} {picture.mode}, not rows of 32x32 RGB images"
                )
            pixels = np.asarray(picture)
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
