"""S. Regmi, AdaSCALE: Adaptive Scaling for OOD Detection, arXiv 2025.

The distribution of Q' is that of ID validation images, at most 5000 of them, as in the author's code.

The new logits, which are then scored:

    variant a: z' = W (f exp r) + b    variant l: z' = r² z, where r is SCALE's, of max(0, f),
    at the percentile p_min + (1 − F(Q')) (p_max − p_min), and F is the distribution function of Q' on validation images
    Q' = λ Q + C_o, where Q sums |f*_j − f_j| over the largest 1 % of the f_j, C_o sums max(0, f*_j) over 5 %,
    and f* are the features after a step of ε sign(∇_x max_k z_k) in the share o of pixels where the gradient is least
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Classifier, Outputs, ReshapingScorer, UserError
from oodbench.methods.scale import ratio

SHIFTED, CORRECTING = 0.01, 0.05  # k_1 and k_2: the shares of features, the largest, that Q and C_o sum over
EQUAL = 1 + 1e-4  # in pixels' importance and in Q', what differs by less may differ by rounding


@dataclass
class AdaSCALE(ReshapingScorer):
    """SCALE, by less where the largest features move as pixels that hardly matter do."""

    reads: ClassVar[str | None] = "gradients"
    needs: ClassVar[frozenset[str]] = frozenset({"images", "validation"})

    variant: Literal["a", "l"] = "a"  # scales activations or logits
    min_percentile: float = 60.0  # p_min, of an image whose Q' is larger than any; the author tunes both by network
    max_percentile: float = 85.0  # p_max
    weight: float = 10.0  # lambda, of Q in Q'
    pixels: float = 0.05  # o, the share of pixels that are shifted
    magnitude: float = 0.5  # epsilon, in units of the normalized image
    rows: int = 5000  # at most, of validation images that give the distribution of Q'

    def __post_init__(self) -> None:
        if not 0 <= self.min_percentile <= self.max_percentile < 100:
            given = f"min_percentile={self.min_percentile:g} and max_percentile={self.max_percentile:g}"
            raise UserError(f"adascale.{given} are out of range; choose 0 to below 100, and min at most max")
        if self.weight < 0 or self.magnitude < 0:
            raise UserError("adascale.weight and adascale.magnitude must be 0 or more; change --set")
        if not 0 < self.pixels <= 1:
            raise UserError(f"adascale.pixels={self.pixels:g} is out of range; choose more than 0 and at most 1")
        if self.rows < 1:
            raise UserError(f"adascale.rows={self.rows} is out of range; choose 1 or more")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        rows = train if validation is None else validation
        some = rows.rows(slice(None, None, -(-len(rows.logits) // self.rows)))
        self.known = torch.cat([self._features_and_shift(some.model, x)[1] for x in some.inputs()]).sort().values

    def new_logits(self, out: Outputs) -> Tensor:
        return torch.cat([self._scaled_logits(out, x) for x in out.inputs()])

    def _scaled_logits(self, out: Outputs, x: Tensor) -> Tensor:
        features, shift = self._features_and_shift(out.model, x)
        below = torch.searchsorted(self.known, shift * EQUAL, right=True)
        likely_id = 1 - below.double() / len(self.known)  # 1 - F(Q')
        percentile = self.min_percentile + likely_id * (self.max_percentile - self.min_percentile)  # p
        r = _ratio_by_row(features, percentile)
        if self.variant == "l":  # where all are low enough that the energy is positive, it rises with r
            return F.linear(features, out.weight, out.bias) * r.square()
        return F.linear(features * r.exp(), out.weight, out.bias)

    def _features_and_shift(self, model: Classifier, x: Tensor) -> tuple[Tensor, Tensor]:
        """a, and Q' = lambda Q + C_o: how much its largest entries move, and how large they are afterwards."""
        with torch.enable_grad():
            x = x.requires_grad_()
            features = model.features(x)
            (gradient,) = torch.autograd.grad(model.head(features).amax(dim=-1).sum(), x)
        gradient = gradient * model.std  # the model normalizes its input, and the paper's image is a normalized one
        importance = gradient.abs().flatten(1)
        count = max(1, int(self.pixels * importance.shape[1]))
        least = importance <= EQUAL * importance.kthvalue(count, dim=1, keepdim=True).values
        step = self.magnitude * model.std * gradient.sign() * least.view_as(gradient)
        with torch.no_grad():
            moved = model.features(x + step).double()
        features = features.detach().double()
        shift = ((moved - features).abs() * _largest(features, SHIFTED)).sum(dim=-1)  # Q
        correction = (F.relu(moved) * _largest(features, CORRECTING)).sum(dim=-1)  # C_o
        return features, self.weight * shift + correction


def _largest(features: Tensor, share: float) -> Tensor:
    """1 for the largest features of each row and 0 for others; those that tie for the last places share these."""
    count = max(1, int(share * features.shape[1]))
    least = features.kthvalue(features.shape[1] - count + 1, dim=1, keepdim=True).values
    above, equal = features > least, features == least
    return above + equal * (count - above.sum(dim=1, keepdim=True)) / equal.sum(dim=1, keepdim=True)


def _ratio_by_row(features: Tensor, percentile: Tensor) -> Tensor:
    """r of SCALE, N x 1, a percentile for each row; what is negative counts for nothing, as in the author's code."""
    size, positive = features.shape[1], F.relu(features)
    k = (size - (size * percentile / 100).round()).clamp(min=1)[:, None]
    is_kept = torch.arange(size, device=features.device) < k
    return ratio(positive, positive.sort(dim=1, descending=True).values * is_kept, size)
