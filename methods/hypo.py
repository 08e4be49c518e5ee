"""H. Bai, Y. Ming, J. Katz-Samuels and Y. Li, HYPO: Hyperspherical Out-of-Distribution Generalization, ICLR 2024.

This is the form without domains, as for CIFAR-10. A prediction is the prototype v_k nearest to the unit projection of
the features. With a linear projection P f + c, the nearest one has the largest v_k . (P f + c), which is linear in the
features. The head is therefore not trained: it becomes W = V P and b = V c. Its logits are not divided by tau.

The loss:

    L = w CE(V u / τ, y) + mean_k log(Σ_(j≠k) exp(v_k·v_j / τ) / (K − 1)), where u is the unit projection,
    the rows v_k of V are the prototypes of K classes, and each row of the batch moves the one of its class to
    the unit vector along m v_y + (1 − m) u, with momentum m
    Gradients reach the projection through u in the first term and through the moves of this batch in the second.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, Loop, Trainer
from oodbench.functional import Prototypes, check_sphere, compactness, dispersion, projected


@dataclass
class HYPO(Trainer):
    """Projections lie near the prototype of their class and prototypes apart; the nearest prototype is predicted."""

    needs: ClassVar[frozenset[str]] = frozenset({"views"})
    scorer: ClassVar[str] = "knn"

    weight: float = 2.0  # w, of the pull towards prototypes
    temperature: float = 0.1  # tau
    momentum: float = 0.95  # of a prototype, when a row moves it
    dim: int = 128  # of the sphere

    def __post_init__(self) -> None:
        check_sphere("hypo", self.weight, self.temperature, self.momentum, self.dim)

    def extend(self, model: Classifier) -> None:
        model.projection = nn.Linear(model.head.in_features, self.dim).to(model.head.weight)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        prototypes = Prototypes.of(model, data)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            assert batch.views is not None
            y = torch.cat([batch.y, batch.y])
            u = projected(model, model.features(torch.cat([batch.x, batch.views])))
            apart = dispersion(prototypes.follow(u, y, self.momentum), self.temperature)
            near = compactness(u, y, prototypes.vectors, self.temperature)
            loop.record(compactness=near, dispersion=apart)
            fold(model, prototypes)  # for accuracies that are measured between epochs
            return self.weight * near + apart

        for _ in loop.epochs(model, data, loss, [prototypes]):
            pass
        fold(model, prototypes)


@torch.no_grad()
def fold(model: Classifier, prototypes: Prototypes) -> None:
    """Let the head predict the nearest prototype."""
    projection = model.get_submodule("projection")
    assert isinstance(projection, nn.Linear)
    model.head.weight.copy_(prototypes.vectors @ projection.weight)
    model.head.bias.copy_(prototypes.vectors @ projection.bias)
