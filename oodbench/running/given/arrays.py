"""A file of outputs in place of a network and images."""

import itertools
from functools import partial
from pathlib import Path

from oodbench.config import identity
from oodbench.config.suite import NONE, Setting
from oodbench.data.given_set import name_of
from oodbench.data.preprocessing import ALREADY
from oodbench.learning import exchange
from oodbench.learning.exchange import Arrays
from oodbench.learning.method import Scorer
from oodbench.learning.scoring import ROWS
from oodbench.learning.without_images import as_evaluation, lacking
from oodbench.results.result import GivenRun, SetRead
from oodbench.running.given.network import Case, Given, Network, checked_name, negative_misfit, suite_of
from oodbench.running.given.request import GivenRequest
from oodbench.running.preflight import choose_device
from oodbench.running.reporting import Reporter

SOURCE = "outputs of a network"


def on_arrays(asked: GivenRequest, reporter: Reporter) -> Given:
    """What the file holds, as any other network and its parts."""
    assert asked.arrays is not None
    path = Path(asked.arrays)
    arrays = exchange.read(path)
    outputs = as_evaluation(arrays, choose_device(asked.device))
    for remark in outputs.remarks:
        reporter.note(f"note: {remark}")
    run = GivenRun(
        name=checked_name(asked.name or name_of(path.stem)),
        model=f"outputs in {path.name}",
        weights=None,
        head=None if arrays.weight is None else "weight",
        form="logits alone" if not arrays.has_features else "W f + b",
        preprocessing={},
        classes=None,
        adapter=identity.of_harness("adapter"),
        digest=arrays.digest,
    )
    network = Network(outputs.model, run, None, ALREADY, (), partial(_misfit, arrays))
    covariate: dict[str, str | None] = {**arrays.sets("covariate")} or {NONE: None}
    semantic: dict[str, str | None] = {**arrays.sets("semantic")} or {NONE: None}
    cases = [
        Case(Setting(unknown, shift, severity=1, pi_c=0.0, pi_s=0.0), outputs.parts(shifted, part), {})
        for (unknown, part), (shift, shifted) in itertools.product(semantic.items(), covariate.items())
    ]
    sets = {name: SetRead(part.digest, SOURCE) for name, part in arrays.parts.items()}
    return Given(network, suite_of(run.name, "id", [*semantic], [*covariate]), cases, sets, outputs.known)


def _misfit(arrays: Arrays, scorer: Scorer) -> str | None:
    """Why a scorer cannot be used with what the file holds, if so."""
    features = arrays.parts["train" if "train" in arrays.parts else "id"].features
    share = 0.0 if features is None else float((features[:ROWS] < 0).float().mean())
    return lacking(arrays, scorer) or negative_misfit(share, scorer)
