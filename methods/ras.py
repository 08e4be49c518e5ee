"""G. Guglielmo and M. Masana, Ranked Activation Shift for Post-Hoc Out-of-Distribution Detection, 2026.

Equal entries of a row share the mean of their slots: half of the features after a ReLU are exactly 0, and in the
authors' code a device's sort gives them different values.

The new logits, which are then scored:

    z' = W f' + b, where f'_j = c_r if f_j is the r-th smallest of its row,
    and c_r is the mean r-th smallest of training rows
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, ReshapingScorer

ROWS = 8192  # of the training images, sorted at a time


@dataclass
class RAS(ReshapingScorer):
    """Energy after the r-th smallest feature becomes what it is on average in training, for every rank r."""

    reads: ClassVar[str | None] = "features and head"

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        sums = [some.descending.sum(dim=0, dtype=torch.float64) for some in train.split(ROWS)]
        profile = torch.stack(sums).sum(dim=0).flip(-1) / len(train.features)  # c, the smallest first
        self.up_to = F.pad(profile.cumsum(dim=-1), (1, 0))  # the sum of the first r slots

    def new_logits(self, out: Outputs) -> Tensor:
        ascending, features = out.descending.flip(-1), out.features.contiguous()
        first = torch.searchsorted(ascending, features)  # the slots that a value has in its row: from the first
        last = torch.searchsorted(ascending, features, right=True)  # to before this one
        shares = (self.up_to[last] - self.up_to[first]) / (last - first)
        return F.linear(shares, out.weight, out.bias)
