"""G. Blanchard et al., Domain Generalization by Marginal Transfer Learning, JMLR 2021; as in DomainBed.

The head sees each image beside the mean feature of its environment, at test time of its batch. Predictions therefore
depend on the images that come with an image.

The loss:

    L = Σ_e CE(head([f, m_e]), y), where m_e = ema × (mean f of environment e in the batch) + (1 − ema) × (m_e before,
    a constant)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError


class BesideTheMean(nn.Module):
    """A body whose features phi(x) stand beside their mean over the batch, or beside noise."""

    def __init__(self, body: nn.Module, noise: bool) -> None:
        super().__init__()
        self.body, self.noise = body, noise

    def forward(self, x: Tensor) -> Tensor:
        features = self.body(x)
        beside = features.mean(dim=0).expand_as(features)
        if self.noise:  # the same at every call, so that results can be repeated
            beside = torch.randn(features.shape, generator=torch.Generator().manual_seed(0)).to(features)
        return torch.cat([features, beside], dim=1)


class Embeddings(nn.Module):
    """A mean feature m_e for each environment that follows the batches."""

    m: Tensor

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("m", torch.zeros(count, dim))

    def update(self, features: Tensor, ema: float) -> Tensor:
        """From features of environments x rows x d; what is kept has no gradient, what is returned has."""
        m = ema * features.mean(dim=1) + (1 - ema) * self.m
        self.m = m.detach()
        return m


@dataclass
class MTL(DomainTrainer):
    """Cross-entropy of a head that also sees the mean feature of the environment; at test time, of the batch."""

    search: ClassVar[dict[str, str]] = {"ema": "{0.5,0.9,0.99,1}"}

    ema: float = 0.99  # weight of the newest batch in an environment's mean; search: {0.5,0.9,0.99,1}
    embedding: Literal["mean", "published_noise"] = "mean"  # published_noise: N(0, 1) in its place

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ema <= 1:
            raise UserError(f"mtl.ema={self.ema:g} is out of range; choose more than 0 and at most 1")

    def extend(self, model: Classifier) -> None:
        model.body = BesideTheMean(model.body, noise=self.embedding == "published_noise")
        model.head = nn.Linear(2 * model.head.in_features, model.head.out_features)

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        assert isinstance(model.body, BesideTheMean)
        dim = model.head.in_features // 2
        embeddings = Embeddings(count, dim).to(loop.device)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            features = model.features(batch.x)[:, :dim].unflatten(0, (count, -1))
            beside = embeddings.update(features, self.ema)[:, None].expand_as(features)
            if self.embedding == "published_noise":
                beside = torch.randn(features.shape).to(features)
            logits = model.head(torch.cat([features, beside], dim=-1).flatten(0, 1))
            return count * F.cross_entropy(logits, batch.y)  # the sum over environments

        loop.notes["transductive"] = "predictions depend on the test batch"
        for _ in loop.epochs(model, data, loss, [embeddings]):
            pass
