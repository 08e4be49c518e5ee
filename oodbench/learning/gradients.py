"""Gradients of the cross-entropy by the weights of the linear head, of many images, without forming one of them.

With error e = softmax(z) - onehot(y) and features f, the gradient of an image is the K x d matrix e f'. Their sums
and products with a matrix V are then products of small matrices: <e f', V> = e' V f.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

TURNS = 1000  # of the power method at most
SAME = 1e-12  # the change of a direction, of length 1, at which it ends


@dataclass(frozen=True)
class HeadGradients:
    """Of N images; everything is in float64."""

    errors: Tensor  # N x K
    features: Tensor  # N x d

    @classmethod
    def of(cls, features: Tensor, logits: Tensor, labels: Tensor) -> "HeadGradients":
        errors = logits.double().softmax(dim=-1) - F.one_hot(labels, logits.shape[-1])
        return cls(errors, features.double())

    def joined(self, other: "HeadGradients") -> "HeadGradients":
        return HeadGradients(torch.cat([self.errors, other.errors]), torch.cat([self.features, other.features]))

    def some(self, chosen: Tensor) -> "HeadGradients":
        return HeadGradients(self.errors[chosen], self.features[chosen])

    def combined(self, weights: Tensor) -> Tensor:
        """Their sum under a weight for each, K x d."""
        return (self.errors * weights[:, None]).T @ self.features

    def mean(self) -> Tensor:
        return self.errors.T @ self.features / len(self.features)

    def median(self) -> Tensor:
        """Coordinate by coordinate, K x d; one class at a time, so that N x K x d numbers are never held."""
        rows = [(errors[:, None] * self.features).median(dim=0).values for errors in self.errors.unbind(dim=1)]
        return torch.stack(rows)

    def products(self, direction: Tensor, center: Tensor) -> Tensor:
        """<g - center, V> of each gradient g with a matrix V."""
        return ((self.errors @ direction) * self.features).sum(dim=-1) - (center * direction).sum()

    def leading_direction(self, center: Tensor) -> Tensor:
        """The first right singular vector of the rows g - center, as a K x d matrix of length 1, by the power method.

        It starts from the longest row, which is not orthogonal to the vector except by accident.
        """
        inner = (center * center).sum() - 2 * self.products(center, torch.zeros_like(center))
        lengths = self.errors.square().sum(dim=-1) * self.features.square().sum(dim=-1) + inner
        longest = int(lengths.argmax())
        start = torch.outer(self.errors[longest], self.features[longest]) - center
        direction = start / torch.linalg.vector_norm(start).clamp(min=1e-300)
        for _ in range(TURNS):
            weights = self.products(direction, center)
            turned = self.combined(weights) - weights.sum() * center
            length = torch.linalg.vector_norm(turned)
            if not length > 0:  # all rows are the center
                return direction
            before, direction = direction, turned / length
            if torch.linalg.vector_norm(direction - before) < SAME:
                break
        return direction
