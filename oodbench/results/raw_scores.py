"""The arrays of a result, checked as strictly as the result itself. Imports no torch.

`<split>_scores` are the method's own. `<split>_labels`, `<split>_predictions` and `<split>_confidence` belong to the
network in its setting, and all scorers on it share them. A result names the digest of every array, so one that was
edited, cut or swapped is found when it is read.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from oodbench import digests
from oodbench.errors import shown
from oodbench.results.metrics import METRICS, Scored, evaluate

Arrays = dict[str, NDArray[Any]]  # by name

RANKS = (np.dtype("u2"), np.dtype("u4"))  # a pack may hold these in place of scores
DTYPES = {
    "scores": (*RANKS, np.dtype("f2"), np.dtype("f4"), np.dtype("f8")),
    "predictions": (np.dtype("i2"),),
    "labels": (np.dtype("i2"),),
    "confidence": (np.dtype("f4"),),
}
LABELLED = ("scores", "predictions", "labels")
NEEDED = {"id": LABELLED, "covariate": LABELLED, "semantic": LABELLED[:2]}  # of the last two where there is any
LARGEST = 2**28  # bytes of all arrays together: twenty million images
ROUNDING = 1e-6  # by which a softmax may exceed 1
SAME = 1e-9  # by which a metric may differ from what it is computed as: less than one image in any set


class Unreadable(Exception):
    """A file that this version cannot read as what it should be, a result or its raw scores, and why."""


def arrays_of(scores: Mapping[str, Scored]) -> Arrays:
    return {
        f"{split}_{kind}": np.ascontiguousarray(array)
        for split, scored in scores.items()
        for kind, array in vars(scored).items()
        if array is not None
    }


def is_own(name: str) -> bool:
    """Whether an array is the method's own, and not its network's."""
    return name.endswith("_scores")


def digest_of(array: NDArray[Any]) -> str:
    """The same on every machine for the same type, shape and values."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return digests.of_bytes(f"{little.dtype.str} {little.shape} ".encode(), np.ascontiguousarray(little).tobytes())


def digests_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    return {name: digest_of(array) for name, array in sorted(arrays.items())}


def network_digest(named: Mapping[str, str]) -> str | None:
    """Of what the scorers of a network share in a setting, by the digests of all arrays; None without any."""
    shared = {name: digest for name, digest in named.items() if not is_own(name)}
    return digests.of_values(shared) if shared else None


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """As a safetensors file, the same bytes whoever writes it."""
    content: bytes = safetensors.numpy.save(dict(sorted(arrays.items())))
    return content


def unpacked(content: bytes) -> Arrays:
    try:
        arrays: Arrays = safetensors.numpy.load(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise Unreadable(f"damaged: {str(error)[:100] or type(error).__name__}") from None
    return arrays


def checked(named: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Scored]:
    """By split, the arrays that a result names; `Unreadable` if any is missing, another, or none of a result."""
    for name, digest in named.items():
        if name not in arrays:
            raise Unreadable(f"damaged: '{name}' is missing")
        if digest_of(arrays[name]) != digest:
            raise Unreadable(f"damaged: '{name}' is not what the result names")
    return by_split({name: arrays[name] for name in named})


def by_split(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Scored]:
    """All arrays that a metric needs, of the right types and lengths, and no other; older ones lack confidences."""
    splits = [split for split in NEEDED if split == "id" or any(name.startswith(split) for name in arrays)]
    needed = [f"{split}_{kind}" for split in splits for kind in NEEDED[split]]
    for name in needed:
        if name not in arrays:
            raise Unreadable(f"damaged: '{name}' is missing")
    for name in arrays:
        if name not in needed and name not in [f"{split}_confidence" for split in splits]:
            raise Unreadable(f"damaged: {name[:40]!r} is none of its arrays")
    return {split: _scored(split, arrays) for split in splits}


def _scored(split: str, arrays: Mapping[str, NDArray[Any]]) -> Scored:
    """One number per row in every array; copied, since what lies in a file cannot be written to."""
    rows = arrays[f"{split}_scores"].shape[:1]
    checked = Arrays()
    for kind, dtypes in DTYPES.items():
        array = arrays.get(f"{split}_{kind}")
        if array is None:
            continue
        if array.dtype not in dtypes:
            raise Unreadable(f"damaged: '{split}_{kind}' is {array.dtype}, not {' or '.join(map(str, dtypes))}")
        if array.shape != rows or len(rows) != 1:
            raise Unreadable(f"damaged: '{split}_{kind}' has the shape {array.shape}, not {rows}")
        checked[kind] = array.astype(float) if array.dtype in RANKS else array.copy()
    if not np.isfinite(checked["scores"]).all():
        raise Unreadable(f"damaged: '{split}_scores' are not all finite")
    if any(len(checked[kind]) and checked[kind].min() < 0 for kind in ("predictions", "labels") if kind in checked):
        raise Unreadable(f"damaged: '{split}' has a class below 0")
    confidence = checked.get("confidence", np.zeros(0))  # NaN where the logits were
    if ((confidence < 0) | (confidence > 1 + ROUNDING)).any():
        raise Unreadable(f"damaged: '{split}_confidence' is not between 0 and 1")
    return Scored(**checked)


def ranked(arrays: Arrays) -> Arrays:
    """With joint ranks of all scores in place of their values: order and ties stay, and so does every metric."""
    names = [name for name in arrays if is_own(name)]
    values, ranks = np.unique(np.concatenate([arrays[name] for name in names]), return_inverse=True)
    ranks = ranks.astype(np.uint16 if len(values) <= 2**16 else np.uint32)
    parts = np.split(ranks, np.cumsum([len(arrays[name]) for name in names])[:-1])
    return {**arrays, **dict(zip(names, parts, strict=True))}


def contradiction(stored: Mapping[str, float], scores: dict[str, Scored]) -> str | None:
    """How metrics of today's version differ from what raw scores give; None if they do not."""
    try:
        measured = evaluate(**scores)
    except ValueError as error:
        return str(error)
    strange = [name for name in METRICS if (name in measured) != (name in stored)]
    strange += [name for name in stored if name not in METRICS]
    if strange:
        return f"{shown(strange[0])} is missing, or cannot be computed from the raw scores"
    wrong = [n for n, value in measured.items() if not math.isclose(value, stored[n], rel_tol=0.0, abs_tol=SAME)]
    if not wrong:
        return None
    name, more = wrong[0], f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"{name} is {stored[name]:.6g}, and its raw scores give {measured[name]:.6g}{more}"
