"""Every reader of files that others wrote: archives, arrays, pickles. Image files alone are opened in `_decoder`.

What comes in may be damaged or made to harm. Nothing that is read here runs code, writes outside the folder it was
given, or takes memory, disk or time beyond what its own length allows; whatever is wrong with a file is a `UserError`
in one line that names the file. Libraries read wherever they keep these promises; what they believe too easily is
checked before they see it, and the two formats that no library reads so are read by hand.
"""

import errno
import gzip
import io
import json
import math
import pickle
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from PIL import Image

from oodbench.errors import UserError

UNPACKED_LIMIT = 400 * 2**30  # bytes an archive may unpack to; ImageNet is 150 GB
ARRAY_LIMIT = 2**30  # bytes of one array, or of a file that is read whole; the largest of a known set has 225 million
RATIO = 200  # times its own size that anything compressed may have; images hardly compress, a bomb does
LEAST = 512  # bytes that a member of an archive counts for, so that a million empty ones are a bomb too
AT_ONCE = 2**24  # bytes that tar may ask for at a time; only a name that is a bomb is longer
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}
CLOSED = {errno.ENOENT, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EIO}


@contextmanager
def _blamed(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is the file's fault: readers raise nearly anything on damaged input."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in CLOSED:
            raise UserError(f"'{path}' cannot be read ({error.strerror}); get it again") from None
        raise _damaged(path, f"{type(error).__name__}: {_one_line(error)}") from None


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"'{path}' is damaged ({reason}); get it again")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:100]


# Archives. `tarfile.data_filter` would not do in place of the checks below: it takes '/etc/x' and 'a/../x' by changing
# them, 'C:\x' and '..\x' on every system but Windows, and links within the folder; it limits no sizes; and unpacking
# many small files through it takes 1.6 times as long.


def is_archive(path: Path) -> bool:
    return path.is_file() and (_is_tar(path) or _is_zip(path))


def _is_tar(path: Path) -> bool:
    try:
        with open(path, "rb") as file, _Tar.open(fileobj=file):
            return True
    except UserError:  # one, and not to be trusted
        return True
    except Exception:  # the formats' readers raise many kinds on damaged input
        return False


def _is_zip(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # one, and damaged
        return True


def unpack(archive: Path, folder: Path) -> None:
    """All regular files of a tar or zip archive below `folder`."""
    with _blamed(archive):
        try:
            allowed = min(UNPACKED_LIMIT, RATIO * archive.stat().st_size + 2**20)
            # A plain tar whose last member is a zip looks like a zip from behind, so tar comes first.
            if _is_tar(archive):
                _unpack_tar(archive, folder, allowed)
            else:
                _unpack_zip(archive, folder, allowed)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise UserError(
                f"cannot unpack '{archive}': {error.strerror}; free space or choose another folder"
            ) from None


def _target(name: str, folder: Path, archive: Path) -> Path:
    """Where a member goes; a name that would leave the folder on any system is refused on all of them."""
    path = PureWindowsPath(name)  # to which both slashes divide
    if path.anchor or ".." in path.parts:
        raise UserError(f"'{archive}' wants to write outside its folder ('{name}'); it is not to be trusted")
    return folder / name


def _special(archive: Path, name: str) -> UserError:
    return UserError(f"'{archive}' holds a link or device ('{name}'); unpack it yourself and add the folder")


def _charge(size: int, allowed: int, archive: Path) -> int:
    if size > allowed:
        raise UserError(f"'{archive}' unpacks to far more than its size; it is not to be trusted")
    return allowed - max(size, LEAST)


def _copy(content: IO[bytes], target: Path) -> int:
    """The bytes written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with content, open(target, "wb") as copy:
        while block := content.read(2**20):
            written += copy.write(block)
    return written


class _InSteps:
    """The bytes of a tar archive, never many at a time: tar reads a long name whole, however long it says it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self.close, self._read = file.seek, file.tell, file.close, file.read
        self.last = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= AT_ONCE:
            raise UserError(f"the archive has a header of {size:,} bytes; it is not to be trusted")
        self.last = self._read(size)
        return self.last


class _Tar(tarfile.TarFile):
    @classmethod
    def taropen(cls, name: Any, mode: Any = "r", fileobj: Any = None, **options: Any) -> Any:
        steps: Any = _InSteps(fileobj)
        return super().taropen(name, mode, steps, **options)


def _unpack_tar(archive: Path, folder: Path, allowed: int) -> None:
    with open(archive, "rb") as file, _Tar.open(fileobj=file) as tar:
        for member in tar:
            target = _target(member.name, folder, archive)
            if member.issym() or member.islnk() or member.isdev():
                raise _special(archive, member.name)
            if member.size < 0:
                raise _damaged(archive, f"'{member.name}' has {member.size} bytes")
            allowed = _charge(member.size, allowed, archive)
            if member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                _copy(content, target)
        # At a damaged header tarfile stops as if it were the end; the end is a block of zeros.
        steps: Any = tar.fileobj
        if len(steps.last) != tarfile.BLOCKSIZE or any(steps.last):
            raise _damaged(archive, "it breaks off")
        while rest := steps.read(2**20):  # to the end, where the checksum of what is compressed stands
            allowed = _charge(len(rest), allowed, archive)


def _unpack_zip(archive: Path, folder: Path, allowed: int) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            target = _target(member.filename, folder, archive)
            if (member.external_attr >> 28) not in (0x0, 0x4, 0x8):  # neither folder nor file
                raise _special(archive, member.filename)
            if _unpacks_all_at_once(member):
                raise UserError(f"'{archive}' is compressed in a rare way; unpack it yourself and add the folder")
            allowed = _charge(member.file_size, allowed, archive)
            if not member.is_dir() and _copy(packed.open(member), target) != member.file_size:
                raise _damaged(archive, f"'{member.filename}' is not as long as it says")


def _unpacks_all_at_once(member: zipfile.ZipInfo) -> bool:
    return member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


# Arrays as NumPy writes them. Its own parser reads the header, and `frombuffer` or `memmap` the values, which never
# unpickle. `np.load` would not do: it believes a header, takes the memory that one asks for before there are values to
# fill it, and reads a header whole however long that says it is.

NPY_HEADER = 12 + 10000  # bytes that a header may have, as NumPy limits it once it has read it
NPY_VERSIONS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


class _Npy(NamedTuple):
    """What an `.npy` file holds: plain numbers of a size we take, for which it is just as long as it must be."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    start: int  # of the values, in bytes


def _npy_header(file: IO[bytes], length: int, where: str) -> _Npy:
    try:
        head = io.BytesIO(file.read(NPY_HEADER))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            sizes, by_column, dtype = NPY_VERSIONS[npy_format.read_magic(head)](head)
        shape = tuple(map(int, sizes))  # of which True is one for NumPy
    except Exception as error:  # a damaged header raises nearly anything
        raise UserError(f"'{where}' has no header of an .npy file ({_one_line(error)}); get it again") from None
    if dtype.hasobject:
        raise UserError(f"'{where}' holds Python objects, which could run code; save plain numbers")
    if dtype.kind not in "buif":
        raise UserError(f"'{where}' holds values of type {dtype}; save plain numbers")
    if min(shape, default=0) < 1:
        raise UserError(f"'{where}' is empty (shape {shape}); get it again")
    size = math.prod(shape) * dtype.itemsize
    if size > ARRAY_LIMIT:
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
    with _blamed(path), open(path, "rb") as file:
        return _read_npy(file, path.stat().st_size, str(path))


def map_npy(path: Path) -> np.ndarray:
    """An `.npy` file whose values stay on the disk until they are used."""
    with _blamed(path):
        with open(path, "rb") as file:
            npy = _npy_header(file, path.stat().st_size, str(path))
        return np.memmap(path, npy.dtype, "r", npy.start, npy.shape, npy.order)


def npz_names(path: Path) -> set[str]:
    """Of the arrays in an `.npz`."""
    with _blamed(path), zipfile.ZipFile(path) as packed:
        return set(_npz_members(packed))


def read_npz(path: Path, names: tuple[str, ...]) -> list[np.ndarray]:
    """These arrays of an `.npz`."""
    with _blamed(path), zipfile.ZipFile(path) as packed:
        members = _npz_members(packed)
        return [_read_npz_member(packed, members[name], f"{path}/{members[name].filename}") for name in names]


def _npz_members(packed: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {member.filename.removesuffix(".npy"): member for member in packed.infolist()}


def _read_npz_member(packed: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> np.ndarray:
    if _unpacks_all_at_once(member):
        raise UserError(f"'{where}' is compressed in a rare way; save it with numpy.savez")
    if member.file_size > RATIO * member.compress_size + 2**20:
        raise UserError(f"'{where}' unpacks to far more than its size; it is not to be trusted")
    with packed.open(member) as file:
        return _read_npy(file, member.file_size, where)


# CIFAR's Python batches, which are pickles. An allow-list of NumPy's own names would not do: NumPy believes whatever
# the state of an array or type says, and can be made to take numbers for addresses. So the names on the list stand for
# classes of ours, which take nothing but plain numbers.


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
    with _blamed(path):
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


# CIFAR's other files


def read_binary(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """One official binary batch: rows of label bytes (the last counts) and 3072 pixels."""
    with _blamed(path):
        content = np.fromfile(path, dtype=np.uint8)
    width = label_bytes + 3072
    if len(content) == 0 or len(content) % width:
        raise UserError(f"'{path}' is truncated: {len(content):,} bytes are not rows of {width:,}; get it again")
    table = content.reshape(-1, width)
    return table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, label_bytes - 1].astype(np.int64)


def read_labels(path: Path) -> np.ndarray:
    """A list of whole numbers in JSON."""
    with _blamed(path):
        labels = np.array(json.loads(path.read_bytes()))
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise ValueError("not a list of whole numbers")
        return labels.astype(np.int64)


def read_picture(path: Path) -> np.ndarray:
    """Images from a PNG of 1,024 x N pixels; larger than Pillow opens without a word, so its size is checked first."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with _blamed(path), Image.open(path, formats=["PNG"]) as picture:
            if picture.width != 1024 or picture.height > 20000 or picture.mode != "RGB":
                raise UserError(
                    f"'{path}' is {picture.width}x{picture.height} {picture.mode}, not rows of 32x32 RGB images"
                )
            pixels = np.asarray(picture)
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


# MNIST's files, which no library reads


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


# SVHN's files, which are MATLAB's. Not through scipy, which a damaged file can make crash with the whole process.

MATRIX, COMPRESSED = 14, 15  # types of elements of a MATLAB 5 file
STORED_AS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 9: "<f8"}
REAL_NUMBERS = range(6, 14)  # classes of arrays: double, single, and whole numbers of 8 to 32 bits
MAT_HEADER = 1024  # bytes within which an array says what it is


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a MATLAB 5 file with X, 32 x 32 x 3 x N, and y, N x 1, in which 10 is the digit 0."""
    with _blamed(path):
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
