"""A network, a scorer and images to a detector: fitted on training images, its line drawn by held-out ones."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

import torch
from numpy.typing import NDArray

import oodbench
from oodbench.config import identity
from oodbench.config.registry import Component
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.data.preprocessing import Preprocessing
from oodbench.errors import UserError
from oodbench.learning import precision, threshold
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.fitted_state import plain_value
from oodbench.learning.loop import Failed
from oodbench.learning.networks import Classifier
from oodbench.running import provenance
from oodbench.running.execution import keyed
from oodbench.running.given.detector import Detector
from oodbench.running.given.detector_files import DetectorCard, FlaggedSet, NetworkCard, ScorerCard
from oodbench.running.mistakes import at_work

FEW = 100  # held-out ID images; with fewer, the share that a threshold keeps is hardly known
STORED_SCORES = 1001  # of held-out ID images: a quantile is known to a thousandth
ID = "id"  # the name of the held-out ID images among the sets that are flagged


def network_card(
    model: Classifier,
    text: str,
    spec: dict[str, object] | None,
    images: ImagePart,
    rows: Sequence[int] | None = None,
) -> NetworkCard:
    """Of a Classifier, which an adapter may have made, and images that it takes."""
    channels, height, width = images.whole.shape[1:]
    mean, std = (tuple(each.flatten().tolist()) for each in (model.mean, model.std))
    head, form, layer = (getattr(model, name, None) for name in ("head_name", "form", "layer_name"))
    return NetworkCard(
        text, spec, (channels, height, width), mean, std, head, form, None if rows is None else tuple(rows), layer
    )


def fit_detector(
    model: Classifier,
    network: NetworkCard,
    preprocessing: Preprocessing,
    scorer: Component,
    *,
    train: ImagePart,
    validation: ImagePart,
    id: ImagePart,
    covariate: Mapping[str, ImagePart] | None = None,
    semantic: Mapping[str, ImagePart] | None = None,
    keep: float = 0.95,
    classes: Sequence[str] = (),
    notes: Sequence[str] = (),
    evaluation: Evaluation | None = None,
    scores: Mapping[str, NDArray[Any]] = MappingProxyType({}),
) -> Detector:
    """Fit the scorer on `train`, draw the line that keeps a share of `id`, and say what it flags of every set.

    `validation` are the images that scorers fit temperatures and the like on; an `evaluation` of the same network and
    training images has outputs that need not be computed again, and `scores` are known by the keys of images.
    """
    threshold.check_keep(keep)
    if len(id) < threshold.images_needed(keep):
        threshold.keeping(keep, [0.0] * len(id))  # which refuses it before anything is computed
    evaluation = evaluation or Evaluation(model, train)
    nothing = id.take(slice(0))
    parts = Parts(train, nothing, nothing, nothing, validation, nothing, nothing, nothing, id, nothing, nothing)

    def scores_of(images: ImagePart) -> NDArray[Any]:
        known = scores.get(images.key)
        return evaluation.score(keyed(scorer), replace(parts, id=images))[0][ID].scores if known is None else known

    with _in_words(scorer):
        id_scores = scores_of(id)
        line = threshold.keeping(keep, id_scores)
        flagged = {ID: FlaggedSet("id", line.on_id)}
        for name, part in (covariate or {}).items():
            flagged[_free(name, flagged)] = FlaggedSet("covariate", line.share(scores_of(part)))
        for name, part in (semantic or {}).items():
            flagged[_free(name, flagged)] = FlaggedSet("semantic", line.share(scores_of(part)))
        fitted = evaluation.fitted(keyed(scorer), validation)[0]
    every = {"train": train, "validation": validation, "id": id, **(covariate or {}), **(semantic or {})}
    card = DetectorCard(
        oodbench=oodbench.__version__,
        network=network,
        preprocessing=preprocessing,
        classes=tuple(map(_writable, classes)),
        scorer=_scorer_card(scorer),
        threshold=line,
        flagged=flagged,
        sets={_writable(name): part.digest for name, part in every.items()},
        made={"at": datetime.now(timezone.utc).isoformat(timespec="seconds"), **provenance.versions()},
        notes=(*notes, *_warnings(id_scores), *_rejections(flagged)),
    )
    stored = torch.from_numpy(threshold.thinned(id_scores, STORED_SCORES)).to(model.device)
    return Detector(model, fitted, stored, card, identity.is_shipped(scorer.card))


@contextmanager
def _in_words(scorer: Component) -> Iterator[None]:
    """What a scorer cannot do is told in one line; the arithmetic is the one that the detector will use."""
    try:
        with precision.arithmetic("fp32", deterministic=False), precision.nondeterminism_warns(), at_work(scorer):
            yield
    except Failed as failure:
        raise UserError(str(failure)) from failure


def _scorer_card(scorer: Component) -> ScorerCard:
    values = {name: plain_value(value, scorer.card.name, name) for name, value in scorer.values.items()}
    return ScorerCard(scorer.card.name, scorer.card.display, identity.of_card(scorer.card), values)


def _warnings(id_scores: NDArray[Any]) -> list[str]:
    warnings, count = [], len(id_scores)
    if count < FEW:
        warnings.append(f"{count} held-out ID images estimate the kept share only roughly; {FEW} or more are better")
    if len(set(id_scores.tolist())) == 1:
        warnings.append("all held-out ID images have the same score, so the threshold is meaningless")
    return warnings


def _rejections(flagged: Mapping[str, FlaggedSet]) -> list[str]:
    """A line for every covariate set that is flagged more often than some semantic set."""
    semantic = {name: each.share.value for name, each in flagged.items() if each.kind == "semantic"}
    lines = []
    for name, each in flagged.items():
        missed = {other: share for other, share in semantic.items() if share < each.share.value}
        if each.kind == "covariate" and missed:
            others = ", ".join(f"'{other}' ({100 * share:.1f} %)" for other, share in missed.items())
            lines.append(
                f"this detector rejects what it should keep: covariate images '{name}' are flagged more often "
                f"({100 * each.share.value:.1f} %) than semantic images {others}"
            )
    return lines


def _free(name: str, taken: Mapping[str, object]) -> str:
    """A set may have the name of another of another kind."""
    name, number = _writable(name), 2
    unused = name
    while unused in taken:
        unused, number = f"{name}-{number}", number + 1
    return unused


def _writable(name: str) -> str:
    """A name of a folder as text, which it need not be."""
    return os.fsencode(name).decode(errors="backslashreplace")
