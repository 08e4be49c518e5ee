"""Prototypes of classes on the unit sphere, and the loss around them: what CIDER and HYPO share."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.errors import UserError
from oodbench.learning.batches import Data
from oodbench.learning.functional import class_templates
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward


def check_sphere(name: str, weight: float, temperature: float, momentum: float, dim: int) -> None:
    """Refuse hyperparameters that make no sense, in words of the method of that name."""
    if weight < 0:
        raise UserError(f"{name}.weight={weight:g} is negative; choose 0 or more")
    if temperature <= 0:
        raise UserError(f"{name}.temperature={temperature:g} is out of range; choose more than 0")
    if not 0 <= momentum < 1:
        raise UserError(f"{name}.momentum={momentum:g} is out of range; choose 0 or more, and less than 1")
    if dim < 2:
        raise UserError(f"{name}.dim={dim} is too small for a sphere; choose 2 or more")


def projected(model: Classifier, features: Tensor) -> Tensor:
    """u, the unit vectors that `model.projection` makes of features."""
    return F.normalize(model.get_submodule("projection")(features), dim=-1)


class Prototypes(nn.Module):
    """A unit vector for each class, the moving average of the projections of its images."""

    vectors: Tensor  # K x m

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors)

    @classmethod
    def of(cls, model: Classifier, data: Data) -> "Prototypes":
        """The means of the classes, as the network projects them before it trains."""
        passed = forward(model, data.labelled.images, data.labelled.y)
        assert passed.y is not None
        with torch.no_grad():
            parts = [projected(model, rows.features.clone()) for rows in passed.split(1000)]
            means = class_templates(torch.cat(parts), data.num_classes, passed.y)
            return cls(F.normalize(means, dim=-1).to(parts[0]))

    def follow(self, u: Tensor, y: Tensor, momentum: float) -> Tensor:
        """Each row in turn moves the prototype of its class: v <- unit(momentum v + (1 - momentum) u).

        What is returned has gradients by the rows of this batch; what is kept has none. Classes do not meet here, so
        that one row of every class moves at once: the first of each, then the second, until none is left.
        """
        classes, size = self.vectors.shape
        own = y[:, None] == torch.arange(classes, device=y.device)
        turn = own.cumsum(dim=0).gather(1, y[:, None]).squeeze(1) - 1
        turns = int(turn.max()) + 1
        slots = turn * classes + y
        rows = u.new_zeros(turns * classes, size).index_copy(0, slots, u).view(turns, classes, size)
        there = own.new_zeros(turns * classes).index_fill(0, slots, True).view(turns, classes, 1)
        vectors = self.vectors.clone()
        for some, present in zip(rows, there, strict=True):
            vectors = torch.where(present, F.normalize(momentum * vectors + (1 - momentum) * some, dim=-1), vectors)
        self.vectors.copy_(vectors.detach())
        return vectors


def compactness(u: Tensor, y: Tensor, prototypes: Tensor, temperature: float) -> Tensor:
    """The mean of -log softmax_k(u . v_k / tau) at k = y: rows are to lie near the prototype of their class."""
    return F.cross_entropy(u @ prototypes.T / temperature, y)


def dispersion(prototypes: Tensor, temperature: float) -> Tensor:
    """The mean over k of log 1/(K - 1) sum_{j != k} exp(v_k . v_j / tau): prototypes are to lie apart."""
    classes = len(prototypes)
    itself = torch.eye(classes, dtype=torch.bool, device=prototypes.device)
    others = (prototypes @ prototypes.T / temperature).masked_fill(itself, -torch.inf)
    return others.logsumexp(dim=-1).mean() - math.log(classes - 1)
