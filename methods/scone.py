"""H. Bai et al., Feed Two Birds with One Scone: Exploiting Wild Data for Both Out-of-Distribution Generalization and
Detection, ICML 2023.

Minimize the share of wild images taken for ID, such that few labeled images are taken for OOD and the cross-entropy
stays low; the margin asks the labeled images for more than that, and covariate-shifted ones profit.

The objective:

    min mean_wild σ(−w E)  subject to  mean_ID σ(w (E − η)) ≤ α  and  CE ≤ τ, where E = −log Σ_k exp z_k,
    w > 0 is learned, and τ is `risk` times the CE of the starting weights
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError, out_share, select_at_drop
from oodbench.functional import Limits, check_settings, forward_both

GRID = (0.0, -0.1, -0.5, -1.0, -2.0, -10.0, -20.0, -50.0)  # the margins of the paper's appendix


@dataclass
class SCONE(Trainer):
    """Wild images pushed out under two constraints: labeled images kept in by a margin, cross-entropy kept low."""

    needs: ClassVar[frozenset[str]] = frozenset({"wild"})
    starts_from: ClassVar[str | None] = "erm"

    margin: float | str = -10.0  # eta; 0.9x: of the median energy of labeled images; auto: the paper's selection
    alarms: float = 0.05  # alpha: the share of labeled images that may be taken for OOD
    risk: float = 2.0  # tau, in cross-entropies of the starting model
    growth: float = 1.5  # of a penalty weight after an epoch that violates its constraint
    tolerance: float = 0.0  # of a violation
    bound: float = 0.3  # of a penalty weight times the learning rate; beyond, steps overshoot and diverge
    every: int | Literal["epoch"] = "epoch"  # steps between updates of multipliers and penalty weights
    checked: int | Literal["all"] = "all"  # labeled images that the constraints are measured on
    form: Literal["paper", "reference"] = "paper"  # reference: as the released code computes it
    start: float | Literal["auto"] = "auto"  # of w in the paper's form; auto: the constraint on alarms is just met
    head_lr: float = 1e-4  # of w and b in the reference form, as released; a larger one turns w over
    threshold: Literal["validation", "test"] = "validation"  # ID images for margin=auto; test: as the paper did
    bn_mode: Literal["joint", "id_only", "frozen"] = "joint"  # whose statistics batch normalization uses

    def __post_init__(self) -> None:
        check_settings(self)
        if self.margin != "auto" and self.threshold == "test":
            raise UserError("scone.threshold=test serves only scone.margin=auto; leave it out")

    @property
    def runs(self) -> int:
        return len(GRID) if self.margin == "auto" else 1

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        if self.margin == "auto":
            select_at_drop("margin", GRID, self.train_with, model, data, loop, threshold=self.threshold)
            return
        self.train_with(self.margin, model, data, loop)
        loop.notes["out_share"] = [{"margin": loop.log[-1]["margin"], "share": out_share(model, data)}]

    def train_with(self, margin: float | str, model: Classifier, data: Data, loop: Loop) -> None:
        limits = Limits(self, margin, model, data, loop)
        decay, head_lr = 0.0, None
        if self.form == "reference":
            assert data.wild is not None
            data = replace(data, wild=replace(data.wild, draw="three_masks"))
            decay, head_lr = loop.recipe.weight_decay, self.head_lr

        def loss(model: Classifier, batch: Batch) -> Tensor:
            logits, wild = forward_both(model, batch, self.bn_mode)
            return limits.lagrangian(logits, batch.y, wild, loop)

        every = None if self.every == "epoch" else self.every
        for record in loop.epochs(model, data, loss, limits.modules, decay, head_lr, every):
            record |= limits.update(model)
        loop.notes["constraints"] = limits.met(loop.log)
        unfinished = limits.unfinished(loop.log)
        if unfinished is not None:
            loop.notes["not_converged"] = unfinished
