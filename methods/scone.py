"""H. Bai et al., Feed Two Birds with One Scone: Exploiting Wild Data for Both Out-of-Distribution Generalization and
Detection, ICML 2023.

Minimise the share of wild images taken for ID, such that few labelled images are taken for OOD and the cross-entropy
stays low; the margin asks the labelled images for more than that, and covariate-shifted ones profit.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError, forward, out_share, select_at_drop
from oodbench.functional import Constraint, energy, forward_both, gradient_norm

GRID = (0.0, -0.1, -0.5, -1.0, -2.0, -10.0, -20.0, -50.0)  # the margins of the paper's appendix


class PaperTerms(nn.Module):
    """sigma(-w E) on wild and sigma(w (E - eta)) on labelled images, with w > 0: it cannot turn over."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.u = nn.Parameter(torch.tensor(0.5))

    @property
    def w(self) -> Tensor:
        return F.softplus(self.u)

    def taken_for_ood(self, e: Tensor) -> Tensor:
        return torch.sigmoid(self.w * (e - self.margin))

    def taken_for_id(self, e: Tensor) -> Tensor:
        return torch.sigmoid(-self.w * e)


class ReferenceTerms(nn.Module):
    """The released code: a weight of either sign, a bias, and the margin in the wild term, fed with L = -E."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.w = nn.Parameter(torch.tensor(-0.3465))  # what its seed 1 gives
        self.b = nn.Parameter(torch.tensor(-0.9668))

    def taken_for_ood(self, e: Tensor) -> Tensor:
        return torch.sigmoid(-self.w * e + self.b)

    def taken_for_id(self, e: Tensor) -> Tensor:
        return torch.sigmoid(-(self.w * (-e - self.margin) + self.b))


@dataclass
class SCONE(Trainer):
    """Wild images pushed out under two constraints: labelled images kept in by a margin, cross-entropy kept low."""

    needs: ClassVar[frozenset[str]] = frozenset({"wild"})
    starts_from: ClassVar[str | None] = "erm"

    margin: float | Literal["auto"] = -10.0  # eta; auto: the paper's selection on validation data
    alarms: float = 0.05  # alpha: the share of labelled images that may be taken for OOD
    risk: float = 2.0  # tau, in cross-entropies of the starting model
    growth: float = 1.5  # of a penalty weight after an epoch that violates its constraint
    tolerance: float = 0.0  # of a violation
    bound: float = 1.0  # of a penalty weight times the learning rate; beyond, steps overshoot and diverge
    form: Literal["paper", "reference"] = "paper"  # reference: as the released code computes it
    threshold: Literal["validation", "test"] = "validation"  # ID images for margin=auto; test: as the paper did
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalisation uses

    def __post_init__(self) -> None:
        if self.margin != "auto" and self.margin > 0:
            raise UserError(f"scone.margin={self.margin:g} is positive; the margin is 0 or negative, for example -10")
        if self.margin != "auto" and self.threshold == "test":
            raise UserError("scone.threshold=test serves only scone.margin=auto; leave it out")
        if not 0 < self.alarms < 1 or self.risk <= 0 or self.growth < 1 or self.bound <= 0:
            name = type(self).__name__.lower()
            raise UserError(
                f"{name}: alarms must lie in (0, 1), risk and bound above 0, growth at 1 or above; change --set"
            )

    @property
    def runs(self) -> int:
        return len(GRID) if self.margin == "auto" else 1

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        if self.margin != "auto":
            self.train_with(self.margin, model, data, loop)
            loop.notes["out_share"] = [{"margin": self.margin, "share": out_share(model, data)}]
        else:
            select_at_drop("margin", GRID, self.train_with, model, data, loop, threshold=self.threshold)

    def train_with(self, margin: float, model: Classifier, data: Data, loop: Loop) -> None:
        assert data.wild is not None
        terms = (PaperTerms(margin) if self.form == "paper" else ReferenceTerms(margin)).to(loop.device)
        bound = max(1.0, self.bound / loop.recipe.lr)
        alarms = Constraint(self.growth, self.tolerance, bound).to(loop.device)
        risk = Constraint(self.growth, self.tolerance, bound).to(loop.device)
        decay = 0.0
        if self.form == "reference":
            risk.multiplier = alarms.multiplier  # one variable for both
            data = replace(data, wild=replace(data.wild, draw="three_masks"))
            decay = loop.recipe.weight_decay
        labelled, gradients = data.labelled, dict[str, Tensor]()

        @torch.no_grad()
        def on_training_set() -> tuple[float, float]:
            logits = forward(model, labelled.images).logits
            cross_entropy = F.cross_entropy(logits, labelled.y.to(logits.device))
            return terms.taken_for_ood(energy(logits)).mean().item(), cross_entropy.item()

        tau = self.risk * on_training_set()[1]

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, wild = forward_both(model, batch, self.bn_mode)
            parts = {
                "wild": terms.taken_for_id(energy(wild)).mean(),
                "alarms": alarms.penalty(terms.taken_for_ood(energy(logits)).mean() - self.alarms),
                "risk": risk.penalty(F.cross_entropy(logits, batch.y) - tau),
            }
            loop.record(**{f"{name}_term": value for name, value in parts.items()})
            if loop.first_of_epoch:
                gradients.update(
                    {f"{name}_gradient": gradient_norm(value, logits, wild) for name, value in parts.items()}
                )
            return parts["wild"] + parts["alarms"] + parts["risk"]

        for record in loop.epochs(model, data, loss, [terms, alarms, risk], decay):
            alarm_rate, cross_entropy = on_training_set()
            alarms.update(alarm_rate - self.alarms)
            risk.update(cross_entropy - tau)
            record |= {name: value.item() for name, value in gradients.items()}
            record |= alarms.log("alarms", alarm_rate - self.alarms) | risk.log("risk", cross_entropy - tau)
            record |= {"w": terms.w.item(), "margin": margin, "tau": tau}
