"""The whole interface of a method: a Trainer says how the classifier learns, a Scorer how OOD an input looks.

A file in `methods/` holds one subclass of either. Fields are hyperparameters: plain values with a type and a default.
"""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from oodbench.learning.bank import Block, compare
from oodbench.learning.batches import Batch, Data
from oodbench.learning.environments import check_environments
from oodbench.learning.functional import logit_score
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs

__all__ = [
    "BankScorer",
    "Batch",
    "Block",
    "Classifier",
    "Data",
    "DomainTrainer",
    "Loop",
    "Outputs",
    "ReshapingScorer",
    "Scorer",
    "Trainer",
]


@dataclass
class Trainer:
    """How the classifier learns. Override `loss`, or `train` for more than one loss after another."""

    display: ClassVar[str | None] = None  # how tables print it; else the class's name, or the file's
    group: ClassVar[str | None] = None  # of a table's rows; else one of the paper's three
    needs: ClassVar[frozenset[str]] = frozenset()  # of "wild", "environments", "views", "outliers", "labels"
    adds: ClassVar[frozenset[str]] = frozenset()  # "ood-head": `extend` sets model.ood_head, which a scorer reads
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

        Afterwards `model.features(x)` is still N x d and the linear `model.head` still turns that into logits. A
        learned detector is a module `model.ood_head` of features, N x d to N x 1, higher where more OOD; see `adds`.
        """

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        """The loss of one batch."""
        return F.cross_entropy(model(batch.x), batch.y)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        """Change the model's weights in place."""
        for _ in loop.epochs(model, data, self.loss):
            pass


@dataclass
class DomainTrainer(Trainer):
    """Compares environments: a batch holds equally many rows of each, one environment after the other.

    Override `loss_across`, or `train_across` for more than a loss.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"environments"})
    rows: ClassVar[int] = 1  # of each environment that a step needs at least

    _: KW_ONLY
    environments: str = "native"  # or random:k, augment: made from the labeled images

    def __post_init__(self) -> None:
        check_environments(self.environments, self.name)

    @property
    def name(self) -> str:
        """On the command line: that of the file."""
        return type(self).__module__.split(".")[-1].removeprefix("oodbench_plugin_").replace("_", "-")

    def loss_across(self, model: Classifier, batch: Batch, count: int, loop: Loop) -> Tensor:
        """The loss of one batch of `count` environments."""
        return self.loss(model, batch)

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        """Change the model's weights in place; `data` is in `count` environments."""

        @wraps(self.loss_across)  # so that an error names its line
        def loss(model: Classifier, batch: Batch) -> Tensor:
            return self.loss_across(model, batch, count, loop)

        for _ in loop.epochs(model, data, loss):
            pass

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        data, count = loop.in_environments(data, self.environments, self.rows)
        self.train_across(model, data, count, loop)


@dataclass
class Scorer(ABC):
    """One number per row, higher where the input looks more OOD."""

    display: ClassVar[str | None] = None  # as of a trainer
    group: ClassVar[str | None] = None
    # "logits", "features and head", "distances" or "gradients": the rows of a table stand under it.
    reads: ClassVar[str | None] = None
    # Of "validation", "images", "nonnegative-features", "feature-maps", "ood-head".
    needs: ClassVar[frozenset[str]] = frozenset()

    def read_maps(self, maps: Tensor, model: Classifier) -> Tensor:
        """What the scorer keeps of the feature maps of some rows, N x C x H x W: as many numbers for each, N x m.

        Asked of a scorer that needs feature-maps, during the pass; it finds the numbers in `out.maps` afterwards.
        `model.pooled(maps)` turns maps into features.
        """
        raise NotImplementedError

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:  # noqa: B027  (most have nothing to fit)
        """Look once at the outputs and labels of the labeled training images, and of ID validation images if needed.

        What does not need these may leave them out: fit(self, train).
        """

    @abstractmethod
    def score(self, out: Outputs) -> Tensor:
        """Scores of N rows, each on its own: a large split comes in parts."""


@dataclass
class BankScorer(Scorer):
    """Compares rows with the bank, which is every training row, one block of the bank after the other.

    Scorers that are evaluated together share the products of rows and bank, and no table of all pairs is ever held.
    """

    def fit(self, train: Outputs, validation: Outputs | None = None) -> None:
        self.bank = train.features

    @abstractmethod
    def start(self, out: Outputs) -> Tensor:
        """What is carried from block to block, before the first."""

    @abstractmethod
    def meet(self, carried: Tensor, out: Outputs, block: Block) -> Tensor:
        """The same after one more block."""

    @abstractmethod
    def finish(self, carried: Tensor, out: Outputs) -> Tensor:
        """The scores, after the last."""

    def score(self, out: Outputs) -> Tensor:
        return compare([self], out)[0]


@dataclass
class ReshapingScorer(Scorer):
    """Computes other logits from changed features or a changed head, and scores these."""

    _: KW_ONLY
    base: Literal["energy", "max-logit", "msp", "gen"] = "energy"  # how the new logits are scored

    @abstractmethod
    def new_logits(self, out: Outputs) -> Tensor:
        """N x K."""

    def score(self, out: Outputs) -> Tensor:
        return logit_score(self.new_logits(out), self.base)
