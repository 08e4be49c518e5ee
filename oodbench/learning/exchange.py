"""Outputs of a network in one file, `.npz` or `.safetensors`, to be taken elsewhere or brought from there.

The arrays are named by a part and what they hold of it, and the linear head of the network:

    train_features      N x d       the input of the head, for the rows that scorers are fitted on
    train_logits        N x K
    train_labels        N           whole numbers from 0 to K - 1
    validation_...                  the same of ID rows that no scorer is fitted on otherwise
    id_...                          of the ID test rows
    covariate_...                   of shifted rows of the ID classes; covariate_NAME_... where there are several sets
    semantic_NAME_...               of rows of no ID class, which have no labels; semantic_... where there is one set
    weight, bias        K x d, K    of the head: logits are weight times features, plus bias

Numbers are float16, bfloat16, float32 or float64, and computed with in float32. What is enough for what:

- `id_` features or logits, with labels, are needed; so are labels of every part but a semantic one.
- Logits may be missing where features and `weight` are there; a `bias` that is missing is zero.
- Features may be missing, of all parts or of none. Then scorers that read features are left out.
- Without `weight`, logits must be there, and scorers that read the head are left out.
- Without `train_`, only scorers that have nothing to fit can be used.
- Without `validation_`, a tenth of the training rows, by lot, is held out in its place.
- No file has images: scorers that go back to these, or read feature maps, are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import digests
from oodbench.errors import UserError, shortened, unknown
from oodbench.learning.array_files import FLOATS, WHOLE, raw, read_tensors, write_tensors

ROWS = 1024  # looked at together, so that a large file never is in memory
MOST_CLASSES = 2**15 - 1  # predictions are stored in 16 bits
AGREEMENT = 0.05  # of the largest logit: what weight and features may give otherwise, in half precision say
FIELDS = ("features", "logits", "labels")
ALONE = ("train", "validation", "id", "covariate", "semantic")  # parts that need no name of their own
NAMED = ("covariate", "semantic")
PART = re.compile(r"train|validation|id|(?:covariate|semantic)(?:_[A-Za-z0-9][A-Za-z0-9.+_-]*)?")
SEAL = "digest"  # the note that tells whether a file is as it was written
SEALED = {"written_by": "oodbench"}  # and the one by which its seal is missed


@dataclass(frozen=True, eq=False)
class PartArrays:
    """What a network gave for the rows of one part; features or logits, if not both."""

    features: Tensor | None = None
    logits: Tensor | None = None
    labels: Tensor | None = None  # int64

    def __len__(self) -> int:
        return next(len(each) for each in self.arrays.values())

    @property
    def arrays(self) -> dict[str, Tensor]:
        return {name: each for name in FIELDS if (each := getattr(self, name)) is not None}

    @cached_property
    def digest(self) -> str:
        return _digest(self.arrays)


@dataclass(frozen=True, eq=False)
class Arrays:
    """What a file holds: parts by name, and the head."""

    parts: Mapping[str, PartArrays]
    weight: Tensor | None = None
    bias: Tensor | None = None
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # which .npz does not keep

    @property
    def arrays(self) -> dict[str, Tensor]:
        """As the file names them."""
        every = {f"{name}_{each}": values for name, part in self.parts.items() for each, values in part.arrays.items()}
        return every | {name: each for name in ("weight", "bias") if (each := getattr(self, name)) is not None}

    @cached_property
    def digest(self) -> str:
        """Of the content, whichever format it is in."""
        return _digest(self.arrays)

    @property
    def has_features(self) -> bool:
        return self.parts["id"].features is not None

    @property
    def num_classes(self) -> int:
        by_columns = [part.logits.shape[1] for part in self.parts.values() if part.logits is not None]
        return by_columns[0] if self.weight is None else len(self.weight)

    def sets(self, role: str) -> dict[str, str]:
        """The `covariate` or `semantic` sets that are there, by name, and their parts; one may have its role's name."""
        return {name.removeprefix(f"{role}_"): name for name in self.parts if name.split("_")[0] == role}


def read(path: Path) -> Arrays:
    """A file that anybody may have written; a `UserError` in one line for whatever does not fit."""
    tensors, notes = read_tensors(path)
    stated, is_ours = notes.pop(SEAL, None), SEALED.items() <= notes.items()
    notes = {name: text for name, text in notes.items() if not is_ours or name not in SEALED}
    try:
        arrays = _checked(tensors, notes)
    except UserError as error:
        raise UserError(f"'{path}': {error}") from None
    if (is_ours or stated is not None) and stated != _seal(arrays):
        raise UserError(f"'{path}' is damaged (its content is not what was written); get it again")
    return arrays


def write(path: Path, arrays: Arrays) -> None:
    """Whole or not at all; `read` gives back the same bits."""
    write_tensors(path, arrays.arrays, {**arrays.notes, **SEALED, SEAL: _seal(arrays)})


def _digest(arrays: Mapping[str, Tensor]) -> str:
    def pieces() -> Iterator[bytes | memoryview]:
        for name, each in sorted(arrays.items()):
            yield f"{name} {each.dtype} {tuple(each.shape)};".encode()
            yield raw(each.detach().cpu().contiguous())

    return digests.of_pieces(pieces())


def _seal(arrays: Arrays) -> str:
    """Of the arrays and the notes; an .npz, which has neither notes nor seal, has checksums of its own."""
    return digests.of_values([arrays.digest, dict(arrays.notes)])


def _checked(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> Arrays:
    for name in tensors:
        _check_name(name)
    held: dict[str, dict[str, Tensor]] = {}
    for name in sorted(tensors.keys() - {"weight", "bias"}):
        part, _, what = name.rpartition("_")
        held.setdefault(part, {})[what] = _labels(tensors[name], name) if what == "labels" else tensors[name]
    arrays = Arrays(
        {part: PartArrays(**each) for part, each in held.items()}, tensors.get("weight"), tensors.get("bias"), notes
    )
    _check_completeness(arrays)
    _check_shapes(arrays)
    _check_values(arrays)
    return arrays


def _check_name(name: str) -> None:
    part, _, what = name.rpartition("_")
    if name in ("weight", "bias") or (PART.fullmatch(part) and what in FIELDS[:2]):
        return
    role, _, own = part.partition("_")
    if PART.fullmatch(part) and what == "labels":
        if role != "semantic":
            return
        raise UserError(f"'{shortened(name)}' are labels of images that belong to no ID class; leave them out")
    known = [f"{each}_{field}" for each in ALONE for field in FIELDS if (each, field) != ("semantic", "labels")]
    if role in NAMED and PART.fullmatch(part):
        known += [f"{part}_{field}" for field in FIELDS[: 2 if role == "semantic" else 3]]
    elif role in NAMED and own:
        raise UserError(f"the set name in '{shortened(name)}' has other characters; use letters, digits and . + - _")
    raise unknown("array", name, [*known, "weight", "bias"])


def _check_completeness(arrays: Arrays) -> None:
    """That what is needed is there."""
    if "id" not in arrays.parts:
        raise UserError("there are no ID test rows; give id_features or id_logits, and id_labels")
    if arrays.bias is not None and arrays.weight is None:
        raise UserError("there is a bias but no weight; give both or neither")
    for role in NAMED:
        if {role, f"{role}_{role}"} <= arrays.parts.keys():
            raise UserError(f"there are two {role} sets called '{role}'; give them names that differ")
    for name, part in arrays.parts.items():
        if part.features is None and part.logits is None:
            raise UserError(f"'{name}' has only labels; give {name}_features or {name}_logits")
    for name, part in arrays.parts.items():
        if (part.features is not None) != arrays.has_features:
            lacking = "id" if part.features is not None else name
            raise UserError(f"'{lacking}' has no features, but another set has; give features for all sets or for none")
        if part.logits is None and arrays.weight is None:
            raise UserError(f"'{name}' has no logits and there is no head to compute them with; give weight and bias")
        if part.labels is None and not name.startswith("semantic"):
            raise UserError(f"'{name}' has no labels; give {name}_labels")


def _check_shapes(arrays: Arrays) -> None:
    """That sizes agree, types of values among them."""
    for name, values in arrays.arrays.items():
        dimensions = 1 if name == "bias" or name.endswith("_labels") else 2
        if values.ndim != dimensions:
            wanted = "one number for each row" if dimensions == 1 else "a row of numbers for each"
            raise UserError(f"'{name}' has shape {_shape(values)}; {wanted} is needed")
        if not name.endswith("_labels") and values.dtype not in FLOATS.values():
            raise UserError(f"'{name}' holds {_type(values)} values; save them as float32")
    for name, part in arrays.parts.items():
        if len(part) == 0:
            raise UserError(f"'{name}' has 0 rows; give some, or leave it out")
        for what, values in part.arrays.items():
            if len(values) != len(part):
                first = next(iter(part.arrays))
                raise UserError(
                    f"'{name}_{what}' has {len(values):,} rows and '{name}_{first}' {len(part):,}; "
                    "give one row for each image"
                )
    _check_widths(arrays)


def _check_widths(arrays: Arrays) -> None:
    classes, width = arrays.num_classes, None if arrays.weight is None else arrays.weight.shape[1]
    if not 2 <= classes <= MOST_CLASSES:
        raise UserError(f"there are {classes:,} classes by the logits or the head; give 2 to {MOST_CLASSES:,}")
    if arrays.bias is not None and len(arrays.bias) != classes:
        raise UserError(
            f"'bias' has {len(arrays.bias):,} numbers and 'weight' {classes:,} rows; give one for each class"
        )
    for name, part in arrays.parts.items():
        if part.logits is not None and part.logits.shape[1] != classes:
            raise UserError(
                f"'{name}_logits' has {part.logits.shape[1]:,} columns where there are {classes:,} classes; "
                "give one for each class"
            )
        if part.features is not None:
            own = part.features.shape[1]
            width = own if width is None else width
            if own != width or own == 0:
                whose = "other parts" if arrays.weight is None else "weight"
                raise UserError(
                    f"'{name}_features' has {own:,} columns and '{whose}' {width:,}; features are the input of the head"
                )


def _check_values(arrays: Arrays) -> None:
    for name, values in arrays.arrays.items():
        if not name.endswith("_labels"):
            bad = sum(int((~some.float().isfinite()).sum()) for some in values.split(ROWS))
            if bad:
                raise UserError(f"{bad:,} of the numbers in '{name}' are NaN or infinite in float32; fix or drop them")
    for name, part in arrays.parts.items():
        if part.labels is not None:
            low, high = int(part.labels.min()), int(part.labels.max())
            if low < 0 or high >= arrays.num_classes:
                raise UserError(
                    f"'{name}_labels' are from {low} to {high}; with {arrays.num_classes:,} classes they are from 0 to "
                    f"{arrays.num_classes - 1:,}"
                )
        if arrays.weight is not None and part.features is not None and part.logits is not None:
            _check_head(name, part.features[:ROWS].float(), part.logits[:ROWS].float(), arrays)


def _check_head(name: str, features: Tensor, logits: Tensor, arrays: Arrays) -> None:
    assert arrays.weight is not None
    bias = None if arrays.bias is None else arrays.bias.float()
    apart = float((F.linear(features, arrays.weight.float(), bias) - logits).abs().max())
    if not apart <= AGREEMENT * float(logits.abs().max()):
        raise UserError(
            f"'{name}_logits' are not weight times '{name}_features' plus bias, but up to {apart:.3g} away; "
            "give the input of the head and its own weights, or leave out weight and bias"
        )


def _labels(values: Tensor, name: str) -> Tensor:
    if values.dtype not in WHOLE.values():
        raise UserError(f"'{name}' holds {_type(values)} values; labels are whole numbers: save them as int64")
    return values.to(torch.int64)


def _shape(values: Tensor) -> str:
    return " x ".join(map(str, values.shape)) or "of one number"


def _type(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
