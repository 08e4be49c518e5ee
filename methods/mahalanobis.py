"""K. Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks,
NeurIPS 2018.

On penultimate features alone, without the input step unless asked for.

The score:

    s = min_k (f − μ_k)ᵀ Σ⁻¹ (f − μ_k) / 2, where Σ = mean((f − μ_y)(f − μ_y)ᵀ), the covariance within classes
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError


@dataclass
class Mahalanobis(Scorer):
    """Half the squared Mahalanobis distance to the nearest class mean, under one covariance for all classes."""

    reads: ClassVar[str | None] = "distances"

    magnitude: float = 0.0  # epsilon of a step toward the nearest class, in pixel units of [0, 1]

    def __post_init__(self) -> None:
        if self.magnitude < 0:
            raise UserError(f"mahalanobis.magnitude={self.magnitude:g} is out of range; choose 0 or more")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        features = train.features.double()
        present = train.y.unique()
        self.means = torch.stack([features[train.y == k].mean(dim=0) for k in present])  # mu_c
        residual = features - self.means[torch.searchsorted(present, train.y)]
        covariance = residual.T @ residual / len(features)  # Sigma
        self.precision = torch.linalg.pinv(covariance, hermitian=True)  # a unit that never fires makes it singular

    def score(self, out: Outputs) -> Tensor:
        if self.magnitude == 0:
            return self._distance(out.features)
        return torch.cat([self._distance(out.model.features(self._step(out, x))) for x in out.inputs()])

    def _step(self, out: Outputs, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.requires_grad_()
            (gradient,) = torch.autograd.grad(self._distance(out.model.features(x)).sum(), x)
        return (x - self.magnitude * gradient.sign()).detach()

    def _distance(self, features: Tensor) -> Tensor:
        """min_c (h - mu_c)' Sigma^-1 (h - mu_c) / 2, one class at a time to stay small."""
        distances = []
        for mean in self.means:
            centred = features.double() - mean
            distances.append((centred @ self.precision * centred).sum(dim=-1) / 2)
        return torch.stack(distances).amin(dim=0)
