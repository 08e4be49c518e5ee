"""Q. Zhang et al., The Best of Both Worlds: On the Dilemma of Out-of-distribution Detection, NeurIPS 2024.

Whatever makes predictions on outliers uncertain costs accuracy on covariate-shifted images. Decoupled uncertainty
learning makes the distribution over predictions uncertain instead and keeps the prediction itself.

The loss:

    L = CE(z, y) + λ [mean_out max(0, h_0 + m_out − h)^τ + mean_ID max(0, h − h_0 − m_in)^τ] + γ mean_out KL(p ‖ p_0),
    where h is the differential entropy of the Dirichlet distribution with parameters max(0, z_k) + 1, as in the scorer
    dirichlet-entropy, and h_0 and p_0 are h and p by the starting weights
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import dirichlet_entropy, forward_both


@dataclass
class DUL(Trainer):
    """Cross-entropy, high Dirichlet entropy on outliers, and their predictions kept."""

    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "dirichlet-entropy"

    # No entropy is above -ln Gamma(K), so margins go with the number of classes. These are the paper's for CIFAR-10.
    m_in: float | None = 10.0  # above h0, from where labeled images cost; null: they never do, as the text prints it
    m_out: float = 30.0  # above h0, up to where outliers cost
    weight: float = 0.3  # lambda, of the entropies
    keep: float = 2.0  # gamma, of the divergence from the predictions of the starting weights
    power: float = 1.0  # tau, of what the entropies cost
    form: Literal["paper", "reference"] = "paper"  # reference: h0 = 0, and KL(p0 || p) for KL(p || p0), as released
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        if self.weight < 0 or self.keep < 0:
            raise UserError("dul.weight and dul.keep must be 0 or more; change --set")
        if self.power < 1:
            raise UserError(f"dul.power={self.power:g} is out of range; choose 1 or more")

    def entropy_cost(self, labeled: Tensor, outliers: Tensor, labeled_0: Tensor, outliers_0: Tensor) -> Tensor:
        """What the entropies cost, by the logits of labeled images and outliers now and at the start, which give h0."""
        h_in, h_out, h0_in, h0_out = (
            dirichlet_entropy(logits.relu() + 1) for logits in (labeled, outliers, labeled_0, outliers_0)
        )
        if self.form == "reference":
            h0_in, h0_out = torch.zeros_like(h0_in), torch.zeros_like(h0_out)
        cost = (h0_out + self.m_out - h_out).relu().pow(self.power).mean()
        if self.m_in is not None:
            cost = cost + (h_in - (h0_in + self.m_in)).relu().pow(self.power).mean()
        return cost

    def divergence_from(self, start: Tensor, logits: Tensor) -> Tensor:
        """By the logits of outliers at the start and now."""
        log_p0, log_p = start.log_softmax(dim=-1), logits.log_softmax(dim=-1)
        first, second = (log_p, log_p0) if self.form == "paper" else (log_p0, log_p)
        return F.kl_div(second, first, reduction="batchmean", log_target=True)  # KL(first || second)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        start = deepcopy(model).eval().requires_grad_(False)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, outliers = forward_both(model, batch, self.bn_mode, batch.outliers)
            assert batch.outliers is not None
            logits_0, outliers_0 = start(batch.x), start(batch.outliers)
            entropy = self.entropy_cost(logits, outliers, logits_0, outliers_0)
            kept = self.divergence_from(outliers_0, outliers)
            loop.record(entropy_term=entropy, divergence=kept)
            return F.cross_entropy(logits, batch.y) + self.weight * entropy + self.keep * kept

        for _ in loop.epochs(model, data, loss):
            pass
