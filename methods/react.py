"""Y. Sun et al., ReAct: Out-of-distribution Detection With Rectified Activations, NeurIPS 2021.

The new logits, which are then scored:

    z' = W min(f, c) + b, where c is the given percentile of all entries of training features
"""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, ReshapingScorer, UserError, functional


@dataclass
class ReAct(ReshapingScorer):
    """Energy after features are cut off at a percentile of all training features."""

    reads: ClassVar[str | None] = "features and head"

    percentile: float = 90.0  # p, of all entries of the training features

    def __post_init__(self) -> None:
        if not 0 <= self.percentile <= 100:
            raise UserError(f"react.percentile={self.percentile:g} is out of range; choose 0 to 100")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.cut = functional.percentile(train.features, self.percentile)  # c

    def new_logits(self, out: Outputs) -> Tensor:
        return F.linear(out.features.double().clamp(max=self.cut), out.weight, out.bias)
