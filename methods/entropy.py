"""R. Chan et al., Entropy Maximization and Meta Classification for Out-Of-Distribution Detection in Semantic
Segmentation, ICCV 2021.

Of one prediction per image, in nats, without the training by entropy that the paper adds.

The score:

    s = −Σ_k p_k log p_k
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class Entropy(Scorer):
    """Shannon entropy of the predicted probabilities."""

    reads: ClassVar[str | None] = "logits"

    def score(self, out: Outputs) -> Tensor:
        logs = out.logits.double().log_softmax(dim=-1)  # always finite, so that a p of 0 adds 0 log 0 = 0
        return -(logs.exp() * logs).sum(dim=-1)
