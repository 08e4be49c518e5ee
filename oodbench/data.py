"""Images in memory and batches by indexing: Split, WildMixture, Data, Batch. Knows nothing of suites or methods."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from oodbench.errors import UserError


def to_input(images: Tensor, device: torch.device) -> Tensor:
    """uint8 rows as the networks take them: float32 in [0, 1], on the device, channels last."""
    return images.to(device).to(torch.float32, memory_format=torch.channels_last).div_(255)


@dataclass(frozen=True)
class Split:
    """Labelled images."""

    images: Tensor  # uint8, N x C x H x W
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

    id: Tensor
    covariate: Tensor
    semantic: Tensor
    pi_c: float
    pi_s: float
    draw: Literal["categorical", "three_masks"] = "categorical"  # see `_counts`

    def stream(self, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Endless uint8 batches; within each kind, images come in shuffled passes."""
        parts = (self.id, self.covariate, self.semantic)
        passes = [_ShuffledPasses(len(part), generator) for part in parts]
        while True:
            counts = self._counts(size, generator)
            yield torch.cat([part[rows.take(n)] for part, rows, n in zip(parts, passes, counts, strict=True)])

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
    """Rows of 0..n-1 in random order, again and again."""

    def __init__(self, n: int, generator: torch.Generator) -> None:
        self.n, self.generator = n, generator
        self.rows = torch.empty(0, dtype=torch.int64)

    def take(self, count: int) -> Tensor:
        while len(self.rows) < count:
            self.rows = torch.cat([self.rows, torch.randperm(self.n, generator=self.generator)])
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


@dataclass(frozen=True)
class Data:
    """All a trainer may read. The test splits are not here."""

    labelled: Split
    num_classes: int
    wild: WildMixture | None = None  # only for trainers that need it
    id_validation: Tensor | None = None  # clean images without labels
    mixed_validation: Tensor | None = None  # in the proportions of the mixture, disjoint from it
    id_test: Tensor | None = None  # images without labels, for the paper's threshold and nothing else

    def steps(self, batch_size: int) -> int:
        """Batches in one pass over the labelled images."""
        return -(-len(self.labelled) // batch_size)

    def batches(self, batch_size: int, seed: int, device: torch.device) -> Iterator[Batch]:
        """One shuffled pass over the labelled images, in batches of equal size (to one), each with a wild batch.

        Everything follows from `seed`, so an epoch can be repeated without what came before it.
        """
        generator = torch.Generator().manual_seed(seed)
        wild = self.wild.stream(batch_size, generator) if self.wild is not None else None
        for rows in self._rows(batch_size, generator):
            yield Batch(
                x=to_input(self.labelled.images[rows], device),
                y=self.labelled.y[rows].to(device),
                env=None if self.labelled.env is None else self.labelled.env[rows].to(device),
                wild=None if wild is None else to_input(next(wild), device),
            )

    def _rows(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """The rows of each batch; with environments, as many of each."""
        steps, env = self.steps(batch_size), self.labelled.env
        if env is None:
            yield from torch.randperm(len(self.labelled), generator=generator).tensor_split(steps)
            return
        members = [(env == e).nonzero().squeeze(1) for e in range(int(env.max()) + 1)]
        passes = [_ShuffledPasses(len(rows), generator) for rows in members]
        each = max(1, batch_size // len(members))
        for _ in range(steps):
            yield torch.cat([rows[order.take(each)] for rows, order in zip(members, passes, strict=True)])

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
        env = torch.randperm(len(self.labelled), generator=generator) % parts
        images = self.labelled.images
        if kind == "augment":
            images = images.clone()
            images[env == 1] = _erased(images[env == 1], generator)
            images[env == 2] = _toned(images[env == 2], generator)
        return replace(self, labelled=replace(self.labelled, images=images, env=env))


def check_environments(spec: str, method: str) -> None:
    """`native`, `augment` or `random:k` with at least two."""
    kind, colon, count = spec.partition(":")
    if spec in ("native", "augment") or (kind == "random" and count.isdigit() and int(count) >= 2):
        return
    if kind == "random" and count in ("0", "1"):
        raise UserError(f"{method} compares environments and needs two or more; choose {method}.environments=random:2")
    raise UserError(f"{method}.environments={spec} is unknown; choose native, augment or random:2")


def _erased(images: Tensor, generator: torch.Generator) -> Tensor:
    """A square of about a third of the side set to the image's mean."""
    n, _, height, width = images.shape
    side = max(1, round(min(height, width) / 3))
    top = torch.randint(height - side + 1, (n, 1, 1, 1), generator=generator)
    left = torch.randint(width - side + 1, (n, 1, 1, 1), generator=generator)
    y, x = torch.arange(height).view(1, 1, -1, 1), torch.arange(width).view(1, 1, 1, -1)
    inside = (y >= top) & (y < top + side) & (x >= left) & (x < left + side)
    mean = images.float().mean(dim=(2, 3), keepdim=True).round().to(torch.uint8)
    return torch.where(inside, mean, images)


def _toned(images: Tensor, generator: torch.Generator) -> Tensor:
    """x ** gamma with gamma between 1/2 and 2, one per image."""
    gamma = 2 ** (2 * torch.rand(len(images), 1, 1, 1, generator=generator) - 1)
    return (255 * (images / 255) ** gamma).round().to(torch.uint8)
