"""One forward pass per weights and split: features and logits, shared by every scorer."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from oodbench.data import Streamed, to_input
from oodbench.networks import Classifier


@dataclass(frozen=True)
class Outputs:
    """What a scorer sees of a split: no test label ever, `y` is there only while fitting."""

    model: Classifier  # in eval mode, parameters frozen
    images: Tensor | Streamed  # uint8 rows, for scorers that go back to the input
    features: Tensor  # N x d, the input of the linear head
    logits: Tensor  # N x K
    y: Tensor | None = None

    def inputs(self, size: int = 128) -> Iterator[Tensor]:
        """The images in row order as the model takes them, batch by batch."""
        for rows in self.images.split(size):
            yield to_input(rows, self.model.device)


@torch.inference_mode()
def forward(model: Classifier, images: Tensor | Streamed, y: Tensor | None = None, size: int = 256) -> Outputs:
    """Pass every image through the network once."""
    model.eval()
    features, logits = [], []
    for rows in images.split(size):
        features.append(model.features(to_input(rows, model.device)))
        logits.append(model.head(features[-1]))
    y = None if y is None else y.to(model.device)
    return Outputs(model, images, torch.cat(features), torch.cat(logits), y)
