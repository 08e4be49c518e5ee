"""J. Zhu et al., Diversified Outlier Exposure for Out-of-Distribution Detection via Informative Extrapolation,
NeurIPS 2023.

A part of the outliers is moved, within a small distance in pixels, to where outlier exposure costs more. While they
are moved, batch normalization uses its running statistics and leaves them.

The loss:

    L = CE(z, y) + λ mean_out U, where U = log Σ_k exp z_k − mean_k z_k
    Each step moves a share of the outliers o by ε/4 sign(∇_o U), within ε of where o was and within [0, 1]; the loss
    takes the moved outliers as constants.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError
from oodbench.functional import forward_both, frozen_batch_norm, to_uniform


@dataclass
class DivOE(Trainer):
    """Outlier exposure, with a part of the outliers moved to where it costs more."""

    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "msp"

    weight: float = 0.5  # lambda
    share: float = 0.5  # of a batch of outliers that is moved
    epsilon: float = 0.01  # how far a pixel may move, of images in [0, 1]
    steps: int = 5  # of the search, each a quarter of epsilon long
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        for name in ("weight", "epsilon", "steps"):
            if getattr(self, name) < 0:
                raise UserError(f"divoe.{name}={getattr(self, name):g} is negative; choose 0 or more")
        if not 0 <= self.share <= 1:
            raise UserError(f"divoe.share={self.share:g} is no share between 0 and 1; choose 0.5")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        assert batch.outliers is not None
        # Drawn, since a batch of the wild mixture is in the order of its parts.
        rows = torch.randperm(len(batch.outliers)).to(batch.x.device)
        count = int(self.share * len(rows))
        moved = self.extrapolated(model, batch.outliers[rows[:count]].detach())
        others = torch.cat([moved, batch.outliers[rows[count:]]])
        logits, outliers = forward_both(model, batch, self.bn_mode, others)
        return F.cross_entropy(logits, batch.y) + self.weight * to_uniform(outliers).mean()

    def extrapolated(self, model: Classifier, outliers: Tensor) -> Tensor:
        """The images after signed steps up the gradient of U, never farther than epsilon in any pixel."""
        lowest, highest = (outliers - self.epsilon).clamp(min=0), (outliers + self.epsilon).clamp(max=1)
        moved = outliers
        for _ in range(self.steps if len(outliers) else 0):
            moved = moved.detach().requires_grad_(True)
            with frozen_batch_norm(model), torch.enable_grad():
                (ascent,) = torch.autograd.grad(to_uniform(model(moved)).sum(), moved)
            moved = (moved + self.epsilon / 4 * ascent.sign()).clamp(lowest, highest)
        return moved.detach()
