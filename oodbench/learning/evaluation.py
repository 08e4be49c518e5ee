"""One network under every scorer: each split passes once, each scorer is fitted once."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from oodbench.config.registry import Component
from oodbench.data.splits import Part, Parts
from oodbench.errors import UserError, place_of
from oodbench.files import write_atomically
from oodbench.learning.checkpoint import load_tensors
from oodbench.learning.loop import Failed
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs, forward
from oodbench.learning.rows import as_rows
from oodbench.results.metrics import Scored

ROWS = 2048  # scored at a time: what a scorer needs for a row is not needed for all rows at once
NEGATIVE = 0.01  # the share of a network's features that may be so where a scorer needs non-negative ones
FEW = 16  # rows of a rehearsal, or as many as there are classes
ENLARGED = 2**29  # bytes that the images of an enlarged rehearsal may take
TEST_SPLITS = ("id", "covariate", "semantic")


class Evaluation:
    """Scores the test splits; outputs, fitted scorers and scores are kept by content for the next cell."""

    def __init__(self, model: Classifier, labelled: Part, kept: Callable[[str], Path] | None = None) -> None:
        self.model, self.labelled = model, labelled
        self._kept = kept  # the file that keeps the outputs of images with a digest, if they shall outlive the run
        self._outputs: dict[str, tuple[Outputs, float]] = {}
        self._scorers: dict[str, tuple[Scorer, float]] = {}
        self._scores: dict[tuple[str, str], tuple[Tensor, float]] = {}

    def score(self, spec: Component, parts: Parts) -> tuple[dict[str, Scored], dict[str, float]]:
        """Scores and predictions of the three test splits, and the seconds each stage took when it was done."""
        key, validation, passing = repr(spec.identity()), None, 0.0
        train, spent = self._pass(self.labelled, labels=True)
        if "nonnegative-features" in spec.card.needs:
            _refuse_negative(spec, train.features[:ROWS])
        if "validation" in spec.card.needs:
            validation, passing = self._pass(parts.id_validation, labels=True)
            key += parts.id_validation.digest
        scorer, fitting = self._fitted(key, spec, train, validation)
        seconds = {"forward": spent + passing, "fit": fitting, "score": 0.0}
        scored = {}
        for split in TEST_SPLITS:
            images: Part = getattr(parts, split)
            if split == "semantic" and len(images) == 0:
                continue  # a suite of generalisation alone
            out, spent = self._pass(images)
            values, scoring = self._scored(key, spec, scorer, out, images)
            seconds["forward"] += spent
            seconds["score"] += scoring
            predictions = out.logits.argmax(dim=-1).cpu().numpy().astype(np.int16)
            labels = None if split == "semantic" else images.labels.astype(np.int16)
            scored[split] = Scored(values.cpu().numpy(), predictions, labels)
        return scored, seconds

    def _pass(self, images: Part, labels: bool = False) -> tuple[Outputs, float]:
        if images.digest not in self._outputs:
            y = torch.from_numpy(images.labels) if labels else None
            found = self._read(images, y)
            if found is None:
                started = time.perf_counter()
                out = forward(self.model, as_rows(images.images), y)
                found = out, time.perf_counter() - started
                self._keep(images, *found)
            self._outputs[images.digest] = found
        return self._outputs[images.digest]

    def _keep(self, images: Part, out: Outputs, seconds: float) -> None:
        if self._kept is not None:
            contents = {"features": out.features, "logits": out.logits, "seconds": seconds}
            write_atomically(self._kept(images.digest), lambda file: torch.save(contents, file))

    @torch.inference_mode()
    def _read(self, images: Part, y: Tensor | None) -> tuple[Outputs, float] | None:
        """Outputs that an earlier run has kept, and the seconds their pass took then; None if missing or damaged."""
        contents = None if self._kept is None else load_tensors(self._kept(images.digest), self.model.device)
        if not isinstance(contents, dict) or contents.keys() != {"features", "logits", "seconds"}:
            return None
        features, logits, head = contents["features"], contents["logits"], self.model.head
        for found, width in ((features, head.in_features), (logits, head.out_features)):
            if not isinstance(found, Tensor) or found.shape != (len(images), width):
                return None
        y = None if y is None else y.to(self.model.device)
        return Outputs(self.model, as_rows(images.images), features, logits, y), contents["seconds"]

    def _fitted(self, key: str, spec: Component, train: Outputs, validation: Outputs | None) -> tuple[Scorer, float]:
        if key not in self._scorers:
            scorer: Scorer = spec.make()
            started = time.perf_counter()
            with torch.no_grad():
                fit(scorer, train, validation)
            self._scorers[key] = scorer, time.perf_counter() - started
        return self._scorers[key]

    def _scored(self, fitted: str, spec: Component, scorer: Scorer, out: Outputs, images: Part) -> tuple[Tensor, float]:
        key = fitted, images.digest
        if key not in self._scores:
            started = time.perf_counter()
            with torch.no_grad():
                values = torch.cat([one_per_row(scorer, some) for some in out.split(ROWS)])
            spent = time.perf_counter() - started
            name, rows = spec.card.name, len(images)
            if not values.isfinite().all():
                raise Failed(f"'{name}' gave {int((~values.isfinite()).sum())} of {rows} scores that are not finite")
            self._scores[key] = values.detach(), spent
        return self._scores[key]


def fit(scorer: Scorer, train: Outputs, validation: Outputs | None) -> None:
    """What needs no validation images is fitted without: its `fit` may have one argument."""
    if validation is None:
        scorer.fit(train)
    else:
        scorer.fit(train, validation)


def rehearse(spec: Component, model: Classifier, parts: Parts) -> None:
    """Fit on a few images and score two, for what can only be found by trying.

    A few are too few for some, for many neighbours say; what fails is tried again on as many rows as the training has.
    """
    train = _few(model, parts.labelled)
    validation = _few(model, parts.id_validation) if "validation" in spec.card.needs else None
    try:
        _rehearse(spec, train, validation)
    except Exception:
        _rehearse(spec, _enlarged(train, len(parts.labelled)), validation)


def _rehearse(spec: Component, train: Outputs, validation: Outputs | None) -> None:
    scorer: Scorer = spec.make()
    with torch.no_grad():
        fit(scorer, train, validation)
        one_per_row(scorer, replace(next(train.split(2)), y=None))


def _few(model: Classifier, part: Part) -> Outputs:
    """Of some rows, among them one of each class."""
    rows = np.union1d(np.arange(min(FEW, len(part))), np.unique(part.labels, return_index=True)[1])
    some = part.take(rows)
    return forward(model, as_rows(some.images), torch.from_numpy(some.labels))


@torch.inference_mode()
def _enlarged(out: Outputs, rows: int) -> Outputs:
    """The same rows again and again, with features that differ by noise."""
    rows = min(rows, ENLARGED // math.prod(out.images.shape[1:]))
    picked = torch.arange(max(rows, len(out.features))) % len(out.features)
    images, picked = out.images.index_select(0, picked), picked.to(out.features.device)
    noise = torch.rand(len(picked), out.features.shape[1]).to(out.features) * out.features.std()
    features = out.features[picked] + noise
    return Outputs(out.model, images, features, out.model.head(features), None if out.y is None else out.y[picked])


def _refuse_negative(spec: Component, features: Tensor) -> None:
    share = (features < 0).float().mean().item()
    if share > NEGATIVE:
        raise Failed(
            f"'{spec.card.name}' needs features that are not negative, and {share:.0%} of this network's are; choose a "
            "network that ends in ReLU, or another scorer"
        )


def one_per_row(scorer: Scorer, out: Outputs) -> Tensor:
    """The scores, if they are that."""
    values: object = scorer.score(out)
    rows = len(out.logits)
    if isinstance(values, Tensor) and values.shape == (rows,):
        return values
    found = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
    where = place_of(scorer.score)
    raise UserError(f"{where}: score gave {found} for {rows} rows; return a tensor of one number per row")
