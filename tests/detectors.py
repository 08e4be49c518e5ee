"""Detectors of the toy problem, for tests."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from oodbench.config.registry import Component, Registry
from oodbench.data.image_part import ImagePart
from oodbench.data.preprocessing import Preprocessing
from oodbench.learning.networks import Classifier
from oodbench.running.given.detector import Detector
from oodbench.running.given.fitting import fit_detector, network_card
from oodbench.testing.toy_problem import CLASSES, UNSEEN, toy, toy_images

PIXELS = Preprocessing(mean=(0.5,), std=(0.25,), size=(8, 8), stated_by="the user")
CLASS_NAMES = ("ant", "bee", "cat", "dog", "emu")


def part(images: Any, labels: Any, origin: str) -> ImagePart:
    rows = np.arange(len(images))
    return ImagePart(np.asarray(images), rows, np.asarray(labels), rows, origin)


def toy_model() -> Classifier:
    """The trained toy network, of its own for whoever asks."""
    model = toy().new_model()
    model.load_state_dict(toy().weights)
    return model.eval().requires_grad_(False)


def known(count: int, seed: int, noise: float = 40.0) -> Tensor:
    return toy_images(torch.arange(count) % CLASSES, seed, noise)


def unseen(count: int, seed: int) -> Tensor:
    return toy_images(CLASSES + torch.arange(count) % UNSEEN, seed)


def toy_detector(scorer: str = "knn", count: int = 200, plugins: Any = (), **changes: Any) -> Detector:
    """Fitted on the 200 labeled rows, with its line drawn by `count` others."""
    data, model, y = toy().data, toy_model(), torch.arange(count) % CLASSES
    train = part(data.labelled.images, data.labelled.y, "train")
    given: dict[str, Any] = {
        "train": train,
        "validation": part(data.id_validation, torch.arange(100) % CLASSES, "validation"),
        "id": part(known(count, 21), y, "held out"),
        "covariate": {"noisy": part(known(100, 23, noise=80.0), torch.arange(100) % CLASSES, "noisy")},
        "semantic": {"unseen": part(unseen(60, 22), np.full(60, -1), "unseen")},
        "classes": CLASS_NAMES,
        "preprocessing": PIXELS,
        "network": network_card(model, "toy_net.py:build", None, train),
    }
    component = Component(Registry(plugins).card(scorer))
    return fit_detector(model, scorer=component, **{**given, **changes})
