"""D. Li et al., Learning to Generalize: Meta-Learning for Domain Generalization, AAAI 2018; as in DomainBed.

A step that helps one environment shall also help another: the gradient there, after a trial step here, is added to
the gradient here. Second derivatives are left out.

The loss:

    L = mean over pairs of environments (i, j) of [R_i(θ) + β R_j(θ')], where R_e is CE in environment e,
    θ' is θ after a step of the optimizer on R_i, and the gradient of R_j is that by θ'
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError


@dataclass
class MLDG(DomainTrainer):
    """Cross-entropy in some environments plus that in others after a step on the first."""

    search: ClassVar[dict[str, str]] = {"beta": "10**U(-1,1)", "n_meta_test": "{1,2}"}

    beta: float = 1.0  # weight of the risk after the trial step; search: 10^U(-1,1)
    n_meta_test: int = 2  # environments to test on, at most all but one; search: {1,2}
    pairs: Literal["split", "published_cyclic"] = "split"  # published_cyclic: each environment is tested on the next

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0 or self.n_meta_test < 1:
            raise UserError("mldg.beta must be 0 or more and mldg.n_meta_test 1 or more; change --set")

    def draw(self, count: int) -> list[tuple[int, int]]:
        """Pairs of a training and a test environment."""
        order = torch.randperm(count).tolist()
        if self.pairs == "published_cyclic":
            return list(zip(order, order[1:] + order[:1], strict=True))
        test = min(self.n_meta_test, count - 1)
        return [(i, order[n % test]) for n, i in enumerate(order[test:])]

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        theta = list(named.values())
        trial = [nn.Parameter(p.detach().clone()) for p in theta]  # theta'
        outer = loop.optimizer(theta)
        inner = loop.optimizer(trial, betas=(0.0, 0.999))  # a single step has no momentum

        def gradient(risk: Tensor, parameters: list[nn.Parameter]) -> tuple[Tensor, ...]:
            return torch.autograd.grad(risk, parameters, allow_unused=True, materialize_grads=True)

        def step(batch: Batch) -> Tensor:
            x, y = batch.x.chunk(count), batch.y.chunk(count)
            pairs = self.draw(count)
            total = torch.zeros((), device=loop.device)
            outer.zero_grad(set_to_none=True)
            for i, j in pairs:
                risk = F.cross_entropy(model(x[i]), y[i])
                here = gradient(risk, theta)
                with torch.no_grad():
                    for ahead, p, g in zip(trial, theta, here, strict=True):
                        ahead.copy_(p)
                        ahead.grad = g
                inner.state.clear()  # each trial step is the first of its optimizer
                inner.step()
                after = F.cross_entropy(functional_call(model, dict(zip(named, trial, strict=True)), (x[j],)), y[j])
                for p, g, h in zip(theta, here, gradient(after, trial), strict=True):
                    # DomainBed divides by the environments, also where there are fewer pairs; a mean keeps the step.
                    share = (g + self.beta * h) / len(pairs)
                    p.grad = share if p.grad is None else p.grad + share
                total += (risk + self.beta * after).detach() / len(pairs)
            outer.step()
            return total

        for _ in loop.passes(model, data, step, [model, outer]):
            pass
