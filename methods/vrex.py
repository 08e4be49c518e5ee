"""D. Krueger et al., Out-of-Distribution Generalization via Risk Extrapolation, ICML 2021; schedule of DomainBed.

The loss:

    L = mean_e R_e + λ mean_e (R_e − mean_e R_e)², where R_e is CE in environment e, and λ is 1 while warming up
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, DomainTrainer, Loop, UserError
from oodbench.functional import penalty_weight


@dataclass
class VREx(DomainTrainer):
    """Cross-entropy plus the variance of the environments' risks."""

    search: ClassVar[dict[str, str]] = {"penalty": "10**U(-1,5)", "warmup": "int 10**U(0,4)"}

    penalty: float = 10.0  # lambda
    warmup: int = 500  # steps with lambda = 1, as in DomainBed; at most half of the training
    _: KW_ONLY
    environments: str = "auto"  # the suite's own, or else random:2; or random:k, augment

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty < 0 or self.warmup < 0:
            raise UserError("vrex.penalty and vrex.warmup must be 0 or more; change --set")

    def loss_across(self, model: Classifier, batch: Batch, count: int, loop: Loop) -> Tensor:
        weight, restart = penalty_weight(loop.step, loop.steps_in_all, self.warmup, self.penalty)
        if restart:
            loop.restart_optimizer()
        losses = F.cross_entropy(model(batch.x), batch.y, reduction="none")
        risks = torch.stack([of_one.mean() for of_one in losses.chunk(count)])  # R_e
        variance = risks.var(correction=0)
        loop.record(risk=risks.mean(), penalty=variance)
        return risks.mean() + weight * variance
