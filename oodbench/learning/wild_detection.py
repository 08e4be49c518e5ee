"""A linear head that tells labeled images from some of the wild ones: what SAL, Medix and AHA share."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.errors import UserError
from oodbench.learning.batches import Batch, Data
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs, forward


def linear_ood_head(model: Classifier) -> None:
    """Give the network a head whose output is higher where features look more OOD."""
    model.ood_head = nn.Linear(model.head.in_features, 1).to(model.head.weight)


def wild_outputs(model: Classifier, data: Data) -> tuple[Outputs, Outputs]:
    """Of the labeled images, with their labels, and of every image of the wild set, before the training."""
    if data.wild is None:
        raise UserError('data.wild is None; add needs = frozenset({"wild"}) to the trainer')
    images = data.wild.once()
    return forward(model, data.labelled.images, data.labelled.y), forward(model, images)


def with_candidates(data: Data, chosen: Tensor, loop: Loop) -> Data:
    """The data with the chosen images of the wild set as outliers, in place of the mixture.

    The notes of the result count how many of them are ID, covariate-shifted and semantic, which the method cannot know.
    """
    assert data.wild is not None
    rows, images = chosen.nonzero().squeeze(1).cpu(), data.wild.once()
    if len(rows) == 0:
        raise UserError("no image of the wild set is a candidate outlier, so that there is nothing to learn from it")
    counts = data.wild.once_counts()
    ends = torch.tensor(counts).cumsum(dim=0)
    found = torch.bucketize(rows, ends, right=True).bincount(minlength=3).tolist()
    kinds = ("ID", "covariate", "semantic")
    loop.notes["candidates"] = {
        kind: f"{some} of {count}" for kind, some, count in zip(kinds, found, counts, strict=True)
    }
    return replace(data, wild=None, outliers=images.index_select(0, rows.to(images.device)))


def detector_loss(model: Classifier, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits of the labeled images, and the cross-entropy of the head: labeled images are 0, outliers are 1."""
    if batch.outliers is None:
        raise UserError("batch.outliers is None; give the loop data with outliers")
    features = model.features(torch.cat([batch.x, batch.outliers]))
    is_ood = torch.arange(len(features), device=features.device) >= len(batch)
    scores = model.ood_head(features).squeeze(1)
    return model.head(features[: len(batch)]), F.binary_cross_entropy_with_logits(scores, is_ood.to(scores))
