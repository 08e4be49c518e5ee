"""M. Müller and M. Hein, Mahalanobis++: Improving OOD Detection via Feature Normalization, ICML 2025.

The score:

    s = min_k (u − μ_k)ᵀ Σ⁻¹ (u − μ_k) / 2, where u = f / ‖f‖, μ_k is the mean of training u of class k,
    and Σ = mean((u − μ_y)(u − μ_y)ᵀ), their covariance within classes
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer, functional


@dataclass
class MahalanobisPP(Scorer):
    """Half the squared Mahalanobis distance to the nearest class mean, among features of length 1."""

    display: ClassVar[str | None] = "Mahalanobis++"
    reads: ClassVar[str | None] = "distances"

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        means, own = functional.class_means(train.unit, train.y)
        within = train.unit - means[own]
        self.mean = train.unit.mean(dim=0)  # from which rows and class means are measured, for the digits
        self.whitening = functional.whitening(within.T @ within / len(within))  # of Sigma
        self.means = (means - self.mean) @ self.whitening  # mu_c

    def score(self, out: Outputs) -> Tensor:
        white = (out.unit - self.mean) @ self.whitening
        return functional.squared_distances(white, self.means).amin(dim=-1) / 2
