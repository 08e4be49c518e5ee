"""Q. Zhang et al., The Best of Both Worlds: On the Dilemma of Out-of-distribution Detection, NeurIPS 2024.

The score:

    s = Σ_k [ln Γ(α_k) − (α_k − 1) (ψ(α_k) − ψ(α_0))] − ln Γ(α_0), where α_k = max(0, z_k) + 1 and α_0 = Σ_k α_k
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from oodbench import Outputs, Scorer
from oodbench.functional import dirichlet_entropy


@dataclass
class DirichletEntropy(Scorer):
    """Differential entropy of the Dirichlet distribution that positive logits are the evidence of."""

    reads: ClassVar[str | None] = "logits"

    evidence: Literal["relu", "exp"] = "relu"  # alpha = relu(z) + 1; exp: exp(relu(z)) and its sum, as on ImageNet

    def score(self, out: Outputs) -> Tensor:
        evidence = out.logits.double().relu()  # the entropy is a small difference of large terms
        if self.evidence == "exp":
            return -evidence.logsumexp(dim=-1)  # in the order of -alpha_0, which may be too large for a number
        return dirichlet_entropy(evidence + 1)
