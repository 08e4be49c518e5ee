"""Choosing a hyperparameter on validation data. Sees no label of a test image."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor

from oodbench.learning.batches import Data
from oodbench.learning.functional import energy
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.learning.rows import Streamed


def out_share(model: Classifier, data: Data, threshold: Literal["validation", "test"] = "validation") -> float:
    """out% of a trained network, with the threshold from ID validation images, or from test images as the paper did."""
    id_images = data.id_validation if threshold == "validation" else data.id_test
    assert id_images is not None and data.mixed_validation is not None
    return flagged_share(model, id_images, data.mixed_validation)


def flagged_share(model: Classifier, id_images: Tensor | Streamed, mixed_images: Tensor | Streamed) -> float:
    """out%: the share of the mixed validation set that a threshold flags which keeps 95 % of the ID images.

    As in the released SCONE code: the threshold is the ID energy at position floor(.95 n), and energies at it count.
    """
    id_energies = energy(forward(model, id_images).logits).sort().values
    threshold = id_energies[int(0.95 * len(id_energies))]
    flagged = energy(forward(model, mixed_images).logits) >= threshold
    return flagged.to(torch.float64).mean().item()


def after_largest_drop(shares: Sequence[float], images: int) -> int:
    """The position just after the largest decrease; the first if none exceeds two standard errors of a share."""
    drops = [before - after for before, after in zip(shares[:-1], shares[1:], strict=True)]
    largest = max(range(len(drops)), key=drops.__getitem__)
    p = shares[largest]
    noise = 2 * math.sqrt(2 * max(p * (1 - p), 1 / images) / images)
    return largest + 1 if drops[largest] > noise else 0


def select_at_drop(
    name: str,
    grid: Sequence[float],
    train: Callable[[float, Classifier, Data, Loop], None],
    model: Classifier,
    data: Data,
    loop: Loop,
    threshold: Literal["validation", "test"],
) -> None:
    """Train with every value of the grid, keep the network at the drop of out%, and tell the result about it.

    The procedure of the SCONE paper's appendix. Its code takes the threshold from the ID test images; validation images
    are the default here.
    """
    assert data.mixed_validation is not None
    start, trained, shares = deepcopy(model.state_dict()), [], []
    for value in grid:
        model.load_state_dict(start)
        stage = loop.stage(f"{name}{value:g}")
        train(value, model, data, stage)
        trained.append((deepcopy(model.state_dict()), stage))
        shares.append(out_share(model, data, threshold))
    chosen = after_largest_drop(shares, len(data.mixed_validation))
    model.load_state_dict(trained[chosen][0])
    loop.log += trained[chosen][1].log
    loop.notes |= trained[chosen][1].notes
    loop.notes[name] = grid[chosen]
    loop.notes["out_share"] = [{name: value, "share": share} for value, share in zip(grid, shares, strict=True)]
    loop.notes["rule"] = (
        f"the {name} just after the largest drop of out_share, the share of the mixed validation set flagged by "
        f"the threshold keeping 95 % of the ID {threshold} images; {grid[0]:g} if no drop exceeds two standard errors"
    )
