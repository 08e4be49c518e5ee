"""W. Liu et al., Energy-based Out-of-distribution Detection, NeurIPS 2020.

The loss:

    hinge: L = CE(z, y) + weight × [mean_ID max(0, E − m_in)² + mean_out max(0, m_out − E)²], where E = −log Σ_k exp z_k
    logistic: L = CE(z, y) + weight × (logistic loss of b − w E, labeled images against outliers), with w and b learned
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import energy, forward_both


@dataclass
class EnergyOE(Trainer):
    """Cross-entropy, low energy on labeled images and high energy on outliers."""

    display: ClassVar[str] = "Energy (w. outlier)"
    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})
    starts_from: ClassVar[str | None] = "erm"

    form: Literal["hinge", "logistic"] = "hinge"  # logistic: WOODS's variant, a learned threshold on the energy
    weight: float = 0.1
    m_in: float = -25.0  # of the hinge: ID energies above it cost
    m_out: float = -5.0  # of the hinge: energies of outliers below it cost
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"energy-oe.weight={self.weight:g} is out of range; choose 0 or more")
        if self.form == "logistic" and (self.m_in, self.m_out) != (EnergyOE.m_in, EnergyOE.m_out):
            raise UserError("energy-oe.form=logistic has no m_in and m_out; leave them out")

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        threshold = nn.Linear(1, 1).to(loop.device)  # of the logistic form

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, outliers = forward_both(model, batch, self.bn_mode, batch.outliers)
            e_in, e_out = energy(logits), energy(outliers)
            if self.form == "hinge":
                outlier = (e_in - self.m_in).relu().square().mean() + (self.m_out - e_out).relu().square().mean()
            else:
                is_id = torch.cat([torch.ones_like(e_in), torch.zeros_like(e_out)])
                z = threshold(-torch.cat([e_in, e_out]).unsqueeze(1)).squeeze(1)  # w L + b, L = -E
                outlier = F.binary_cross_entropy_with_logits(z, is_id)
            return F.cross_entropy(logits, batch.y) + self.weight * outlier

        extra = [threshold] if self.form == "logistic" else []
        for _ in loop.epochs(model, data, loss, extra, loop.recipe.weight_decay):
            pass
