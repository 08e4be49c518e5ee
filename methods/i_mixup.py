"""M. Xu et al., Adversarial Domain Adaptation with Domain Mixup, AAAI 2020; between environments as in DomainBed.

The loss:

    L = λ CE(z(x'), y_i) + (1 − λ) CE(z(x'), y_j), where x' = λ x_i + (1 − λ) x_j, λ ~ Beta(α, α),
    and i and j come from two environments
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, DomainTrainer, Loop, UserError


@dataclass
class IMixup(DomainTrainer):
    """Cross-entropy on convex combinations of images of two environments and of their labels."""

    display: ClassVar[str] = "I-Mixup"
    search: ClassVar[dict[str, str]] = {"alpha": "10**U(-1,1)"}

    alpha: float = 0.2  # lambda ~ Beta(alpha, alpha), one draw per pair of environments; search: 10^U(-1,1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha <= 0:
            raise UserError(f"i-mixup.alpha={self.alpha:g} is out of range; choose more than 0")

    def loss_across(self, model: Classifier, batch: Batch, count: int, loop: Loop) -> Tensor:
        alpha = torch.tensor(self.alpha, dtype=torch.float64)  # in float32, draws for a small alpha underflow
        beta = torch.distributions.Beta(alpha, alpha)
        x, y = batch.x.unflatten(0, (count, -1)), batch.y.view(count, -1)
        one = torch.randperm(count)  # a ring of the environments: each is mixed with the next
        other = one.roll(-1)
        share = beta.sample((count,)).to(x)  # lambda
        mixed = torch.lerp(x[other], x[one], share.view(-1, 1, 1, 1, 1)).flatten(0, 1)
        logits = model(mixed)  # in one pass, so that batch normalization sees all pairs
        share = share.repeat_interleave(y.shape[1])
        risks = [F.cross_entropy(logits, y[e].flatten(), reduction="none") for e in (one, other)]
        return (share * risks[0] + (1 - share) * risks[1]).mean()
