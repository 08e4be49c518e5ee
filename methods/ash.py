"""A. Djurisic et al., Extremely Simple Activation Shaping for Out-of-Distribution Detection, ICLR 2023.

On pooled features. All entries that equal the k-th largest are kept, and ASH-B keeps positive ones alone: half of the
features after a ReLU are exactly 0, and which zeros count among the k largest would be the choice of a device's sort.

The new logits, which are then scored:

    z' = W f' + b, where f'_j is 0 unless f_j is one of the k = d − round(d percentile / 100) largest of d features
    variant b: f'_j = Σ_i f_i / (number kept)    variant p: f'_j = f_j
    variant s: f'_j = f_j exp r, where r = Σ_i f_i / (sum of the k largest f_i)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, ReshapingScorer, UserError
from oodbench.methods.scale import ratio, top


@dataclass
class ASH(ReshapingScorer):
    """Energy of the largest features alone, made equal, scaled or left as they are."""

    reads: ClassVar[str | None] = "features and head"
    needs: ClassVar[frozenset[str]] = frozenset({"nonnegative-features"})

    variant: Literal["b", "s", "p"] = "b"  # what is kept becomes equal, with the sum of all; is scaled; or stays
    percentile: float = 90.0  # p, of a row's own features: those above it are kept

    def __post_init__(self) -> None:
        if not 0 <= self.percentile <= 100:
            raise UserError(f"ash.percentile={self.percentile:g} is out of range; choose 0 to 100")

    def new_logits(self, out: Outputs) -> Tensor:
        k, features = top(out.features.shape[-1], self.percentile), out.features.double()
        kept = out.features >= out.descending[:, k - 1 : k]
        if self.variant == "b":
            kept = kept & (features > 0)
            count = kept.sum(dim=-1, keepdim=True).clamp(min=1)  # of a row of zeros, which stays one
            features = features.sum(dim=-1, keepdim=True) / count
        elif self.variant == "s":
            features = features * ratio(out.features, out.descending, k).exp()
        return F.linear(features * kept, out.weight, out.bias)
