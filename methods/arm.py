"""M. Zhang et al., Adaptive Risk Minimization: Learning to Adapt to Domain Shift, NeurIPS 2021; contextual form, as in
DomainBed.

A small network turns the images of one environment into a context, which every image gets as another channel. At test
time it comes from the images of the batch, so predictions depend on those.

The loss:

    L = CE(z([x, c_e]), y), where c_e is the mean output of the context network over the images of environment e
    in the batch
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench import Batch, Classifier, Data, DomainTrainer, Loop, UserError

HIDDEN = 64  # channels inside the context network


def add_input_channel(body: nn.Module, channels: int) -> None:
    """Let the first layer see one channel more, with weights like those of the first."""
    first = next((m for m in body.modules() if isinstance(m, nn.Conv2d | nn.Linear)), None)
    if isinstance(first, nn.Conv2d) and first.in_channels == channels and first.groups == 1:
        first.weight = nn.Parameter(torch.cat([first.weight, first.weight[:, :1]], dim=1).detach())
        first.in_channels += 1
    elif isinstance(first, nn.Linear) and first.in_features % channels == 0:  # of flattened images
        pixels = first.in_features // channels
        first.weight = nn.Parameter(torch.cat([first.weight, first.weight[:, :pixels]], dim=1).detach())
        first.in_features += pixels
    else:
        raise UserError("arm adds a channel to the images, and this network cannot take one; choose another network")


class Convolution(nn.Conv2d):
    """5 x 5, the size kept."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__(channels, outputs, 5, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2:] == (1, 1):  # features in place of images: only the kernel's center meets one
            return F.conv2d(x, self.weight[:, :, 2:3, 2:3], self.bias)
        return super().forward(x)


class InContext(nn.Module):
    """A body that sees the mean context of the images around an image as its last channel."""

    support: Tensor

    def __init__(self, body: nn.Module, channels: int) -> None:
        super().__init__()
        self.body = body
        self.context = nn.Sequential(
            *(Convolution(channels, HIDDEN), nn.BatchNorm2d(HIDDEN), nn.ReLU()),
            *(Convolution(HIDDEN, HIDDEN), nn.BatchNorm2d(HIDDEN), nn.ReLU()),
            Convolution(HIDDEN, 1),
        )
        self.environments = 1  # in a training batch
        self.register_buffer("support", torch.tensor(0))  # rows that share a context when testing; 0: the whole batch

    def forward(self, x: Tensor) -> Tensor:
        groups = self.environments
        if not self.training:
            rows = int(self.support)
            groups = len(x) // rows if rows and len(x) % rows == 0 else 1
        context = self.context(x).unflatten(0, (groups, -1))
        context = context.mean(dim=1, keepdim=True).expand_as(context).flatten(0, 1)
        return self.body(torch.cat([x, context], dim=1))


@dataclass
class ARM(DomainTrainer):
    """Cross-entropy on images with a context as another channel, made from the images that come with them."""

    context: Literal["trained", "published"] = "trained"  # published: its network keeps its random weights

    def extend(self, model: Classifier) -> None:
        channels = len(model.mean)
        add_input_channel(model.body, channels)
        model.body = body = InContext(model.body, channels)
        body.context.requires_grad_(self.context == "trained")

    def train_across(self, model: Classifier, data: Data, count: int, loop: Loop) -> None:
        body = model.body
        assert isinstance(body, InContext)
        body.environments = count
        body.support.fill_(loop.recipe.batch_size // count)

        def loss(model: Classifier, batch: Batch) -> Tensor:
            body.context.train()  # also under freeze_bn: its statistics are new
            return F.cross_entropy(model(batch.x), batch.y)

        loop.notes["transductive"] = "predictions depend on the test batch"
        for _ in loop.epochs(model, data, loss):
            pass
