"""A scorer on a few images before the real ones, for what can only be found by trying."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.learning.method import Scorer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs
from oodbench.learning.rows import as_rows
from oodbench.learning.scoring import fit, forward_for, one_per_row

FEW = 16  # rows of a rehearsal, or as many as there are classes
ENLARGED = 2**29  # bytes that the images of an enlarged rehearsal may take


def rehearse(make: Callable[[], Scorer], model: Classifier, parts: Parts) -> None:
    """Fit on a few images and score two, for what can only be found by trying.

    A few are too few for some, for many neighbors say; what fails is tried again on as many rows as the training has.
    """
    train = _few(make(), model, parts.labelled)
    validation = _few(make(), model, parts.id_validation) if "validation" in make().needs else None
    try:
        _rehearse(make(), train, validation)
    except Exception:
        _rehearse(make(), _enlarged(train, len(parts.labelled)), validation)


def _rehearse(scorer: Scorer, train: Outputs, validation: Outputs | None) -> None:
    with torch.no_grad():
        fit(scorer, train.copied(), validation and validation.copied())
        one_per_row(scorer, replace(next(train.split(2)), y=None).copied())


def _few(scorer: Scorer, model: Classifier, part: ImagePart) -> Outputs:
    """Of some rows, among them one of each class."""
    rows = np.union1d(np.arange(min(FEW, len(part))), np.unique(part.labels, return_index=True)[1])
    some = part.take(rows)
    return forward_for(scorer, model, as_rows(some.images), torch.from_numpy(some.labels))


@torch.inference_mode()
def _enlarged(out: Outputs, rows: int) -> Outputs:
    """The same rows again and again, with features and what was read in maps that differ by noise."""
    rows = min(rows, ENLARGED // math.prod(out.images.shape[1:]))
    picked = torch.arange(max(rows, len(out.features))) % len(out.features)
    images, picked = out.images.index_select(0, picked), picked.to(out.features.device)
    features = _varied(out.features, picked)
    y, maps = None if out.y is None else out.y[picked], None if out.maps is None else _varied(out.maps, picked)
    return Outputs(out.model, images, features, out.model.head(features), y, maps)


def _varied(values: Tensor, picked: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values[picked.to(values.device)]
    noise = torch.rand(len(picked), values.shape[1]).to(values) * values.std()
    return values[picked.to(values.device)] + noise
