"""Images in memory and batches by indexing: Split, WildMixture, Data, Batch. Knows nothing of suites or methods."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from oodbench.config.recipe import Recipe
from oodbench.errors import UserError
from oodbench.learning import environments
from oodbench.learning.augmentation import augmented
from oodbench.learning.rows import Streamed, ahead, joined, sent, to_input


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
    wild: Tensor | None  # unlabeled images of the mixture, as x
    outliers: Tensor | None = None  # images of an auxiliary set known to be OOD, or the wild ones in its place
    views: Tensor | None = None  # the images of x, augmented a second time
    wild_views: Tensor | None = None  # and those of wild, which is augmented then too

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

    @property
    def shares(self) -> tuple[float, float, float]:
        return max(1 - self.pi_c - self.pi_s, 0.0), self.pi_c, self.pi_s

    def once_counts(self) -> list[int]:
        """How many images of each part `once` holds."""
        size = min(len(part) / share for part, share in zip(self.parts, self.shares, strict=True) if share > 1e-9)
        return [int(share * size + 1e-9) for share in self.shares]

    def once(self) -> "Tensor | Streamed":
        """The mixture as a set, for what looks at all wild images: each image once, in the proportions of the mixture.

        It is as large as the smallest part allows. Its order says which part an image is of: ID, covariate, semantic.
        No method may use that.
        """
        return joined([part[:count] for part, count in zip(self.parts, self.once_counts(), strict=True)])

    def stream(self, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Endless uint8 batches; within each kind, images come in shuffled passes."""
        passes = [_ShuffledPasses(len(part), generator, part.device) for part in self.parts]
        while True:
            counts = self._counts(size, generator)
            picks = zip(self.parts, passes, counts, strict=True)
            # Selecting by index is about 20 times as fast as part[rows] on a CPU.
            yield torch.cat([part.index_select(0, rows.take(n)) for part, rows, n in picks])

    def _counts(self, size: int, generator: torch.Generator) -> list[int]:
        """Images of each kind in a batch: one categorical draw per slot, or as the released SCONE code draws.

        That keeps each image of three batches with the probability of its kind, so that a batch has the size only
        on average.
        """
        shares = torch.tensor(self.shares)
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
            self.rows = torch.cat([self.rows, sent(drawn, self.rows.device)])
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


@dataclass(frozen=True)
class Data:
    """All a trainer may read. The test splits are not here."""

    labelled: Split
    num_classes: int
    wild: WildMixture | None = None  # only for trainers that need it
    outliers: Tensor | Streamed | None = None  # of an auxiliary set; None: the wild mixture takes its place
    views: str | None = None  # how images are augmented where a trainer compares two views of each
    id_validation: Tensor | Streamed | None = None  # clean images without labels
    mixed_validation: Tensor | Streamed | None = None  # in the proportions of the mixture, disjoint from it
    id_test: Tensor | Streamed | None = None  # images without labels, for the paper's threshold and nothing else

    def steps(self, recipe: Recipe) -> int:
        """Batches in an epoch: one pass over the labeled images, or as many as the shortest stream has whole ones.

        The released code of SCONE ends an epoch with its shortest stream, so that small semantic sets get fewer steps.
        """
        steps = -(-len(self.labelled) // recipe.batch_size)
        if recipe.epoch_length == "shortest" and self.wild is not None:
            steps = max(1, min(steps, *(len(part) // recipe.batch_size for part in self.wild.parts)))
        return steps

    def batches(
        self, recipe: Recipe, seed: int, device: torch.device, steps: int | None = None, epoch: int = 0
    ) -> Iterator[Batch]:
        """One shuffled pass over the labeled images, in batches of equal size (to one), each with a wild batch.

        So many steps, if they are given, begin further passes or end the first early. Everything follows from `seed`
        and, where images are mirrored by turns, from the epoch, which can be repeated without what came before it.
        """
        steps = self.steps(recipe) if steps is None else steps
        batches = self._batches(recipe, steps, torch.Generator().manual_seed(seed), device, epoch)
        images = (self.labelled.images, self.outliers, *(self.wild.parts if self.wild is not None else ()))
        return ahead(batches) if any(isinstance(each, Streamed) for each in images) else batches

    def _batches(
        self, recipe: Recipe, steps: int, generator: torch.Generator, device: torch.device, epoch: int
    ) -> Iterator[Batch]:
        wild = self.wild.stream(recipe.batch_size, generator) if self.wild is not None else None
        outliers = self._outlier_rows(recipe.batch_size, generator)
        for rows in self._rows(recipe, steps, generator):
            originals = self.labelled.images.index_select(0, rows)
            turns = rows + epoch  # the rows are in random order already
            x, views = self._augmented(originals, self.views or recipe.augment, generator, device, turns)
            mixed, mixed_views = None, None
            if wild is not None:
                mixed, mixed_views = self._augmented(next(wild), self.views or "none", generator, device)
            yield Batch(
                x=x,
                y=sent(self.labelled.y[rows], device),
                env=None if self.labelled.env is None else sent(self.labelled.env[rows], device),
                wild=mixed,
                outliers=mixed if outliers is None else to_input(next(outliers), device),
                views=views,
                wild_views=mixed_views,
            )

    def _augmented(
        self,
        images: Tensor,
        kind: str,
        generator: torch.Generator,
        device: torch.device,
        turns: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """A batch as the network takes it, and a second view of it where trainers compare two."""
        first = to_input(augmented(images, kind, generator, turns), device)
        return first, None if self.views is None else to_input(augmented(images, kind, generator), device)

    def _outlier_rows(self, size: int, generator: torch.Generator) -> Iterator[Tensor] | None:
        """Endless batches of the auxiliary outliers, in shuffled passes; None where there are none."""
        if self.outliers is None:
            return None
        passes, images = _ShuffledPasses(len(self.outliers), generator, self.outliers.device), self.outliers
        return (images.index_select(0, passes.take(size)) for _ in itertools.count())

    def _rows(self, recipe: Recipe, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
        """The rows of each batch; with environments, as many of each."""
        env = self.labelled.env
        if env is None:
            whole_pass = -(-len(self.labelled) // recipe.batch_size)
            for done in range(0, steps, whole_pass):
                count = min(whole_pass, steps - done)
                rows = sent(torch.randperm(len(self.labelled), generator=generator), self.labelled.y.device)
                yield from rows[: count * recipe.batch_size].tensor_split(count)
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
        outliers = {"outliers": self.outliers} if isinstance(self.outliers, Tensor) else {}
        if sum(value.nbytes for each in (*tensors.values(), outliers) for value in each.values()) >= room:
            return self
        moved: dict[str, Any] = {name: images.to(device) for name, images in outliers.items()}
        moved |= {
            name: replace(records[name], **{key: value.to(device) for key, value in each.items()})
            for name, each in tensors.items()
        }
        return replace(self, **moved)

    def with_environments(self, spec: str, seed: int) -> "Data":
        """The labeled images in environments: `native` ones, `random:k` equal parts, or `augment`ed parts."""
        if spec == "native":
            if self.labelled.env is None:
                raise UserError("the suite has no native environments; choose environments=random:2 or augment")
            return self
        images, env = environments.divided(self.labelled.images, self.labelled.y.device, spec, seed)
        return replace(self, labelled=replace(self.labelled, images=images, env=env))
