"""Networks: a body that turns images into features, under one linear head. One file per family."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from oodbench.errors import UserError


class Classifier(nn.Module):
    """A body and a linear head, on images in [0, 1]: it normalizes them itself, so nothing else has to know how."""

    mean: Tensor
    std: Tensor
    ood_head: nn.Module  # of features, N x d to N x 1, higher where more OOD; only where a trainer adds one
    # Of what the body is given. Channels last is what convolutions are fastest with.
    memory_format: torch.memory_format = torch.channels_last

    def __init__(
        self, body: nn.Module, dim: int, num_classes: int, mean: Sequence[float], std: Sequence[float]
    ) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, num_classes)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def features(self, x: Tensor) -> Tensor:
        return self.body(self.normalized(x))

    def normalized(self, x: Tensor) -> Tensor:
        # Before the order changes: arithmetic by channel is far slower with channels last.
        return ((x - self.mean) / self.std).contiguous(memory_format=self.memory_format)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    def maps(self, x: Tensor) -> Tensor:
        """Feature maps before pooling, N x C x H x W."""
        maps: object = _halves(self.body)[0](self.normalized(x))
        if not isinstance(maps, Tensor) or maps.ndim != 4:  # the tokens of a transformer, say
            raise no_maps()
        return maps.permute(0, 3, 1, 2) if _has_channels_at_the_end(self.body) else maps

    def pooled(self, maps: Tensor) -> Tensor:
        """The features that feature maps give."""
        return _halves(self.body)[1](maps.permute(0, 2, 3, 1) if _has_channels_at_the_end(self.body) else maps)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device


def _halves(body: nn.Module) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """What a body does before its last pooling and from there on; a body of timm has other names for it."""
    for names in (("maps", "pool"), ("forward_features", "forward_head")):
        first, second = (getattr(body, name, None) for name in names)
        if callable(first) and callable(second):
            return first, second
    raise no_maps()


def _has_channels_at_the_end(body: nn.Module) -> bool:
    """Whether its maps are N x H x W x C, as those of Swin in timm."""
    return getattr(body, "output_fmt", None) == "NHWC"


def no_maps() -> UserError:
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


class Scale(nn.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


@dataclass
class Network(ABC):
    """A kind of body; its fields are the options a suite file may give."""

    nonnegative_features: ClassVar[bool | None] = None  # whether none is ever negative; None: it depends
    feature_maps: ClassVar[bool | None] = None  # whether it has maps before pooling; None: it depends
    has_head_bias: ClassVar[bool] = True  # without one, the head's is 0 and stays so
    prepared_from: ClassVar[int] = 0  # training images, at most, that `prepare` is given

    @abstractmethod
    def body(self, channels: int) -> tuple[nn.Module, int]:
        """A fresh module from N x channels x H x W to N x d, and d."""

    def prepare(self, body: nn.Module, images: Tensor) -> None:  # noqa: B027  (most take nothing)
        """Give a fresh body what it takes from training images, which are normalized, before it learns."""
