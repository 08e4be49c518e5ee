"""Y. Ming, Y. Sun, O. Dia and Y. Li, How to Exploit Hyperspherical Embeddings for Out-of-Distribution Detection?,
ICLR 2023.

The loss is of unit projections of the features, behind two layers that nothing reads afterwards; KNN reads the features
themselves. Those who classify with the network get a linear probe: the head is trained beside the rest, by
cross-entropy on features that it sends no gradient to.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, Loop, Trainer
from oodbench.functional import Prototypes, check_sphere, compactness, dispersion, projected


@dataclass
class CIDER(Trainer):
    """Projections lie near the prototype of their class and prototypes apart; KNN finds what lies far from all."""

    group: ClassVar[str | None] = "OOD detection: training"
    needs: ClassVar[frozenset[str]] = frozenset({"views"})
    scorer: ClassVar[str] = "knn"

    weight: float = 2.0  # w, of the pull towards prototypes
    temperature: float = 0.1  # tau
    momentum: float = 0.95  # of a prototype, when a row moves it
    dim: int = 128  # of the sphere

    def __post_init__(self) -> None:
        check_sphere("cider", self.weight, self.temperature, self.momentum, self.dim)

    def extend(self, model: Classifier) -> None:
        size = model.head.in_features
        layers = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, self.dim))
        model.projection = layers.to(model.head.weight)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        prototypes = Prototypes.of(model, data)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            assert batch.views is not None
            y = torch.cat([batch.y, batch.y])
            features = model.features(torch.cat([batch.x, batch.views]))
            u = projected(model, features)
            apart = dispersion(prototypes.follow(u, y, self.momentum), self.temperature)
            near = compactness(u, y, prototypes.vectors, self.temperature)
            probe = F.cross_entropy(model.head(features.detach()), y)
            loop.record(compactness=near, dispersion=apart, probe=probe)
            return self.weight * near + apart + probe

        for _ in loop.epochs(model, data, loss, [prototypes]):
            pass
