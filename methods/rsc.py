"""Z. Huang et al., Self-Challenging Improves Cross-Domain Generalization, ECCV 2020; as in DomainBed.

The loss:

    L = CE(head(f ∘ (1 − m)), y), where m_j is 1 for the share f_drop of features whose weights for class y in the head
    are largest, in the share b_drop of images where p_y falls most when these are set to 0, and else 0
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError


def top(values: Tensor, share: float) -> Tensor:
    """Where the largest values of each row lie, a share of them; nowhere for a share of 0."""
    if share == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    return values >= values.quantile(1 - share, dim=-1, keepdim=True)


@dataclass
class RSC(Trainer):
    """Cross-entropy without the features that speak loudest for the class, where it relies on them most."""

    search: ClassVar[dict[str, str]] = {"f_drop": "U(0,0.5)", "b_drop": "U(0,0.5)"}

    f_drop: float = 0.3333333333333333  # share of a row's features to mute; search: U(0,0.5)
    b_drop: float = 0.3333333333333333  # share of a batch's rows to mute them in; search: U(0,0.5)

    def __post_init__(self) -> None:
        if not (0 <= self.f_drop <= 1 and 0 <= self.b_drop <= 1):
            raise UserError("rsc.f_drop and rsc.b_drop are shares; choose numbers from 0 to 1")

    @torch.no_grad()
    def muted(self, model: Classifier, features: Tensor, y: Tensor) -> Tensor:
        """Which features of which rows are muted."""
        loudest = top(model.head.weight[y], self.f_drop)  # the gradient of the own class's logit by the features

        def confidence(features: Tensor) -> Tensor:
            return model.head(features).softmax(dim=1).gather(1, y[:, None]).squeeze(1)

        drop = confidence(features) - confidence(features * ~loudest)
        return loudest & top(drop, self.b_drop)[:, None]

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        features = model.features(batch.x)
        return F.cross_entropy(model.head(features * ~self.muted(model, features, batch.y)), batch.y)
