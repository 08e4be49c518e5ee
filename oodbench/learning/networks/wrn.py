"""S. Zagoruyko and N. Komodakis, Wide Residual Networks, BMVC 2016, for 32x32 images.

Module names are those of the released checkpoints of Outlier Exposure, Energy, WOODS and SCONE, which therefore load.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.errors import UserError
from oodbench.learning.networks import Network


class _Unit(nn.Module):
    """Pre-activation residual unit; where the width or size changes, both branches start from the activation."""

    def __init__(self, inside: int, outside: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inside)
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.dropout = dropout
        self.convShortcut = None if inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        out = F.relu(self.bn2(self.conv1(active)))
        out = self.conv2(F.dropout(out, self.dropout, self.training))
        return out + (x if self.convShortcut is None else self.convShortcut(active))


class _Block(nn.Module):
    def __init__(self, units: int, inside: int, outside: int, stride: int, dropout: float) -> None:
        super().__init__()
        first = _Unit(inside, outside, stride, dropout)
        self.layer = nn.Sequential(first, *(_Unit(outside, outside, 1, dropout) for _ in range(units - 1)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class _Body(nn.Module):
    def __init__(self, channels: int, depth: int, width: int, dropout: float) -> None:
        super().__init__()
        widths, units = [16, 16 * width, 32 * width, 64 * width], (depth - 4) // 6
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.block1 = _Block(units, widths[0], widths[1], 1, dropout)
        self.block2 = _Block(units, widths[1], widths[2], 2, dropout)
        self.block3 = _Block(units, widths[2], widths[3], 2, dropout)
        self.bn1 = nn.BatchNorm2d(widths[3])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))

    def maps(self, x: Tensor) -> Tensor:
        return F.relu(self.bn1(self.block3(self.block2(self.block1(self.conv1(x))))))

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.maps(x))


@dataclass
class WRN(Network):
    """Wide residual network of a depth and widening factor; WRN-40-2 is the paper's on CIFAR-10."""

    nonnegative_features: ClassVar[bool | None] = True
    feature_maps: ClassVar[bool | None] = True

    depth: int = 40
    width: int = 2
    dropout: float = 0.3

    def body(self, channels: int) -> tuple[nn.Module, int]:
        if self.depth < 10 or (self.depth - 4) % 6:
            raise UserError(f"a WRN of depth {self.depth} does not exist; choose 10, 16, 22, 28, 34 or 40")
        if self.width < 1 or not 0 <= self.dropout < 1:
            raise UserError("a WRN needs a width of 1 or more and a dropout from 0 to below 1")
        return _Body(channels, self.depth, self.width, self.dropout), 64 * self.width
