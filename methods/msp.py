"""D. Hendrycks and K. Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural
Networks, ICLR 2017.

The score:

    s = −max_k p_k
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class MSP(Scorer):
    """Maximum softmax probability, negated."""

    reads: ClassVar[str | None] = "logits"

    def score(self, out: Outputs) -> Tensor:
        return -out.logits.softmax(dim=-1).amax(dim=-1)
