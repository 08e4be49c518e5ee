"""The epsilon of the whitening of airbench, by rule and on validation images alone.

    python benchmarks/protocol/choose_epsilon.py --seed 0

A whitening without epsilon amplifies noise far more than the paper's network does, and with a large one hardly at all;
so epsilon decides how much a covariate shift costs. The rule, written down before it was applied: at each epsilon of
the grid ERM is trained under a seed that no result uses, and its accuracy is measured on the ID validation images,
which no training has seen, and on the same images under Gaussian noise of severity 1. That epsilon is taken whose loss
is nearest to what the paper's network loses between ID and OOD accuracy, 94.84 - 75.05 = 19.79 points; of equals the
smaller. One at the edge of the grid is refused, as a better one may lie beyond it. No test image is read.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from oodbench.config import suite
from oodbench.config.contents import NetworkChoice
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import build_parts
from oodbench.data.views import corrupted
from oodbench.functional import energy
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.learning.rows import as_rows
from oodbench.running import plan as planning
from oodbench.running.execution import train_one
from oodbench.running.request import request
from oodbench.running.session import Session

SUITE = Path(__file__).with_name("cifar10-c-fast.yaml")
LOSS = 0.9484 - 0.7505


def measured(model: Classifier, part: ImagePart) -> tuple[float, float]:
    """Accuracy and median energy."""
    logits = forward(model, as_rows(part.images)).logits
    return float(np.mean(logits.argmax(dim=-1).numpy() == part.labels)), energy(logits).median().item()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="0.0005,0.005,0.05,0.5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("results/epsilon"))
    given = parser.parse_args()
    written = suite.load(str(SUITE), "as-written")
    grid = sorted(map(float, given.grid.split(",")))
    losses = []
    print(f"{'epsilon':>8} {'validation':>11} {'with noise':>11} {'loss':>7} {'median energy':>14}")
    for epsilon in grid:
        choice = NetworkChoice("airbench", {"epsilon": epsilon})
        tried = replace(written, contents=replace(written.contents, network=choice))
        asked = request(methods="erm", seeds=[given.seed], results=given.results)
        cell = planning.of_suite(asked, tried).cells[0]
        network = train_one(cell.training, Session(given.results, torch.device("cpu")), cell.setting)
        clean = build_parts(tried, cell.setting, given.seed).id_validation
        (known, median), (noisy, _) = (
            measured(network.model, each) for each in (clean, corrupted(tried, cell.setting, clean))
        )
        print(
            f"{epsilon:8g} {100 * known:10.2f}% {100 * noisy:10.2f}% {100 * (known - noisy):7.2f} {median:14.2f}",
            flush=True,
        )
        losses.append(known - noisy)
    best = min(range(len(grid)), key=lambda i: abs(losses[i] - LOSS))
    if best in (0, len(grid) - 1):
        print(f"{grid[best]:g} is at the edge of the grid; try {'smaller' if best == 0 else 'larger'} ones too")
        return 1
    print(f"chosen: {grid[best]:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
