"""J. Mukhoti et al., Deep Deterministic Uncertainty: A New Simple Baseline, CVPR 2023.

On the features of any network: the paper's own has spectral normalization and is trained for it.

The score:

    s = −log Σ_k (n_k / n) N(f; μ_k, C_k + ridge I), where N is the normal density, n_k of the n training images are
    of class k, and C_k is the covariance of their features
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError


@dataclass
class GMM(Scorer):
    """Negative log-likelihood under one Gaussian per class, each with a covariance of its own."""

    reads: ClassVar[str | None] = "distances"

    # Added to each variance. Unlike a pseudo-inverse it lets features count that never vary within a class: a row that
    # differs there is far away.
    ridge: float = 1e-6

    def __post_init__(self) -> None:
        if self.ridge <= 0:
            raise UserError(f"gmm.ridge={self.ridge:g} is out of range; choose more than 0")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        self.gaussians = [self._gaussian(train.features[train.y == k].double()) for k in train.y.unique()]
        self.rows = len(train.y)

    def _gaussian(self, rows: Tensor) -> tuple[Tensor, Tensor, int]:
        """Mean, Cholesky factor of the covariance, and number of rows."""
        mean = rows.mean(dim=0)
        covariance = (rows - mean).T @ (rows - mean) / len(rows)
        covariance.diagonal().add_(self.ridge)
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if failed:
            raise UserError(f"gmm.ridge={self.ridge:g} is lost in the rounding of variances so large; choose more")
        return mean, factor, len(rows)

    def score(self, out: Outputs) -> Tensor:
        return -torch.stack([self._log_density(out.features.double(), *each) for each in self.gaussians]).logsumexp(0)

    def _log_density(self, features: Tensor, mean: Tensor, factor: Tensor, rows: int) -> Tensor:
        """log(n_k / N) + log N(f; mu_k, Sigma_k), with Sigma_k = L L'."""
        white = torch.linalg.solve_triangular(factor, (features - mean).T, upper=False)
        log_volume = factor.diagonal().log().sum() + len(mean) / 2 * math.log(2 * math.pi)
        return math.log(rows / self.rows) - log_volume - white.square().sum(dim=0) / 2
