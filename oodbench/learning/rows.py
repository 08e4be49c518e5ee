"""Rows of images: a tensor in memory, or pictures that are decoded when they are read."""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def to_input(images: Tensor, device: torch.device) -> Tensor:
    """Rows as the networks take them, on the device: pixels as float32 in [0, 1], fractions as they are."""
    images = sent(images, device)
    return images if images.is_floating_point() else images.to(torch.float32).div_(255)


def sent(values: Tensor, device: torch.device) -> Tensor:
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
        return ahead(self.index_select(0, each) for each in rows)


def as_rows(images: Any) -> "Tensor | Streamed":
    """An array of uint8 or float images, or pictures that are yet to be decoded; what has rows already, as it is."""
    if isinstance(images, np.ndarray):
        return torch.from_numpy(images.astype(np.float32) if images.dtype == np.float64 else images)
    return images if isinstance(images, Streamed) else Streamed(images)


def joined(parts: "Sequence[Tensor | Streamed]") -> "Tensor | Streamed":
    """All rows of these, one part after the other; streamed where one of them is."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if len(tensors) == len(parts) else Streamed(_Joined(parts))


class _Joined:
    """Pictures of several parts under one count of rows, or some of these rows."""

    def __init__(self, parts: "Sequence[Tensor | Streamed]", rows: "np.ndarray | None" = None) -> None:
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])
        self.rows = np.arange(self.ends[-1]) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.parts[0].shape[1:])

    def __getitem__(self, some: Any) -> Any:
        """A slice is of the same kind; rows in any order are decoded."""
        if isinstance(some, slice):
            return _Joined(self.parts, self.rows[some])
        rows = self.rows[some]
        of = np.searchsorted(self.ends, rows, side="right")
        images = np.empty((len(rows), *self.shape[1:]), dtype=np.uint8)
        for number, part in enumerate(self.parts):
            start = self.ends[number] - len(part)
            images[of == number] = part.index_select(0, torch.from_numpy(rows[of == number] - start)).cpu().numpy()
        return images


def ahead(items: Iterator[Any], count: int = 2) -> Iterator[Any]:
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
