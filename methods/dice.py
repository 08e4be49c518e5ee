"""Y. Sun and Y. Li, DICE: Leveraging Sparsification for Out-of-Distribution Detection, ECCV 2022.

The new logits, which are then scored:

    z' = (W ∘ M) f + b, where M_kj is 1 if W_kj μ_j is above the given percentile of all such products, else 0
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, ReshapingScorer, UserError, functional


@dataclass
class DICE(ReshapingScorer):
    """Energy by the few weights of the head that contribute most to the logits of training images."""

    reads: ClassVar[str | None] = "features and head"

    percentile: float = 90.0  # p, of all mean contributions: weights above it are kept; 70 for ImageNet

    def __post_init__(self) -> None:
        if not 0 <= self.percentile < 100:
            raise UserError(f"dice.percentile={self.percentile:g} is out of range; choose 0 to less than 100")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        contributions = train.weight * train.features.mean(dim=0, dtype=torch.float64)  # V
        self.kept = contributions > functional.percentile(contributions, self.percentile)  # M

    def new_logits(self, out: Outputs) -> Tensor:
        return F.linear(out.features.double(), out.weight * self.kept, out.bias)
