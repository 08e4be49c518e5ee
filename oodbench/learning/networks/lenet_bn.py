"""After Y. LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998, with batch normalization."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network, Pooled


@dataclass
class LeNetBN(Network):
    """Two strided convolutions and a dense layer, with batch normalization: seconds on MNIST."""

    nonnegative_features: ClassVar[bool | None] = True
    feature_maps: ClassVar[bool | None] = True

    width: int = 8  # channels of the first convolution; then twice as many
    features: int = 64

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.width < 1 or self.features < 1:
            raise UserError("a lenet-bn needs a width and features of 1 or more")
        layers = [
            *(nn.Conv2d(channels, self.width, 5, 2, 2, bias=False), nn.BatchNorm2d(self.width), nn.ReLU()),
            *(nn.Conv2d(self.width, 2 * self.width, 3, 2, 1, bias=False), nn.BatchNorm2d(2 * self.width), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(7), nn.Flatten()),  # 7x7 is what 28x28 images come to
            *(nn.Linear(49 * 2 * self.width, self.features, bias=False), nn.BatchNorm1d(self.features), nn.ReLU()),
        ]
        return Pooled(*layers), self.features
