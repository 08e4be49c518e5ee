"""Weights from a file of the user's, for `--init`. Nothing in such a file can run code."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oodbench.errors import UserError
from oodbench.networks import Classifier


def read_weights(model: Classifier, path: Path) -> None:
    """Load a state dictionary, ours or a plain one, into the model; a misfit is told before anything is changed."""
    try:
        contents: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"there is no file '{path}'; --init takes the weights of a trained network") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:80]
        raise UserError(f"'{path}' is not a file of weights ({reason}); save one with torch.save") from None
    if isinstance(contents, dict) and isinstance(contents.get("model"), dict):
        contents = contents["model"]
    if not isinstance(contents, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in contents.items()
    ):
        raise UserError(f"'{path}' holds no state dictionary; save model.state_dict()")
    found = {name.removeprefix("module."): value for name, value in contents.items()}
    wanted = model.state_dict()
    classes, ours = found.get("head.bias"), wanted["head.bias"]
    if classes is not None and classes.ndim == 1 and len(classes) != len(ours):
        raise UserError(f"'{path}' tells {len(classes)} classes apart, the suite has {len(ours)}; choose other weights")
    for name, value in wanted.items():
        if name.endswith("num_batches_tracked"):
            found.setdefault(name, value)
        if name not in found or found[name].shape != value.shape:
            size = "nothing" if name not in found else f"shape {tuple(found[name].shape)}"
            raise UserError(
                f"'{path}' is of another network: {size} for '{name}', which has shape {tuple(value.shape)} here"
            )
    surplus = sorted(set(found) - set(wanted))
    if surplus:
        raise UserError(f"'{path}' is of another network: it has '{surplus[0]}', which is not here")
    model.load_state_dict(found)
