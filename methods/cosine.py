"""E. Techapanurak et al., Hyperparameter-Free Out-of-Distribution Detection Using Cosine Similarity, ACCV 2020.

On the features of any network: class means take the place of the weights of the paper's cosine head.

The score:

    s = −max_k cos(f, μ_k)
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer, functional


@dataclass
class Cosine(Scorer):
    """Cosine of the angle to the nearest class mean, negated."""

    reads: ClassVar[str | None] = "distances"

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        assert train.y is not None
        self.means = functional.unit(functional.class_means(train.features, train.y)[0])

    def score(self, out: Outputs) -> Tensor:
        return -(out.unit @ self.means.T).amax(dim=-1)
