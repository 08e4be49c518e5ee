"""X. Liu et al., GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, CVPR 2023.

The score:

    s = Σ_k p_k^γ (1 − p_k)^γ, over the M largest p_k
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer, UserError, functional


@dataclass
class GEN(Scorer):
    """Generalized entropy of the largest probabilities."""

    reads: ClassVar[str | None] = "logits"

    gamma: float = 0.1
    top: int = 100  # M, how many of the largest probabilities count; all where there are fewer classes

    def __post_init__(self) -> None:
        if self.gamma <= 0:
            raise UserError(f"gen.gamma={self.gamma:g} is out of range; choose more than 0")
        if self.top < 1:
            raise UserError(f"gen.top={self.top} is out of range; choose 1 or more")

    def score(self, out: Outputs) -> Tensor:
        return functional.generalized_entropy(out.logits, self.gamma, self.top)
