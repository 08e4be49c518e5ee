"""R. Huang et al., On the Importance of Gradients for Detecting Distributional Shifts in the Wild, NeurIPS 2021.

In closed form, without a backward pass: the gradient by the weights of the head is an outer product.

The score:

    s = −‖f‖₁ Σ_k |1 − K p_k|, where p = softmax(z / T)
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer, UserError


@dataclass
class GradNorm(Scorer):
    """L1 norm of the gradient of the cross-entropy to uniform by the head's weights, negated."""

    reads: ClassVar[str | None] = "gradients"

    temperature: float = 1.0  # T

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UserError(f"gradnorm.temperature={self.temperature:g} is out of range; choose more than 0")

    def score(self, out: Outputs) -> Tensor:
        """The gradient of -sum_k log p_k by w_kj is (K p_k - 1) f_j, times a 1/T that is the same for all rows."""
        p = (out.logits.double() / self.temperature).softmax(dim=-1)
        return -out.features.double().abs().sum(dim=-1) * (1 - p.shape[-1] * p).abs().sum(dim=-1)
