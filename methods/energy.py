"""W. Liu et al., Energy-based Out-of-distribution Detection, NeurIPS 2020.

The score:

    s = −T log Σ_k exp(z_k / T)
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer, UserError, functional


@dataclass
class Energy(Scorer):
    """Free energy of the logits."""

    reads: ClassVar[str | None] = "logits"

    temperature: float = 1.0  # T

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UserError(f"energy.temperature={self.temperature:g} is out of range; choose more than 0")

    def score(self, out: Outputs) -> Tensor:
        return functional.energy(out.logits, self.temperature)
