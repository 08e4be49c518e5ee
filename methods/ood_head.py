"""The detector that a trainer has learned beside its classifier, as in X. Du et al., How Does Unlabeled Data Provably
Help Out-of-Distribution Detection?, ICLR 2024.

The score:

    s = g(f), where g is the OOD head that the trainer has learned, without a logistic function behind it
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class OODHead(Scorer):
    """The output of the OOD head that the trainer has added to the network."""

    display: ClassVar[str] = "OOD head"
    reads: ClassVar[str] = "features and head"
    needs: ClassVar[frozenset[str]] = frozenset({"ood-head"})

    def score(self, out: Outputs) -> Tensor:
        head: Tensor = out.model.ood_head(out.features)
        return head.squeeze(dim=-1)
