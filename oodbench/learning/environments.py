"""Environments of the labelled images: the data's own, random ones, or ones made by changing pixels."""

import torch
from torch import Tensor

from oodbench.errors import UserError


def check_environments(spec: str, method: str) -> None:
    """`auto`, `native`, `augment` or `random:k` with at least two."""
    kind, colon, count = spec.partition(":")
    if spec in ("auto", "native", "augment") or (kind == "random" and count.isdigit() and int(count) >= 2):
        return
    if kind == "random" and count in ("0", "1"):
        raise UserError(f"{method} compares environments and needs two or more; choose {method}.environments=random:2")
    raise UserError(f"{method}.environments={spec} is unknown; choose auto, native, augment or random:2")


def erased(images: Tensor, generator: torch.Generator) -> Tensor:
    """A square of about a third of the side set to the image's mean."""
    n, _, height, width = images.shape
    side = max(1, round(min(height, width) / 3))
    top = torch.randint(height - side + 1, (n, 1, 1, 1), generator=generator)
    left = torch.randint(width - side + 1, (n, 1, 1, 1), generator=generator)
    y, x = torch.arange(height).view(1, 1, -1, 1), torch.arange(width).view(1, 1, 1, -1)
    inside = (y >= top) & (y < top + side) & (x >= left) & (x < left + side)
    mean = images.float().mean(dim=(2, 3), keepdim=True).round().to(torch.uint8)
    return torch.where(inside.to(images.device), mean, images)


def toned(images: Tensor, generator: torch.Generator) -> Tensor:
    """x ** gamma with gamma between 1/2 and 2, one per image."""
    gamma = 2 ** (2 * torch.rand(len(images), 1, 1, 1, generator=generator) - 1)
    return (255 * (images / 255) ** gamma.to(images.device)).round().to(torch.uint8)
