"""A network of the user's before anything trains: new at each call, one seed one network, and able to take a step."""

from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F

from oodbench.config import networks
from oodbench.config.cards import FACTORY, load_class
from oodbench.config.suite import Suite
from oodbench.errors import UserError
from oodbench.learning.factories import Factory
from oodbench.learning.networks import Classifier
from oodbench.learning.precision import fresh_state
from oodbench.running.provenance import weights_digest
from oodbench.running.trained import build_model, image_side

ROWS = 8  # images of the step


def rehearse(suite: Suite, untrained: Classifier, device: torch.device) -> None:
    """Refuse what would fail in the middle of a training, or could not be repeated."""
    name = suite.contents.network.name
    if networks.card(name).is_ours:
        return
    with fresh_state(), networks.mistakes(name):
        again = build_model(suite, seed=0)
        if {*map(id, untrained.body.parameters())} & {*map(id, again.body.parameters())}:
            raise UserError(f"'{name}' returns the same layers each time; make them inside the function")
        if weights_digest(again) != weights_digest(untrained):
            raise UserError(
                f"'{name}' has other weights each time under one seed; draw them with torch's own functions"
            )
        _take_a_step(name, deepcopy(untrained).to(device), suite)


def _take_a_step(name: str, model: Classifier, suite: Suite) -> None:
    """Features while learning and while scoring, and a gradient."""
    images = torch.rand(ROWS, len(model.mean), *(image_side(suite),) * 2, device=model.device)
    shapes = []
    for learning in (True, False):
        features: object = model.train(learning).features(images)
        shapes.append(tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__)
    wanted = (ROWS, model.head.in_features)
    for shape, when in zip(shapes, ("while it learns", "when it is scored"), strict=True):
        if shape != wanted:
            raise UserError(f"'{name}' gives {shape} {when}, expected {wanted}: N x d features of {ROWS} images")
    F.cross_entropy(model.train()(images), torch.zeros(ROWS, dtype=torch.long, device=model.device)).backward()


def count(name: str, channels: int = 3, num_classes: int = 10) -> int:
    """Parameters of a network of the user's as its code makes it, with its options as they stand."""
    card = networks.card(name)
    with fresh_state(), networks.mistakes(name):
        made: Any = load_class(card)
        if card.kind == FACTORY:
            module = Factory(made, name, card.path, card.needs, {}, num_classes, side=0).made(channels)
        else:
            module = made().body(channels)[0]
        return sum(each.numel() for each in module.parameters())
