"""The network of a stored detector: built again, filled with the stored weights, and proven to compute the same."""

import math
from collections.abc import Mapping
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from oodbench.data.preprocessing import ALREADY, Preprocessing
from oodbench.errors import UserError, said
from oodbench.learning import adapter, given_models
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.running.given.detector_files import NetworkCard, Stored
from oodbench.seeds import derive

NETWORK, HEAD, PROBE = "network.", "head.", "probe"  # names of tensors in the file, or how they begin
PROBES = 4  # images of noise whose logits show whether a network is the one that was stored
SAME = 0.01  # of the largest logit: what other machines and libraries may change, and other networks exceed
LARGEST = 2**28  # numbers of one image; more is a damaged file
NAMED = 5  # weights that a misfit names


def tensors_of(model: Classifier, card: NetworkCard, preprocessing: Preprocessing) -> dict[str, Tensor]:
    """What is stored of a network, by name: its weights, the head if that is not one of them, and a proof."""
    module = model if card.form is None else model.body  # an adapter's body is the whole network
    state = {name: each for name, each in module.state_dict().items() if isinstance(each, Tensor)}
    tensors = {NETWORK + name: each for name, each in state.items()}
    head = model.head.state_dict()
    if not all(any(torch.equal(each, own) for own in state.values()) for each in head.values()):
        tensors |= {HEAD + name: each for name, each in head.items()}
    tensors[PROBE] = _probed(model, card, preprocessing)
    return tensors


def rebuilt(stored: Stored, model: nn.Module | str | None) -> Classifier:
    """The network as a Classifier, on the CPU; `model` is its architecture, if given.

    A module that is given is copied: its own weights stay what they are.
    """
    card = stored.card.network
    expected = stored.tensors.get(PROBE)
    if expected is None or expected.ndim != 2:
        raise _another(card, "nothing is stored to verify it with")
    module = _architecture(card, model, classes=expected.shape[1])
    _load(module, stored.below(NETWORK), card)
    classifier = _classifier(module, card).eval().requires_grad_(False)
    head = stored.below(HEAD)
    if head:
        if _kinds(head) != _kinds(classifier.head.state_dict()):
            raise _another(card, "its head has another shape")
        classifier.head.load_state_dict(head)
    try:
        logits = _probed(classifier, card, stored.card.preprocessing)
    except UserError:
        raise
    except Exception as error:  # of the user's own code
        raise _another(card, f"{type(error).__name__}: {said(error)}") from error
    if expected.shape != logits.shape:
        raise _another(card, "it has another number of outputs")
    if not torch.allclose(logits, expected, rtol=0.0, atol=SAME * float(expected.abs().max()), equal_nan=True):
        raise _another(card, "it computes different logits with the same weights")
    return classifier


def _architecture(card: NetworkCard, model: nn.Module | str | None, classes: int) -> nn.Module:
    if isinstance(model, nn.Module):
        return deepcopy(model)
    if model is not None:
        return given_models.load_model(model, num_classes=classes, channels=card.input[0]).module
    if card.spec is None:
        example = card.text if card.text.partition(":")[0].endswith(".py") else "my_net.py:build"
        raise UserError(
            f"the network '{card.text}' is not stored as code; give it again: predict --model {example}, or "
            "Detector.load(path, model=...)"
        )
    return given_models.rebuild(card.spec)


def _adapted(module: nn.Module, card: NetworkCard) -> Classifier:
    """As when it was fitted, on other images: these are known wherever the detector goes."""
    batch = torch.from_numpy(_noise(card)).float().div(255)
    adapted = adapter.adapt(module.eval(), batch, card.mean, card.std, card.head, card.rows, card.features)
    if adapted.form != card.form:
        raise _another(card, f"its logits are {adapted.form} of its features, and not {card.form}")
    return adapted


def _classifier(module: nn.Module, card: NetworkCard) -> Classifier:
    if card.form is not None:
        return _adapted(module, card)
    if not isinstance(module, Classifier):
        raise _another(card, f"it is a {type(module).__name__}")
    return module


def _load(module: nn.Module, weights: Mapping[str, Tensor], card: NetworkCard) -> None:
    """All or nothing. Weights stay laid out as they were stored, which is what gives the same bits."""
    wanted = _kinds(module.state_dict())
    found = _kinds({name: weights[name] for name in sorted(weights)})
    misfits = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
    if misfits:
        named = ", ".join(f"'{name}'" for name in misfits[:NAMED])
        more = f" and {len(misfits) - NAMED:,} more" if len(misfits) > NAMED else ""
        raise _another(card, f"the stored weights do not fit {named}{more}")
    state = module.state_dict()
    state.update(weights)  # what a module notes beside its tensors is its own
    module.load_state_dict(state, assign=True)


def _kinds(state: Mapping[str, object]) -> dict[str, tuple[torch.Size, bool]]:
    """Shapes, and which tensors hold fractions: another precision fits, whole numbers do not."""
    return {name: (each.shape, each.is_floating_point()) for name, each in state.items() if isinstance(each, Tensor)}


def _another(card: NetworkCard, why: str) -> UserError:
    return UserError(f"this is not the network '{card.text}' that the detector was fitted with: {why}; give that one")


def _noise(card: NetworkCard) -> np.ndarray:
    """The same pixels on every machine."""
    if min(card.input) < 1 or math.prod(card.input) > LARGEST:
        raise UserError(f"no network takes images of {' x '.join(map(str, card.input))}; fit the detector again")
    rng = np.random.default_rng(derive("detector", "probe"))
    return rng.integers(0, 256, (PROBES, *card.input), dtype=np.uint8)


def _probed(model: Classifier, card: NetworkCard, preprocessing: Preprocessing) -> Tensor:
    images = torch.from_numpy(_noise(card))
    if preprocessing.stated_by == ALREADY.stated_by:
        images = images.float().div(255)
    return forward(model, images).logits.cpu()
