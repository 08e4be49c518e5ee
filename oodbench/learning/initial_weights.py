"""Weights from a file of the user's, for `--init`. Nothing in such a file can run code."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from oodbench.errors import UserError
from oodbench.learning.networks import Classifier
from oodbench.learning.weight_files import read_tensors
from oodbench.user_files import WEIGHTS_LIMIT, read_regular

PUBLISHED = {  # git's SHA-1 of the checkpoints that Outlier Exposure, Energy, WOODS and SCONE all start from
    "694f7a4cc76d585ed9646f7e8bacbe9bb1ed32c2": "the published WRN-40-2 of CIFAR-10",
    "e797c0a36b6ac14454c2157fc935c7eee0394767": "the published WRN-40-2 of CIFAR-100",
}


def describe(path: Path) -> str:
    """The file's name, and which published checkpoint it is, if it is one."""
    content = read_regular(path, WEIGHTS_LIMIT)
    known = PUBLISHED.get(hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest())
    return path.name if known is None else f"{path.name}, {known}"


def our_name(name: str) -> str:
    """`fc.weight` and the like to `head.weight`, what lies before it to `body.`; WOODS puts `wrn.` before that."""
    name = name.removeprefix("module.").removeprefix("wrn.")
    if name.startswith(("body.", "head.")):
        return name
    for head in ("fc.", "classifier.", "linear."):
        if name.startswith(head):
            return f"head.{name.removeprefix(head)}"
    return f"body.{name}"


def read_weights(model: Classifier, path: Path) -> None:
    """Load a state dictionary, ours or a plain one, into the model; a misfit is told before anything is changed."""
    fill(model, read_tensors(path, "--init"), path)


def fill(model: Classifier, contents: Mapping[str, Tensor], path: Path) -> None:
    """The same with what was read from the file."""
    theirs = {our_name(name): name for name in contents if ".ood_fc" not in f".{name}"}
    found = {ours: contents[name] for ours, name in theirs.items()}
    wanted = model.state_dict()
    classes, ours = found.get("head.bias"), wanted["head.bias"]
    if classes is not None and classes.ndim == 1 and len(classes) != len(ours):
        raise UserError(f"'{path}' has {len(classes)} classes, and the suite has {len(ours)}; choose other weights")
    for name, value in wanted.items():
        if name.endswith("num_batches_tracked"):
            found.setdefault(name, value)
        if name not in found or found[name].shape != value.shape:
            size = "nothing" if name not in found else f"shape {tuple(found[name].shape)}"
            raise UserError(
                f"'{path}' belongs to another network: {size} for '{name}', which has shape {tuple(value.shape)} here"
            )
    surplus = sorted(set(found) - set(wanted))
    if surplus:
        raise UserError(f"'{path}' belongs to another network: it has '{theirs[surplus[0]]}', which this one lacks")
    model.load_state_dict(found)
