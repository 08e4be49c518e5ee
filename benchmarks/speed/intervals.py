"""CPU seconds of the bootstrap draws behind intervals, on as many scores as CIFAR-10 and SVHN test images make.

    python benchmarks/speed/intervals.py

10,000 draws for ten methods on the same images. One draw is checked against the metric of the very images first. The
least of the turns; CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from collections.abc import Iterator

import numpy as np
from timing import TURNS, Row, least, main

from oodbench.results.draws import Split, counts
from oodbench.results.metrics import Scored, fpr95
from oodbench.results.resampling import DRAWS, resample

METHODS, ID_ROWS, OOD_ROWS = 10, 10_000, 26_000


def cells() -> list[dict[str, Split]]:
    rng = np.random.default_rng(0)
    splits = {"id": (0, ID_ROWS), "semantic": (1, OOD_ROWS)}
    return [
        {name: Split(name, Scored(rng.normal(mean, 1, rows), np.zeros(rows))) for name, (mean, rows) in splits.items()}
        for _ in range(METHODS)
    ]


def first_draw(cell: dict[str, Split]) -> float:
    drawn = {name: next(counts(name, split.rows, 1))[1][0].astype(int) for name, split in cell.items()}
    return fpr95(*(np.repeat(cell[name].scored.scores, drawn[name]) for name in ("id", "semantic")))


def rows(quick: bool) -> Iterator[Row]:
    made, draws = cells(), 64 if quick else DRAWS
    assert resample({"fpr95": made}, 1)["fpr95"][0].tolist() == [first_draw(cell) for cell in made]
    spent = least({"ours": lambda: resample({"auroc": made, "fpr95": made}, draws)}, 1 if quick else TURNS)
    claim = f"CPU time of {draws:,} bootstrap draws of AUROC and FPR95, {METHODS} methods of 36,000 scores"
    yield Row(claim, spent["ours"], 20, "s")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
