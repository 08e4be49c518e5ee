"""What a network gives batch by batch, in a few large tensors.

Many small tensors that stay, made between the large ones of a batch that go, leave holes which no batch fits into: then
memory grows with every batch by about as much as the batch takes.
"""

import torch
from torch import Tensor

BLOCK = 4 * 2**20  # bytes of a tensor that batches are written into


class Collected:
    """Rows that are added some at a time, of one shape, type and device."""

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []
        self._filled = 0  # rows of the last block

    def add(self, rows: Tensor) -> None:
        while len(rows):
            if not self._blocks or self._filled == len(self._blocks[-1]):
                self._blocks.append(rows.new_empty((_rows_of_a_block(rows), *rows.shape[1:])))
                self._filled = 0
            last = self._blocks[-1]
            count = min(len(rows), len(last) - self._filled)
            last[self._filled : self._filled + count] = rows[:count]
            self._filled += count
            rows = rows[count:]

    def __len__(self) -> int:
        return sum(map(len, self._blocks[:-1])) + self._filled

    @property
    def width(self) -> int | None:
        """Numbers of a row, once there are rows."""
        return self._blocks[0].shape[-1] if self._blocks else None

    def joined(self) -> Tensor:
        """All rows in order."""
        if not self._blocks:
            raise ValueError("no rows have been added")
        return torch.cat([*self._blocks[:-1], self._blocks[-1][: self._filled]])


def _rows_of_a_block(rows: Tensor) -> int:
    bytes_of_a_row = max(rows[0].numel() * rows.element_size(), 1)
    return max(BLOCK // bytes_of_a_row, 1)
