"""S. Regmi et al., T2FNorm: Train-time Feature Normalization for OOD Detection in Image Classification, CVPR Workshops
2024.

The loss:

    L = CE(W f / (τ ‖f‖) + b, y), where W and b are the head's; the trained network has z = W f / τ + b
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError


@dataclass
class T2FNorm(Trainer):
    """Cross-entropy of features that are normalized to one length; predictions and scores use the plain features."""

    group: ClassVar[str | None] = "OOD detection: training"
    scorer: ClassVar[str] = "msp"

    temperature: float = 0.1  # tau: normalized features have the length 1 / tau

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UserError(f"t2fnorm.temperature={self.temperature:g} is out of range; choose more than 0")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        logits = model.head(F.normalize(model.features(batch.x), dim=-1) / self.temperature)  # W unit(f) / tau + b
        return F.cross_entropy(logits, batch.y)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        super().train(model, data, loop)
        # The network shall give W f / tau + b, by which the paper scores OOD images. The authors' network in OpenOOD
        # predicts by these logits too, as it normalizes only in training mode. The bias alone makes a prediction depend
        # on the length of f. Accuracies observed between epochs are of W f + b, since the division comes last.
        with torch.no_grad():
            model.head.weight /= self.temperature
