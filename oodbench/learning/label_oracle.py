"""Labels of wild images for a method with a budget of them. It answers, counts, and refuses what exceeds the budget."""

import torch
from torch import Tensor

from oodbench.errors import UserError

SEMANTIC = -1  # the answer for an image of no known class


class LabelOracle:
    """Knows the label of every image of `WildMixture.once()`; an image that is asked for twice costs one label."""

    def __init__(self, labels: Tensor, budget: int) -> None:
        self._labels, self._budget = labels, budget
        self._asked = torch.zeros(len(labels), dtype=torch.bool)

    @property
    def asked(self) -> Tensor:
        """Which images were asked for, by row."""
        return self._asked.clone()

    @property
    def spent(self) -> int:
        return int(self._asked.sum())

    def ask(self, rows: Tensor) -> Tensor:
        """On the device of the rows."""
        asked = self._asked.clone()
        asked[rows.cpu()] = True
        if int(asked.sum()) > self._budget:
            raise UserError(
                f"the trainer asks for {int(asked.sum())} labels of wild images, and its budget is {self._budget}; "
                "ask for fewer"
            )
        self._asked = asked
        return self._labels[rows.cpu()].to(rows.device)
