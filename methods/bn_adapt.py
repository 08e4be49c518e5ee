"""A control: what do the wild images do to batch normalization alone?

SCONE forwards labeled and wild images together, so the running statistics move toward the mixture whatever the loss.
This row shows how much of its gain that explains. Its idea is old: Y. Li et al., Revisiting Batch Normalization For
Practical Domain Adaptation, 2016.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer
from oodbench.functional import forward_both


@dataclass
class BNAdapt(Trainer):
    """No learning: only the statistics of batch normalization see the wild images."""

    display: ClassVar[str] = "BN-adapt"
    needs: ClassVar[frozenset[str]] = frozenset({"wild"})
    starts_from: ClassVar[str | None] = "erm"

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        @torch.no_grad()
        def step(batch: Batch) -> Tensor:
            logits, _ = forward_both(model, batch, "joint")
            return F.cross_entropy(logits, batch.y)

        for _ in loop.passes(model, data, step, [model]):
            pass
