"""How evaluation grows: with images, with scorers, with the training bank. A small network, that of mnist-c.

    python benchmarks/speed/scale.py

Time: what an image costs between 10,000 and 50,000, beside what it costs between 1,000 and 10,000; and 1 to 6 scorers
beside a plain pass (a pass through this network is cheap, so scorers weigh more than elsewhere). Memory: the peak of a
process of its own, less what it held before and what must grow (a copy of the images, features, logits and scores).
CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from subject import CLOSED_FORM, network, parts, plain_pass, scorers
from timing import TURNS, Row, least, main, memory

from oodbench.data.parts import Parts
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.method import Outputs
from oodbench.running.execution import keyed

GREY, BANK = (1, 28, 28), 2000
SIX = (*CLOSED_FORM, "odin")
MEGABYTES = 16  # of growth that count as none


def evaluate(images: Parts, names: Sequence[str]) -> None:
    evaluation = Evaluation(network("lenet-bn", channels=1), images.labelled)
    for scorer in scorers(*names):
        evaluation.score(keyed(scorer), images)


def evaluation_memory(count: int) -> float:
    """Megabytes beyond images and outputs at the peak of evaluating `count` test images under five scorers."""
    images = parts(BANK, count // 3, GREY)
    evaluate(parts(BANK, 10, GREY), CLOSED_FORM)  # what torch and its threads allocate once
    head, before = network("lenet-bn", channels=1).head, memory("VmRSS")
    evaluate(images, CLOSED_FORM)
    per_image = 28 * 28 + 4 * (head.in_features + head.out_features) + 8 * len(CLOSED_FORM)
    return memory("VmHWM") - before - count * per_image / 1e6


def knn_memory(bank: int) -> float:
    """Megabytes beyond the bank at the peak of fitting and scoring."""
    knn, model = scorers("knn")[0].make(), network("lenet-bn", channels=1)
    train, test = (
        Outputs(model, torch.empty(count, 0), torch.rand(count, 128), torch.empty(count, 0)) for count in (bank, 2048)
    )
    before = memory("VmRSS")
    knn.fit(train)
    knn.score(test)
    return memory("VmHWM") - before


def peak(measure: str, size: int) -> float:
    code = f"import scale; print(scale.{measure}({size}))"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True, text=True).stdout)


def rows(quick: bool) -> Iterator[Row]:
    turns = 1 if quick else TURNS
    sizes = (300, 600, 900) if quick else (1000, 10000, 50000)
    some = {size: parts(BANK, size // 3, GREY) for size in sizes}
    small, middle, large = least({str(n): lambda n=n: evaluate(some[n], CLOSED_FORM) for n in sizes}, turns).values()  # type: ignore[misc]
    late, early = (large - middle) / (sizes[2] - sizes[1]), (middle - small) / (sizes[1] - sizes[0])
    yield Row(f"cost per further image up to {sizes[2]:,} : up to {sizes[1]:,}, five scorers", late / early, 1.1)

    images, model = some[sizes[1]], network("lenet-bn", channels=1)
    every = (images.labelled, images.id, images.covariate, images.semantic)
    sides = {"plain": lambda: plain_pass(model, *every)}
    sides |= {str(n): lambda n=n: evaluate(images, SIX[:n]) for n in range(1, 7)}  # type: ignore[misc]
    spent = least(sides, turns)
    for n in range(1, 7):
        names = "MSP" if n == 1 else f"{n} scorers, now with {SIX[n - 1]}"
        yield Row(f"small network, {names} : a plain pass", spent[str(n)] / spent["plain"])

    most = 2 * sizes[2]
    grown = peak("evaluation_memory", most) - peak("evaluation_memory", sizes[1])
    yield Row(f"memory growth from {sizes[1]:,} to {most:,} test images, without the images", grown, MEGABYTES, "MB")
    banks = (1000, 2000) if quick else (20000, 200000)
    grown = peak("knn_memory", banks[1]) - peak("knn_memory", banks[0])
    claim = f"memory growth of KNN from a bank of {banks[0]:,} to {banks[1]:,}, without the bank"
    yield Row(claim, grown, MEGABYTES, "MB")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
