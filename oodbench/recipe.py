"""How a network is trained, as a suite file states it."""

import math
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum under one learning-rate schedule."""

    epochs: int
    batch_size: int
    lr: float
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    schedule: Literal["cosine", "steps", "constant"] = "cosine"
    milestones: list[float] = field(default_factory=lambda: [0.5, 0.75, 0.9])  # of the training, for "steps"
    decay: float = 0.5  # at each milestone

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of step 0 <= step < steps."""
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * step / steps)) / 2
        if self.schedule == "steps":
            return self.lr * self.decay ** sum(step >= int(m * steps) for m in self.milestones)
        return self.lr
