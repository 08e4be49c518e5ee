"""S. Liang et al., Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks, ICLR 2018.

The score:

    s = −max_k softmax(z(x') / T)_k, where x' = x − ε sign(∇_x [−log softmax(z(x) / T)_ŷ])
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Outputs, Scorer, UserError


@dataclass
class ODIN(Scorer):
    """Maximum softmax probability at a high temperature, after a small step toward the predicted class."""

    reads: ClassVar[str | None] = "gradients"
    needs: ClassVar[frozenset[str]] = frozenset({"images"})

    temperature: float = 1000.0  # T
    magnitude: float = 0.0014  # epsilon, in pixel units of [0, 1]

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.magnitude < 0:
            raise UserError("odin.temperature must be more than 0 and odin.magnitude 0 or more; change --set")

    def score(self, out: Outputs) -> Tensor:
        return torch.cat([self._score(out, x) for x in out.inputs()])

    def _score(self, out: Outputs, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.requires_grad_()
            scaled = out.model(x) / self.temperature
            (gradient,) = torch.autograd.grad(F.cross_entropy(scaled, scaled.argmax(dim=-1), reduction="sum"), x)
        # The model normalizes its input, so a step of epsilon here is epsilon / std where the paper takes it.
        step = torch.where(gradient >= 0, self.magnitude, -self.magnitude)
        with torch.no_grad():
            scaled = out.model(x - step) / self.temperature
        return -scaled.double().softmax(dim=-1).amax(dim=-1)  # at T = 1000 float32 ties what differs
