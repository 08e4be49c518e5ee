"""Images in memory and batches by indexing: Split, WildMixture, Data, Batch. Knows nothing of suites or methods."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


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
    """(1 - pi_c - pi_s) ID + pi_c covariate + pi_s semantic: unlabelled images, one categorical draw per slot."""

    id: Tensor
    covariate: Tensor
    semantic: Tensor
    pi_c: float
    pi_s: float

    def stream(self, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Endless uint8 batches; within each kind, images come in shuffled passes."""
        parts = (self.id, self.covariate, self.semantic)
        shares = torch.tensor([1 - self.pi_c - self.pi_s, self.pi_c, self.pi_s]).clamp_(min=0)
        passes = [_shuffled_passes(len(part), generator) for part in parts]
        while True:
            kinds = torch.multinomial(shares, size, replacement=True, generator=generator)
            counts = kinds.bincount(minlength=3).tolist()
            yield torch.cat([part[rows.take(n)] for part, rows, n in zip(parts, passes, counts, strict=True)])


class _shuffled_passes:
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
        order = torch.randperm(len(self.labelled), generator=generator)
        wild = self.wild.stream(batch_size, generator) if self.wild is not None else None
        for rows in order.tensor_split(self.steps(batch_size)):
            yield Batch(
                x=to_input(self.labelled.images[rows], device),
                y=self.labelled.y[rows].to(device),
                env=None if self.labelled.env is None else self.labelled.env[rows].to(device),
                wild=None if wild is None else to_input(next(wild), device),
            )
