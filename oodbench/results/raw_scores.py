"""The raw scores beside a result, read as strictly as the result itself. Imports no torch.

An `.npz` with arrays `<split>_scores`, `<split>_predictions`, `<split>_labels` and `<split>_confidence`, described in
docs/results.md. Whatever else a file holds is damage, told in one line: a metric of such numbers would be wrong.
"""

from pathlib import Path

import numpy as np

from oodbench.data.untrusted import arrays
from oodbench.errors import UserError
from oodbench.results.metrics import Scored

FLOATS = (np.dtype("f2"), np.dtype("f4"), np.dtype("f8"))
DTYPES = {
    "scores": FLOATS,
    "predictions": (np.dtype("i2"),),
    "labels": (np.dtype("i2"),),
    "confidence": (np.dtype("f4"),),
}
LABELLED = ("scores", "predictions", "labels")
NEEDED = {"id": LABELLED, "covariate": LABELLED, "semantic": LABELLED[:2]}  # of the last two where there is any
LARGEST = 2**28  # bytes of all arrays together: twenty million images
ROUNDING = 1e-6  # by which a softmax may exceed 1


class Unreadable(Exception):
    """A file that this version cannot read as what it should be, a result or its raw scores, and why."""


def read_scores(path: Path) -> dict[str, Scored]:
    """The raw scores and predictions of a result, by split, for any metric one may think of later.

    `FileNotFoundError` if there are none, `Unreadable` if they are damaged.
    """
    file = path.with_suffix(".npz")
    if not file.exists():
        raise FileNotFoundError(file)
    if not file.is_file():
        raise Unreadable("not a file")
    try:
        names = tuple(sorted(arrays.npz_names(file)))
        splits = _splits(names)
        contents = dict(zip(names, arrays.read_npz(file, names, LARGEST), strict=True))
    except UserError as error:
        reason = str(error).rpartition("; ")[0].removeprefix(f"'{file}' is damaged ").replace(f"{file}/", "")
        raise Unreadable(f"damaged: {reason}") from None
    return {split: _scored(split, contents) for split in splits}


def _splits(names: tuple[str, ...]) -> list[str]:
    """The splits of a file that has all arrays it needs, and no other; confidences are missing in older ones."""
    splits = [split for split in NEEDED if split == "id" or any(name.startswith(split) for name in names)]
    needed = [f"{split}_{kind}" for split in splits for kind in NEEDED[split]]
    for name in needed:
        if name not in names:
            raise Unreadable(f"damaged: '{name}' is missing")
    for name in names:
        if name not in needed and name not in [f"{split}_confidence" for split in splits]:
            raise Unreadable(f"damaged: {name[:40]!r} is none of its arrays")
    return splits


def _scored(split: str, contents: dict[str, np.ndarray]) -> Scored:
    """One number per row in every array; copied, since what lies in a file cannot be written to."""
    rows = contents[f"{split}_scores"].shape[0]
    checked = dict[str, np.ndarray]()
    for kind, dtypes in DTYPES.items():
        array = contents.get(f"{split}_{kind}")
        if array is None:
            continue
        if array.dtype not in dtypes:
            raise Unreadable(f"damaged: '{split}_{kind}' is {array.dtype}, not {' or '.join(map(str, dtypes))}")
        if array.shape != (rows,):
            raise Unreadable(f"damaged: '{split}_{kind}' has the shape {array.shape}, not {(rows,)}")
        checked[kind] = array.copy()
    if not np.isfinite(checked["scores"]).all():
        raise Unreadable(f"damaged: '{split}_scores' are not all finite")
    if any(checked[kind].min() < 0 for kind in ("predictions", "labels") if kind in checked):
        raise Unreadable(f"damaged: '{split}' has a class below 0")
    confidence = checked.get("confidence", np.zeros(0))  # NaN where the logits were
    if ((confidence < 0) | (confidence > 1 + ROUNDING)).any():
        raise Unreadable(f"damaged: '{split}_confidence' is not between 0 and 1")
    return Scored(**checked)
