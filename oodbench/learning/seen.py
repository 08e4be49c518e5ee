"""The content of the images and labels that a training is given, and whether it left them alone."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from torch import Tensor

from oodbench import digests
from oodbench.learning.batches import Data
from oodbench.learning.loop import Failed

AT_ONCE = 2**24  # bytes of a tensor that are copied from its device at a time


def digests_of(data: Data) -> dict[str, str]:
    """Of every tensor, by its name in `data`: `labelled.y`. Pictures are decoded from files nobody can change."""
    return {name: _digest(values) for name, values in _tensors(data)}


def refuse_changed(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """A training that changes its data has learned from other data than its key says."""
    changed = [f"data.{name}" for name, digest in after.items() if before.get(name) != digest]
    if changed:
        raise Failed(f"the trainer changed {', '.join(changed)}, which it was given to learn from; change a clone")


def _tensors(record: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            yield f"{place}{field.name}", value
        elif is_dataclass(value):
            yield from _tensors(value, f"{place}{field.name}.")


def _digest(values: Tensor) -> str:
    def pieces() -> Iterator[bytes | memoryview]:
        yield f"{values.dtype} {tuple(values.shape)}".encode()
        rows = max(1, AT_ONCE * len(values) // max(values.nbytes, 1)) if len(values) else 1
        for some in values.split(rows):
            yield np.ascontiguousarray(some.cpu().numpy()).data

    return digests.of_pieces(pieces())
