"""H. Wei et al., Mitigating Neural Network Overconfidence with Logit Normalization, ICML 2022.

Once an image is classified, cross-entropy is lowered by longer logits, of any image. Logits of one length leave only
their direction to learn.

The loss:

    L = CE(z / (τ ‖z‖), y)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError


@dataclass
class LogitNorm(Trainer):
    """Cross-entropy of logits that are normalized to one length; predictions and scores use the plain logits."""

    group: ClassVar[str | None] = "OOD detection: training"
    scorer: ClassVar[str] = "msp"

    temperature: float = 0.04  # tau: normalized logits have the length 1 / tau

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UserError(f"logitnorm.temperature={self.temperature:g} is out of range; choose more than 0")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        return F.cross_entropy(F.normalize(model(batch.x), dim=-1) / self.temperature, batch.y)
