"""Y. Song et al., RankFeat: Rank-1 Feature Removal for Out-of-distribution Detection, NeurIPS 2022.

The paper also reduces the map of the block before the last and averages the two logits; here only the last map is
reduced, since what follows an earlier one differs from network to network. The singular vectors are exact, not those of
a power iteration from random numbers.

The new logits, which are then scored:

    z' = W pool(X − u uᵀ X) + b, where X is the feature map as a matrix, channels by pixels, and u its first left
    singular vector
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Classifier, Outputs, ReshapingScorer


@dataclass
class RankFeat(ReshapingScorer):
    """Energy of the logits that are left when the last feature map loses its leading singular component."""

    reads: ClassVar[str | None] = "features and head"
    needs: ClassVar[frozenset[str]] = frozenset({"feature-maps"})

    def read_maps(self, maps: Tensor, model: Classifier) -> Tensor:
        """The features of X - s_1 u_1 v_1', where X is the map of an image as a matrix, C x HW."""
        x = maps.flatten(2).double()
        is_wide = x.shape[1] <= x.shape[2]
        x = x if is_wide else x.mT  # X X' or X' X, whichever is smaller
        u = torch.linalg.eigh(x @ x.mT).eigenvectors[..., -1:]  # of the largest eigenvalue, s_1^2
        x = x - u @ (u.mT @ x)  # s_1 v_1' is u_1' X; a map of zeros has no component and stays one
        return model.pooled((x if is_wide else x.mT).reshape(maps.shape).to(maps.dtype))

    def new_logits(self, out: Outputs) -> Tensor:
        assert out.maps is not None
        return F.linear(out.maps.double(), out.weight, out.bias)
