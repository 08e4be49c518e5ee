"""Rows beside every training row: one product of the two, block by block, for all scorers that look at it."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from oodbench.learning.outputs import Outputs, unit

ROWS, BANK_ROWS = 1024, 8192  # multiplied at a time: 64 MB of numbers, whatever the bank
SLICE = 64  # rows of a block that a scorer may look at in turn, so that what it computes of them stays in the cache


class Block:
    """Some rows, and some rows of the bank, both of length 1."""

    def __init__(self, bank: slice, squares: Tensor, brackets: Tensor) -> None:
        self.bank = bank  # which of its rows
        self.squares = squares  # ||b||^2, which is 0 for a row of zeros
        self.brackets = brackets  # ||b||^2 - 2 a'b: a distance squared, but for ||a||^2

    def cosines(self, rows: slice) -> Tensor:
        """a'b."""
        return (self.squares - self.brackets[rows]) / 2


class Comparing(Protocol):
    """A `BankScorer` that is fitted."""

    bank: Tensor

    def start(self, out: Outputs) -> Tensor: ...

    def meet(self, carried: Tensor, out: Outputs, block: Block) -> Tensor: ...

    def finish(self, carried: Tensor, out: Outputs) -> Tensor: ...


def compare(scorers: Sequence[Comparing], out: Outputs) -> list[Tensor]:
    """The scores of each; all are fitted on the same bank."""
    bank = scorers[0].bank
    assert all(each.bank is bank for each in scorers)
    some = list(out.split(ROWS))
    carried = [[scorer.start(rows) for scorer in scorers] for rows in some]
    buffer = out.features.new_empty(min(ROWS, len(out.features)) * min(BANK_ROWS, len(bank)), dtype=torch.float64)
    for start in range(0, len(bank), BANK_ROWS):
        part = slice(start, min(start + BANK_ROWS, len(bank)))
        others = unit(bank[part])
        squares = others.square().sum(dim=-1)
        for i, rows in enumerate(some):
            brackets = buffer[: len(rows.unit) * len(others)].view(len(rows.unit), len(others))
            torch.addmm(squares, rows.unit, others.T, alpha=-2, out=brackets)
            block = Block(part, squares, brackets)
            carried[i] = [scorer.meet(each, rows, block) for scorer, each in zip(scorers, carried[i], strict=True)]
    finished = [
        [s.finish(each, rows) for s, each in zip(scorers, c, strict=True)]
        for rows, c in zip(some, carried, strict=True)
    ]
    return [torch.cat(values) for values in zip(*finished, strict=True)]


def halved(bank: Tensor) -> Tensor:
    """The same rows for `compare` in half the memory: of length 1, so that no feature is too large for float16."""
    small = bank.new_empty(bank.shape, dtype=torch.float16)
    for start in range(0, len(bank), BANK_ROWS):
        small[start : start + BANK_ROWS] = unit(bank[start : start + BANK_ROWS])
    return small
