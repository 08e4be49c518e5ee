"""C. Sastry and S. Oore, Detecting Out-of-Distribution Examples with Gram Matrices, ICML 2020.

The paper looks at every layer; here only the last feature map is read. As in the authors' code, the rows of a Gram
matrix are summed before the root is taken, which leaves C numbers of each order, and 1e-6 is added to a bound that is
divided by: a channel that fires where it never did in training puts an image very far away. The paper divides the
deviation of each layer by its mean on held-out ID images, so that layers count alike; with one layer, orders do.

The score:

    s = Σ_i δ_i / mean(δ_i) over the orders i, where the mean is over validation images and δ_i sums over channels
    how far the row sums of order i leave their range [min, max], in units of the bound they pass
    The range is that of training images that are predicted as ŷ.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import Classifier, Outputs, Scorer, UserError

TINY = 1e-6


@dataclass
class Gram(Scorer):
    """How far sums of Gram matrices of the last feature map leave their range in the predicted class."""

    reads: ClassVar[str | None] = "distances"
    needs: ClassVar[frozenset[str]] = frozenset({"feature-maps", "validation"})

    powers: int = 5  # orders p = 1, 2, ...; the paper's are 1 to 10

    def __post_init__(self) -> None:
        if not 1 <= self.powers <= 10:
            raise UserError(f"gram.powers={self.powers} is out of range; choose 1 to 10")

    def read_maps(self, maps: Tensor, model: Classifier) -> Tensor:
        """For each order p the p-th roots of the row sums of F^p F^p', where F^p holds powers of the map, C x HW."""
        f, rows = maps.flatten(2).double(), []
        for p in range(1, self.powers + 1):
            powers = f**p
            sums = (powers * powers.sum(dim=1, keepdim=True)).sum(dim=2)  # without the matrix, C x C
            rows.append(sums.sign() * sums.abs() ** (1 / p))  # a signed map may have negative sums
        return torch.cat(rows, dim=1).float()

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.maps is not None
        classes = train.logits.shape[1]
        # A class that is never predicted has the range of all rows.
        self.lowest = train.maps.amin(dim=0).repeat(classes, 1)
        self.highest = train.maps.amax(dim=0).repeat(classes, 1)
        for k in train.predicted.unique():
            own = train.maps[train.predicted == k]
            self.lowest[k], self.highest[k] = own.amin(dim=0), own.amax(dim=0)
        rows = train if validation is None else validation
        mean = torch.cat([self._deviations(some) for some in rows.split(1024)]).mean(dim=0)
        self.expected = torch.where(mean > 0, mean, 1.0)  # where nothing deviates there is nothing to divide by

    def score(self, out: Outputs) -> Tensor:
        return (self._deviations(out) / self.expected).sum(dim=-1)

    def _deviations(self, out: Outputs) -> Tensor:
        """delta of each order: how far the numbers lie outside [min, max], in units of the bound they pass."""
        assert out.maps is not None
        numbers = out.maps.double()
        lowest, highest = self.lowest[out.predicted].double(), self.highest[out.predicted].double()
        below = (lowest - numbers).clamp(min=0) / (lowest.abs() + TINY)
        above = (numbers - highest).clamp(min=0) / (highest.abs() + TINY)
        return (below + above).unflatten(-1, (self.powers, -1)).sum(dim=-1)
