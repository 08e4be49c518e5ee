"""Y. Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError

ROWS, BANK_ROWS = 1024, 8192  # compared at a time: 64 MB of distances, whatever the bank


def _normalized(features: Tensor) -> Tensor:
    features = features.double()  # in float32 the differences of near rows cancel away
    return features / (torch.linalg.vector_norm(features, dim=-1, keepdim=True) + 1e-10)


@dataclass
class KNN(Scorer):
    """Distance to the k-th nearest training row among normalised features."""

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
        self.bank = train.features

    def score(self, out: Outputs) -> Tensor:
        return torch.cat([self._distance(_normalized(rows)) for rows in out.features.split(ROWS)])

    def _distance(self, rows: Tensor) -> Tensor:
        """||a - b||^2 = ||a||^2 + (||b||^2 - 2 a'b), the k smallest brackets kept from part to part of the bank."""
        nearest = rows.new_empty(len(rows), 0)
        for part in self.bank.split(BANK_ROWS):
            bank = _normalized(part)
            found = self._smallest(torch.addmm(bank.square().sum(dim=-1), rows, bank.T, alpha=-2))
            nearest = self._smallest(torch.cat([nearest, found], dim=-1))
        return (rows.square().sum(dim=-1) + nearest.amax(dim=-1)).clamp(min=0).sqrt()

    def _smallest(self, values: Tensor) -> Tensor:
        return values.topk(min(self.k, values.shape[-1]), dim=-1, largest=False, sorted=False).values
