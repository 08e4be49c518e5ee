"""Y. Ganin et al., Domain-Adversarial Training of Neural Networks, JMLR 2016; alternating steps as in DomainBed.

The objective:

    discriminator: L_D = CE(D(f), e) + ρ mean(‖∇_f CE(D(f), e)‖²)    network: L = CE(z, y) − λ L_D
    where D(f) are the discriminator's logits, e is the environment of an image, and the gradient is image by image
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError


def mlp(widths: Sequence[int], dropout: float) -> nn.Sequential:
    *hidden, last = pairwise(widths)
    layers = [(nn.Linear(*sizes), nn.Dropout(dropout), nn.ReLU()) for sizes in hidden]
    return nn.Sequential(*(layer for group in layers for layer in group), nn.Linear(*last))


@dataclass
class DANN(DomainTrainer):
    """Cross-entropy on features from which a discriminator cannot tell the environments."""

    search: ClassVar[dict[str, str]] = {
        "weight": "10**U(-2,2)",
        "d_steps_per_g_step": "int 2**U(0,3)",
        "grad_penalty": "10**U(-2,1)",
        "beta1": "{0,0.5}",
        "lr_d": "10**U(-5,-3.5)",
        "weight_decay_d": "10**U(-6,-2)",
        "width": "int 2**U(6,10)",
        "depth": "{3,4,5}",
        "dropout": "{0,0.1,0.5}",
    }

    weight: float = 1.0  # lambda, of the discriminator's loss; search: 10^U(-2,2)
    d_steps_per_g_step: int = 1  # steps of the discriminator for each of the network; search: int 2^U(0,3)
    grad_penalty: float = 0.0  # rho, of the discriminator's squared gradient by the features; search: 10^U(-2,1)
    penalty_on: Literal["loss", "published"] = "loss"  # published: the gradient of a wrongly indexed sum of softmaxes
    beta1: float = 0.5  # of both optimizers, their momentum under SGD; search: {0,0.5}
    lr_d: float | Literal["recipe"] = "recipe"  # of the discriminator; search: 10^U(-5,-3.5)
    weight_decay_d: float = 0.0  # of the discriminator; search: 10^U(-6,-2)
    width: int = 256  # of the discriminator; search: int 2^U(6,10)
    depth: int = 3  # its linear layers; search: {3,4,5}
    dropout: float = 0.0  # in it; search: {0,0.1,0.5}

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.weight, self.grad_penalty, self.weight_decay_d) < 0 or (self.lr_d != "recipe" and self.lr_d <= 0):
            raise UserError(
                f"{self.name}: weight, grad_penalty, weight_decay_d must be 0 or more, lr_d above 0; change --set"
            )
        if self.d_steps_per_g_step < 1 or self.width < 1 or self.depth < 2:
            raise UserError(
                f"{self.name}: d_steps_per_g_step and width must be 1 or more, depth 2 or more; change --set"
            )
        if not (0 <= self.beta1 < 1 and 0 <= self.dropout < 1):
            raise UserError(f"{self.name}: beta1 and dropout must lie in [0, 1); change --set")
        if self.penalty_on == "published" and self.grad_penalty == 0:
            raise UserError(
                f"{self.name}.penalty_on=published serves only {self.name}.grad_penalty above 0; set that, too"
            )

    def discriminator(self, widths: Sequence[int], num_classes: int) -> nn.Module:
        """Guesses the environment of a row from its features."""
        return mlp(widths, self.dropout)

    def guesses(self, discriminator: nn.Module, features: Tensor, y: Tensor) -> Tensor:
        return discriminator(features)

    def balance(self, y: Tensor) -> Tensor:
        """What the discriminator's errors weigh, row by row."""
        return torch.full(y.shape, 1 / len(y), device=y.device)

    def domain_loss(self, discriminator: nn.Module, features: Tensor, batch: Batch) -> Tensor:
        """L_D = CE(D(z), e) + rho mean_i |d (sum of CE) / dz_i|^2."""
        assert batch.env is not None
        guesses = self.guesses(discriminator, features, batch.y)
        errors = F.cross_entropy(guesses, batch.env, reduction="none")
        loss = self.balance(batch.y) @ errors
        if self.grad_penalty == 0:
            return loss
        if self.penalty_on == "loss":
            steep = errors.sum()
        else:
            steep = guesses.softmax(dim=1)[:, batch.env].sum()  # every row at every row's environment
        (gradient,) = torch.autograd.grad(steep, features, create_graph=True)
        return loss + self.grad_penalty * gradient.square().sum(dim=1).mean()

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        widths = [model.head.in_features, *[self.width] * (self.depth - 1), count]
        discriminator = self.discriminator(widths, data.num_classes).to(loop.device)
        betas, lr_d = (self.beta1, 0.9), None if self.lr_d == "recipe" else self.lr_d
        generator_steps = loop.optimizer([p for p in model.parameters() if p.requires_grad], betas=betas)
        discriminator_steps = loop.optimizer(discriminator.parameters(), lr_d, self.weight_decay_d, betas)

        def step(batch: Batch) -> Tensor:
            turn = (loop.step + 1) % (1 + self.d_steps_per_g_step) < self.d_steps_per_g_step  # the discriminator's
            with torch.set_grad_enabled(not turn):
                features = model.features(batch.x)
            features.requires_grad_()  # for the penalty
            risk = F.cross_entropy(model.head(features), batch.y)
            domain = self.domain_loss(discriminator, features, batch)
            loop.record(risk=risk, domain=domain)
            optimizer, loss = (discriminator_steps, domain) if turn else (generator_steps, risk - self.weight * domain)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            return risk

        for _ in loop.passes(model, data, step, [model, discriminator, generator_steps, discriminator_steps]):
            pass
