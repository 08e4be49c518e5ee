"""M. Xu et al., VRA: Variational Rectified Activation for Out-of-distribution Detection, NeurIPS 2023.

As in the authors' code, where every feature has quantiles of its own and what is low becomes 0; in other code the
quantiles are those of all features, or what is low becomes the quantile.

The new logits, which are then scored:

    z' = W f' + b, where f'_j is 0 for f_j < α_j, β_j for f_j > β_j, and f_j + γ between the two,
    and α_j and β_j are the percentiles low and high of f_j in training
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, ReshapingScorer, UserError, functional


@dataclass
class VRA(ReshapingScorer):
    """Energy after low features are set to 0 and high ones cut off, by percentiles of each feature in training."""

    reads: ClassVar[str | None] = "features and head"
    needs: ClassVar[frozenset[str]] = frozenset({"nonnegative-features"})

    low: float = 60.0  # percentile alpha of a feature, below which it becomes 0
    high: float = 90.0  # percentile beta, above which it becomes that; 95 for CIFAR-100 and VRA+
    plus: float = 0.0  # gamma, added between the two: .6 in VRA+

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 100:
            raise UserError(
                f"vra.low={self.low:g} with vra.high={self.high:g} is out of range; choose 0 to 100, low up to high"
            )
        if self.plus < 0:
            raise UserError(f"vra.plus={self.plus:g} is out of range; choose 0 or more")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.low_quantiles = functional.percentile(train.features, self.low, dim=0)
        self.high_quantiles = functional.percentile(train.features, self.high, dim=0)

    def new_logits(self, out: Outputs) -> Tensor:
        features = out.features.double()
        shaped = torch.where(features > self.high_quantiles, self.high_quantiles, features + self.plus)
        return F.linear(shaped * (features >= self.low_quantiles), out.weight, out.bias)
