"""H. Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022.

The score:

    s = α ‖Rᵀ(f − o)‖ − log Σ_k exp z_k, where o = −W⁺ b, and the columns of R are the eigenvectors of
    mean((f − o)(f − o)ᵀ) except those of the D largest eigenvalues
    α = mean(max_k z_k) / mean(‖Rᵀ(f − o)‖), and all means are over training images
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError, functional


@dataclass
class ViM(Scorer):
    """Energy plus a virtual logit: what of the feature lies outside the principal space of the training features."""

    reads: ClassVar[str | None] = "features and head"

    dim: int | Literal["auto"] = "auto"  # D, of the principal space

    def __post_init__(self) -> None:
        if self.dim != "auto" and self.dim < 1:
            raise UserError(f"vim.dim={self.dim} is out of range; choose 1 or more, or auto")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        features = train.features.double()
        self.origin = functional.origin(train.weight, train.bias)  # o
        centred = features - self.origin
        _, eigenvectors = torch.linalg.eigh(centred.T @ centred / len(features))  # eigenvalues ascend
        size = features.shape[1]
        self.residual_space = eigenvectors[:, : size - functional.principal_dim(self.dim, size, "vim")]
        mean_residual = self._residual(features).mean()
        self.alpha = train.logits.double().amax(dim=-1).mean() / mean_residual

    def _residual(self, features: Tensor) -> Tensor:
        return torch.linalg.vector_norm((features.double() - self.origin) @ self.residual_space, dim=-1)

    def score(self, out: Outputs) -> Tensor:
        return self.alpha * self._residual(out.features) + functional.energy(out.logits.double())
