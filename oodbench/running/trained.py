"""Trained networks: the suite's network, what its trainers add to it, and its weights."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from oodbench.config.cards import catalogue, load_class
from oodbench.config.suite import Setting, Suite
from oodbench.data import splits
from oodbench.learning import precision
from oodbench.learning.batches import Data, Split, WildMixture
from oodbench.learning.networks import Classifier, Network
from oodbench.learning.rows import as_rows
from oodbench.running.cells import Training
from oodbench.seeds import derive


def build_model(suite: Suite, seed: int) -> Classifier:
    """The suite's network with the initial weights that a seed gives, the same for every trainer."""
    contents = suite.contents
    mean, std = splits.normalisation(suite)
    network: Network = load_class(catalogue("networks")[contents.network.name])(**contents.network.options)
    torch.manual_seed(derive(seed, "init"))
    body, dim = network.body(len(mean))
    model = precision.classifier(contents.precision)(body, dim, splits.num_classes(suite), mean, std)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch leaves this form untyped


def training_data(suite: Suite, parts: splits.Parts, setting: Setting | None) -> Data:
    """What a trainer may read: without a setting, nothing of the wild mixture."""
    env = None
    if parts.labelled.domains is not None:
        env = torch.from_numpy(np.unique(parts.labelled.domains, return_inverse=True)[1])
    labelled = Split(as_rows(parts.labelled.images), torch.from_numpy(parts.labelled.labels), env)
    if setting is None:
        return Data(labelled, splits.num_classes(suite))
    wild_id, covariate, semantic = (
        as_rows(part.images) for part in (parts.wild_id, parts.wild_covariate, parts.wild_semantic)
    )
    return Data(
        labelled,
        splits.num_classes(suite),
        WildMixture(wild_id, covariate, semantic, setting.pi_c, setting.pi_s, suite.contents.mixture),
        id_validation=as_rows(parts.id_validation.images),
        mixed_validation=as_rows(splits.mixed_validation(parts, setting)),
        id_test=as_rows(parts.id.images),
    )


@dataclass(frozen=True)
class Trained:
    model: Classifier
    log: list[dict[str, Any]]
    notes: dict[str, Any]
    seconds: float


def extended(untrained: Classifier, training: Training, device: torch.device) -> Classifier:
    """A copy with what a trainer and those it starts from add."""
    model, chain = deepcopy(untrained).to(device), [training]
    while chain[0].parent is not None:
        chain.insert(0, chain[0].parent)
    for each in chain:
        extend(model, each, device)
    return model


def extend(model: Classifier, training: Training, device: torch.device) -> None:
    """Let a trainer add to the network; the first weights of what it adds follow from the seed."""
    torch.manual_seed(derive(training.seed, "trainer"))
    training.trainer.make().extend(model)
    model.to(device)


def frozen(model: Classifier) -> Classifier:
    """Scorers that differentiate by the input then do not pay for the weights."""
    return model.eval().requires_grad_(False)
