"""The batches of a user's DataLoader as rows of images: read as they come, never all in memory.

A loader may be slow, so the pass that asks the network also collects labels and a digest of every row. Whoever reads
the loader again gets the same rows, or a UserError where it shuffles or augments.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, SequentialSampler, Subset

from oodbench.data import given as sets
from oodbench.data import labels as label_values
from oodbench.data import row_digests
from oodbench.data.given_set import GivenSet, check_channels, name_of
from oodbench.data.in_memory import as_array_of_images, check_finite, item_halves, names_of_classes
from oodbench.data.preprocessing import Preprocessing, resized
from oodbench.errors import UserError
from oodbench.learning.collected import Collected
from oodbench.learning.rows import Streamed

BATCH = 64  # rows that are read at a time where no loader says so
OTHER_IMAGES = "the loader gives other images each time; make it with shuffle=False (and no random augmentation)"


def as_set(given: Any, name: str, preprocessing: Preprocessing, channels: int | None = None) -> GivenSet:
    """`data.given.as_set`, for loaders too. What is known of a loader before its pass is the shape of an image."""
    if not is_loader(given):
        return sets.as_set(given, name, preprocessing, channels)
    name = name_of(name) if name else "set"
    if not isinstance(given, LoaderRows | DataLoader) and hasattr(given, "__getitem__"):
        given = DataLoader(given, BATCH)
    rows = given if isinstance(given, LoaderRows) else LoaderRows(given, name, preprocessing)
    found = GivenSet(name, rows, None, (), None, "", "a DataLoader")
    if channels is not None:
        check_channels(found, channels)
    return found


def is_loader(given: Any) -> bool:
    """Whether it is read batch by batch: what gives nothing by number, or tensors that are already preprocessed.

    `data.in_memory` would read those twice, once for their labels.
    """
    if isinstance(given, LoaderRows | DataLoader):
        return True
    if isinstance(given, GivenSet | str | Path | Tensor | np.ndarray | Mapping | list | tuple):
        return False
    if not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
        return hasattr(given, "__iter__")
    first = item_halves(given[0])[0] if len(given) else None
    return isinstance(first, Tensor) and first.is_floating_point()


def completed(given: GivenSet) -> GivenSet:
    """A set with what the pass through its loader has brought, labels and fingerprint; others as they are."""
    rows = given.images
    if not isinstance(rows, LoaderRows):
        return given
    classes = names_of_classes(getattr(rows.loader, "dataset", None), rows.labels)
    return replace(given, labels=rows.labels, classes=classes, fingerprint=rows.digest, pixels=rows.marks)


def read_once(
    loader: Iterable[Any], name: str = "set", preprocessing: Preprocessing | None = None
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Images, uint8 or float32, N x C x H x W, and the labels of every batch."""
    for batch in loader:
        images, labels = item_halves(batch)
        if not isinstance(images, Tensor | np.ndarray):
            kind = type(images).__name__
            raise UserError(f"a batch of '{name}' holds the type {kind} for its images; let the loader give tensors")
        if images.ndim == 3 and not (hasattr(labels, "__len__") and len(labels) == len(images)):
            raise UserError(
                f"'{name}' gives single images of shape {tuple(images.shape)}; give its loader a batch_size"
            )
        pixels = as_array_of_images(images, name)
        if pixels.dtype == np.uint8 and preprocessing is not None:
            pixels = np.asarray(resized(pixels, preprocessing))
        values = None if labels is None else torch.from_numpy(label_values.checked(labels, len(pixels), name))
        yield torch.from_numpy(pixels), values


class _Known:
    """What a whole pass through a loader has told, for all that read some rows of it."""

    def __init__(self) -> None:
        self.marks: list[bytes] = []  # of every row
        self.labels: np.ndarray | None = None
        self.is_complete = False


class LoaderRows(Streamed):
    """Rows of a loader, all or some, in its order. What is not known before a pass is found out by one."""

    def __init__(self, loader: Any, name: str = "set", preprocessing: Preprocessing | None = None) -> None:
        self.loader, self.name, self.preprocessing = loader, name, preprocessing
        self._known = _Known()
        self._chosen: np.ndarray | None = None  # which rows of the loader, ascending; None: all
        self._begun: Iterator[tuple[Tensor, Tensor | None]] | None = None  # with the first batch still to come
        self._each: tuple[tuple[int, ...], np.dtype[Any]] | None = None  # shape and type of an image

    def passed(self, function: Callable[[Tensor], object]) -> None:
        """One pass: a function is called with the images of each batch; then labels, digest and number are known.

        A function that keeps something of every batch should keep it in `Collected`.
        """
        if self._chosen is not None:
            for images in self._again():
                function(images)
            return
        marks: list[bytes] = []
        labels = Collected()
        for images, values in self._first_pass():
            self._check(images, len(marks), values is not None, len(labels) > 0)
            marks += row_digests.of_rows(images.numpy())
            if values is not None:
                labels.add(values)
            function(images)
        if self._known.is_complete and marks != self._known.marks:
            raise UserError(OTHER_IMAGES)
        self._known.marks, self._known.is_complete = marks, True
        self._known.labels = labels.joined().numpy() if len(labels) else None

    def _first_pass(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """All batches; the one that was looked at for its shape is not read twice."""
        self._look()
        begun, self._begun = self._begun, None
        return begun if begun is not None else self._batches()

    def _batches(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        return read_once(self.loader, self.name, self.preprocessing)

    def _check(self, images: Tensor, start: int, has_labels: bool, had_labels: bool) -> None:
        """That a batch is like those before it."""
        each, dtype = self._look()
        if tuple(images.shape[1:]) != each or _type(images) != dtype:
            shapes = " and ".join("x".join(map(str, some)) for some in (each, images.shape[1:]))
            raise UserError(f"'{self.name}' gives images of {shapes} ({dtype} and {_type(images)}); give all alike")
        if start and has_labels != had_labels:
            raise UserError(f"'{self.name}' gives labels with some batches and not with others; give all or none")
        if images.is_floating_point() and not images.sum().isfinite():  # which costs a tenth of looking at each
            for row, image in enumerate(images.numpy(), start):
                check_finite(image, row, self.name)

    def _look(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an image, by the first batch, which is kept for the pass."""
        if self._each is None:
            batches = self._batches()
            first = next(batches, None)
            if first is None:
                raise UserError(f"'{self.name}' gives no images; give at least one")
            self._each = tuple(first[0].shape[1:]), _type(first[0])
            self._begun = _chained(first, batches)
        return self._each

    def first(self) -> Tensor:
        """The images of the first batch, which the pass will still give."""
        batches = self._first_pass()
        first = next(batches)
        self._begun = _chained(first, batches)
        return first[0]

    def _complete(self) -> _Known:
        if not self._known.is_complete:
            self.passed(len)
        return self._known

    def __len__(self) -> int:
        return len(self._complete().marks) if self._chosen is None else len(self._chosen)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self._look()[0])

    @property
    def each(self) -> tuple[int, ...]:
        """Channels, height and width of an image; the loader's first batch tells."""
        return self._look()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8 or float32, as NumPy calls it."""
        return self._look()[1]

    @property
    def labels(self) -> np.ndarray | None:
        """int64, of these rows; None where the loader gives none."""
        labels = self._complete().labels
        return labels if labels is None or self._chosen is None else labels[self._chosen]

    @property
    def marks(self) -> list[bytes]:
        """Digests of these rows."""
        marks = self._complete().marks
        return marks if self._chosen is None else [marks[row] for row in self._chosen.tolist()]

    @property
    def digest(self) -> str:
        """Of the content of these rows: that of an array which holds the same images and labels."""
        return row_digests.of_set(self.marks, self.each, self.dtype, self.labels)

    def __getitem__(self, some: Any) -> "LoaderRows":
        """By a slice, a mask or ascending row numbers; nothing is read."""
        rows = (np.arange(len(self)) if self._chosen is None else self._chosen)[some]
        if rows.ndim != 1 or (np.diff(rows) <= 0).any():
            raise TypeError("rows of a loader are chosen by a slice, a mask or ascending numbers")
        chosen = LoaderRows(self.loader, self.name, self.preprocessing)
        chosen._known, chosen._chosen, chosen._each = self._complete(), rows, self._look()
        return chosen

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """As a tensor's: rows in any order."""
        ascending, places = np.unique(rows.numpy(), return_inverse=True)
        return torch.from_numpy(np.asarray(self[ascending])[places])

    def split(self, size: int) -> Iterator[Tensor]:
        """Consecutive rows, so many at a time; the loader is read once more."""
        waiting: list[Tensor] = []
        for images in self._again():
            waiting.append(images)
            while sum(map(len, waiting)) >= size:
                joined = torch.cat(waiting)
                yield joined[:size]
                waiting = [joined[size:]]
        rest = torch.cat(waiting) if waiting else torch.empty(0)
        if len(rest):
            yield rest

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the rows of a loader are read into a new array")
        parts = [images.numpy() for images in self._again()]
        images = np.concatenate(parts) if parts else np.empty((0, *self.each), self.dtype)
        return images.astype(dtype or self.dtype, copy=False)

    def _again(self) -> Iterator[Tensor]:
        """The chosen rows of each batch, if they are what they were in the first pass."""
        marks = self._complete().marks
        rows = np.arange(len(marks)) if self._chosen is None else self._chosen
        if len(rows) == 0:
            return
        loader, start = _from(self.loader, int(rows[0]))
        for images, _ in read_once(loader, self.name, self.preprocessing):
            stop = start + len(images)
            own = rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]
            chosen = images[torch.from_numpy(own - start)] if len(own) < len(images) else images
            if row_digests.of_rows(chosen.numpy()) != [marks[row] for row in own.tolist() if row < len(marks)]:
                raise UserError(OTHER_IMAGES)
            if len(own):
                yield chosen
            start = stop
            if start > rows[-1]:
                return
        if start == 0:
            raise UserError(f"'{self.name}' can be read only once, and has to be read again; give a DataLoader for it")
        raise UserError(OTHER_IMAGES)  # it has ended before the last row


def _from(loader: Any, row: int) -> tuple[Any, int]:
    """A loader that begins with the batch of this row, and its first row; where that cannot be, the whole loader.

    Scorers that go back to the images ask for some rows after the others: without this, each time for all before them.
    """
    if (
        not isinstance(loader, DataLoader)
        or not isinstance(loader.sampler, SequentialSampler)
        or loader.batch_size is None
        or row < loader.batch_size
    ):
        return loader, 0
    first = row // loader.batch_size * loader.batch_size
    rest = Subset(loader.dataset, range(first, len(loader.dataset)))  # type: ignore[arg-type]
    later = DataLoader(
        rest,
        loader.batch_size,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
    )
    return later, first


def _type(images: Tensor) -> np.dtype[Any]:
    return np.dtype(np.float32 if images.is_floating_point() else np.uint8)


def _chained(
    first: tuple[Tensor, Tensor | None], others: Iterator[tuple[Tensor, Tensor | None]]
) -> Iterator[tuple[Tensor, Tensor | None]]:
    yield first
    yield from others
