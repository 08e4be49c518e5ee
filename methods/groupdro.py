"""S. Sagawa et al., Distributionally Robust Neural Networks for Group Shifts, ICLR 2020; as in DomainBed.

The loss:

    L = Σ_e q_e R_e, where R_e is the cross-entropy in environment e, and each step multiplies q_e by exp(η R_e)
    and divides by the sum of all
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError


class GroupWeights(nn.Module):
    """A distribution q over the environments that leans toward those of high risk."""

    q: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("q", torch.full((count,), 1 / count))

    @torch.no_grad()
    def update(self, risks: Tensor, eta: float) -> None:
        self.q *= torch.exp(eta * risks)
        self.q /= self.q.sum()


@dataclass
class GroupDRO(DomainTrainer):
    """Cross-entropy weighted toward the environments where it is highest."""

    search: ClassVar[dict[str, str]] = {"eta": "10**U(-3,-1)"}

    eta: float = 0.01  # rate of the weights; search: 10^U(-3,-1)
    normalisation: Literal["weights", "published_double"] = "weights"  # published_double: also divides by their number

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta < 0:
            raise UserError(f"groupdro.eta={self.eta:g} is negative; choose 0 or more")

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        weights = GroupWeights(count).to(loop.device)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            losses = F.cross_entropy(model(batch.x), batch.y, reduction="none")
            risks = losses.view(count, -1).mean(dim=1)  # R_e
            weights.update(risks, self.eta)
            loop.record(risk=risks.mean(), largest_weight=weights.q.max())
            risk = weights.q @ risks
            return risk / count if self.normalisation == "published_double" else risk

        for _ in loop.epochs(model, data, loss, [weights]):
            pass
