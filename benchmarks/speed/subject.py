"""What is measured on: noise images and an untrained network, one thread."""

import numpy as np
import torch

from oodbench.config.cards import catalogue, load_class
from oodbench.config.registry import Component, Registry
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.learning.networks import Classifier

CLASSES = 10
CLOSED_FORM = ("msp", "energy", "mahalanobis", "vim", "knn")

torch.set_num_threads(1)  # CPU time is then time


def network(name: str, channels: int = 3, **options: int) -> Classifier:
    """As a run builds it, frozen."""
    torch.manual_seed(0)
    body, dim = load_class(catalogue("networks")[name])(**options).body(channels)
    model = Classifier(body, dim, CLASSES, mean=(0.5,) * channels, std=(0.25,) * channels)
    return model.to(memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload]


def images(count: int, shape: tuple[int, int, int] = (3, 32, 32), seed: int = 0) -> ImagePart:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)
    rows = np.arange(count)
    return ImagePart(pixels, rows, rows % CLASSES, rows, f"noise {seed} of {shape}")


def parts(bank: int, each: int, shape: tuple[int, int, int] = (3, 32, 32)) -> Parts:
    """A training bank and three test splits."""
    unused = images(0, shape)
    found = dict.fromkeys(("wild_id", "wild_covariate", "wild_semantic", "id_validation"), unused)
    found |= dict.fromkeys(("mixed_id", "mixed_covariate", "mixed_semantic"), unused)
    tests = {split: images(each, shape, seed) for seed, split in enumerate(("id", "covariate", "semantic"), 1)}
    return Parts(labelled=images(bank, shape), **found, **tests)


def scorers(*names: str) -> list[Component]:
    registry = Registry()
    return [Component(registry.card(name)) for name in names]


def plain_pass(model: Classifier, *some: ImagePart, size: int = 32) -> torch.Tensor:
    """The bare loop: float32, channels last, batches of a size that suits a CPU, nothing kept but the logits."""
    logits = []
    with torch.inference_mode():
        for part in some:
            for rows in torch.from_numpy(part.whole).split(size):
                x = ((rows.float() / 255 - model.mean) / model.std).contiguous(memory_format=torch.channels_last)
                logits.append(model.head(model.body(x)))
    return torch.cat(logits)
