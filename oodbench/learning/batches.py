"""Images in memory and batches by indexing: Split, WildMixture, Data, Batch. Knows nothing of suites or methods."""

import math
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench.config.recipe import Recipe
from oodbench.errors import UserError


def to_input(images: Tensor, device: torch.device) -> Tensor:
    """uint8 rows as the networks take them: float32 in [0, 1], on the device."""
    return _sent(images, device).to(torch.float32).div_(255)


def _sent(values: Tensor, device: torch.device) -> Tensor:
    """On the device, without waiting for what it has still to do."""
    return values.to(device, non_blocking=True)


class Streamed:
    """Images that are decoded when they are read, in place of a tensor of them."""

    device = torch.device("cpu")

    def __init__(self, pictures: Any) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pictures.shape)

    def __getitem__(self, some: slice) -> "Streamed":
        return Streamed(self.pictures[some])

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """As a tensor's: rows in any order."""
        return torch.from_numpy(np.asarray(self.pictures[rows.numpy()]))

    def split(self, size: int) -> Iterator[Tensor]:
        """Consecutive rows, the next ones decoded meanwhile."""
        rows = torch.arange(len(self)).split(size)
        return _ahead(self.index_select(0, each) for each in rows)


def as_rows(images: Any) -> "Tensor | Streamed":
    """An array of uint8 images, or pictures that are yet to be decoded."""
    return torch.from_numpy(images) if isinstance(images, np.ndarray) else Streamed(images)


def _ahead(items: Iterator[Any], count: int = 2) -> Iterator[Any]:
    """The same items, made by another thread while the ones before are used."""
    ready: queue.Queue[Any] = queue.Queue(maxsize=count)
    stop, end = threading.Event(), object()

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((item, None))
                if stop.is_set():
                    return
            put((end, None))
        except BaseException as error:
            put((end, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        stop.set()


@dataclass(frozen=True)
class Split:
    """Labelled images."""

    images: Tensor | Streamed  # uint8, N x C x H x W
    y: Tensor  # int64, N
    env: Tensor | None = None  # int64, N: the environment a row was drawn from

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Batch:
    """What a loss sees."""

    x: Tensor  # float32 in [0, 1]
    y: Tensor
    env: Tensor | None
    wild: Tensor | None  # unlabelled images of the mixture, as x

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class WildMixture:
    """(1 - pi_c - pi_s) ID + pi_c covariate + pi_s semantic: images without labels."""

    id: Tensor | Streamed
    covariate: Tensor | Streamed
    semantic: Tensor | Streamed
    pi_c: float
    pi_s: float
    draw: Literal["categorical", "three_masks"] = "categorical"  # see `_counts`

    @property
    def parts(self) -> "tuple[Tensor | Streamed, ...]":
        return self.id, self.covariate, self.semantic

    def stream(self, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Endless uint8 batches; within each kind, images come in shuffled passes."""
        passes = [_ShuffledPasses(len(part), generator, part.device) for part in self.parts]
        while True:
            counts = self._counts(size, generator)
            picks = zip(self.parts, passes, counts, strict=True)
            yield torch.cat([part.index_select(0, rows.take(n)) for part, rows, n in picks])  # 20 times part[rows]

    def _counts(self, size: int, generator: torch.Generator) -> list[int]:
        """Images of each kind in a batch: one categorical draw per slot, or as the released SCONE code draws.

        That keeps each image of three batches with the probability of its kind, so that a batch has the size only
        on average.
        """
        shares = torch.tensor([1 - self.pi_c - self.pi_s, self.pi_c, self.pi_s]).clamp_(min=0)
        if self.draw == "categorical":
            return torch.multinomial(shares, size, replacement=True, generator=generator).bincount(minlength=3).tolist()
        while True:
            counts = (torch.rand(3, size, generator=generator) < shares[:, None]).sum(dim=1).tolist()
            if sum(counts) > 0:
                return counts


class _ShuffledPasses:
    """Rows of 0..n-1 in random order, again and again; drawn on the CPU, so that they are the same on every device."""

    def __init__(self, n: int, generator: torch.Generator, device: torch.device) -> None:
        self.n, self.generator = n, generator
        self.rows = torch.empty(0, dtype=torch.int64, device=device)

    def take(self, count: int) -> Tensor:
        while len(self.rows) < count:
            drawn = torch.randperm(self.n, generator=self.generator)
            self.rows = torch.cat([self.rows, _sent(drawn, self.rows.device)])
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


@dataclass(frozen=True)
class Data:
    """All a trainer may read. The test splits are not here."""

    labelled: Split
    num_classes: int
    wild: WildMixture | None = None  # only for trainers that need it
    id_validation: Tensor | Streamed | None = None  # clean images without labels
    mixed_validation: Tensor | Streamed | None = None  # in the proportions of the mixture, disjoint from it
    id_test: Tensor | Streamed | None = None  # images without labels, for the paper's threshold and nothing else

    def steps(self, recipe: Recipe) -> int:
        """Batches in an epoch: one pass over the labelled images, or as many as the shortest stream has whole ones.

        The released code of SCONE ends an epoch with its shortest stream, so that small semantic sets get fewer steps.
        """
        steps = -(-len(self.labelled) // recipe.batch_size)
        if recipe.epoch_length == "shortest" and self.wild is not None:
            steps = max(1, min(steps, *(len(part) // recipe.batch_size for part in self.wild.parts)))
        return steps

    def batches(self, recipe: Recipe, seed: int, device: torch.device) -> Iterator[Batch]:
        """One shuffled pass over the labelled images, in batches of equal size (to one), each with a wild batch.

        Everything follows from `seed`, so an epoch can be repeated without what came before it.
        """
        batches = self._batches(recipe, torch.Generator().manual_seed(seed), device)
        images = (self.labelled.images, *(self.wild.parts if self.wild is not None else ()))
        return _ahead(batches) if any(isinstance(each, Streamed) for each in images) else batches

    def _batches(self, recipe: Recipe, generator: torch.Generator, device: torch.device) -> Iterator[Batch]:
        wild = self.wild.stream(recipe.batch_size, generator) if self.wild is not None else None
        for rows in self._rows(recipe, generator):
            images = _augmented(self.labelled.images.index_select(0, rows), recipe.augment, generator)
            yield Batch(
                x=to_input(images, device),
                y=_sent(self.labelled.y[rows], device),
                env=None if self.labelled.env is None else _sent(self.labelled.env[rows], device),
                wild=None if wild is None else to_input(next(wild), device),
            )

    def _rows(self, recipe: Recipe, generator: torch.Generator) -> Iterator[Tensor]:
        """The rows of each batch; with environments, as many of each."""
        steps, env = self.steps(recipe), self.labelled.env
        if env is None:
            rows = _sent(torch.randperm(len(self.labelled), generator=generator), self.labelled.y.device)
            yield from rows[: steps * recipe.batch_size].tensor_split(steps)
            return
        members = [(env == e).nonzero().squeeze(1) for e in range(int(env.max()) + 1)]
        passes = [_ShuffledPasses(len(rows), generator, env.device) for rows in members]
        each = max(1, recipe.batch_size // len(members))
        for _ in range(steps):
            yield torch.cat([rows[order.take(each)] for rows, order in zip(members, passes, strict=True)])

    def on(self, device: torch.device, room: int) -> "Data":
        """With what its batches are made of on the device, if that takes less than `room` bytes; streamed images stay.

        Batches are then picked and augmented there, with the same draws, since those are made on the CPU.
        """
        records: dict[str, Any] = {"labelled": self.labelled, "wild": self.wild}
        tensors = {
            name: {key: value for key, value in vars(record).items() if isinstance(value, Tensor)}
            for name, record in records.items()
            if record is not None and not any(isinstance(value, Streamed) for value in vars(record).values())
        }
        if sum(value.nbytes for each in tensors.values() for value in each.values()) >= room:
            return self
        moved = {
            name: replace(records[name], **{key: value.to(device) for key, value in each.items()})
            for name, each in tensors.items()
        }
        return replace(self, **moved)

    def with_environments(self, spec: str, seed: int) -> "Data":
        """The labelled images in environments: `native` ones, `random:k` equal parts, or `augment`ed parts.

        Random environments are alike, so a penalty on their differences sees sampling noise only. Augmented ones
        differ: a third of the images as they are, a third with a square erased, a third under another tone curve;
        no suite counts these among its corruptions.
        """
        kind, _, count = spec.partition(":")
        if kind == "native":
            if self.labelled.env is None:
                raise UserError("the suite has no native environments; choose environments=random:2 or augment")
            return self
        parts = 3 if kind == "augment" else int(count)
        generator = torch.Generator().manual_seed(seed)
        env = torch.randperm(len(self.labelled), generator=generator).to(self.labelled.y.device) % parts
        images = self.labelled.images
        if kind == "augment":
            if isinstance(images, Streamed):
                raise UserError("environments=augment needs images in memory, and these are streamed; choose random:2")
            images = images.clone()
            images[env == 1] = _erased(images[env == 1], generator)
            images[env == 2] = _toned(images[env == 2], generator)
        return replace(self, labelled=replace(self.labelled, images=images, env=env))


def _augmented(images: Tensor, kind: str, generator: torch.Generator) -> Tensor:
    """Whole batches of uint8 images at once; the draws come from the batches' own generator."""
    if kind == "none":
        return images
    n, channels, height, width = images.shape
    mirrored = _sent((torch.rand(n, generator=generator) < 0.5).to(torch.int64), images.device)
    if kind in ("resized-crop-flip", "domainbed"):
        smallest, tries = (0.7, 10) if kind == "domainbed" else (0.08, 1)
        images, pad = _resized_crops(images, smallest, tries, generator), 0
    else:  # a crop of the image padded with black by an eighth of its side (4 of 32 pixels)
        pad = max(1, width // 8)
        images = F.pad(images, (pad, pad, pad, pad))
    top, left = _sent(torch.randint(2 * pad + 1, (2, n), generator=generator), images.device)
    # Every line of every crop is a run of pixels in the images or their mirrored copies: one copy for each.
    high, wide = images.shape[2:]
    image, channel, line = (torch.arange(count, device=images.device) for count in (n, channels, height))
    corners = (mirrored * n + image) * channels * high * wide + top * wide + left
    lines = corners[:, None, None] + (channel * high * wide)[:, None] + line * wide
    runs = torch.stack([images, images.flip(-1)]).flatten().unfold(0, width, 1)
    images = runs.index_select(0, lines.flatten()).view(n, channels, height, width)
    return _recoloured(images, generator) if kind == "domainbed" else images


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
    grid = F.affine_grid(_sent(affine, images.device), list(images.shape), align_corners=False)
    sampled = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return sampled.round_().clamp_(0, 255).to(torch.uint8)


def _recoloured(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each of the CHANGES by up to 30 % (the hue by up to 0.3 of its circle), in any order; one image in ten grey."""
    n, channels = images.shape[:2]
    if channels != 3:
        raise UserError(f"augment=domainbed changes colours, and these images have {channels} channel(s); choose none")
    amounts = 0.3 * (2 * torch.rand(n, len(CHANGES), generator=generator) - 1)
    orders = torch.rand(n, len(CHANGES), generator=generator).argsort(dim=1)
    return _changed(images, amounts, orders, torch.rand(n, generator=generator) < 0.1)


def _changed(images: Tensor, amounts: Tensor, orders: Tensor, grey: Tensor) -> Tensor:
    """By an amount for each image and change, in an order for each image; rounded once, at the end."""
    pixels = images.float() / 255
    for turn in orders.unbind(dim=1):
        for number, change in enumerate(CHANGES):
            chosen = (turn == number).nonzero().squeeze(1)  # on the CPU, so that no device waits
            rows, amount = (_sent(each, images.device) for each in (chosen, amounts[chosen, number]))
            pixels[rows] = change(pixels[rows], amount.view(-1, 1, 1, 1)).clamp_(0, 1)
    rows = _sent(grey.nonzero().squeeze(1), images.device)
    pixels[rows] = _luma(pixels[rows]).expand(-1, 3, -1, -1)
    return pixels.mul_(255).round_().to(torch.uint8)


def _luma(pixels: Tensor) -> Tensor:
    """ITU-R 601, as torchvision and Pillow have it."""
    red, green, blue = pixels.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _brighter(pixels: Tensor, amount: Tensor) -> Tensor:
    return pixels * (1 + amount)


def _in_contrast(pixels: Tensor, amount: Tensor) -> Tensor:
    """Away from the image's mean grey."""
    return torch.lerp(_luma(pixels).mean(dim=(2, 3), keepdim=True), pixels, 1 + amount)


def _saturated(pixels: Tensor, amount: Tensor) -> Tensor:
    """Away from each pixel's own grey."""
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


def check_environments(spec: str, method: str) -> None:
    """`auto`, `native`, `augment` or `random:k` with at least two."""
    kind, colon, count = spec.partition(":")
    if spec in ("auto", "native", "augment") or (kind == "random" and count.isdigit() and int(count) >= 2):
        return
    if kind == "random" and count in ("0", "1"):
        raise UserError(f"{method} compares environments and needs two or more; choose {method}.environments=random:2")
    raise UserError(f"{method}.environments={spec} is unknown; choose auto, native, augment or random:2")


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
