"""Y. Li et al., Deep Domain Generalization via Conditional Invariant Adversarial Networks, ECCV 2018.

As in DomainBed.

The objective:

    as DANN, with D(f + v_y), where v_y is learned with D for each class, and every class weighs the same in CE(D, e)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from oodbench.methods.dann import DANN


@dataclass
class CDANN(DANN):
    """DANN for each class: a discriminator that knows the class cannot tell the environments."""

    def discriminator(self, widths: Sequence[int], num_classes: int) -> nn.Module:
        """Guesses the environment of a row from its features, moved by an embedding of its class."""
        embedding = nn.Embedding(num_classes, widths[0])
        return nn.ModuleDict({"class": embedding, "layers": super().discriminator(widths, num_classes)})

    def guesses(self, discriminator: nn.Module, features: Tensor, y: Tensor) -> Tensor:
        assert isinstance(discriminator, nn.ModuleDict)
        return discriminator["layers"](features + discriminator["class"](y))

    def balance(self, y: Tensor) -> Tensor:
        """w_i = 1 / (n_y C) for one of n_y rows of a class: each class weighs the same, however many rows it has."""
        count = (y[:, None] == y).sum(dim=1)
        return 1 / (count * (y.max() + 1))  # C ends with the last class of the batch, as in DomainBed
