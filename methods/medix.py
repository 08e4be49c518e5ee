"""M. Abbas, A. Falahati, H. Goli and M. Mohammadi Amiri, A Median Perspective on Unlabeled Data for Out-of-Distribution
Detection, Transactions on Machine Learning Research 2025 (arXiv 2510.06505).

SAL's pipeline around another center: the median of all gradients, coordinate by coordinate, which outliers hardly move.

The loss:

    L = CE(z, y) + weight × (logistic loss of the linear OOD head g(f), labeled images against candidates)
    A wild image is a candidate if its (v·(∇ − c))² is above that of a share `kept` of labeled images, where ∇ is the
    gradient of CE by W of z = W f + b before the training, with the predicted class as the label of a wild image,
    c is the median ∇ of all images, labeled and wild, and v is the first right singular vector of the rows ∇ − c
    of wild images
"""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import (
    HeadGradients,
    detector_loss,
    linear_ood_head,
    percentile,
    wild_outputs,
    with_candidates,
)


@dataclass
class Medix(Trainer):
    """A linear head tells labeled images from wild ones whose gradients stand out from the median gradient."""

    needs: ClassVar[frozenset[str]] = frozenset({"wild"})
    adds: ClassVar[frozenset[str]] = frozenset({"ood-head"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "ood-head"

    weight: float = 10.0  # of the head's loss
    kept: float = 0.95  # the share of labeled images below the threshold

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"medix.weight={self.weight:g} is negative; choose 0 or more")
        if not 0 < self.kept < 1:
            raise UserError(f"medix.kept={self.kept:g} is no share between 0 and 1; choose 0.95")

    def extend(self, model: Classifier) -> None:
        linear_ood_head(model)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        labelled, wild = wild_outputs(model, data)
        assert labelled.y is not None
        of_labelled = HeadGradients.of(labelled.features, labelled.logits, labelled.y)
        of_wild = HeadGradients.of(wild.features, wild.logits, wild.predicted)
        center = of_labelled.joined(of_wild).median()
        v = of_wild.leading_direction(center)
        known = of_labelled.products(v, center).square()
        chosen = of_wild.products(v, center).square() > percentile(known, 100 * self.kept)
        data = with_candidates(data, chosen, loop)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, detection = detector_loss(model, batch)
            return F.cross_entropy(logits, batch.y) + self.weight * detection

        for _ in loop.epochs(model, data, loss):
            pass
