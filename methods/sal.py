"""X. Du, Z. Fang, I. Diakonikolas and Y. Li, How Does Unlabeled Data Provably Help Out-of-Distribution Detection?,
ICLR 2024: Separate And Learn.

A wild image is a candidate outlier if the gradient of its loss lies far from those of the labeled images, along the
direction in which the wild gradients vary most. A linear head then learns to tell candidates from labeled images. The
paper's wild images are ID or semantic; here covariate-shifted images may become candidates too, and the notes of a
result count them.

The loss:

    L = CE(z, y) + λ × (logistic loss of the head g(f), labeled images against candidates), where a wild image is a
    candidate if its (v·(∇ − mean ∇))² is above that of a share `kept` of labeled images; ∇ is by the head's weights
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
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
class SAL(Trainer):
    """A linear head tells labeled images from wild ones whose gradients stand out."""

    needs: ClassVar[frozenset[str]] = frozenset({"wild"})
    adds: ClassVar[frozenset[str]] = frozenset({"ood-head"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "ood-head"

    weight: float = 10.0  # lambda, of the head's loss
    kept: float = 0.95  # the share of labeled images below the threshold T
    form: Literal["paper", "reference"] = "paper"  # reference: class by class, as the released code filters

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"sal.weight={self.weight:g} is negative; choose 0 or more")
        if not 0 < self.kept < 1:
            raise UserError(f"sal.kept={self.kept:g} is no share between 0 and 1; choose 0.95")

    def extend(self, model: Classifier) -> None:
        linear_ood_head(model)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        labelled, wild = wild_outputs(model, data)
        assert labelled.y is not None
        tau, known = (self.filtered if self.form == "paper" else self.filtered_by_class)(
            HeadGradients.of(labelled.features, labelled.logits, labelled.y),
            HeadGradients.of(wild.features, wild.logits, wild.predicted),  # the predicted class stands for the label
            labelled.y,
            wild.predicted,
        )
        data = with_candidates(data, tau > percentile(known, 100 * self.kept), loop)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, detection = detector_loss(model, batch)
            return F.cross_entropy(logits, batch.y) + self.weight * detection

        for _ in loop.epochs(model, data, loss):
            pass

    def filtered(self, labelled: HeadGradients, wild: HeadGradients, *_: Tensor) -> tuple[Tensor, Tensor]:
        """tau = <g - mean g, v>^2 of wild and of labeled images; v is the first singular vector of the wild ones."""
        center = labelled.mean()
        v = wild.leading_direction(center)
        return wild.products(v, center).square(), labelled.products(v, center).square()

    def filtered_by_class(
        self, labelled: HeadGradients, wild: HeadGradients, y: Tensor, predicted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """For each class, only its own row of the gradient, and labeled images on their own singular vector."""
        tau, known = torch.zeros_like(wild.features[:, 0]), torch.zeros_like(labelled.features[:, 0])
        for k in range(labelled.errors.shape[1]):
            rows, of_k = HeadGradients(labelled.errors[:, [k]], labelled.features), y == k
            wild_rows, as_k = HeadGradients(wild.errors[:, [k]], wild.features), predicted == k
            own, theirs = rows.some(of_k), wild_rows.some(as_k)
            if len(own.features) == 0:  # a class that no labeled image is of has no gradient to compare with
                continue
            center = own.mean()
            known = torch.where(of_k, rows.products(own.leading_direction(center), center).abs(), known)
            if len(theirs.features):
                tau = torch.where(as_k, wild_rows.products(theirs.leading_direction(center), center).abs(), tau)
        return tau, known
