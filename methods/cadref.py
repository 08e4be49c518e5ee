"""Z. Ling et al., CADRef: Robust Out-of-Distribution Detection via Class-Aware Decoupled Relative Feature Leveraging,
CVPR 2025.

A class that is predicted for no training row has the mean of its own rows, one without rows that of all rows.

The score:

    s = e⁺ / L + e⁻ / mean(L), where L = log Σ_k exp z_k, mean(L) is over training images and, with e = f − μ_ŷ,
    e⁺ = Σ_j max(0, e_j sign w_ŷj) / ‖f‖₁    e⁻ = Σ_j max(0, −e_j sign w_ŷj) / ‖f‖₁
    Here μ_k is the mean of training features that are predicted as k, whatever their label.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from oodbench import Outputs, Scorer, functional


@dataclass
class CADRef(Scorer):
    """Relative L1 distance to the mean of training rows predicted alike, weighed by what it does to the logit."""

    reads: ClassVar[str | None] = "features and head"

    variant: Literal["cadref", "caref"] = "cadref"  # caref: the distance as a whole, without the logits

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        self.means = functional.class_templates(train.features, train.logits.shape[-1], train.predicted, train.y)
        self.mean_energy = _divisor(_energy(train).mean())

    def score(self, out: Outputs) -> Tensor:
        features = out.features.double()
        error = features - self.means[out.predicted]
        length = features.abs().sum(dim=-1).clamp(min=1e-10)  # a row of zeros is as far as can be
        if self.variant == "caref":
            return error.abs().sum(dim=-1) / length
        # Entries that raise the logit of the predicted class, e+, and that lower it, e-; a weight of 0 does neither.
        raising = error * out.weight[out.predicted].sign()
        positive, negative = (part.clamp(min=0).sum(dim=-1) / length for part in (raising, -raising))
        # Where all logits are low, the energy is below 0 and so is the quotient: the row then looks the more ID, the
        # more it deviates, as the paper has it. That takes few classes.
        return positive / _divisor(_energy(out)) + negative / self.mean_energy


def _energy(out: Outputs) -> Tensor:
    """The paper's, high where the network is sure."""
    return out.logits.double().logsumexp(dim=-1)


def _divisor(energy: Tensor) -> Tensor:
    """Exactly 0 is taken for a little more, so that scores are finite."""
    return energy.where(energy != 0, 1e-10)
