"""C. Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

The temperature is fitted on ID validation images: training images, nearly all of them right, would make it far too low.

The score:

    s = 1 − max_k softmax(z / T)_k, where T minimizes the cross-entropy of validation images
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer

RANGE = 20.0  # T lies in [1 / RANGE, RANGE]: all rows right would have T = 0, worse than chance T = infinity
HALVINGS = 40  # of the range of 1/T, which leave 2e-11 of it


@dataclass
class TempScale(Scorer):
    """Maximum softmax probability, negated, at the temperature that makes validation images likeliest."""

    reads: ClassVar[str | None] = "logits"
    needs: ClassVar[frozenset[str]] = frozenset({"validation"})

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        rows = train if validation is None else validation
        assert rows.y is not None
        logits = rows.logits.double()
        margins = logits - logits.gather(-1, rows.y[:, None])  # z_k - z_y
        low, high = 1 / RANGE, RANGE
        for _ in range(HALVINGS):  # d NLL / d(1/T), which rises with 1/T, changes its sign between them
            middle = (low + high) / 2
            if ((middle * margins).softmax(dim=-1) * margins).sum() > 0:
                high = middle
            else:
                low = middle
        self.temperature = 1 / low

    def score(self, out: Outputs) -> Tensor:
        """1 - max p as what all others have: -max p would round to -1 in many rows where the temperature is low."""
        p = (out.logits.double() / self.temperature).softmax(dim=-1)
        return p.scatter(-1, out.predicted[:, None], 0.0).sum(dim=-1)
