"""Y. Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022.

The score:

    s = ‖u − u_(k)‖, where u = f / ‖f‖ and u_(k) is the k-th nearest u of a training image
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import BankScorer, Block, Outputs, UserError


@dataclass
class KNN(BankScorer):
    """Distance to the k-th nearest training row among normalized features."""

    reads: ClassVar[str | None] = "distances"

    k: int = 50

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"knn.k={self.k} is out of range; choose 1 or more")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        if self.k > len(train.features):
            raise UserError(
                f"knn.k={self.k} is out of range; choose 1 to {len(train.features)}, the number of training rows"
            )
        super().fit(train)

    def start(self, out: Outputs) -> Tensor:
        return out.unit.new_empty(len(out.unit), 0)

    def meet(self, carried: Tensor, out: Outputs, block: Block) -> Tensor:
        """||a - b||^2 = ||a||^2 + (||b||^2 - 2 a'b), the k smallest brackets carried on."""
        return self._smallest(torch.cat([carried, self._smallest(block.brackets)], dim=-1))

    def _smallest(self, values: Tensor) -> Tensor:
        return values.topk(min(self.k, values.shape[-1]), dim=-1, largest=False, sorted=False).values

    def finish(self, carried: Tensor, out: Outputs) -> Tensor:
        return (out.unit.square().sum(dim=-1) + carried.amax(dim=-1)).clamp(min=0).sqrt()
