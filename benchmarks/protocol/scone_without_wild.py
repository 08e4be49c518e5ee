"""A control for H. Bai et al., Feed Two Birds with One Scone (SCONE), ICML 2023: its objective without the wild term.

The wild images still pass through the network, so batch normalization sees them, but no gradient comes from them.
What SCONE gains over this control is what it learns from the wild images.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop
from oodbench.functional import Limits, energy, forward_both
from oodbench.methods.scone import SCONE


@dataclass
class SCONEWithoutWild(SCONE):
    """SCONE's constraints and cross-entropy on labeled images alone; only batch normalization sees the wild ones."""

    display: ClassVar[str] = "SCONE without wild term"

    def train_with(self, margin: float | str, model: Classifier, data: Data, loop: Loop) -> None:
        limits = Limits(self, margin, model, data, loop)
        decay, head_lr = 0.0, None
        if self.form == "reference":
            assert data.wild is not None
            data = replace(data, wild=replace(data.wild, draw="three_masks"))
            decay, head_lr = loop.recipe.weight_decay, self.head_lr

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, wild = forward_both(model, batch, self.bn_mode)
            # The Lagrangian records its three terms; the wild one is then taken out, with its gradient on w.
            return limits.lagrangian(logits, batch.y, wild, loop) - limits.terms.taken_for_id(energy(wild)).mean()

        every = None if self.every == "epoch" else self.every
        for record in loop.epochs(model, data, loss, limits.modules, decay, head_lr, every):
            record |= limits.update(model)
