"""K. Xu et al., Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement, ICLR 2024.

The new logits, which are then scored:

    z' = W (f exp r) + b, where r = Σ_j f_j / (sum of the k largest f_j)
    and k = d − round(d percentile / 100) of d features
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, ReshapingScorer, UserError


def top(size: int, percentile: float) -> int:
    """k = d - round(d p / 100), a half rounded to even, and at least 1."""
    return max(1, size - round(size * percentile / 100))


def ratio(features: Tensor, descending: Tensor, k: int) -> Tensor:
    """r = sum f / sum of the k largest f, N x 1.

    It is 1 where nothing is positive, the least that it can be of non-negative features; a row of zeros stays as it is.
    """
    total, largest = (some.sum(dim=-1, keepdim=True, dtype=torch.float64) for some in (features, descending[:, :k]))
    return torch.where(largest > 0, total / largest, 1.0)


@dataclass
class SCALE(ReshapingScorer):
    """Energy after features are multiplied by e^r, where r is the sum of all over that of the largest."""

    reads: ClassVar[str | None] = "features and head"
    needs: ClassVar[frozenset[str]] = frozenset({"nonnegative-features"})

    percentile: float = 85.0  # p, of a row's own features: the largest lie above it

    def __post_init__(self) -> None:
        if not 0 <= self.percentile <= 100:
            raise UserError(f"scale.percentile={self.percentile:g} is out of range; choose 0 to 100")

    def new_logits(self, out: Outputs) -> Tensor:
        r = ratio(out.features, out.descending, top(out.features.shape[-1], self.percentile))
        return F.linear(out.features * r.exp(), out.weight, out.bias)
