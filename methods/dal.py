"""Q. Wang, Z. Fang, Y. Zhang, F. Liu, Y. Li and B. Han, Learning to Augment Distributions for Out-of-Distribution
Detection, NeurIPS 2023: Distributional-Augmented OOD Learning.

Outlier exposure at the worst outliers near those at hand. The search moves features only, so that it costs products
with the head and no pass through the network. It starts from a perturbation of 0; the released code starts from random
numbers below 0.0001, and measures the perturbation before its last step.

The loss:

    L = CE(z, y) + weight × mean_out U(W (f + δ) + b), where U(z) = log Σ_k exp z_k − mean_k z_k and z = W f + b
    δ climbs the gradient of U(W (f + δ) + b) − γ mean_j |δ_j|, image by image, in steps of one length, and is then a
    constant; each batch adds β (mean |δ| − ρ) to γ, which stays within [0, gamma_max]
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import to_uniform

FIRST_GAMMA = 0.01  # as in the released code


class Price(nn.Module):
    """gamma, what a perturbation costs per unit of its mean size; it follows how large perturbations become."""

    gamma: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gamma", torch.tensor(FIRST_GAMMA))


@dataclass
class DAL(Trainer):
    """Outlier exposure, at the worst features near those of the outliers."""

    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "msp"

    weight: float = 0.5  # of the outlier term
    steps: int = 10  # of the search
    step: float = 0.01  # length of each
    rho: float = 0.01  # mean size of a perturbation's entries at which gamma stays as it is
    gamma_step: float = 0.5  # beta, by which gamma follows
    gamma_max: float = 1.0

    def __post_init__(self) -> None:
        for name in ("weight", "steps", "step", "rho", "gamma_step", "gamma_max"):
            if getattr(self, name) < 0:
                raise UserError(f"dal.{name}={getattr(self, name):g} is negative; choose 0 or more")

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        price = Price().to(loop.device)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            assert batch.outliers is not None
            features = model.features(torch.cat([batch.x, batch.outliers]))
            labelled, outliers = features[: len(batch)], features[len(batch) :]
            delta = self.worst(outliers.detach(), model.head, price.gamma)
            size = delta.abs().mean()
            price.gamma.sub_(self.gamma_step * (self.rho - size)).clamp_(0, self.gamma_max)
            loop.record(gamma=price.gamma, perturbation=size)
            outlier = to_uniform(model.head(outliers + delta)).mean()
            return F.cross_entropy(model.head(labelled), batch.y) + self.weight * outlier

        for _ in loop.epochs(model, data, loss, [price]):
            pass

    @torch.no_grad()
    def worst(self, features: Tensor, head: nn.Linear, gamma: Tensor) -> Tensor:
        """delta after steps of one length, row by row, up the gradient of U(W (f + delta) + b) - gamma mean |delta|.

        U is the cross-entropy to the uniform distribution, whose gradient by the logits is softmax(z) - 1/K.
        """
        delta = torch.zeros_like(features)
        for _ in range(self.steps):
            error = head(features + delta).softmax(dim=-1) - 1 / head.out_features
            ascent = error @ head.weight - gamma * delta.sign() / features.shape[-1]
            delta = delta + self.step * F.normalize(ascent, dim=-1)
        return delta
