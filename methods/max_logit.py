"""D. Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, ICML 2022.

The score:

    s = −max_k z_k
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class MaxLogit(Scorer):
    """Largest logit, negated."""

    reads: ClassVar[str | None] = "logits"

    def score(self, out: Outputs) -> Tensor:
        return -out.logits.amax(dim=-1)
