"""How often do the printed intervals hold the truth: ± of means, and sets of ranks?

    python benchmarks/marks/coverage.py results/reference/digits-c --seeds 0-9
    python benchmarks/marks/coverage.py FOLDER --seeds 10-19

Tables of 3, 5 and 10 seeds are drawn as in `simulate.py`, with the measured means as the truth. The level of the pairs
behind a set of ranks was chosen on seeds 0 to 9 of digits-c. Test images are left out, which could only widen both.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np
from simulate import SEEDS, SHAPES, Column, columns, seeds_in

from oodbench.results import marks
from oodbench.results.samples import Sample, interval


def coverage(
    column: Column, n: int, shape: str, trials: int, random: np.random.Generator
) -> tuple[float, float, float]:
    """Of the intervals of means, of the sets of ranks, and how wide these are as a share of all ranks."""
    truth = column.values.mean(axis=0)
    ranks = 1 + (truth[None, :] > truth[:, None]).sum(axis=1)
    held = held_ranks = wide = 0.0
    for residuals in SHAPES[shape](random, column.values - truth, (trials, n)):
        seeds = residuals + truth
        for j, mean in enumerate(truth):
            found = interval(Sample(dict(enumerate(seeds[:, j]))))
            held += found is not None and found.low <= mean <= found.high
            low, high = marks.rank_set(seeds, j)
            held_ranks += low <= ranks[j] <= high
            wide += (high - low + 1) / len(truth)
    count = trials * len(truth)
    return held / count, held_ranks / count, wide / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=seeds_in, default=range(10))
    parser.add_argument("--trials", type=int, default=50)
    given = parser.parse_args()
    found = list(columns(given.folder, given.seeds))
    print("n   seeds        mean holds its truth (worst column)  rank does (worst)  width of a set of ranks")
    for n, shape in product(SEEDS, SHAPES):
        each = np.array([
            coverage(column, n, shape, given.trials, np.random.default_rng([i, n])) for i, column in enumerate(found)
        ])  # fmt: skip
        means, worst = each.mean(axis=0), each.min(axis=0)
        print(
            f"{n:2}  {shape:11}  {means[0]:.3f} ({worst[0]:.3f}){'':22} {means[1]:.3f} ({worst[1]:.3f})      "
            f"{means[2]:.2f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
