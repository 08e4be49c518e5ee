"""One scorer and the outputs of one network: fitted on them, and one number for each of their rows."""

from dataclasses import replace

import torch
from torch import Tensor

from oodbench.errors import UserError, place_of
from oodbench.learning.loop import Failed
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs, forward, forward_reading
from oodbench.learning.rows import Streamed

ROWS = 2048  # scored at a time: what a scorer needs for a row is not needed for all rows at once
NEGATIVE = 0.01  # the share of a network's features that may be so where a scorer needs non-negative ones


def forward_for(
    scorer: Scorer, model: Classifier, images: Tensor | Streamed, y: Tensor | None = None, size: int | None = None
) -> Outputs:
    """The outputs of images for one scorer, with what it reads in their feature maps if it needs these."""
    if "feature-maps" not in scorer.needs:
        return forward(model, images, y, size)
    if type(scorer).read_maps is Scorer.read_maps:
        name = type(scorer).__name__
        raise UserError(
            f"class {name} needs feature-maps and does not read them; give it a method read_maps(self, maps, model)"
        )
    out, read = forward_reading(model, images, {"own": scorer.read_maps}, y, size)
    return replace(out, maps=read["own"])


def scores_of(scorer: Scorer, out: Outputs) -> Tensor:
    """One number per row of a fitted scorer, in parts of ROWS."""
    with torch.no_grad():
        return joined([one_per_row(scorer, some) for some in out.split(ROWS)])


def joined(parts: list[Tensor]) -> Tensor:
    values = torch.cat(parts)
    return values if values.is_floating_point() else values.double()


def fit(scorer: Scorer, train: Outputs, validation: Outputs | None) -> None:
    """What needs no validation images is fitted without: its `fit` may have one argument."""
    if validation is None:
        scorer.fit(train)
    else:
        scorer.fit(train, validation)


def one_per_row(scorer: Scorer, out: Outputs) -> Tensor:
    """The scores, if they are that."""
    values: object = scorer.score(out)
    rows = len(out.logits)
    what = f"a {type(values).__name__}"
    if isinstance(values, Tensor):
        values = values.detach().as_subclass(Tensor)
        if values.shape == (rows,) and not values.is_complex():
            return values
        what = (
            f"complex numbers of shape {tuple(values.shape)}" if values.is_complex() else f"shape {tuple(values.shape)}"
        )
    where = place_of(scorer.score)
    raise UserError(f"{where}: score gave {what} for {rows} rows; return a tensor of one number per row")


def refuse_negative(name: str, features: Tensor) -> None:
    share = (features < 0).float().mean().item()
    if share > NEGATIVE:
        raise Failed(
            f"'{name}' needs features that are not negative, and {share:.0%} of this network's are; choose a "
            "network that ends in ReLU, or another scorer"
        )
