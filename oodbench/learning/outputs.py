"""One forward pass per weights and split: features and logits, shared by every scorer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from oodbench.learning.networks import Classifier
from oodbench.learning.rows import Streamed, to_input


@dataclass(frozen=True)
class Outputs:
    """What a scorer sees of a split: no test label ever, `y` is there only while fitting."""

    model: Classifier  # in eval mode, parameters frozen
    images: Tensor | Streamed  # uint8 rows, for scorers that go back to the input
    features: Tensor  # N x d, the input of the linear head
    logits: Tensor  # N x K
    y: Tensor | None = None

    def inputs(self) -> Iterator[Tensor]:
        """The images in row order as the model takes them, batch by batch."""
        for rows in self.images.split(_batch(self.images, self.model.device, largest=128)):
            yield to_input(rows, self.model.device)

    def split(self, size: int) -> "Iterator[Outputs]":
        """Consecutive rows, none copied."""
        for start in range(0, len(self.logits), size):
            some = slice(start, start + size)
            y = None if self.y is None else self.y[some]
            yield Outputs(self.model, self.images[some], self.features[some], self.logits[some], y)

    def lent(self, network: Callable[[], Classifier], copied: bool) -> "Outputs":
        """The same for one call of one scorer, `copied` or not; `network` is asked for that scorer's own network.

        A copy is made when it is asked for and not before: most scorers look at features or logits alone.
        """
        lent = object.__new__(_Lent)
        vars(lent).update(_of=self, _network=network)
        if not copied:
            vars(lent).update(images=self.images, features=self.features, logits=self.logits, y=self.y)
        return lent


class _Lent(Outputs):
    """What a scorer may change as it likes, since nobody else sees it; fields are made on demand."""

    _of: Outputs
    _network: Callable[[], Classifier]

    model = cached_property(lambda self: self._network())
    features = cached_property(lambda self: _copy(self._of.features))
    logits = cached_property(lambda self: _copy(self._of.logits))
    y = cached_property(lambda self: None if self._of.y is None else _copy(self._of.y))

    @cached_property
    def images(self) -> Tensor | Streamed:
        """Pictures are decoded anew for everybody."""
        images = self._of.images
        return images if isinstance(images, Streamed) else _copy(images)


_Lent.__name__ = "Outputs"  # as Python's own messages shall call it


def _copy(values: Tensor) -> Tensor:
    """A tensor like any other, whatever mode made the original."""
    with torch.inference_mode(False):
        return values.clone()


def _batch(images: Tensor | Streamed, device: torch.device, largest: int) -> int:
    """Rows to pass at once: few large images on a CPU, where activations of many outgrow its cache.

    WRN-40-2 then passes 111 images of 32x32 in a second; in batches of 256, 75.
    """
    return 32 if device.type == "cpu" and images.shape[-2] * images.shape[-1] >= 32 * 32 else largest


@torch.inference_mode()
def forward(model: Classifier, images: Tensor | Streamed, y: Tensor | None = None, size: int | None = None) -> Outputs:
    """Pass every image through the network once."""
    model.eval()
    features, logits = [], []
    for rows in images.split(size or _batch(images, model.device, largest=256)):
        features.append(model.features(to_input(rows, model.device)))
        logits.append(model.head(features[-1]))
    y = None if y is None else y.to(model.device)
    return Outputs(model, images, torch.cat(features), torch.cat(logits), y)
