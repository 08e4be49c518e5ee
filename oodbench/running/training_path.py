"""Where a training leads: the network at some of its steps, measured as a result is, on fewer images.

Nobody chooses anything by it. Unlike a result's, its thresholds are those of ID validation images.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from oodbench.config import identity
from oodbench.config.registry import DEFAULT_SCORER, Component, Registry
from oodbench.config.suite import Setting
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.learning.evaluation import Evaluation, KeyedScorer
from oodbench.learning.loop import Failed, Loop, Observer
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.precision import fresh_state
from oodbench.results import metrics
from oodbench.results.metrics import Scored
from oodbench.results.result import ConstraintRun, PathPoint
from oodbench.running.cells import Cell, Training

NAME = "path"  # in the log
IMAGES = 2000  # of each kind, at most
OF_TEST = ("covariate_acc", "id_acc", "auroc")
AT_THRESHOLD = ("fpr95", "covariate_flagged", "accepted_acc")


def observer(training: Training, setting: Setting, parts: Parts, points: int) -> Observer | None:
    """With the scorer that a trainer has by default, or the energy if that is a plugin; None: no path is asked for."""
    if points == 0:
        return None
    cards = Registry().cards
    scorer = Component(cards.get(training.trainer.card.scorer or DEFAULT_SCORER, cards[DEFAULT_SCORER]))
    keyed = KeyedScorer(scorer.make(), scorer.card.name, repr(scorer.identity()), identity.is_shipped(scorer.card))
    few = replace(parts, **{name: _few(part) for name, part in parts.items().items()})
    where = {"setting": training.suite.setting_name(setting), "scorer": scorer.card.name}

    def look(model: Classifier, loop: Loop) -> dict[str, Any]:
        constraints = [] if loop.constraints is None else loop.constraints(model)
        return {**where, "metrics": measured(model, keyed, few), "constraints": constraints}

    return Observer(NAME, look, points)


def points_of(log: list[dict[str, Any]], cell: Cell) -> list[PathPoint]:
    """Those of a training's log that were measured as the cell is scored."""
    setting, scorer = cell.suite.setting_name(cell.setting), cell.method.scorer.card.name
    return [
        PathPoint(point["step"], point["metrics"], [ConstraintRun(**each) for each in point["constraints"]])
        for record in log
        for point in record.get(NAME, ())
        if (point["setting"], point["scorer"]) == (setting, scorer)
    ]


def _few(part: ImagePart) -> ImagePart:
    """Evenly spaced: sets may be sorted by their classes."""
    return part.take(np.linspace(0, len(part) - 1, min(len(part), IMAGES)).astype(int))


def measured(model: Classifier, keyed: KeyedScorer, parts: Parts) -> dict[str, float]:
    """Metrics of a copy of a network, which leave no trace; none where the scores are no numbers."""
    nothing, is_fitted = parts.id.take(slice(0)), type(keyed.scorer).fit is not Scorer.fit
    validation = replace(parts, id=parts.id_validation, covariate=nothing, semantic=nothing)
    with fresh_state():
        own = deepcopy(model).requires_grad_(False)  # as scorers expect it
        evaluation = Evaluation(own, parts.labelled if is_fitted else parts.labelled.take(slice(1)))
        try:
            tested, validated = (evaluation.score(keyed, each)[0] for each in (parts, validation))
        except Failed:  # and the training may yet come to a better end
            return {}
    scored = {split: Scored(**vars(scores)) for split, scores in tested.items()}
    at_threshold = metrics.evaluate(**{**scored, "id": Scored(**vars(validated["id"]))})
    chosen = ((OF_TEST, metrics.evaluate(**scored)), (AT_THRESHOLD, at_threshold))
    return {name: values[name] for names, values in chosen for name in names if name in values}
