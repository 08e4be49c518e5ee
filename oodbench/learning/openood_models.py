"""OpenOOD's network for images of 32 x 32 pixels, with its checkpoints: plain state dictionaries under its names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.errors import UserError, unknown
from oodbench.learning.weight_files import load_into, read_tensors, rows_of_the_last

WIDTHS = (64, 128, 256, 512)  # channels of the four stages


class _Block(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        changed = [nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)]
        self.shortcut = nn.Sequential(*(changed if channels != width or stride != 1 else ()))

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Its first convolution keeps the size of the image, and no pooling follows it."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        channels = WIDTHS[0]
        for number, width in enumerate(WIDTHS, 1):
            first = _Block(channels, width, stride=1 if number == 1 else 2)
            self.add_module(f"layer{number}", nn.Sequential(first, _Block(width, width, stride=1)))
            channels = width
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for number in range(1, len(WIDTHS) + 1):
            x = self.get_submodule(f"layer{number}")(x)
        features: Tensor = self.avgpool(x).flatten(1)
        logits: Tensor = self.fc(features)
        return logits


NETWORKS = {"resnet18_32x32": ResNet18}  # as OpenOOD calls them


def load(name: str, weights: Path | None) -> tuple[nn.Module, dict[str, Any]]:
    """A network with the weights of a checkpoint, and what `made` makes the same architecture from."""
    _check_name(name)
    if weights is None:
        raise UserError(f"openood:{name} comes without weights; give a checkpoint of OpenOOD's with --weights FILE")
    tensors = read_tensors(weights)
    spec: dict[str, Any] = {"name": name}
    spec["num_classes"] = rows_of_the_last(tensors, made({**spec, "num_classes": 1})) or 1
    module = made(spec)
    load_into(module, tensors, weights)
    return module, spec


def made(spec: Mapping[str, Any]) -> nn.Module:
    """The architecture alone; its weights are random."""
    _check_name(spec["name"])
    return NETWORKS[spec["name"]](spec["num_classes"])


def _check_name(name: str) -> None:
    if name not in NETWORKS:
        raise unknown("network of OpenOOD", name, NETWORKS)
