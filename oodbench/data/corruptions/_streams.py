"""Random draws of an image that follow from its row alone, so a subset, in any order, gets the pixels of the whole."""

from typing import Any

import numpy as np

from oodbench.seeds import derive


class Streams:
    """A generator for each row. The row is one word of Philox's counter: setting it is all a new stream costs, and no
    row reaches another's blocks, of which the first word alone counts 2^64.
    """

    def __init__(self, *purpose: Any, word: int = 1) -> None:
        self._bits = np.random.Philox(key=derive(*purpose))
        self._generator = np.random.Generator(self._bits)
        self._start: Any = self._bits.state
        self._word = word  # of the four

    def of(self, row: int) -> np.random.Generator:
        """At the start of the row's stream; good until the next call."""
        self._start["state"]["counter"][self._word] = row
        self._bits.state = self._start
        return self._generator
