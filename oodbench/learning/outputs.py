"""One forward pass per weights and split: features and logits, shared by every scorer."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from oodbench.errors import UserError, place_of
from oodbench.learning.collected import Collected
from oodbench.learning.networks import Classifier
from oodbench.learning.rows import Streamed, to_input

MapsReader = Callable[[Tensor, Classifier], Tensor]  # what a scorer keeps of feature maps: `Scorer.read_maps`


@dataclass(frozen=True)
class Outputs:
    """What a scorer sees of a split: no test label ever, `y` is there only while fitting.

    What many scorers compute of the same rows is computed once, when the first asks for it.
    """

    model: Classifier  # in eval mode, parameters frozen
    images: Tensor | Streamed  # uint8 rows, for scorers that go back to the input
    features: Tensor  # N x d, the input of the linear head
    logits: Tensor  # N x K
    y: Tensor | None = None
    maps: Tensor | None = None  # N x m, what this scorer's `read_maps` made of the feature maps

    @cached_property
    def weight(self) -> Tensor:
        """W of the linear head, K x d, in float64."""
        return self.model.head.weight.detach().double()

    @cached_property
    def bias(self) -> Tensor:
        """b of the linear head, zeros where it has none, in float64."""
        bias = self.model.head.bias
        return self.weight.new_zeros(len(self.weight)) if bias is None else bias.detach().double()

    @cached_property
    def unit(self) -> Tensor:
        """The features, each row of length 1, in float64; a row of zeros stays one."""
        return unit(self.features)

    @cached_property
    def descending(self) -> Tensor:
        """The features of each row, the largest first."""
        return self.features.sort(dim=-1, descending=True).values

    @cached_property
    def predicted(self) -> Tensor:
        """The class of the largest logit, the lowest of equals."""
        return self.logits.argmax(dim=-1)

    def inputs(self) -> Iterator[Tensor]:
        """The images in row order as the model takes them, batch by batch."""
        for rows in self.images.split(_batch(self.images, self.model.device, largest=128)):
            yield to_input(rows, self.model.device)

    def split(self, size: int) -> "Iterator[Outputs]":
        """Consecutive rows, none copied."""
        for start in range(0, len(self.logits), size):
            yield self.rows(slice(start, start + size))

    def rows(self, some: slice) -> "Outputs":
        y, maps = (None if each is None else each[some] for each in (self.y, self.maps))
        return Outputs(self.model, self.images[some], self.features[some], self.logits[some], y, maps)

    def copied(self) -> "Outputs":
        """For whoever may change what it is given; the network and the images are those that all see."""
        y, maps = (None if each is None else _copy(each) for each in (self.y, self.maps))
        return Outputs(self.model, self.images, _copy(self.features), _copy(self.logits), y, maps)


def unit(features: Tensor) -> Tensor:
    """Rows of length 1; one of zeros stays at the origin."""
    features = features.double()  # in float32 the differences of near rows cancel away
    return features / (torch.linalg.vector_norm(features, dim=-1, keepdim=True) + 1e-10)


def _copy(values: Tensor) -> Tensor:
    """A tensor like any other, whatever mode made the original."""
    with torch.inference_mode(False):
        return values.clone()


def _batch(images: Tensor | Streamed, device: torch.device, largest: int) -> int:
    """Rows to pass at once: few large images on a CPU, where activations of many outgrow its cache.

    WRN-40-2 then passes 111 images of 32x32 in a second; in batches of 256, 75.
    """
    return 32 if device.type == "cpu" and images.shape[-2] * images.shape[-1] >= 32 * 32 else largest


def forward(model: Classifier, images: Tensor | Streamed, y: Tensor | None = None, size: int | None = None) -> Outputs:
    """Pass every image through the network once."""
    return forward_reading(model, images, {}, y, size)[0]


@torch.inference_mode()
def forward_reading(
    model: Classifier,
    images: Tensor | Streamed,
    readers: Mapping[str, MapsReader],
    y: Tensor | None = None,
    size: int | None = None,
    passed: Callable[[int], None] | None = None,
) -> tuple[Outputs, dict[str, Tensor]]:
    """The same, and what each reader keeps of the feature maps, by its name.

    `passed` hears after every batch how many images have passed so far.
    """
    model.eval()
    features, logits = Collected(), Collected()
    read = {name: Collected() for name in readers}
    for rows in images.split(size or _batch(images, model.device, largest=256)):
        x = to_input(rows, model.device)
        if readers:
            maps = model.maps(x)
            found = model.pooled(maps)
            if len(features) == 0 and not _alike(found, model.features(x)):
                raise UserError("this network's features do not come from its feature maps alone; use another scorer")
            maps = maps.float().contiguous()  # whatever the network's precision and layout: readers may take a view
            for name, reader in readers.items():
                read[name].add(_one_row_each(reader, maps, model, read[name].width))
        else:
            found = model.features(x)
        features.add(found)
        logits.add(model.head(found))
        if passed is not None:
            passed(len(logits))
    y = None if y is None else y.to(model.device)
    outputs = Outputs(model, images, features.joined(), logits.joined(), y)
    return outputs, {name: some.joined() for name, some in read.items()}


def _alike(some: Tensor, others: Tensor) -> bool:
    """Up to rounding, which differs where a body is compiled: what is compiled is the whole of it."""
    if some.shape != others.shape:
        return False
    largest = float(others.abs().nan_to_num(0.0, 0.0).max())
    return torch.allclose(some, others, rtol=0.05, atol=0.05 * largest, equal_nan=True)


def _one_row_each(reader: MapsReader, maps: Tensor, model: Classifier, width: int | None) -> Tensor:
    """What a reader keeps of these maps, if it has a row for each of them, as wide as the rows before."""
    read: object = reader(maps, model)
    what = f"a {type(read).__name__}"
    if isinstance(read, Tensor):
        wide = read.shape[-1:] if width is None else (width,)
        if read.shape == (len(maps), *wide):
            return read.detach()
        what = f"shape {tuple(read.shape)}"
    say = "return a tensor of as many numbers for each row"
    raise UserError(f"{place_of(reader)}: read_maps gave {what} for {len(maps)} rows; {say}")
