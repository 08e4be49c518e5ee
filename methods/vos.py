"""X. Du et al., VOS: Learning What You Don't Know by Virtual Outlier Synthesis, ICLR 2022.

Unlikely draws from Gaussians around the classes stand for outliers in feature space. A logistic regression of the
energy tells them from the labeled images, whose gradient reaches the whole network; the virtual ones reach the head.

The loss:

    L = CE(z, y) + weight × (logistic loss of a log Σ_k max(0, ω_k) exp z_k + c, labeled images against virtual
    outliers, in one mean over both), where ω, a and c are learned, and the second term is 0 before `start`
    A virtual outlier is the least likely of many draws from N(μ_k, C + 10⁻⁴ I), where μ_k is the mean of class k and
    C is the covariance within classes, both of the latest features
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Chi2

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import ClassQueues


class WeightedEnergy(nn.Module):
    """Whether logits are those of an ID image: a logistic regression of log sum_k relu(w_k) exp z_k."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(classes))  # w
        self.logistic = nn.Linear(1, 2)

    def forward(self, logits: Tensor) -> Tensor:
        logs = self.weight.clamp(min=torch.finfo(torch.float32).tiny).log()  # of relu(w), finite at 0
        return self.logistic((logits + logs).logsumexp(dim=-1, keepdim=True))


def least_likely(means: Tensor, factor: Tensor, draws: int, count: int) -> Tensor:
    """The `count` least likely of `draws` from each N(mean, L L'), one class after the other.

    The density at mean + L u falls with the length of u and depends on nothing else, so no density is computed. The
    length of a normal u is independent of its direction, so only the draws that are kept need one.
    """
    classes, dim = means.shape
    lengths = Chi2(dim).sample(torch.Size([classes, draws])).topk(count, dim=1).values.sqrt()  # on the CPU
    directions = F.normalize(torch.randn(classes, count, dim), dim=-1)
    u = (lengths.unsqueeze(2) * directions).to(means)
    return (means.unsqueeze(1) + u @ factor.T).flatten(0, 1)


@dataclass
class VOS(Trainer):
    """Cross-entropy, and a logistic loss on the energies of labeled images and of unlikely draws around classes."""

    group: ClassVar[str | None] = "OOD detection: training"

    weight: float = 0.1  # of the logistic loss
    start: float = 0.4  # share of the training before the first virtual outlier
    queue: int = 1000  # features of each class that a Gaussian is fitted to; fewer until so many came
    draws: int = 10_000  # from the Gaussian of each class, at each step
    select: int = 1  # how many of them, the least likely, are virtual outliers

    def __post_init__(self) -> None:
        if self.weight < 0 or not 0 <= self.start < 1:
            raise UserError("vos.weight must be 0 or more and vos.start from 0 to below 1; change --set")
        if self.queue < 1 or not 1 <= self.select <= self.draws:
            raise UserError("vos.queue must be 1 or more and vos.select from 1 to vos.draws; change --set")

    def extend(self, model: Classifier) -> None:
        model.add_module("is_id", WeightedEnergy(model.head.out_features))

    def outlier_term(self, model: Classifier, logits: Tensor, queues: ClassQueues) -> Tensor:
        """The logistic loss; a class that no row has come of yet has no virtual outliers."""
        virtual = model.head(least_likely(*queues.gaussians(), self.draws, self.select).to(logits.dtype))
        known = (queues.counts > 0).repeat_interleave(self.select)
        counted = torch.cat([torch.ones_like(logits[:, 0]), known.to(logits.dtype)])
        is_id = (torch.arange(len(counted), device=logits.device) < len(logits)).long()
        guesses = model.get_submodule("is_id")(torch.cat([logits, virtual]))
        losses = F.cross_entropy(guesses, is_id, reduction="none")
        return losses @ counted / counted.sum()

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        queues = ClassQueues(data.num_classes, self.queue, model.head.in_features).to(loop.device)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            features = model.features(batch.x)
            logits = model.head(features)
            queues.push(features.detach(), batch.y)
            risk = F.cross_entropy(logits, batch.y)
            outlier = torch.zeros_like(risk)
            if loop.step >= self.start * loop.steps_in_all:
                outlier = self.outlier_term(model, logits, queues)
            loop.record(risk=risk, outlier_term=outlier)
            return risk + self.weight * outlier

        for _ in loop.epochs(model, data, loss, [queues]):
            pass
