"""J. Zhang, N. Inkawhich, R. Linderman, Y. Chen and H. Li, Mixture Outlier Exposure: Towards Out-of-Distribution
Detection in Fine-grained Environments, WACV 2023.

The confidence is to fall linearly from a labeled image to an outlier. The defaults are those of OpenOOD; the released
code of the authors draws from Beta(1, 1). Both pass labeled images and mixtures one after the other, so that batch
normalization has statistics of each; here `bn_mode` says whose they are, as in OE.

The loss:

    L = CE(z, y) + weight × [l CE(z(x'), y) + (1 − l) mean U(z(x'))], where U(z) = log Σ_k exp z_k − mean_k z_k,
    l ~ Beta(α, β), and x' mixes l of an image x with 1 − l of an outlier o: mixup has x' = l x + (1 − l) o,
    and CutMix replaces a box of x by that of o, where l then becomes the share of pixels that is left of x
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Trainer, UserError
from oodbench.functional import forward_both, to_uniform


@dataclass
class MixOE(Trainer):
    """Cross-entropy, also on mixtures of labeled images and outliers, whose labels are mixed with the uniform one."""

    needs: ClassVar[frozenset[str]] = frozenset({"outliers"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "msp"

    weight: float = 1.0  # of the loss on mixtures
    mix: Literal["cutmix", "mixup"] = "cutmix"  # an outlier's patch in a labeled image, or a convex combination
    alpha: float = 0.1  # the share of the labeled image is drawn from Beta(alpha, beta), once per batch
    beta: float = 1.0
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"mixoe.weight={self.weight:g} is out of range; choose 0 or more")
        for name in ("alpha", "beta"):
            if getattr(self, name) <= 0:
                raise UserError(f"mixoe.{name}={getattr(self, name):g} is out of range; choose more than 0")

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        assert batch.outliers is not None
        count = min(len(batch), len(batch.outliers))
        share = torch.distributions.Beta(self.alpha, self.beta).sample().item()  # drawn on the CPU: nothing waits
        mixed, share = (with_patch if self.mix == "cutmix" else combined)(
            batch.x[:count], batch.outliers[:count], share
        )
        logits, mixed_logits = forward_both(model, batch, self.bn_mode, mixed)
        to_label = F.cross_entropy(mixed_logits, batch.y[:count])
        to_both = share * to_label + (1 - share) * to_uniform(mixed_logits).mean()
        return F.cross_entropy(logits, batch.y) + self.weight * to_both


def combined(images: Tensor, outliers: Tensor, share: float) -> tuple[Tensor, float]:
    """Mixup: l x + (1 - l) o, and l."""
    return share * images + (1 - share) * outliers, share


def with_patch(images: Tensor, outliers: Tensor, share: float) -> tuple[Tensor, float]:
    """CutMix: a box of the outliers in the images, and the share of pixels that is left of the images.

    The box has about 1 - l of the area. Its center is anywhere, and what lies outside of the image is cut off.
    """
    height, width = images.shape[-2:]
    side = (1 - share) ** 0.5
    top, bottom = _cut(int(height * side), height)
    left, right = _cut(int(width * side), width)
    mixed = images.clone()
    mixed[..., top:bottom, left:right] = outliers[..., top:bottom, left:right]
    return mixed, 1 - (bottom - top) * (right - left) / (height * width)


def _cut(length: int, size: int) -> tuple[int, int]:
    """The ends of an interval around a random pixel, within the image."""
    center = int(torch.randint(size, ()))
    return max(center - length // 2, 0), min(center + length // 2, size)
