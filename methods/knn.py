"""Y. Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022."""

from dataclasses import dataclass

import torch
from torch import Tensor

from oodbench.errors import UserError
from oodbench.method import Outputs, Scorer


def _normalized(features: Tensor) -> Tensor:
    return features / (torch.linalg.vector_norm(features, dim=-1, keepdim=True) + 1e-10)


@dataclass
class KNN(Scorer):
    """Distance to the k-th nearest training row among normalised features."""

    k: int = 50

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"knn.k={self.k} is out of range; choose 1 or more")

    def fit(self, train: Outputs) -> None:
        if self.k > len(train.features):
            raise UserError(
                f"knn.k={self.k} is out of range; choose 1 to {len(train.features)}, the number of training rows"
            )
        self.bank = _normalized(train.features.double())  # in float32 the differences of near rows cancel away
        self.bank_squares = self.bank.square().sum(dim=-1)

    def score(self, out: Outputs) -> Tensor:
        return torch.cat([self._distance(rows) for rows in _normalized(out.features.double()).split(100)])

    def _distance(self, rows: Tensor) -> Tensor:
        """||a - b||^2 = ||a||^2 - 2 a'b + ||b||^2, a block at a time: exact, and small whatever the bank."""
        squares = rows.square().sum(dim=-1, keepdim=True) - 2 * rows @ self.bank.T + self.bank_squares
        return squares.kthvalue(self.k, dim=-1).values.clamp(min=0).sqrt()
