"""A. Djurisic et al., Logit Scaling for Out-of-Distribution Detection, 2024.

Where all logits are low enough that the energy is positive, a larger factor makes it larger still, not smaller.

The new logits, which are then scored:

    z' = r² z, where r = Σ_j a_j / (sum of the k largest a_j), a = max(0, f),
    and k = d − round(d percentile / 100) of d features
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, ReshapingScorer, UserError
from oodbench.methods.scale import ratio, top


@dataclass
class LTS(ReshapingScorer):
    """Energy of the logits times r^2, where r is the sum of all features over that of the largest."""

    reads: ClassVar[str | None] = "features and head"

    percentile: float = 95.0  # 100 (1 - p) with the paper's p, the share of the largest: .05

    def __post_init__(self) -> None:
        if not 0 <= self.percentile <= 100:
            raise UserError(f"lts.percentile={self.percentile:g} is out of range; choose 0 to 100")

    def new_logits(self, out: Outputs) -> Tensor:
        k = top(out.features.shape[-1], self.percentile)
        # As in the authors' code, what is negative counts for nothing in the ratio.
        r = ratio(out.features.relu(), out.descending.relu(), k)
        return out.logits * r.square()
