"""D. Hendrycks et al., Deep Anomaly Detection with Outlier Exposure, ICLR 2019.

The loss:

    L = CE(z, y) + λ mean over outliers of [log Σ_k exp z_k − mean_k z_k]
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError
from oodbench.functional import forward_both


@dataclass
class OE(Trainer):
    """Cross-entropy, and cross-entropy to the uniform distribution on outliers."""

    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "msp"

    weight: float = 0.5  # lambda
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"oe.weight={self.weight:g} is out of range; choose 0 or more")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        logits, outliers = forward_both(model, batch, self.bn_mode, batch.outliers)
        to_uniform = (outliers.logsumexp(dim=-1) - outliers.mean(dim=-1)).mean()
        return F.cross_entropy(logits, batch.y) + self.weight * to_uniform
