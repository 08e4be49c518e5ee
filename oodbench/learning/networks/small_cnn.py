"""A network of seconds for small gray images, with the batch normalization that the paper's effect needs."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network, Pooled


@dataclass
class SmallCNN(Network):
    """Three 3x3 convolutions with batch normalization, the second with stride 2, averaged over space."""

    nonnegative_features: ClassVar[bool | None] = True
    feature_maps: ClassVar[bool | None] = True

    width: int = 16  # channels of the first convolution; then twice and four times as many

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.width < 1:
            raise UserError(f"a small-cnn of width {self.width} does not exist; choose 1 or more")
        widths = (self.width, 2 * self.width, 4 * self.width)
        layers: list[nn.Module] = []
        for out, stride in zip(widths, (1, 2, 1), strict=True):
            layers += [nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        return Pooled(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), channels
