"""H. Bai, J. Zhang and R. Nowak, AHA: Human-Assisted Out-of-Distribution Generalization and Detection, NeurIPS 2024.

Labels are asked for where, among the wild images sorted by energy, semantic and covariate-shifted ones are equally
dense. Half of the budget finds that rank by a noisy binary search, the other half labels the images around it.

The loss:

    L = CE on labeled images + CE on wild images that were given a class
    + λ × (logistic loss of the head g(f), labeled images against wild images that were called semantic)
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError
from oodbench.functional import (
    SEMANTIC,
    detector_loss,
    energy,
    linear_ood_head,
    sent,
    to_input,
    wild_outputs,
    with_candidates,
)

UNKNOWN = -2  # the label of a wild image that nobody was asked for


@dataclass
class AHA(Trainer):
    """Asks for labels of wild images around the rank where semantic ones become rare, and learns from these."""

    needs: ClassVar[frozenset[str]] = frozenset({"wild", "labels"})
    adds: ClassVar[frozenset[str]] = frozenset({"ood-head"})
    starts_from: ClassVar[str | None] = "erm"
    scorer: ClassVar[str] = "ood-head"

    budget: int = 100  # labels of wild images; 1000 in the main results of the paper, 40 to 10,000 in its appendix
    weight: float = 10.0  # of the head's loss

    def __post_init__(self) -> None:
        if self.budget < 2:
            raise UserError(f"aha.budget={self.budget} is too small; choose 2 or more")
        if self.weight < 0:
            raise UserError(f"aha.weight={self.weight:g} is negative; choose 0 or more")

    def extend(self, model: Classifier) -> None:
        linear_ood_head(model)

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        _, wild = wild_outputs(model, data)
        assert data.wild is not None
        if self.budget > len(wild.logits):
            raise UserError(
                f"aha.budget={self.budget} exceeds the {len(wild.logits)} images of the wild set; choose fewer labels"
            )
        ranked = energy(wild.logits).argsort(descending=True).cpu()  # the most OOD first
        labels = self.ask_around(self.boundary(ranked, loop), ranked, loop)
        known = (labels >= 0).nonzero().squeeze(1)
        images, classes = data.wild.once(), labels[known].to(loop.device)
        images = images.index_select(0, known.to(images.device))
        data = with_candidates(data, labels == SEMANTIC, loop)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, detection = detector_loss(model, batch)
            loss = F.cross_entropy(logits, batch.y) + self.weight * detection
            if len(known) == 0:
                return loss
            some = sent(torch.randint(len(known), (len(batch),)), images.device)  # drawn on the CPU, as batches are
            x = to_input(images.index_select(0, some), loop.device)
            return loss + F.cross_entropy(model(x), classes[sent(some, loop.device)])

        for _ in loop.epochs(model, data, loss):
            pass

    def boundary(self, ranked: Tensor, loop: Loop) -> int:
        """lambda: the images ranked before it are taken for semantic, those from it on are not."""
        low, high, questions = 0.0, float(len(ranked)), self.budget // 2
        left = len(ranked) ** (-1 / questions)  # of the version space after a question, so that a rank is left at last
        answers: dict[int, bool] = {}  # whether the image of a rank is semantic

        def right(cut: float) -> int:
            return sum((rank < cut) == is_semantic for rank, is_semantic in answers.items())

        for _ in range(questions):
            open_ranks = [rank for rank in range(int(low), math.ceil(high)) if rank not in answers]
            if not open_ranks:
                break
            rank = open_ranks[int(torch.randint(len(open_ranks), ()))]
            answers[rank] = bool(loop.ask(ranked[rank : rank + 1]) == SEMANTIC)
            cut_off = (1 - left) * (high - low)
            worse = right(high) - right(low)  # above 0: the lower end is the worse hypothesis; of equals both move
            low += cut_off * (1.0 if worse > 0 else 0.5 if worse == 0 else 0.0)
            high -= cut_off * (1.0 if worse < 0 else 0.5 if worse == 0 else 0.0)
        cuts = range(int(low), math.ceil(high) + 1)
        best = [cut for cut in cuts if right(cut) == max(map(right, cuts))]
        return best[len(best) // 2]

    def ask_around(self, cut: int, ranked: Tensor, loop: Loop) -> Tensor:
        """Spend the rest of the budget; the labels of the wild set by row, UNKNOWN where nobody was asked."""
        assert loop.oracle is not None
        outwards = sorted(range(len(ranked)), key=lambda rank: (abs(rank - cut + 0.5), rank))
        asked = loop.oracle.asked
        rows = [row for row in ranked[outwards].tolist() if not asked[row]][: self.budget - loop.oracle.spent]
        loop.ask(torch.tensor(rows, dtype=torch.int64))
        labels, rows_asked = torch.full((len(ranked),), UNKNOWN), loop.oracle.asked.nonzero().squeeze(1)
        labels[rows_asked] = loop.ask(rows_asked)
        return labels
