"""Networks: a body that turns images into features, under one linear head. One file per family."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    """A body and a linear head, on images in [0, 1]: it normalises them itself, so nothing else has to know how."""

    mean: Tensor
    std: Tensor

    def __init__(
        self, body: nn.Module, dim: int, num_classes: int, mean: Sequence[float], std: Sequence[float]
    ) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, num_classes)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def features(self, x: Tensor) -> Tensor:
        # Channels last is what convolutions are fastest with; arithmetic by channel is far slower in that order.
        return self.body(((x - self.mean) / self.std).contiguous(memory_format=torch.channels_last))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    @property
    def device(self) -> torch.device:
        return self.head.weight.device


@dataclass
class Network(ABC):
    """A kind of body; its fields are the options a suite file may give."""

    nonnegative_features: ClassVar[bool | None] = None  # whether none is ever negative; None: it depends

    @abstractmethod
    def body(self, channels: int) -> tuple[nn.Module, int]:
        """A fresh module from N x channels x H x W to N x d, and d."""
