"""Evaluation beside a plain pass of the same images through the same network, WRN-40-2.

    python benchmarks/speed/evaluation.py

The plain pass is a bare loop over training bank and test splits. Beside it stand the harness's own pass, and the whole
evaluation of five closed-form scorers: fitting, scoring and all metrics. CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from collections.abc import Iterator

from subject import CLOSED_FORM, network, parts, plain_pass, scorers
from timing import TURNS, Row, least, main

from oodbench.learning.evaluation import Evaluation
from oodbench.learning.outputs import forward
from oodbench.learning.precision import fresh_state
from oodbench.learning.rows import as_rows
from oodbench.results import metrics
from oodbench.running.execution import keyed


def rows(quick: bool) -> Iterator[Row]:
    model = network("wrn", depth=10, width=1) if quick else network("wrn", depth=40, width=2)
    images = parts(bank=100, each=20) if quick else parts(bank=300, each=100)
    every, chosen = (images.labelled, images.id, images.covariate, images.semantic), scorers(*CLOSED_FORM)

    def harness_pass() -> None:
        for part in every:
            forward(model, as_rows(part.images))

    def five() -> None:
        evaluation = Evaluation(model, images.labelled)
        for scorer in chosen:
            with fresh_state():
                scored = evaluation.score(keyed(scorer), images)[0]
            metrics.evaluate(**{split: metrics.Scored(**vars(each)) for split, each in scored.items()})

    sides = {
        "plain": lambda: plain_pass(model, *every),
        "pass": harness_pass,
        "five": five,
    }
    spent = least(sides, 1 if quick else TURNS)
    yield Row("five closed-form scorers, fit and metrics included : a plain pass", spent["five"] / spent["plain"], 1.05)
    yield Row("speed of the harness's pass : a plain pass", spent["plain"] / spent["pass"], 0.95, at_least=True)


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
