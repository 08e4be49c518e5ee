"""H. Nam et al., Reducing Domain Gap by Reducing Style Bias, CVPR 2021; on the final features, as in DomainBed.

The objective:

    in turn: CE(head(SR(f)), y) by body and head; CE(style(CR(f)), y) by the style head;
    w_adv CE(style(CR(f)), uniform) by the body, where SR mixes the styles of rows and CR swaps their contents
    A row's style is the mean and variance of its features; its content is what is left when both are normalized.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, Loop, Trainer, UserError

EPSILON = 1e-5


def style(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of a row over its features."""
    return features.mean(dim=1, keepdim=True), features.var(dim=1, keepdim=True)


def restyled(features: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The rows normalized, then with another mean and variance."""
    own_mean, own_variance = style(features)
    return (features - own_mean) / (own_variance + EPSILON).sqrt() * (variance + EPSILON).sqrt() + mean


def style_randomised(features: Tensor) -> Tensor:
    """SR: each row with a style between its own and that of another row."""
    share = torch.rand(len(features), 1).to(features)  # alpha
    other = torch.randperm(len(features)).to(features.device)
    mean, variance = (share * own + (1 - share) * own[other] for own in style(features))
    return restyled(features, mean, variance)


def content_randomised(features: Tensor) -> Tensor:
    """CR: each row's style on the content of another row, which gets no gradient."""
    other = torch.randperm(len(features)).to(features.device)
    return restyled(features[other].detach(), *style(features))


@dataclass
class SagNet(Trainer):
    """Classifies by content under random styles, with features whose style tells nothing of the class."""

    search: ClassVar[dict[str, str]] = {"w_adv": "10**U(-2,1)"}

    w_adv: float = 0.1  # weight of the adversarial step; search: 10^U(-2,1)

    def __post_init__(self) -> None:
        if self.w_adv < 0:
            raise UserError(f"sagnet.w_adv={self.w_adv:g} is negative; choose 0 or more")

    def train(self, model: Classifier, data: Data, loop: Loop) -> None:
        style_head = nn.Linear(model.head.in_features, data.num_classes).to(loop.device)
        f, c, s = (loop.optimizer(module.parameters()) for module in (model.body, model.head, style_head))

        def descend(loss: Tensor, *optimizers: torch.optim.Optimizer) -> None:
            for each in (f, c, s):
                each.zero_grad(set_to_none=True)
            loss.backward()
            for each in optimizers:
                each.step()

        def step(batch: Batch) -> Tensor:
            risk = F.cross_entropy(model.head(style_randomised(model.features(batch.x))), batch.y)
            descend(risk, f, c)
            with torch.no_grad():
                features = model.features(batch.x)
            by_style = F.cross_entropy(style_head(content_randomised(features)), batch.y)
            descend(by_style, s)
            guesses = style_head(content_randomised(model.features(batch.x)))
            adversarial = -guesses.log_softmax(dim=1).mean()  # cross-entropy to the uniform distribution
            descend(self.w_adv * adversarial, f)
            loop.record(style=by_style, adversarial=adversarial)
            return risk

        for _ in loop.passes(model, data, step, [model, style_head, f, c, s]):
            pass
