"""H. Yao et al., Out-Of-Distribution Detection with Diversification (Provably), NeurIPS 2024.

Pairs of outliers are mixed, each pair with more of the outlier that the network takes for ID, since its energy is
lower. Energies that decide on shares are those with the running statistics of batch normalization.

The loss:

    L = CE(z, y) + weight × [mean_ID max(0, E − m_in)² + mean_mix max(0, m_out − E)²], where E = −log Σ_k exp z_k
    A mixture is l o + (1 − l) o' of two outliers, where l ~ Beta(α c + 0.01, α (1 − c) + 0.01), drawn for each pair,
    c = σ((E(o') − E(o)) / T), and no gradient passes through c
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError
from oodbench.functional import energy, forward_both, frozen_batch_norm


@dataclass
class DiverseMix(Trainer):
    """Cross-entropy, low energy on labeled images and high energy on mixtures of two outliers."""

    display: ClassVar[str] = "diverseMix"
    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})

    weight: float = 0.01  # of the energy's hinges
    m_in: float = -25.0  # ID energies above it cost
    m_out: float = -7.0  # energies of mixtures below it cost
    alpha: float = 4.0  # the larger, the less the shares of a pair vary
    temperature: float = 10.0  # T, of the energies that the shares follow
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"diversemix.weight={self.weight:g} is out of range; choose 0 or more")
        for name in ("alpha", "temperature"):
            if getattr(self, name) <= 0:
                raise UserError(f"diversemix.{name}={getattr(self, name):g} is out of range; choose more than 0")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        assert batch.outliers is not None
        with torch.no_grad(), frozen_batch_norm(model):
            e = energy(model(batch.outliers))
        other = torch.randperm(len(e)).to(e.device)
        share = torch.distributions.Beta(*self.shapes(e, e[other])).sample().to(e)[:, None, None, None]
        mixed = share * batch.outliers + (1 - share) * batch.outliers[other]
        logits, outliers = forward_both(model, batch, self.bn_mode, mixed)
        e_in, e_out = energy(logits), energy(outliers)
        hinges = (e_in - self.m_in).relu().square().mean() + (self.m_out - e_out).relu().square().mean()
        return F.cross_entropy(logits, batch.y) + self.weight * hinges

    def shapes(self, own: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """alpha c + 0.01 of both images of each pair, on the CPU, which draws; c is the softmax of -E / T over the two.

        Outliers with lower energy have the larger share on average.
        """
        c = torch.sigmoid((other - own) / self.temperature).cpu()
        return self.alpha * c + 0.01, self.alpha * (1 - c) + 0.01
