"""The whole interface of a method: a Trainer says how the classifier learns, a Scorer how OOD an input looks.

A file in `methods/` holds one subclass of either. Fields are hyperparameters: plain values with a type and a default.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from oodbench.data import Batch, Data
from oodbench.networks import Classifier
from oodbench.outputs import Outputs
from oodbench.training import Loop

__all__ = ["Batch", "Classifier", "Data", "Loop", "Outputs", "Scorer", "Trainer"]


@dataclass
class Trainer:
    """How the classifier learns. Override `loss`, or `train` for more than one loss after another."""

    display: ClassVar[str | None] = None  # how tables print it; else the class's name, or the file's
    group: ClassVar[str | None] = None  # of a table's rows; else one of the paper's three
    needs: ClassVar[frozenset[str]] = frozenset()  # of "wild", "environments"
    starts_from: ClassVar[str | None] = None  # the trainer whose weights this one fine-tunes
    scorer: ClassVar[str] = "energy"  # unless the user names another
    # What `--draws` draws a hyperparameter from: U(a,b) is uniform; 10**U(a,b) and 2**U(a,b) are powers of it; `int`
    # before these rounds down, `3 *` before that multiplies; {a,b,c} is one of these, equally likely.
    search: ClassVar[dict[str, str]] = {}

    @property
    def runs(self) -> int:
        """How often the recipe is run, for an estimate of the time."""
        return 1

    def extend(self, model: Classifier) -> None:
        """Give the network the parts this trainer adds to it, in place, before it trains or its weights are loaded.

        Afterwards `model.features(x)` is still N x d and the linear `model.head` still turns that into logits.
        """

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        """The loss of one batch."""
        return F.cross_entropy(model(batch.x), batch.y)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        """Change the model's weights in place."""
        for _ in loop.epochs(model, data, self.loss):
            pass


@dataclass
class Scorer(ABC):
    """One number per row, higher where the input looks more OOD."""

    display: ClassVar[str | None] = None  # as of a trainer
    group: ClassVar[str | None] = None

    def fit(self, train: Outputs) -> None:  # noqa: B027  (most scorers have nothing to fit)
        """Look once at the outputs and labels of the labelled training images."""

    @abstractmethod
    def score(self, out: Outputs) -> Tensor:
        """Scores of N rows, each on its own: a large split comes in parts."""
