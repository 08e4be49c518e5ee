"""The network of DomainBed for 28x28 images: I. Gulrajani and D. Lopez-Paz, In Search of Lost Domain Generalization."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network, Pooled


@dataclass
class MNISTCNN(Network):
    """Four convolutions, each followed by ReLU and then group normalization, and the mean over space."""

    nonnegative_features: ClassVar[bool | None] = False  # the last layer normalizes
    feature_maps: ClassVar[bool | None] = True

    width: int = 64  # channels of the first convolution, a multiple of 8; then twice as many

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.width < 8 or self.width % 8:
            raise UserError("an mnist-cnn needs a width that is a multiple of 8")
        layers: list[nn.Module] = []
        shapes = [(channels, self.width, 1), (self.width, 2 * self.width, 2)]
        shapes += [(2 * self.width, 2 * self.width, 1)] * 2
        for inside, outside, stride in shapes:
            layers += [nn.Conv2d(inside, outside, 3, stride, 1), nn.ReLU(), nn.GroupNorm(8, outside)]
        return Pooled(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 2 * self.width
