"""J. Park et al., Nearest Neighbor Guidance for Out-of-Distribution Detection, ICCV 2023.

The bank is every training row, where the paper draws a sample of a large training set.

The score:

    s = −L · mean of the k largest cos(f, f_i) L_i over training images i, where L = log Σ_j exp z_j
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import BankScorer, Block, Outputs, UserError, functional


@dataclass
class NNGuide(BankScorer):
    """Energy times the mean cosine to the nearest training rows, each weighted by how sure the network is of it."""

    reads: ClassVar[str | None] = "distances"

    k: int = 10

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"nnguide.k={self.k} is out of range; choose 1 or more")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        if self.k > len(train.features):
            raise UserError(
                f"nnguide.k={self.k} is out of range; choose 1 to {len(train.features)}, the number of training rows"
            )
        super().fit(train)
        self.confidences = -functional.energy(train.logits.double())  # the paper's energy, which is ours negated

    def start(self, out: Outputs) -> Tensor:
        return out.unit.new_empty(len(out.unit), 0)

    def meet(self, carried: Tensor, out: Outputs, block: Block) -> Tensor:
        """The k largest products with g_i, which is a unit row of the bank times its confidence, carried on."""
        confidences = self.confidences[block.bank]
        slices = (slice(start, start + functional.SLICE) for start in range(0, len(carried), functional.SLICE))
        found = torch.cat([self._largest(block.cosines(rows).mul_(confidences)) for rows in slices])
        return self._largest(torch.cat([carried, found], dim=-1))

    def _largest(self, values: Tensor) -> Tensor:
        return values.topk(min(self.k, values.shape[-1]), dim=-1, sorted=False).values

    def finish(self, carried: Tensor, out: Outputs) -> Tensor:
        # Where all logits are low, our energy is above 0 and a confidence below: the product then changes its sign, as
        # the paper's does, and a row that is near to others looks more OOD. That takes few classes.
        return functional.energy(out.logits.double()) * carried.mean(dim=-1)
