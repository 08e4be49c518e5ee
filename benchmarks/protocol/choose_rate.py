"""The fine-tuning rate of a method on a suite, by rule and on validation data alone.

    python benchmarks/protocol/choose_rate.py mnist-c scone --rates 0.0001,0.0002,0.0005,0.001,0.002

What a paper does not state has to be chosen once, for each method by the same rule. It is trained at each rate under a
seed that no result uses. Of the rates that keep its accuracy on the ID validation images within half a point of the
network it starts from, the one is taken that flags nearest to what a perfect detector would flag of the mixed
validation set: pi_s, and 5 % of the rest. One at the edge of the grid is refused, as a better one may lie beyond it.
Neither a test image nor a label of the wild mixture is read.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from oodbench.config import suite
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import build_parts
from oodbench.learning.outputs import forward
from oodbench.learning.rows import as_rows
from oodbench.results.result import read
from oodbench.running import plan as planning
from oodbench.running import run, trained
from oodbench.running.cells import Training
from oodbench.running.reporting import Silent
from oodbench.running.request import request


def accuracy(training: Training, folder: Path, part: ImagePart) -> float:
    predictions = forward(trained.of(training, folder).model, as_rows(part.images)).logits.argmax(dim=-1).numpy()
    return float(np.mean(predictions == part.labels))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("method")
    parser.add_argument("--preset")
    parser.add_argument("--semantic", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--rates", required=True)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path("results/rates"))
    given = parser.parse_args()
    chosen = suite.load(given.suite, given.preset).with_sets(given.semantic, [])
    setting = chosen.settings[0]
    ideal = setting.pi_s + 0.05 * (1 - setting.pi_s)
    print(f"{'rate':>8} {'ID validation':>14} {'flagged':>8}   a perfect detector flags {100 * ideal:.1f} %")
    rates = sorted(map(float, given.rates.split(",")))
    fitting = []
    for rate in rates:
        stated = chosen.contents.methods
        own = stated.get(given.method, {})
        tried = {**stated, given.method: {**own, "recipe": {**own.get("recipe", {}), "lr": rate}}}
        at_rate = replace(chosen, contents=replace(chosen.contents, methods=tried))
        names = [at_rate.setting_name(setting)]
        asked = request(methods=given.method, settings=names, seeds=[given.seed], set=given.set, results=given.results)
        plan = planning.of_suite(asked, at_rate)
        run.execute(plan, torch.device("cpu"), Silent())
        cell = plan.cells[0]
        part = build_parts(plan.suite, setting, given.seed).id_validation
        assert cell.training.parent is not None
        start, now = (accuracy(each, given.results, part) for each in (cell.training.parent, cell.training))
        share = read(cell.path).notes["out_share"][0]["share"]
        print(f"{rate:8g} {100 * now:13.2f}% {100 * share:7.1f}%   {100 * (now - start):+.2f} points", flush=True)
        if now >= start - 0.005:
            fitting.append((abs(share - ideal), rate))
    if not fitting:
        print("no rate keeps the accuracy; try smaller ones")
        return 1
    best = min(fitting)[1]
    if best in (rates[0], rates[-1]):
        print(f"{best:g} is at the edge of the grid; try {'smaller' if best == rates[0] else 'larger'} ones too")
        return 1
    print(f"chosen: {best:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
