"""B. Sun and K. Saenko, Deep CORAL: Correlation Alignment for Deep Domain Adaptation, ECCV Workshops 2016.

As in DomainBed: the means are aligned as well as the covariances, and both are averaged over their entries.

The loss:

    L = CE + γ mean over pairs of environments of [mean((μ_a − μ_b)²) + mean((C_a − C_b)²)],
    where μ and C are mean and unbiased covariance of an environment's features
"""

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, DomainTrainer, Loop, UserError


@dataclass
class CORAL(DomainTrainer):
    """Cross-entropy plus the distance of mean and covariance between the environments' features."""

    rows: ClassVar[int] = 2  # have a covariance
    search: ClassVar[dict[str, str]] = {"gamma": "10**U(-1,1)"}

    gamma: float = 1.0  # weight of the penalty; search: 10^U(-1,1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma < 0:
            raise UserError(f"{self.name}.gamma={self.gamma:g} is negative; choose 0 or more")

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """Between two sets of features, rows x d."""
        means = (a.mean(dim=0) - b.mean(dim=0)).square().mean()
        return means + (a.T.cov() - b.T.cov()).square().mean()

    def loss_across(self, model: Classifier, batch: Batch, count: int, loop: Loop) -> Tensor:
        # One pass for all environments, as ERM makes: batch normalization shall not align them one by one.
        features = model.features(batch.x)
        risk = F.cross_entropy(model.head(features), batch.y)
        pairs = combinations(features.chunk(count), 2)
        penalty = torch.stack([self.distance(a, b) for a, b in pairs]).mean()
        loop.record(risk=risk, penalty=penalty)
        return risk + self.gamma * penalty
