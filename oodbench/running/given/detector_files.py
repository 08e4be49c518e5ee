"""A detector on disk: a folder with detector.json and detector.safetensors. Nothing in it is code.

Reading is strict: what is damaged, of another version or of another hand is refused in one line.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import safetensors.torch
import torch
from torch import Tensor

from oodbench import digests
from oodbench.data.preprocessing import Preprocessing
from oodbench.errors import UserError, said, shortened
from oodbench.files import HOST, CannotWrite, umask
from oodbench.learning.threshold import Share, Threshold
from oodbench.user_files import TEXT_LIMIT, WEIGHTS_LIMIT, blocks, read_regular

FORMAT = 1  # of the folder; raised when an older oodbench would read a newer one wrongly
JSON, TENSORS = "detector.json", "detector.safetensors"
AGAIN = "fit it again: oodbench fit"


@dataclass(frozen=True)
class NetworkCard:
    """Which network it is, and how it becomes a Classifier again."""

    text: str  # "timm:resnet18", "my_net.py:build", or a class's name
    spec: dict[str, Any] | None  # the architecture in plain values; None: only its author's code makes it
    input: tuple[int, int, int]  # channels, height and width of the images it was fitted on
    mean: tuple[float, ...]
    std: tuple[float, ...]
    head: str | None = None  # the module that is the linear head
    form: str | None = None  # what the adapter found; None: the network is a Classifier as it is
    rows: tuple[int, ...] | None = None  # which of its outputs count; None: all
    features: str | None = None  # the layer whose output is the features, if no linear head gives the logits


@dataclass(frozen=True)
class ScorerCard:
    """Which scorer it is, with which hyperparameters."""

    name: str
    display: str
    code: str  # knn@1
    values: dict[str, Any]


@dataclass(frozen=True)
class FlaggedSet:
    """What the detector makes of a set of images that it was not fitted on."""

    kind: Literal["id", "covariate", "semantic"]
    share: Share


@dataclass(frozen=True)
class DetectorCard:
    """All that is known of a detector beside its tensors."""

    oodbench: str  # version that fitted it
    network: NetworkCard
    preprocessing: Preprocessing
    classes: tuple[str, ...]  # names, in the order of the outputs; empty where nobody knows them
    scorer: ScorerCard
    threshold: Threshold
    flagged: dict[str, FlaggedSet]  # by the set's name
    sets: dict[str, str]  # digests of the images it was fitted and tried on
    made: dict[str, str] = field(default_factory=dict)  # when, and with which versions
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _File:
    format: int
    card: DetectorCard
    learned: dict[str, Any]  # of the scorer, in plain values
    # Axes of tensors as they lie in memory, where that is not their own order: other orders add up to other bits.
    orders: dict[str, tuple[int, ...]]
    complex: tuple[str, ...]  # names of tensors that are stored as their real and imaginary parts
    sha256: str  # of the file of tensors
    seal: str  # of all that stands above: one digit of a threshold makes another detector


@dataclass(frozen=True)
class Stored:
    """The contents of a detector's folder."""

    card: DetectorCard
    learned: dict[str, Any]
    tensors: dict[str, Tensor]

    def below(self, prefix: str) -> dict[str, Tensor]:
        """The tensors of one owner, by their names there."""
        return {name[len(prefix) :]: each for name, each in self.tensors.items() if name.startswith(prefix)}


def write(path: Path, stored: Stored) -> None:
    """Whole or not at all; a detector that is there already is replaced, anything else is not."""
    path = Path(path).absolute()
    try:
        check_place(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:40]}.oodbench-{HOST}.", suffix=".tmp"))
        try:
            _fill(work, stored)
            os.chmod(work, 0o777 & ~umask())
            _put(work, path)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or said(error)
        raise CannotWrite(
            f"cannot write '{path}': {reason}; free space, fix permissions or choose another folder"
        ) from None


def check_place(path: Path) -> None:
    """Refuse to replace what is no detector, before anything is computed."""
    if not os.path.lexists(path):
        return
    if not path.is_dir() or path.is_symlink():
        raise UserError(f"'{path}' exists and is not a detector's folder; choose another name")
    others = sorted({entry.name for entry in os.scandir(path)} - {JSON, TENSORS})
    if others:
        raise UserError(f"'{path}' holds '{shortened(others[0])}', which belongs to no detector; choose another folder")


def _put(work: Path, path: Path) -> None:
    """Rename, with what was there before out of the way until that has worked."""
    if not path.exists():
        os.rename(work, path)
        return
    aside = work.with_suffix(".old")
    os.rename(path, aside)
    try:
        os.rename(work, path)
    except OSError:
        os.rename(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _fill(folder: Path, stored: Stored) -> None:
    orders = {name: _order(each) for name, each in stored.tensors.items()}
    contents = {name: _laid_out(each, orders[name]) for name, each in stored.tensors.items()}
    safetensors.torch.save_file(contents, folder / TENSORS)
    file = _File(
        FORMAT,
        stored.card,
        stored.learned,
        orders={name: order for name, order in orders.items() if list(order) != sorted(order)},
        complex=tuple(name for name, each in stored.tensors.items() if each.is_complex()),
        sha256=_sha256(folder / TENSORS),
        seal="",
    )
    text = json.dumps(sealed(asdict(file)), indent=1, allow_nan=False)
    (folder / JSON).write_text(text + "\n", encoding="utf-8")
    for name in (TENSORS, JSON):
        with open(folder / name, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(folder / name, 0o666 & ~umask())


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of detector.json with a digest of them beside them."""
    rest = {name: value for name, value in values.items() if name != "seal"}
    return {**rest, "seal": digests.of_values(rest)}


def _order(tensor: Tensor) -> tuple[int, ...]:
    """Its axes, the one with the longest steps in memory first.

    Of two with equal steps, one has a single entry and comes last: kernels are chosen by its step too.
    """
    steps, sizes = tensor.stride(), tensor.shape
    return tuple(sorted(range(tensor.ndim), key=lambda axis: (-steps[axis], -sizes[axis])))


def _laid_out(tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    """A tensor of its own memory on the CPU, its axes in the order in which they lie there."""
    flat = tensor.detach().cpu().permute(order)
    if flat.is_complex():
        flat = torch.view_as_real(flat)
    return flat.clone(memory_format=torch.contiguous_format)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for block in blocks(path, WEIGHTS_LIMIT):
        digest.update(block)
    return digest.hexdigest()


def read(path: Path) -> Stored:
    """What `write` wrote, on the CPU; UserError for anything else."""
    path = Path(path)
    if not path.is_dir() or not (path / JSON).exists():
        raise UserError(
            f"'{path}' is not a detector: it has no {JSON}; make one with: oodbench fit ... --out {path.name}"
        )
    file = _read_json(path)
    try:
        found = _sha256(path / TENSORS)
    except OSError as error:
        raise UserError(f"'{path / TENSORS}' cannot be read ({error.strerror}); {AGAIN}") from None
    if found != file.sha256:
        raise UserError(f"'{path / TENSORS}' is damaged or belongs to another detector (its digest differs); {AGAIN}")
    try:
        contents = safetensors.torch.load_file(path / TENSORS)
        if {*file.orders, *file.complex} - contents.keys():
            raise ValueError("other names")
        tensors = {
            name: _restored(each, file.orders.get(name), name in file.complex) for name, each in contents.items()
        }
    except Exception as error:  # damaged files raise nearly anything
        raise UserError(f"'{path / TENSORS}' does not hold what {JSON} says ({said(error)}); {AGAIN}") from None
    return Stored(file.card, file.learned, tensors)


def _read_json(path: Path) -> _File:
    try:
        content = read_regular(path / JSON, 8 * TEXT_LIMIT)
        found = msgspec.json.decode(content)
        number = found.get("format") if isinstance(found, Mapping) else None
        if type(number) is int and number > FORMAT:
            card = found.get("card")
            version = str(card.get("oodbench", "")) if isinstance(card, Mapping) else ""
            raise UserError(
                f"'{path}' was made by a newer oodbench {shortened(version)}".rstrip()
                + f" (format {number}, this one reads up to {FORMAT}); update oodbench"
            )
        if number != FORMAT:
            raise ValueError("no format that this version knows")
        file = msgspec.convert(found, _File)
        if file.seal != sealed(found)["seal"]:
            raise ValueError("it is not what was written")
        return file
    except OSError as error:
        raise UserError(f"'{path / JSON}' cannot be read ({error.strerror}); {AGAIN}") from None
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise UserError(f"'{path / JSON}' is damaged ({said(error)}); {AGAIN}") from None


def _restored(content: Tensor, order: tuple[int, ...] | None, is_complex: bool) -> Tensor:
    """Copied out of the file, so that it lies in memory as any tensor of torch does."""
    flat = torch.view_as_complex(content.clone()) if is_complex else content.clone()
    if order is None:
        return flat
    if sorted(order) != list(range(flat.ndim)):
        raise ValueError("an order of other axes")
    return flat.permute([order.index(axis) for axis in range(flat.ndim)])
