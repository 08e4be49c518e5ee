"""J. Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization with Modern
Hopfield Energy, ICLR 2023.

A class of which no row is classified correctly is stored as the mean of its rows, one without rows as that of all rows.

The score:

    s = −f·S_ŷ, where S_k is the mean of training features of class k that are classified correctly
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from oodbench import Outputs, Scorer, functional


@dataclass
class SHE(Scorer):
    """Inner product with the mean of the correctly classified training rows of the predicted class, negated."""

    reads: ClassVar[str | None] = "distances"

    metric: Literal["inner", "cosine", "euclidean"] = "inner"  # how a row is compared with the stored pattern

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        correct = train.y.where(train.predicted == train.y, -1)
        self.patterns = functional.class_templates(train.features, train.logits.shape[-1], correct, train.y)  # S_k

    def score(self, out: Outputs) -> Tensor:
        if self.metric == "cosine":
            return -(out.unit * functional.unit(self.patterns)[out.predicted]).sum(dim=-1)
        features, patterns = out.features.double(), self.patterns[out.predicted]
        if self.metric == "euclidean":
            return torch.linalg.vector_norm(features - patterns, dim=-1)
        return -(features * patterns).sum(dim=-1)
