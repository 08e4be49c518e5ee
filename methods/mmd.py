"""H. Li et al., Domain Generalization with Adversarial Feature Learning, CVPR 2018; as in DomainBed.

The loss:

    L = CE + γ mean over pairs of environments of [k(a, a) + k(b, b) − 2 k(a, b)],
    where k(a, b) is the mean of Σ_g exp(−g ‖f_a − f_b‖²) over all rows of a and of b, and g = 10⁻³, 10⁻², …, 10³
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from oodbench.methods.coral import CORAL

SCALES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)  # g


def kernel(a: Tensor, b: Tensor) -> Tensor:
    """The mean over all pairs of rows of sum_g exp(-g |a - b|^2)."""
    squared = a.square().sum(dim=1)[:, None] + b.square().sum(dim=1) - 2 * a @ b.T
    squared = squared.clamp(min=1e-30)  # rounding may leave less than nothing
    return torch.stack([torch.exp(-g * squared) for g in SCALES]).sum(dim=0).mean()


@dataclass
class MMD(CORAL):
    """Cross-entropy plus the maximum mean discrepancy between the environments' features."""

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """MMD^2, the biased estimate."""
        return kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)
