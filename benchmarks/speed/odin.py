"""ODIN, which goes back to the input, beside a plain pass of the same images through WRN-40-2.

    python benchmarks/speed/odin.py

Two passes and a gradient by the input; the weights are frozen and cost no gradient. CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from collections.abc import Iterator

import torch
from subject import images, network, plain_pass, scorers
from timing import TURNS, Row, least, main

from oodbench.learning.outputs import forward
from oodbench.learning.rows import as_rows


def rows(quick: bool) -> Iterator[Row]:
    model = network("wrn", depth=10, width=1) if quick else network("wrn", depth=40, width=2)
    some = images(16 if quick else 256)
    out = forward(model, as_rows(some.images))
    odin = scorers("odin")[0].make()

    def score() -> None:
        with torch.no_grad():
            odin.score(out)

    spent = least({"plain": lambda: plain_pass(model, some), "odin": score}, 1 if quick else TURNS)
    yield Row("ODIN : a plain pass", spent["odin"] / spent["plain"], 3.2)


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
