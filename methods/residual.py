"""H. Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022.

The paper's own ablation: the residual without the energy.

The score:

    s = ‖Rᵀ(f − o)‖, where o = −W⁺ b, and the columns of R are the eigenvectors of mean((f − o)(f − o)ᵀ) over training
    images except those of the D largest eigenvalues
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError, functional


@dataclass
class Residual(Scorer):
    """Length of what of the feature lies outside the principal space of the training features."""

    reads: ClassVar[str | None] = "distances"

    dim: int | Literal["auto"] = "auto"  # D, of the principal space

    def __post_init__(self) -> None:
        if self.dim != "auto" and self.dim < 1:
            raise UserError(f"residual.dim={self.dim} is out of range; choose 1 or more, or auto")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.origin = functional.origin(train.weight, train.bias)  # o
        centered = train.features.double() - self.origin
        _, directions = torch.linalg.eigh(centered.T @ centered / len(centered))  # eigenvalues ascend
        size = len(directions)
        self.minor = directions[:, : size - functional.principal_dim(self.dim, size, "residual")]  # R

    def score(self, out: Outputs) -> Tensor:
        return torch.linalg.vector_norm((out.features.double() - self.origin) @ self.minor, dim=-1)
