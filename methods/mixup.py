"""H. Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.

The loss:

    L = λ CE(z(x'), y_i) + (1 − λ) CE(z(x'), y_j), where x' = λ x_i + (1 − λ) x_j and λ ~ Beta(α, α), once per batch
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError


@dataclass
class Mixup(Trainer):
    """Cross-entropy on convex combinations of two images of a batch and of their labels."""

    alpha: float = 1.0  # lambda ~ Beta(alpha, alpha), one draw per batch

    def __post_init__(self) -> None:
        if self.alpha <= 0:
            raise UserError(f"mixup.alpha={self.alpha:g} is out of range; choose more than 0")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        share = torch.distributions.Beta(self.alpha, self.alpha).sample().item()  # drawn on the CPU: nothing waits
        other = torch.randperm(len(batch)).to(batch.x.device)
        logits = model(share * batch.x + (1 - share) * batch.x[other])
        return share * F.cross_entropy(logits, batch.y) + (1 - share) * F.cross_entropy(logits, batch.y[other])
