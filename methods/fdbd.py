"""L. Liu and Y. Qin, Fast Decision Boundary based Out-of-Distribution Detector, ICML 2024.

The score:

    s = −mean_(k ≠ ŷ) [(z_ŷ − z_k) / ‖w_ŷ − w_k‖] / ‖f − μ‖
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class fDBD(Scorer):
    """Mean distance to the decision boundaries of the predicted class, over that to the training mean, negated."""

    reads: ClassVar[str | None] = "features and head"

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.mean = train.features.double().mean(dim=0)
        # ||w_i - w_j|| from the differences themselves, so that classes of equal weights are at exactly 0
        self.widths = torch.cdist(train.weight, train.weight, compute_mode="donot_use_mm_for_euclid_dist")

    def score(self, out: Outputs) -> Tensor:
        logits = out.logits.double()
        margins = logits.amax(dim=-1, keepdim=True) - logits
        widths = self.widths[out.predicted]
        # No boundary lies between a class and itself, nor between two of equal weights, whatever their biases: these
        # have no part in the mean.
        has_boundary = widths > 0
        distances = (margins / widths.where(has_boundary, 1)).where(has_boundary, 0)
        mean = distances.sum(dim=-1) / has_boundary.sum(dim=-1).clamp(min=1)
        from_center = torch.linalg.vector_norm(out.features.double() - self.mean, dim=-1)
        return -mean / from_center.clamp(min=1e-10)  # the training mean itself is as ID as can be
