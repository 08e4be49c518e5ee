"""L. Liu and Y. Qin, Detecting Out-of-Distribution Through the Lens of Neural Collapse, CVPR 2025.

The score:

    s = −w_ŷ·(f − μ) / ‖f − μ‖ − α ‖f‖₁
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, UserError


@dataclass
class NCI(Scorer):
    """Projection of the predicted class's weights on the centered feature, plus the feature's L1 norm, negated."""

    reads: ClassVar[str | None] = "features and head"

    alpha: float = 1e-4  # weight of the L1 norm

    def __post_init__(self) -> None:
        if self.alpha < 0:
            raise UserError(f"nci.alpha={self.alpha:g} is out of range; choose 0 or more")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.mean = train.features.double().mean(dim=0)  # mu_G

    def score(self, out: Outputs) -> Tensor:
        features = out.features.double()
        centered = features - self.mean
        length = torch.linalg.vector_norm(centered, dim=-1).clamp(min=1e-10)  # the mean itself is projected on 0
        projection = (out.weight[out.predicted] * centered).sum(dim=-1) / length
        return -(projection + self.alpha * features.abs().sum(dim=-1))
