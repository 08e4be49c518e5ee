"""M. Arjovsky et al., Invariant Risk Minimization, 2019; IRMv1 with the schedule of DomainBed (ICLR 2021)."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, DomainTrainer, Loop, UserError
from oodbench.functional import penalty_weight


def scale_gradient(logits: Tensor, y: Tensor) -> Tensor:
    """d/ds CE(s f(x), y) at s = 1, in closed form: the mean over rows of sum_k (p_k - 1[k = y]) f_k."""
    surplus = logits.softmax(dim=-1) - F.one_hot(y, logits.shape[-1])
    return (surplus * logits).sum(dim=-1).mean()


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
        # The authors' code divides loss and weight decay by a large lambda, DomainBed's does not. Both train by Adam,
        # whose steps do not change with the scale of the loss; those of SGD would, and the risk would be learned
        # lambda times more slowly.
        scale = max(weight, 1.0) if loop.recipe.optimizer == "adam" else 1.0
        if restart:
            loop.restart_optimizer(shrink=scale)
        return self.risk(model, batch, count, loop, weight) / scale

    def risk(self, model: Classifier, batch: Batch, count: int, loop: Loop, weight: float) -> Tensor:
        risks, penalties = [], []
        for f, y in zip(model(batch.x).chunk(count), batch.y.chunk(count), strict=True):
            risks.append(F.cross_entropy(f, y))
            # Even and odd rows give independent estimates, so the product estimates the square without bias.
            penalties.append(scale_gradient(f[::2], y[::2]) * scale_gradient(f[1::2], y[1::2]))
        risk, penalty = torch.stack(risks).mean(), torch.stack(penalties).mean()
        loop.record(risk=risk, penalty=penalty)
        return risk + weight * penalty
