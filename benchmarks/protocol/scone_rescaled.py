"""A control for H. Bai et al., Feed Two Birds with One Scone (SCONE), ICML 2023: no margin, and smaller steps instead.

In the released code the margin stands in the wild term, whose gradient shrinks with it. Here the margin is 0, as in
WOODS, and the wild term is multiplied, at every step, by what makes its gradient by the energies as long as the one
with the margin `like` would be. If that does what the margin does, the margin is a step size.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop
from oodbench.functional import Limits, energy, forward_both
from oodbench.methods.scone import SCONE


@dataclass
class SCONERescaled(SCONE):
    """WOODS in the released form, its wild gradient as long as with a margin."""

    display: ClassVar[str] = "WOODS with SCONE's gradient length"
    margin: ClassVar[float] = 0.0
    threshold: ClassVar[str] = "validation"

    form: Literal["paper", "reference"] = "reference"
    like: float = -10.0  # eta, of the gradient's length

    def train_with(self, margin: float | str, model: Classifier, data: Data, loop: Loop) -> None:
        limits = Limits(self, margin, model, data, loop)
        assert data.wild is not None
        data = replace(data, wild=replace(data.wild, draw="three_masks"))

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, wild = forward_both(model, batch, self.bn_mode)
            e, terms = energy(wild), limits.terms
            with torch.no_grad():  # d sigma(-z) / dE = w sigma(z) sigma(-z), with z = -w (E + eta) + b
                shares = [terms.taken_for_id(each) for each in (e, e + self.like)]
                without, with_margin = ((share * (1 - share)).norm() for share in shares)
            term = terms.taken_for_id(e).mean()
            return limits.lagrangian(logits, batch.y, wild, loop) + (with_margin / without - 1) * term

        every = None if self.every == "epoch" else self.every
        for record in loop.epochs(model, data, loss, limits.modules, loop.recipe.weight_decay, self.head_lr, every):
            record |= limits.update(model)
        loop.notes["constraints"] = limits.met(loop.log)
        unfinished = limits.unfinished(loop.log)
        if unfinished is not None:
            loop.notes["not_converged"] = unfinished
