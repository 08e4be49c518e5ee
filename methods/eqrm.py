"""C. Eastwood et al., Probable Domain Generalization via Quantile Risk Minimization, NeurIPS 2022; schedule of
DomainBed.

Environments are draws from a distribution of environments. A quantile of their risks bounds the risk in a new one with
that probability; it is read off a kernel density estimate.

The loss:

    L = mean_e R_e while warming up, then L = q with mean_e Φ((q − R_e) / h) = α, where R_e is CE in environment e,
    Φ is the normal distribution function, h = 1.06 s n^(−1/5), and s is the standard deviation of the n risks R_e
"""

import math
from dataclasses import KW_ONLY, dataclass
from statistics import NormalDist
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError

HALVINGS = 60


def quantile(risks: Tensor, alpha: float, gradient: Literal["exact", "bisection"] = "exact") -> Tensor:
    """q with F(q) = alpha, where F = mean_e Phi((q - R_e) / h), h = 1.06 s n^(-1/5) and s is the standard deviation.

    DomainBed finds q by halving an interval and differentiates the halving, of which only the ends of the interval
    move: its gradient is right for two environments and another for more.
    """
    risks = risks.double()
    h = 1.06 * (risks.var() + 1e-16).sqrt() * len(risks) ** -0.2  # above 0 where all risks are equal
    low, high = (end + h * NormalDist().inv_cdf(alpha) for end in (risks.amin(), risks.amax()))
    with torch.no_grad():
        a, b = low, high
        for _ in range(HALVINGS):
            middle = (a + b) / 2
            is_above = torch.special.ndtr((middle - risks) / h).mean() > alpha
            a, b = torch.where(is_above, a, middle), torch.where(is_above, middle, b)
        q = (a + b) / 2
        share = ((q - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
        density = torch.exp(-((q - risks) / h).square() / 2).mean() / (math.sqrt(2 * math.pi) * h)
    if gradient == "bisection":
        return low + share * (high - low)
    # A step of Newton's method moves q no more, and its derivative is that of q.
    return q - (torch.special.ndtr((q - risks) / h).mean() - alpha) / density


@dataclass
class EQRM(DomainTrainer):
    """A quantile of the environments' risks, after some steps of their mean."""

    search: ClassVar[dict[str, str]] = {
        "alpha": "U(0.5,0.99)",
        "warmup": "int 10**U(2.5,3.5)",
        "slowdown": "10**U(-2.7,-0.7)",
    }

    alpha: float = 0.75  # which quantile
    warmup: int = 2500  # steps with the mean of the risks, as in DomainBed; at most half of the training
    slowdown: float = 0.02  # the learning rate afterward, in those of the recipe; DomainBed has 1e-6 after 5e-5
    gradient: Literal["exact", "bisection"] = "exact"  # of the quantile; bisection: as DomainBed's code gives it
    _: KW_ONLY
    environments: str = "auto"  # the suite's own, or else random:2; or random:k, augment

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alpha < 1:
            raise UserError(f"eqrm.alpha={self.alpha:g} is out of range; choose a number between 0 and 1")
        if self.warmup < 0 or self.slowdown <= 0:
            raise UserError("eqrm.warmup must be 0 or more and eqrm.slowdown above 0; change --set")

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        parameters = [p for p in model.parameters() if p.requires_grad]
        first, second = loop.optimizer(parameters), loop.optimizer(parameters, lr=self.slowdown * loop.recipe.lr)

        def step(batch: Batch) -> Tensor:
            risks = F.cross_entropy(model(batch.x), batch.y, reduction="none").view(count, -1).mean(dim=1)  # R_e
            is_warming_up = loop.step < min(self.warmup, loop.steps_in_all // 2)
            value = risks.mean() if is_warming_up else quantile(risks, self.alpha, self.gradient).to(risks.dtype)
            optimizer = first if is_warming_up else second  # a new one, so that no momentum is left of the mean
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            loop.record(risk=risks.mean(), largest_risk=risks.amax())
            return value

        for _ in loop.passes(model, data, step, [model, first, second]):
            pass
