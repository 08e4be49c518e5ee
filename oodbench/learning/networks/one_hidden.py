"""A head for embedded images (`embed` in a suite file), where the features come from another network."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network


@dataclass
class OneHidden(Network):
    """One hidden layer on the channels' means over space, no normalization."""

    nonnegative_features: ClassVar[bool | None] = True
    feature_maps: ClassVar[bool | None] = False

    hidden: int = 256

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.hidden < 1:
            raise UserError(f"a hidden layer of {self.hidden} does not exist; choose 1 or more")
        layers = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, self.hidden), nn.ReLU()
        return nn.Sequential(*layers), self.hidden
