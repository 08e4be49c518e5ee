"""Networks: a body that turns images into features, under one linear head. One file per family."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from oodbench.errors import UserError


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
        return self.body(self._normalized(x))

    def _normalized(self, x: Tensor) -> Tensor:
        # Channels last is what convolutions are fastest with; arithmetic by channel is far slower in that order.
        return ((x - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def maps(self, x: Tensor) -> Tensor:
        """Feature maps before pooling, N x C x H x W."""
        maps = _method(self.body, "maps", "forward_features")(self._normalized(x))
        if not isinstance(maps, Tensor) or maps.ndim != 4:
            raise _no_maps()
        return maps

    def pooled(self, maps: Tensor) -> Tensor:
        """The features that feature maps give."""
        if hasattr(self.body, "forward_head"):
            return _method(self.body, "forward_head")(maps, pre_logits=True)
        return _method(self.body, "pool")(maps)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device


def _method(body: nn.Module, *names: str) -> Callable[..., Tensor]:
    """Of a body of ours, or of timm, which has other names for it."""
    for name in names:
        found = getattr(body, name, None)
        if callable(found):
            return found
    raise _no_maps()


def _no_maps() -> UserError:
    return UserError("this network has no feature maps before pooling; choose another scorer, or another network")


class Pooled(nn.Sequential):
    """Layers; those before the last pooling make feature maps, the others turn these into features."""

    def _pooling(self) -> int:
        kinds = nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d
        return max(i for i, layer in enumerate(self) if isinstance(layer, kinds))

    def maps(self, x: Tensor) -> Tensor:
        for layer in list(self)[: self._pooling()]:
            x = layer(x)
        return x

    def pool(self, maps: Tensor) -> Tensor:
        for layer in list(self)[self._pooling() :]:
            maps = layer(maps)
        return maps


@dataclass
class Network(ABC):
    """A kind of body; its fields are the options a suite file may give."""

    nonnegative_features: ClassVar[bool | None] = None  # whether none is ever negative; None: it depends
    feature_maps: ClassVar[bool | None] = None  # whether it has maps before pooling; None: it depends

    @abstractmethod
    def body(self, channels: int) -> tuple[nn.Module, int]:
        """A fresh module from N x channels x H x W to N x d, and d."""
