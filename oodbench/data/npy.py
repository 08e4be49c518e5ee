"""Sets as arrays that numpy wrote, `.npy` and `.npz`, wherever their channels are."""

from pathlib import Path

import numpy as np

from oodbench.data.listing import holds, is_whole
from oodbench.data.store import Decoded
from oodbench.data.untrusted import arrays
from oodbench.errors import UserError

NAMES = (
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),  # as Keras names them
)


def read_npz(path: Path, shape: tuple[int, int, int]) -> Decoded | None:
    """A data set in one `.npz`; None if none of the known names are in it."""
    stored = arrays.npz_names(path)
    for names in NAMES:
        if is_whole(path, {f"{name}.npy": name in stored for name in names}, _all_of(names)):
            return _joined(arrays.read_npz(path, names), names, shape, path)
    return None


def read_npz_in(folder: Path, shape: tuple[int, int, int]) -> Decoded | None:
    """From the first `.npz` in a folder that holds a data set."""
    for path in sorted(folder.glob("*.npz")):
        decoded = read_npz(path, shape)
        if decoded is not None:
            return decoded
    return None


def read_folder(folder: Path, names: tuple[str, ...], shape: tuple[int, int, int]) -> Decoded | None:
    """From four `.npy` files; None if there is none of them."""
    if not holds_arrays(folder, names):
        return None
    return _joined([arrays.read_npy(folder / f"{name}.npy") for name in names], names, shape, folder)


def holds_arrays(folder: Path, names: tuple[str, ...]) -> bool:
    return holds(folder, [f"{name}.npy" for name in names], _all_of(names))


def _all_of(names: tuple[str, ...]) -> str:
    return f"all of {', '.join(names)}"


def _joined(arrays: list[np.ndarray], names: tuple[str, ...], shape: tuple[int, int, int], where: Path) -> Decoded:
    parts = []
    for i in (0, 2):
        images = as_images(arrays[i], shape, f"{where}/{names[i]}")
        parts.append((images, as_labels(arrays[i + 1], len(images), f"{where}/{names[i + 1]}")))
    return Decoded.of(parts[:1], parts[1:])


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
