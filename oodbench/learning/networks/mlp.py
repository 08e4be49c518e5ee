"""A multilayer perceptron, as in the experiments of M. Arjovsky et al., Invariant Risk Minimization, 2019."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network


@dataclass
class MLP(Network):
    """Two hidden layers on the pixels, Xavier weights, no normalization."""

    nonnegative_features: ClassVar[bool | None] = True
    feature_maps: ClassVar[bool | None] = False

    side: int = 28  # of the images, in pixels
    hidden: int = 390

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.side < 1 or self.hidden < 1:
            raise UserError("an mlp needs a side and a hidden layer of 1 or more")
        layers = [nn.Linear(channels * self.side**2, self.hidden), nn.Linear(self.hidden, self.hidden)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(nn.Flatten(), layers[0], nn.ReLU(), layers[1], nn.ReLU()), self.hidden
