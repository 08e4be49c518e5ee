"""A residual network for 32x32 images and a CPU, after D. Page's ResNet-9 (DAWNBench 2018) with pooling early on."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network, Pooled, Scale


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


def _stage(inside: int, outside: int) -> list[nn.Module]:
    """Halves the side; pooling before the normalization spares three quarters of its work."""
    convolution = nn.Conv2d(inside, outside, 3, 1, 1, bias=False)
    return [convolution, nn.MaxPool2d(2), nn.BatchNorm2d(outside), nn.GELU(), _Residual(outside)]


@dataclass
class SmallResNet(Network):
    """Seven convolutions with batch normalization, for CIFAR-10 on a CPU."""

    feature_maps: ClassVar[bool | None] = True

    width: int = 32  # channels of the first stage; the stem has half, the others four and eight times as many

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.width < 2:
            raise UserError("a small-resnet needs a width of 2 or more")
        w = self.width
        stem = [nn.Conv2d(channels, w // 2, 2, bias=False), nn.BatchNorm2d(w // 2), nn.GELU()]
        stages = [*_stage(w // 2, w), *_stage(w, 4 * w), *_stage(4 * w, 8 * w)]
        # Maxima are large; as a ninth of them the head starts with small logits and bears a large learning rate.
        return Pooled(*stem, *stages, nn.AdaptiveMaxPool2d(1), nn.Flatten(), Scale(1 / 9)), 8 * w
