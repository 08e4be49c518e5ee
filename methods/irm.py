"""M. Arjovsky et al., Invariant Risk Minimization, 2019; IRMv1 with the schedule of DomainBed (ICLR 2021).

The loss:

    L = mean_e R_e + λ mean_e (d/ds R_e(s z) at s = 1)², where R_e is CE in environment e, the square is estimated by
    the product of the derivatives on even and on odd rows, and λ is 1 while warming up
    With Adam, L is divided by max(1, λ). With SGD, λ is lowered until the gradient of λ times the penalty by z is at
    most as long as that of mean_e R_e.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, DomainTrainer, Loop, UserError
from oodbench.functional import gradient_norm, penalty_weight


def scale_gradient(logits: Tensor, y: Tensor) -> Tensor:
    """d/ds CE(s f(x), y) at s = 1, in closed form: the mean over rows of sum_k (p_k - 1[k = y]) f_k."""
    surplus = logits.softmax(dim=-1) - F.one_hot(y, logits.shape[-1])
    return (surplus * logits).sum(dim=-1).mean()


def risk_and_penalty(logits: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Means over environments of the cross-entropy and of the squared scale gradient."""
    risks, penalties = [], []
    for f, own in zip(logits.chunk(count), y.chunk(count), strict=True):
        risks.append(F.cross_entropy(f, own))
        # Even and odd rows give independent estimates, so the product estimates the square without bias.
        penalties.append(scale_gradient(f[::2], own[::2]) * scale_gradient(f[1::2], own[1::2]))
    return torch.stack(risks).mean(), torch.stack(penalties).mean()


def bounded_weight(weight: float, risk: Tensor, penalty: Tensor, logits: Tensor) -> Tensor:
    """Lambda, or what gives the penalty a gradient by the logits as long as the risk's."""
    pull = gradient_norm(risk, logits) / gradient_norm(penalty, logits).clamp(min=1e-12)
    return pull.clamp(max=weight)


@dataclass
class IRM(DomainTrainer):
    """Cross-entropy plus a penalty where one classifier is not optimal in every environment."""

    rows: ClassVar[int] = 2  # one for each estimate
    search: ClassVar[dict[str, str]] = {"penalty": "10**U(-1,5)", "warmup": "int 10**U(0,4)"}

    penalty: float = 100.0  # lambda
    warmup: int = 500  # steps with lambda = 1, as in DomainBed; at most half of the training
    _: KW_ONLY
    environments: str = "auto"  # the suite's own, or else random:2; or random:k, augment

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty < 0 or self.warmup < 0:
            raise UserError("irm.penalty and irm.warmup must be 0 or more; change --set")

    def loss_across(self, model: Classifier, batch: Batch, count: int, loop: Loop) -> Tensor:
        weight, restart = penalty_weight(loop.step, loop.steps_in_all, self.warmup, self.penalty)
        logits = model(batch.x)
        risk, penalty = risk_and_penalty(logits, batch.y, count)
        loop.record(risk=risk, penalty=penalty)
        if loop.recipe.optimizer == "adam":
            # As in the authors' code, a large lambda divides loss and weight decay; in DomainBed's it does not. Both
            # train by Adam, whose steps do not change with the scale of the loss.
            if restart:
                loop.restart_optimizer(shrink=max(weight, 1.0))
            return (risk + weight * penalty) / max(weight, 1.0)
        # Those of SGD do: divided, the risk would be learned lambda times more slowly. Undivided, the penalty ends in
        # NaN, being a product without lower bound. So it pulls at the logits at most as hard as the risk does: to first
        # order, no step raises the risk.
        if restart:
            loop.restart_optimizer()
        return risk + bounded_weight(weight, risk, penalty, logits) * penalty
