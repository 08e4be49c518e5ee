"""A detector for a given network: a scorer that is named or chosen, and the line that keeps a share of ID images."""

import tempfile
from dataclasses import dataclass, replace

from oodbench.config.registry import Component, Registry
from oodbench.config.suite import NONE
from oodbench.data.image_part import ImagePart
from oodbench.errors import UserError
from oodbench.learning import threshold
from oodbench.results.best import Best, choose
from oodbench.running.given.detector import Detector
from oodbench.running.given.evaluating import (
    arithmetic,
    cells_of,
    check_names,
    choose_scorers,
    evaluate,
    evaluation_of,
    prepare,
)
from oodbench.running.given.fitting import fit_detector, network_card
from oodbench.running.given.network import Given
from oodbench.running.given.request import GivenRequest
from oodbench.running.reporting import Reporter, Silent

BEST = "best"
SEEN_IN_TRAINING = (
    "the threshold comes from ID images that were drawn by lot: if the network was trained on them, it may be too "
    "tight and flag more new ID images than said; give those that it was trained on as training images"
)


class _ScoringAlone(Silent):
    """Passes on how far the scoring is, and no results: they are thrown away."""

    def __init__(self, reporter: Reporter) -> None:
        self.scoring = reporter.scoring  # type: ignore[method-assign]


@dataclass(frozen=True)
class Fitted:
    detector: Detector
    best: Best | None  # how the scorer was chosen, where it was not named
    division: str  # which ID images are for what, as the reporter has heard it


def fit(asked: GivenRequest, scorer: str, keep: float, reporter: Reporter) -> Fitted:
    """Fit on training images; the threshold comes from ID images that the scorer was not fitted on."""
    threshold.check_keep(keep)
    if asked.arrays is not None:
        raise UserError("a detector needs the network itself, not only its outputs; give --model")
    registry = Registry(asked.plugins)
    check_names([scorer], registry, BEST)
    given = prepare(asked, reporter)
    choice = None
    if scorer == BEST:
        choice = _best(asked, given, registry, reporter)
        scorer = choice.scorer
    (component,), _ = choose_scorers(replace(asked, scorers=(scorer,)), given, registry)
    return Fitted(_detector(asked, given, component, keep, choice, reporter), choice, given.division)


def _best(asked: GivenRequest, given: Given, registry: Registry, reporter: Reporter) -> Best:
    """By the rule of `results.best`, on results that nobody keeps."""
    if all(case.setting.semantic == NONE for case in given.cases):
        raise UserError(
            "the best scorer is chosen on semantic images; give --semantic, or name a scorer: --scorer energy"
        )
    scorers, _ = choose_scorers(asked, given, registry)
    with tempfile.TemporaryDirectory() as folder:
        cells = cells_of(replace(asked, results=folder), given, scorers)
        chosen = choose(evaluate(cells, _ScoringAlone(reporter)))
    if chosen is None:
        raise UserError("no scorer scored all semantic sets; name one: --scorer energy")
    return chosen


def _detector(
    asked: GivenRequest, given: Given, component: Component, keep: float, choice: Best | None, reporter: Reporter
) -> Detector:
    first = given.cases[0]
    cells = cells_of(asked, given, [component])
    evaluation = evaluation_of([cell for cell in cells if cell.case is first], reporter)
    brought, network = given.network.brought, given.network
    assert brought is not None
    card = network_card(given.model, brought.text, brought.spec, first.parts.id, given.run.classes)
    notes = [given.division] if given.division else []
    if given.by_lot:
        notes.append(SEEN_IN_TRAINING)
    if choice is not None:
        notes.append(choice.warning)
    with arithmetic(cells[0].threads, given.model.device):
        return fit_detector(
            given.model,
            card,
            network.preprocessing,
            component,
            train=first.parts.labelled,
            validation=first.parts.id_validation,
            id=first.parts.id,
            covariate=_sets(given, "covariate"),
            semantic=_sets(given, "semantic"),
            keep=keep,
            classes=network.class_names,
            notes=notes,
            evaluation=evaluation,
        )


def _sets(given: Given, kind: str) -> dict[str, ImagePart]:
    named = {getattr(case.setting, kind): getattr(case.parts, kind) for case in given.cases}
    return {name: part for name, part in named.items() if len(part)}
