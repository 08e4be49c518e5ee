"""Augmentation of whole batches of uint8 images; every draw is made on the CPU, so that devices agree."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench.errors import UserError
from oodbench.learning.rows import sent

ALTERNATING = "alternating-flip"  # an image is mirrored in every other epoch, half of all images in the first
VIEWS, UNMIRRORED_VIEWS = "views", "unmirrored-views"  # two views of an image, as contrastive methods compare them
# The smallest share of an image that a crop may be, and how often one is drawn that lies within the image.
RESIZED = {"resized-crop-flip": (0.08, 1), "domainbed": (0.7, 10), VIEWS: (0.5, 10), UNMIRRORED_VIEWS: (0.5, 10)}
MIRRORED = {UNMIRRORED_VIEWS: 0.0}  # the share of images, where it is not half of them


def augmented(images: Tensor, kind: str, generator: torch.Generator, turns: Tensor | None = None) -> Tensor:
    """Whole batches of uint8 images at once; the draws come from the batches' own generator.

    `turns` is how often each image is turned round, for "alternating-flip".
    """
    if kind == "none":
        return images
    n, channels, height, width = images.shape
    if kind == ALTERNATING:
        assert turns is not None
        mirrored = turns % 2
    else:
        mirrored = sent((torch.rand(n, generator=generator) < MIRRORED.get(kind, 0.5)).to(torch.int64), images.device)
    if kind in RESIZED:
        images, pad = _resized_crops(images, *RESIZED[kind], generator), 0
    elif kind == ALTERNATING:  # moved by up to a sixteenth of its side (2 of 32 pixels)
        pad = max(1, width // 16)
        images = F.pad(images, (pad, pad, pad, pad), mode="reflect")
    else:  # a crop of the image padded with black by an eighth of its side (4 of 32 pixels)
        pad = max(1, width // 8)
        images = F.pad(images, (pad, pad, pad, pad))
    top, left = sent(torch.randint(2 * pad + 1, (2, n), generator=generator), images.device)
    # Every line of every crop is a run of pixels in the images or their mirrored copies: one copy for each.
    high, wide = images.shape[2:]
    image, channel, line = (torch.arange(count, device=images.device) for count in (n, channels, height))
    corners = (mirrored * n + image) * channels * high * wide + top * wide + left
    lines = corners[:, None, None] + (channel * high * wide)[:, None] + line * wide
    runs = torch.stack([images, images.flip(-1)]).flatten().unfold(0, width, 1)
    images = runs.index_select(0, lines.flatten()).view(n, channels, height, width)
    if kind == VIEWS and channels == 3:
        return _jittered(images, generator)
    return _recoloured(images, generator) if kind == "domainbed" else images


def view_kind(augment: str) -> str:
    """How two views of an image are made where the recipe augments so: mirrored only if the recipe mirrors."""
    return UNMIRRORED_VIEWS if augment == "none" else VIEWS


def _resized_crops(images: Tensor, smallest: float, tries: int, generator: torch.Generator) -> Tensor:
    """A part of each image of at least some share of its area and an aspect of 3/4 to 4/3, at the full size again.

    The first of some tries that lies within the image; of the last, what lies within it.
    """
    n = len(images)
    area = smallest + (1 - smallest) * torch.rand(tries, n, generator=generator)
    aspect = torch.exp((2 * torch.rand(tries, n, generator=generator) - 1) * math.log(4 / 3))
    wide, high = (area * aspect).sqrt(), (area / aspect).sqrt()
    fits = (wide <= 1) & (high <= 1)
    fits[-1] = True
    first = fits.to(torch.uint8).argmax(dim=0, keepdim=True)
    wide, high = (side.gather(0, first).squeeze(0).clamp(max=1) for side in (wide, high))
    x, y = ((2 * torch.rand(n, generator=generator) - 1) * (1 - side) for side in (wide, high))
    zero = torch.zeros(n)
    affine = torch.stack([torch.stack([wide, zero, x], 1), torch.stack([zero, high, y], 1)], 1)
    grid = F.affine_grid(sent(affine, images.device), list(images.shape), align_corners=False)
    sampled = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return sampled.round_().clamp_(0, 255).to(torch.uint8)


def _recoloured(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each of the CHANGES by up to 30 % (the hue by up to 0.3 of its circle), in any order; one image in ten gray."""
    n, channels = images.shape[:2]
    if channels != 3:
        raise UserError(f"augment=domainbed changes colors, and these images have {channels} channel(s); choose none")
    amounts = 0.3 * (2 * torch.rand(n, len(CHANGES), generator=generator) - 1)
    orders = torch.rand(n, len(CHANGES), generator=generator).argsort(dim=1)
    return _changed(images, amounts, orders, torch.rand(n, generator=generator) < 0.1)


def _jittered(images: Tensor, generator: torch.Generator) -> Tensor:
    """One image in five changed by up to 40 % (the hue by up to 0.1 of its circle), in any order; one in five gray.

    Gray images have no colors to change, and views of them are crops alone.
    """
    n = len(images)
    most = torch.tensor([0.4, 0.4, 0.4, 0.1])
    amounts = most * (2 * torch.rand(n, len(CHANGES), generator=generator) - 1)
    amounts *= (torch.rand(n, 1, generator=generator) < 0.2).float()
    orders = torch.rand(n, len(CHANGES), generator=generator).argsort(dim=1)
    return _changed(images, amounts, orders, torch.rand(n, generator=generator) < 0.2)


def _changed(images: Tensor, amounts: Tensor, orders: Tensor, grey: Tensor) -> Tensor:
    """By an amount for each image and change, in an order for each image; rounded once, at the end."""
    pixels = images.float() / 255
    for turn in orders.unbind(dim=1):
        for number, change in enumerate(CHANGES):
            chosen = (turn == number).nonzero().squeeze(1)  # on the CPU, so that no device waits
            rows, amount = (sent(each, images.device) for each in (chosen, amounts[chosen, number]))
            pixels[rows] = change(pixels[rows], amount.view(-1, 1, 1, 1)).clamp_(0, 1)
    rows = sent(grey.nonzero().squeeze(1), images.device)
    pixels[rows] = _luma(pixels[rows]).expand(-1, 3, -1, -1)
    return pixels.mul_(255).round_().to(torch.uint8)


def _luma(pixels: Tensor) -> Tensor:
    """ITU-R 601, as torchvision and Pillow have it."""
    red, green, blue = pixels.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _brighter(pixels: Tensor, amount: Tensor) -> Tensor:
    return pixels * (1 + amount)


def _in_contrast(pixels: Tensor, amount: Tensor) -> Tensor:
    """Away from the image's mean gray."""
    return torch.lerp(_luma(pixels).mean(dim=(2, 3), keepdim=True), pixels, 1 + amount)


def _saturated(pixels: Tensor, amount: Tensor) -> Tensor:
    """Away from each pixel's own gray."""
    return torch.lerp(_luma(pixels), pixels, 1 + amount)


def _turned(pixels: Tensor, amount: Tensor) -> Tensor:
    """The hue turned by a share of the circle; the largest and the smallest channel of a pixel keep their values."""
    red, green, blue = pixels.split(1, dim=1)
    most, least = pixels.amax(dim=1, keepdim=True), pixels.amin(dim=1, keepdim=True)
    spread = most - least
    apart = spread.clamp(min=1e-8)  # where they are alike, any hue will do
    hue = torch.where(
        most == red,
        (green - blue) / apart,
        torch.where(most == green, 2 + (blue - red) / apart, 4 + (red - green) / apart),
    )
    place = 5 - 2 * torch.arange(3, device=pixels.device).view(3, 1, 1)  # of red, green, blue on six sides
    place = (place + hue + 6 * amount).remainder(6)
    return most - spread * torch.minimum(place, 4 - place).clamp(0, 1)


CHANGES = (_brighter, _in_contrast, _saturated, _turned)
