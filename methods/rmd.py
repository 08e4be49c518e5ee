"""J. Ren et al., A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection, arXiv 2106.09022, 2021.

The score:

    s = min_k (f − μ_k)ᵀ Σ⁻¹ (f − μ_k) − (f − μ_0)ᵀ Σ_0⁻¹ (f − μ_0), where Σ = mean((f − μ_y)(f − μ_y)ᵀ) is the
    covariance within classes, and μ_0 and Σ_0 are mean and covariance of all training features
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, functional


@dataclass
class RMD(Scorer):
    """Squared Mahalanobis distance to the nearest class mean, less that to the mean of all training rows."""

    reads: ClassVar[str | None] = "distances"

    normalize: bool = False  # features to length 1 first: RMD++ of M. Müller and M. Hein, ICML 2025

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        rows = self._rows(train)
        means, own = functional.class_means(rows, train.y)
        within = rows - means[own]
        self.mean = rows.mean(dim=0)  # mu_0
        self.whitening = functional.whitening(within.T @ within / len(rows))  # of Sigma
        self.means = (means - self.mean) @ self.whitening  # mu_k
        # Sigma_0 in the directions that Sigma keeps, so that both distances drop the same ones. Whitened, it is the
        # identity and the covariance of the class means: never singular.
        white = (rows - self.mean) @ self.whitening
        self.precision = torch.linalg.inv(white.T @ white / len(rows))

    def _rows(self, out: Outputs) -> Tensor:
        return out.unit if self.normalize else out.features.double()

    def score(self, out: Outputs) -> Tensor:
        """min_k MD_k - MD_0."""
        white = (self._rows(out) - self.mean) @ self.whitening
        nearest = functional.squared_distances(white, self.means).amin(dim=-1)
        return nearest - (white @ self.precision * white).sum(dim=-1)
