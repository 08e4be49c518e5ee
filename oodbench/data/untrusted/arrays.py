"""Arrays as NumPy writes them, and as MNIST's files hold them.

NumPy's own parser reads the header, and `frombuffer` or `memmap` the values, which never unpickle. `np.load` would not
do: it believes a header, takes the memory that one asks for before there are values to fill it, and reads a header
whole however long that says it is. No library reads MNIST's files.
"""

import gzip
import io
import math
import os
import struct
import sys
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from oodbench.data.untrusted import ARRAY_LIMIT, RATIO, blamed, one_line
from oodbench.data.untrusted.archives import stated_members, unpacks_all_at_once
from oodbench.errors import UserError
from oodbench.user_files import open_regular

NPY_HEADER = 12 + 10000  # bytes that a header may have, as NumPy limits it once it has read it
NPY_VERSIONS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


class _Npy(NamedTuple):
    """What an `.npy` file holds: plain numbers of a size we take, for which it is just as long as it must be."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    start: int  # of the values, in bytes


def _npy_header(file: IO[bytes], length: int, where: str, least: int = 1, most: int = ARRAY_LIMIT) -> _Npy:
    """`least` of every size, `most` bytes in all."""
    try:
        head = io.BytesIO(file.read(NPY_HEADER))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            sizes, by_column, dtype = NPY_VERSIONS[npy_format.read_magic(head)](head)
        shape = tuple(map(int, sizes))  # of which True is one for NumPy
    except Exception as error:  # a damaged header raises nearly anything
        raise UserError(f"'{where}' has no header of an .npy file ({one_line(error)}); get it again") from None
    if dtype.hasobject:
        raise UserError(f"'{where}' holds Python objects, which could run code; save plain numbers")
    if dtype.kind not in "buif":
        raise UserError(f"'{where}' holds values of type {dtype}; save plain numbers")
    if min(shape, default=0) < least:
        raise UserError(f"'{where}' is empty (shape {shape}); get it again")
    size = math.prod(shape) * dtype.itemsize
    if size > most:
        raise UserError(f"'{where}' says that it holds {size:,} bytes of values; it is not to be trusted")
    if head.tell() + size != length:
        raise UserError(
            f"'{where}' is truncated or damaged: {max(length - head.tell(), 0):,} bytes for {size:,}; get it again"
        )
    return _Npy(shape, dtype, "F" if by_column else "C", head.tell())


def _read_npy(file: IO[bytes], length: int, where: str) -> np.ndarray:
    npy = _npy_header(file, length, where)
    file.seek(npy.start)
    return np.frombuffer(file.read(length - npy.start), npy.dtype).reshape(npy.shape, order=npy.order)


def read_npy(path: Path) -> np.ndarray:
    with blamed(path), open(path, "rb") as file:
        return _read_npy(file, path.stat().st_size, str(path))


def map_npy(path: Path) -> np.ndarray:
    """An `.npy` file whose values stay on the disk until they are used."""
    with blamed(path):
        with open(path, "rb") as file:
            npy = _npy_header(file, path.stat().st_size, str(path))
        return np.memmap(path, npy.dtype, "r", npy.start, npy.shape, npy.order)


def npz_names(path: Path) -> set[str]:
    """Of the arrays in an `.npz`."""
    with blamed(path), zipfile.ZipFile(path) as packed:
        return set(_npz_members(packed))


def read_npz(path: Path, names: tuple[str, ...], most: int = sys.maxsize) -> list[np.ndarray]:
    """These arrays of an `.npz`, of so many bytes in all."""
    with blamed(path), zipfile.ZipFile(path) as packed:
        members = _npz_members(packed)
        size = sum(members[name].file_size for name in names)
        if size > most:
            raise UserError(f"'{path}' says that it holds {size:,} bytes of values; it is not to be trusted")
        return [_read_npz_member(packed, members[name], f"{path}/{members[name].filename}") for name in names]


def map_npz(path: Path) -> dict[str, np.ndarray]:
    """Every array of an `.npz`, also an empty one; what is not compressed stays on the disk until it is used."""
    with blamed(path), open_regular(path) as file, zipfile.ZipFile(file) as packed:
        members, packed_members = _npz_members(packed), packed.infolist()
        if len(packed_members) != stated_members(file):
            raise UserError(f"'{path}' is damaged (its table of contents is not whole); get it again")
        if len(members) < len(packed_members):
            raise UserError(f"'{path}' holds two arrays of one name; save each once")
        length, is_stored = os.fstat(file.fileno()).st_size, zipfile.ZIP_STORED
        stored = sum(each.file_size for each in packed_members if each.compress_type == is_stored)
        unpacked = sum(each.file_size for each in packed_members if each.compress_type != is_stored)
        if stored > length or unpacked > RATIO * length + 2**20:  # members may overlap
            raise UserError(f"'{path}' unpacks to far more than its size; it is not to be trusted")
        return {name: _map_npz_member(packed, file, each, f"{path}/{name}") for name, each in members.items()}


def _map_npz_member(packed: zipfile.ZipFile, file: IO[bytes], member: zipfile.ZipInfo, where: str) -> np.ndarray:
    is_stored = member.compress_type == zipfile.ZIP_STORED
    if not is_stored:
        _check_unpacking(member, where)
    with packed.open(member) as content:
        npy = _npy_header(content, member.file_size, where, 0, sys.maxsize if is_stored else ARRAY_LIMIT)
    with packed.open(member) as content:  # anew: some versions of zipfile compare no checksum after a seek
        if not is_stored:
            content.read(npy.start)
            return np.frombuffer(bytearray(content.read()), npy.dtype).reshape(npy.shape, order=npy.order)
        while content.read(2**20):  # to the end, where the checksum is compared
            pass
    if 0 in npy.shape:  # of which there is nothing to map
        return np.empty(npy.shape, npy.dtype)
    return np.memmap(file, npy.dtype, "c", _start(file, member) + npy.start, npy.shape, npy.order)


def _start(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Of a member's bytes: a header of 30, a name and an extra field of lengths that it states lie before them."""
    file.seek(member.header_offset + 26)
    name, extra = struct.unpack("<HH", file.read(4))
    return member.header_offset + 30 + name + extra


def _npz_members(packed: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {member.filename.removesuffix(".npy"): member for member in packed.infolist()}


def _read_npz_member(packed: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> np.ndarray:
    _check_unpacking(member, where)
    with packed.open(member) as file:
        return _read_npy(file, member.file_size, where)


def _check_unpacking(member: zipfile.ZipInfo, where: str) -> None:
    if unpacks_all_at_once(member):
        raise UserError(f"'{where}' is compressed in a rare way; save it with numpy.savez")
    if member.file_size > RATIO * member.compress_size + 2**20:
        raise UserError(f"'{where}' unpacks to far more than its size; it is not to be trusted")


def read_idx(path: Path) -> np.ndarray:
    """An array from an idx file: two zeros, 8 for unsigned bytes, the number of sizes, the sizes, the bytes."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            head = file.read(4)
            dimensions = head[3] if len(head) == 4 else 0
            sizes = file.read(4 * dimensions)
            if head[:3] != b"\x00\x00\x08" or not 1 <= dimensions <= 3 or len(sizes) < 4 * dimensions:
                raise UserError(f"'{path}' is not an idx file of bytes; get it again")
            shape = struct.unpack(f">{dimensions}I", sizes)
            expected = math.prod(shape)
            if expected > ARRAY_LIMIT:
                raise UserError(f"'{path}' says that it holds {expected:,} values; it is not to be trusted")
            content = file.read(expected + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"'{path}' cannot be read ({error}); get it again") from None
    if len(content) != expected:
        length = f"over {expected:,}" if len(content) > expected else f"{len(content):,}"
        raise UserError(f"'{path}' is truncated or damaged: {length} bytes for {expected:,} values; get it again")
    if not expected:
        raise UserError(f"'{path}' is empty; get it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
