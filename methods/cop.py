"""K. Fang et al., Kernel PCA for Out-of-Distribution Detection, NeurIPS 2024.

The score:

    s = ‖Rᵀ(u − mean(u))‖, where u = f / ‖f‖, mean(u) is over training images,
    and the columns of R are the principal directions of training u except the q leading ones
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError, functional

ROWS = 4096  # mapped at a time while fitting


@dataclass
class CoP(Scorer):
    """Length of what of a unit feature lies outside the principal space of the training rows."""

    reads: ClassVar[str | None] = "distances"

    dim: int | Literal["auto"] = "auto"  # q, of the principal space; auto: 90 % of the variance
    gamma: float | None = None  # of a Gaussian kernel on unit features, which makes it CoRP; the authors took 1 to 3

    def __post_init__(self) -> None:
        if self.dim != "auto" and self.dim < 1:
            raise UserError(f"cop.dim={self.dim} is out of range; choose 1 or more, or auto")
        if self.gamma is not None and self.gamma <= 0:
            raise UserError(f"cop.gamma={self.gamma:g} is out of range; choose more than 0")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        if self.gamma is not None:
            self._draw(self.gamma, train.unit)
        size = self._mapped(train.unit[:1]).shape[-1]
        total, moment = train.unit.new_zeros(size), train.unit.new_zeros(size, size)
        for some in train.unit.split(ROWS):
            mapped = self._mapped(some)
            total += mapped.sum(dim=0)
            moment += mapped.T @ mapped
        self.mean = total / len(train.unit)
        covariance = moment / len(train.unit) - torch.outer(self.mean, self.mean)
        variances, directions = torch.linalg.eigh(covariance)  # ascending
        self.minor = directions[:, : size - functional.variance_dim(self.dim, variances, "cop")]

    def _draw(self, gamma: float, unit: Tensor) -> None:
        """omega ~ N(0, 2 gamma I) and u ~ U(0, 2 pi) of M random Fourier features; M is that of the authors' code."""
        size = unit.shape[-1]
        generator, count = torch.Generator().manual_seed(0), min(4 * size, 4096)
        frequencies = math.sqrt(2 * gamma) * torch.randn(size, count, generator=generator, dtype=unit.dtype)
        phases = 2 * math.pi * torch.rand(count, generator=generator, dtype=unit.dtype)
        self.frequencies, self.phases = frequencies.to(unit.device), phases.to(unit.device)

    def _mapped(self, unit: Tensor) -> Tensor:
        """As it is, or sqrt(2 / M) cos(omega't + u), whose inner products approximate the Gaussian kernel's."""
        if self.gamma is None:
            return unit
        return math.sqrt(2 / len(self.phases)) * torch.cos(unit @ self.frequencies + self.phases)

    def score(self, out: Outputs) -> Tensor:
        return torch.linalg.vector_norm((self._mapped(out.unit) - self.mean) @ self.minor, dim=-1)
