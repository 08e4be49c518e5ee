"""J.-H. Kim et al., Neural Relation Graph: A Unified Framework for Identifying Label Noise and Outlier Data,
NeurIPS 2023.

The score:

    s = −Σ_i a_i^q over training images i with a_i above the threshold, where a_i = cos(f, f_i) (p·p_i)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oodbench import BankScorer, Block, Outputs, UserError, functional


@dataclass
class Relation(BankScorer):
    """Sum of the relations to training rows that lie in the same direction and are predicted alike, negated."""

    reads: ClassVar[str | None] = "distances"

    power: float = 1.0  # q, of a relation
    threshold: float = 0.03  # relations up to here count as none

    def __post_init__(self) -> None:
        if self.power <= 0:
            raise UserError(f"relation.power={self.power:g} is out of range; choose more than 0")
        if not 0 <= self.threshold < 1:
            raise UserError(f"relation.threshold={self.threshold:g} is out of range; choose 0 to less than 1")

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        super().fit(train)
        self.probabilities = train.logits.double().softmax(dim=-1)  # P

    def start(self, out: Outputs) -> Tensor:
        return out.unit.new_zeros(len(out.unit))

    def meet(self, carried: Tensor, out: Outputs, block: Block) -> Tensor:
        """Adds a_i^q where a_i = cos(f, F_i) p'P_i is above the threshold: no negative cosine is, for p'P_i is not."""
        probabilities, bank = out.logits.double().softmax(dim=-1), self.probabilities[block.bank].T
        sums = []
        for start in range(0, len(carried), functional.SLICE):
            rows = slice(start, start + functional.SLICE)
            relations = (probabilities[rows] @ bank).mul_(block.cosines(rows))
            relations = torch.threshold_(relations, self.threshold, 0)
            sums.append((relations if self.power == 1 else relations.pow_(self.power)).sum(dim=-1))
        return carried + torch.cat(sums)

    def finish(self, carried: Tensor, out: Outputs) -> Tensor:
        return -carried
