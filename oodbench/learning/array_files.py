"""Tensors by name in one file, `.npz` or `.safetensors`, whoever wrote it. Knows nothing of what they mean.

Nothing in a file runs code. Values stay on the disk until they are used, unless an `.npz` is compressed, and nothing
asks for more memory than its own length allows; whatever is wrong with a file is a `UserError` in one line. `.npz`
knows neither bfloat16 nor notes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from oodbench.data.untrusted import arrays, blamed
from oodbench.errors import UserError, unknown
from oodbench.files import write_atomically
from oodbench.user_files import open_regular

FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
WHOLE = {"I8": torch.int8, "U8": torch.uint8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64}
DTYPES = {**FLOATS, **WHOLE}
HEADER_LIMIT = 2**20  # bytes of the header of a `.safetensors`, which names and places every array
SUFFIXES = (".npz", ".safetensors")


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What a file holds, and its notes."""
    suffix = _suffix(path)
    try:
        open_regular(path).close()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}; give a file of arrays") from None
    if suffix == ".npz":
        return {name: _tensor(values, f"{path}/{name}") for name, values in arrays.map_npz(path).items()}, {}
    with blamed(path):
        return _read_safetensors(path)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Whole or not at all; notes where the format has any."""
    at_home = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
    if _suffix(path) == ".safetensors":
        return write_atomically(path, lambda file: _write_safetensors(file, at_home, notes))
    for name, each in at_home.items():
        if each.dtype == torch.bfloat16:
            raise UserError(f"'{name}' is bfloat16, which .npz does not support; write a .safetensors file")
    values = {name: each.numpy() for name, each in at_home.items()}
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **values))


def raw(tensor: Tensor) -> memoryview:
    """The bytes of a tensor that is contiguous and at home."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _suffix(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        raise UserError(f"'{path}' is not a file of arrays by its name; give {' or '.join(SUFFIXES)}")
    return path.suffix


def _tensor(values: np.ndarray, where: str) -> Tensor:
    """In the order of this machine, row by row."""
    values = np.ascontiguousarray(values).reshape(values.shape)  # which makes one number a row of one
    if values.dtype.isnative and values.dtype.kind in "iuf" and values.dtype.itemsize <= 8:
        if values.dtype.kind == "u" and values.dtype.itemsize > 1:  # which torch hardly knows
            return torch.from_numpy(values.astype(np.int64))
        return torch.from_numpy(values)
    if values.dtype.kind in "iuf" and values.dtype.itemsize <= 8:
        return _tensor(values.astype(values.dtype.newbyteorder("=")), where)
    raise UserError(f"'{where}' holds values of type {values.dtype}; save them as float32, labels as int64")


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
    if length > HEADER_LIMIT:
        raise UserError(f"'{path}' has a header of {length:,} bytes; it is not a .safetensors file of outputs")
    with safe_open(path, framework="pt") as opened:
        names = opened.keys()
        for name in names:
            dtype = opened.get_slice(name).get_dtype()
            if dtype not in DTYPES:
                raise UserError(f"'{path}/{name}': {unknown('type of values', dtype, DTYPES)}")
        return {name: opened.get_tensor(name) for name in names}, dict(opened.metadata() or {})


def _write_safetensors(file: IO[bytes], tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """By hand, one after the other: the package would hold all bytes in memory once or twice more."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, object] = {"__metadata__": dict(notes)} if notes else {}
    in_order = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # each begins aligned
    end = 0
    for name, each in in_order:
        start, end = end, end + each.numel() * each.element_size()
        header[name] = {"dtype": names[each.dtype], "shape": list(each.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, each in in_order:
        file.write(raw(each))
