"""A detector for a given network: a scorer that is named or chosen, and the line that keeps a share of ID images."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from oodbench.config.registry import Registry
from oodbench.config.suite import NONE
from oodbench.data.image_part import ImagePart
from oodbench.errors import UserError, unknown
from oodbench.learning import threshold
from oodbench.learning.evaluation import Evaluation
from oodbench.results import result as results
from oodbench.results.best import Best, choose
from oodbench.results.stored import read_scores
from oodbench.running.given.cells import GivenCell
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
DETECTION, BOTH = "detection", "both"
AIMS = {DETECTION: "auroc", BOTH: "auroc_full"}  # with covariate images left out, or to be kept as ID images are
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


def fit(asked: GivenRequest, scorer: str, keep: float, reporter: Reporter, aim: str | None = None) -> Fitted:
    """Fit on training images; the threshold comes from ID images that the scorer was not fitted on.

    Scores that `evaluate` has left in the results folder for the same arguments are taken from there.
    """
    threshold.check_keep(keep)
    if aim is not None and aim not in AIMS:
        raise unknown("aim", aim, AIMS)
    if aim is not None and scorer != BEST:
        raise UserError(f"--aim is for the choice of a scorer, and '{scorer}' is named; leave one of them out")
    if asked.arrays is not None:
        raise UserError("a detector needs the network itself, not only its outputs; give --model")
    registry = Registry(asked.plugins)
    check_names([scorer], registry, BEST)
    given = prepare(asked, reporter)
    choice, evaluation = None, None
    with tempfile.TemporaryDirectory() as folder:
        if scorer == BEST:
            choice, evaluation = _best(asked, given, registry, _metric(aim, given), Path(folder), reporter)
            scorer = choice.scorer
        (component,), _ = choose_scorers(replace(asked, scorers=(scorer,)), given, registry)
        cells = cells_of(asked, given, [component])
        scores = _known_scores([*cells, *(replace(cell, folder=Path(folder)) for cell in cells)])
    if evaluation is None:
        evaluation = evaluation_of(cells[:1], reporter)
    detector = _detector(given, cells[0], keep, choice, evaluation, scores)
    return Fitted(detector, choice, given.division)


def _metric(aim: str | None, given: Given) -> str:
    """What the choice goes by."""
    has_covariate = any(len(case.parts.covariate) for case in given.cases)
    if aim == BOTH and not has_covariate:
        raise UserError(f"--aim {BOTH} keeps covariate images, and there are none; give --covariate, or leave it out")
    return AIMS[aim or (BOTH if has_covariate else DETECTION)]


def _best(
    asked: GivenRequest, given: Given, registry: Registry, metric: str, folder: Path, reporter: Reporter
) -> tuple[Best, Evaluation | None]:
    """By the rule of `results.best`, and what the network has computed; new results go to a folder nobody keeps."""
    if all(case.setting.semantic == NONE for case in given.cases):
        raise UserError(
            "the best scorer is chosen on semantic images; give --semantic, or name a scorer: --scorer energy"
        )
    scorers, _ = choose_scorers(asked, given, registry)
    done, left = list[GivenCell](), list[GivenCell]()
    for cell in cells_of(asked, given, scorers):
        (done if cell.is_done() else left).append(cell)
    if done:
        taken = len({cell.label for cell in done})
        reporter.note(f"scores of {taken} scorer{'' if taken == 1 else 's'} are taken from {asked.folder}")
    left = [replace(cell, folder=folder) for cell in left]
    bank = given.cases[0].parts.labelled.key  # which the detector is fitted on
    on_bank = [cell for cell in left if cell.case.parts.labelled.key == bank]
    evaluation = evaluation_of(on_bank, reporter) if on_bank else None
    found = [*(results.read(cell.path) for cell in done), *evaluate(left, _ScoringAlone(reporter), evaluation)]
    chosen = choose(found, metric)
    if chosen is None:
        raise UserError("no scorer scored all semantic sets; name one: --scorer energy")
    return chosen, evaluation


def _known_scores(cells: Sequence[GivenCell]) -> dict[str, NDArray[Any]]:
    """By the key of a part: what is stored of one scorer."""
    known: dict[str, NDArray[Any]] = {}
    for cell in [cell for cell in cells if cell.is_done()]:
        try:
            stored = read_scores(results.read(cell.path))
        except (FileNotFoundError, results.Unreadable):
            continue  # they are computed then
        known |= {getattr(cell.case.parts, split).key: scored.scores for split, scored in stored.items()}
    return known


def _detector(
    given: Given,
    cell: GivenCell,
    keep: float,
    choice: Best | None,
    evaluation: Evaluation,
    scores: Mapping[str, NDArray[Any]],
) -> Detector:
    first = given.cases[0]
    brought, network = given.network.brought, given.network
    assert brought is not None
    card = network_card(given.model, brought.text, brought.spec, first.parts.id, given.run.classes)
    notes = [given.division] if given.division else []
    if given.by_lot:
        notes.append(SEEN_IN_TRAINING)
    if choice is not None:
        notes.append(choice.warning)
    with arithmetic(cell.threads, given.model.device):
        return fit_detector(
            given.model,
            card,
            network.preprocessing,
            cell.scorer,
            train=first.parts.labelled,
            validation=first.parts.id_validation,
            id=first.parts.id,
            covariate=_sets(given, "covariate"),
            semantic=_sets(given, "semantic"),
            keep=keep,
            classes=network.class_names,
            notes=notes,
            evaluation=evaluation,
            scores=scores,
        )


def _sets(given: Given, kind: str) -> dict[str, ImagePart]:
    named = {getattr(case.setting, kind): getattr(case.parts, kind) for case in given.cases}
    return {name: part for name, part in named.items() if len(part)}
