"""One toy problem for all tests: five classes of 8x8 images, a small network that has learnt them, and its outputs."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.cards import load_class
from oodbench.data import Data, Split, WildMixture
from oodbench.method import Classifier, Loop, Outputs
from oodbench.outputs import forward
from oodbench.recipe import Recipe
from oodbench.registry import Registry

torch.set_num_threads(1)  # tensors this small only lose by sharing; every test is faster so

CLASSES, UNSEEN = 5, 3


def toy_images(kinds: Tensor, seed: int, noise: float = 40.0) -> Tensor:
    """One uint8 image per kind: the kind's own smooth pattern under pixel noise (in grey levels of 0 to 255)."""
    coarse = torch.rand(CLASSES + UNSEEN, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    patterns = F.interpolate(coarse, size=8, mode="bilinear") * 255
    generator = torch.Generator().manual_seed(seed)
    pixels = patterns[kinds] + noise * torch.randn(len(kinds), 1, 8, 8, generator=generator)
    return pixels.clamp(0, 255).to(torch.uint8)


def toy_classifier() -> Classifier:
    """Two convolutions with batch normalisation, 16 features, the same initial weights at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        return Classifier(body, dim=16, num_classes=CLASSES, mean=(0.5,), std=(0.25,))


@pytest.fixture(scope="session")
def new_model():
    """A function that gives the untrained toy network."""
    return toy_classifier


@pytest.fixture(scope="session")
def toy_data() -> Data:
    """200 labelled rows of five classes in two environments, and a wild mixture with everything around it."""
    y = torch.arange(200) % CLASSES
    env = torch.arange(200) // 100
    images = torch.cat([toy_images(y[:100], seed=1, noise=30), toy_images(y[100:], seed=2, noise=50)])
    known, unseen = torch.arange(100) % CLASSES, CLASSES + torch.arange(60) % UNSEEN
    wild_id, covariate, semantic = toy_images(known, 3), toy_images(known, 4, noise=70), toy_images(unseen, 5)
    mixed = [toy_images(known[:40], 7), toy_images(known[:30], 8, noise=70), toy_images(unseen[:30], 9)]
    return Data(
        Split(images, y, env),
        CLASSES,
        WildMixture(wild_id, covariate, semantic, pi_c=0.3, pi_s=0.3),
        id_validation=toy_images(known, 6),
        mixed_validation=torch.cat(mixed),
        id_test=toy_images(known, 11),
    )


@pytest.fixture(scope="session")
def toy_weights(toy_data: Data) -> dict[str, Tensor]:
    """Of the toy network after training: it knows 95 % of its rows, and its features tell the classes apart."""
    model = toy_classifier()
    loop = Loop(Recipe(epochs=8, batch_size=40, lr=0.1), seed=0, device=torch.device("cpu"))
    load_class(Registry().card("erm"))().train(model, Data(toy_data.labelled, CLASSES), loop)
    return model.state_dict()


@pytest.fixture
def toy_model(toy_weights: dict[str, Tensor]) -> Classifier:
    """The trained toy network, frozen as a run freezes it."""
    model = toy_classifier()
    model.load_state_dict(toy_weights)
    return model.eval().requires_grad_(False)


@pytest.fixture
def train_outputs(toy_model: Classifier, toy_data: Data) -> Outputs:
    """Of the 200 labelled rows, with their labels."""
    return forward(toy_model, toy_data.labelled.images, toy_data.labelled.y)


@pytest.fixture
def unseen_outputs(toy_model: Classifier) -> Outputs:
    """Of 60 rows never trained on, without labels: 40 of known classes, then 20 of unseen ones."""
    kinds = torch.cat([torch.arange(40) % CLASSES, CLASSES + torch.arange(20) % UNSEEN])
    return forward(toy_model, toy_images(kinds, seed=10))
