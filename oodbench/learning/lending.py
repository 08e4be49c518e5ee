"""A network for one component that shares its weights with everybody: modules are copied, tensors are compared."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from oodbench.learning.networks import Classifier


def lent_network(model: Classifier) -> Classifier:
    """Modules of its own around the same weights: a hook, a patched method or a replaced layer is nobody else's."""
    shared: dict[int, Any] = {id(each): each for each in (*model.parameters(), *model.buffers())}
    lent = deepcopy(model, shared)
    if model.body._compiled_call_impl is not None:  # which is not copied
        lent.body.compile()
    return lent


def tensors_of(model: Classifier) -> dict[str, Tensor]:
    """Parameters and buffers by name, also those that no state dictionary has."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def restore_weights(model: Classifier, weights: Mapping[str, Tensor]) -> list[str]:
    """Give the network these weights again, which it had before; the names of those that were changed."""
    changed = []
    for name, each in tensors_of(model).items():
        if not _same(each, weights[name]):
            each.data = weights[name].detach().clone()
            changed.append(name)
        each.requires_grad_(False)
        each.grad = None
    return changed


def _same(one: Tensor, other: Tensor) -> bool:
    """To the bit: a weight that is not a number equals itself."""
    if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
        return False
    return torch.equal(one, other) or torch.equal(_bits(one), _bits(other))


def _bits(values: Tensor) -> Tensor:
    return values.detach().reshape(-1).view(torch.uint8)
