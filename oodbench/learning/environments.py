"""Environments of the labeled images: the data's own, random ones, or ones made by changing pixels."""

import torch
from torch import Tensor

from oodbench.errors import UserError
from oodbench.learning.rows import Streamed


def check_environments(spec: str, method: str) -> None:
    """`auto`, `native`, `augment` or `random:k` with at least two."""
    kind, colon, count = spec.partition(":")
    if spec in ("auto", "native", "augment") or (kind == "random" and count.isdigit() and int(count) >= 2):
        return
    if kind == "random" and count in ("0", "1"):
        raise UserError(f"{method} compares environments and needs two or more; choose {method}.environments=random:2")
    raise UserError(f"{method}.environments={spec} is unknown; choose auto, native, augment or random:2")


def divided(images: Tensor | Streamed, device: torch.device, spec: str, seed: int) -> tuple[Tensor | Streamed, Tensor]:
    """The images in `random:k` equal parts or three `augment`ed ones, and the environment of each row.

    Random environments are alike, so a penalty on their differences sees sampling noise only. Augmented ones differ: a
    third of the images as they are, a third with a square erased, a third under another tone curve; no suite counts
    these among its corruptions.
    """
    kind, _, count = spec.partition(":")
    parts = 3 if kind == "augment" else int(count)
    generator = torch.Generator().manual_seed(seed)
    env = torch.randperm(len(images), generator=generator).to(device) % parts
    if kind == "augment":
        if isinstance(images, Streamed):
            raise UserError("environments=augment needs images in memory, and these are streamed; choose random:2")
        images = images.clone()
        images[env == 1] = _erased(images[env == 1], generator)
        images[env == 2] = _toned(images[env == 2], generator)
    return images, env


def _erased(images: Tensor, generator: torch.Generator) -> Tensor:
    """A square of about a third of the side set to the image's mean."""
    n, _, height, width = images.shape
    side = max(1, round(min(height, width) / 3))
    top = torch.randint(height - side + 1, (n, 1, 1, 1), generator=generator)
    left = torch.randint(width - side + 1, (n, 1, 1, 1), generator=generator)
    y, x = torch.arange(height).view(1, 1, -1, 1), torch.arange(width).view(1, 1, 1, -1)
    inside = (y >= top) & (y < top + side) & (x >= left) & (x < left + side)
    mean = images.float().mean(dim=(2, 3), keepdim=True).round().to(torch.uint8)
    return torch.where(inside.to(images.device), mean, images)


def _toned(images: Tensor, generator: torch.Generator) -> Tensor:
    """x ** gamma with gamma between 1/2 and 2, one per image."""
    gamma = 2 ** (2 * torch.rand(len(images), 1, 1, 1, generator=generator) - 1)
    return (255 * (images / 255) ** gamma.to(images.device)).round().to(torch.uint8)
