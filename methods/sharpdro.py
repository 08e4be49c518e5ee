"""Z. Huang et al., Robust Generalization against Photon-Limited Corruptions via Worst-Case Sharpness Minimization, CVPR
2023; where environments are known, as the released code computes it.

Besides the risk, what a step uphill in the weights adds to the risk is minimized, most of all in environments of high
risk. The code takes the risk before that step for a constant, so the gradient is that of the mean risk here and of the
weighted risks uphill.

The loss:

    L = mean_e R_e(θ) + Σ_e q_e [R_e(θ + ρ g / ‖g‖) − R_e(θ)], where R_e is CE in environment e, g is the gradient
    of mean_e R_e, and each step multiplies q_e by exp(η R_e) and divides by the sum of all; the bracket's R_e(θ) and
    ρ g / ‖g‖ are constants
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError
from oodbench.methods.groupdro import GroupWeights


@contextmanager
def kept_statistics(model: nn.Module) -> Iterator[None]:
    """Batch normalization uses the statistics of the batch and does not remember them."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


@dataclass
class SharpDRO(DomainTrainer):
    """Cross-entropy, and its sharpness in the environments where it is highest."""

    search: ClassVar[dict[str, str]] = {"eta": "10**U(-3,-1)"}

    rho: float = 0.05  # length of the step uphill
    eta: float = 0.01  # rate of the environments' weights; search: 10^U(-3,-1), as of groupdro
    _: KW_ONLY
    environments: str = "auto"  # the suite's own, or else random:2; or random:k, augment

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho <= 0 or self.eta < 0:
            raise UserError("sharpdro.rho must be above 0 and sharpdro.eta 0 or more; change --set")

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        weights = GroupWeights(count).to(loop.device)  # omega
        parameters = [p for p in model.parameters() if p.requires_grad]
        optimizer = loop.optimizer(parameters)

        def gradient(value: Tensor) -> tuple[Tensor, ...]:
            return torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)

        def risks_of(batch: Batch) -> Tensor:
            return F.cross_entropy(model(batch.x), batch.y, reduction="none").view(count, -1).mean(dim=1)

        def step(batch: Batch) -> Tensor:
            risks = risks_of(batch)
            here = gradient(risks.mean())
            weights.update(risks.detach(), self.eta)
            length = torch.stack([g.norm() for g in here]).norm() + 1e-12
            before = [p.detach().clone() for p in parameters]
            with torch.no_grad():
                for p, g in zip(parameters, here, strict=True):
                    p.add_(self.rho * g / length)
            with kept_statistics(model):
                sharpness = weights.q @ (risks_of(batch) - risks.detach())
            uphill = gradient(sharpness)
            with torch.no_grad():
                for p, old, first, second in zip(parameters, before, here, uphill, strict=True):
                    p.copy_(old)
                    p.grad = first + second
            optimizer.step()
            loop.record(risk=risks.mean(), sharpness=sharpness, largest_weight=weights.q.max())
            return risks.mean() + sharpness

        for _ in loop.passes(model, data, step, [model, weights, optimizer]):
            pass
