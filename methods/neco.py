"""M. B. Ammar et al., NECO: NEural Collapse Based Out-of-distribution Detection, ICLR 2024.

The score:

    s = −(‖Pᵀ g‖ / ‖g‖) max_k z_k, where g_j = (f_j − μ_j) / (standard deviation of f_j) by training images,
    and the columns of P are the leading principal directions of training g
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError, functional


@dataclass
class NECO(Scorer):
    """Share of a standardized feature's length that lies in the principal space, times the largest logit, negated."""

    reads: ClassVar[str | None] = "distances"

    dim: int | Literal["auto"] = "auto"  # d of the paper, of the principal space; auto: 90 % of the variance
    # Where the largest logit is negative, the product changes its sign: of such rows those that lie in the principal
    # space look more OOD, not less.
    times_max_logit: bool = True

    def __post_init__(self) -> None:
        if self.dim != "auto" and self.dim < 1:
            raise UserError(f"neco.dim={self.dim} is out of range; choose 1 or more, or auto")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        features = train.features.double()
        self.mean = features.mean(dim=0)
        deviation = features.std(dim=0, correction=0)
        self.scale = torch.where(deviation > 0, 1 / deviation, 0)  # a feature that never varies counts for nothing
        standardized = self._standardized(train)
        variances, directions = torch.linalg.eigh(standardized.T @ standardized / len(features))  # ascending
        self.principal = directions[:, -functional.variance_dim(self.dim, variances, "neco") :]  # P

    def _standardized(self, out: Outputs) -> Tensor:
        return (out.features.double() - self.mean) * self.scale

    def score(self, out: Outputs) -> Tensor:
        standardized = self._standardized(out)
        length = torch.linalg.vector_norm(standardized, dim=-1).clamp(min=1e-10)  # the mean itself has a share of 0
        share = torch.linalg.vector_norm(standardized @ self.principal, dim=-1) / length
        return -share * out.logits.double().amax(dim=-1) if self.times_max_logit else -share
