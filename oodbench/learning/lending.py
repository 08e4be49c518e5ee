"""What a scorer is given: copies of the outputs, and modules of its own around the weights that all scorers share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from oodbench.learning.loop import Failed
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import Outputs


class Lender:
    """Lends a network to scorers, to each its own for as long as all are evaluated, and sees what they do to it."""

    def __init__(self, model: Classifier) -> None:
        self.model = model
        self._networks: dict[str, Classifier] = {}  # of the scorers that went back to the network, by their keys
        self._weights: dict[str, Tensor] = {}  # as they were when they were first shared

    @contextmanager
    def to(self, name: str, key: str, shipped: bool) -> Iterator[Callable[[Outputs], Outputs]]:
        """Turns outputs into those for one call of a scorer; fails it if it changed the network meanwhile.

        One that oodbench ships is tested to change nothing, so it gets no copies, which would take memory; the weights
        are compared all the same. Any other has outputs and weights of its own: it may go on changing them when its
        turn is over.
        """

        def network() -> Classifier:
            if key not in self._networks:
                self._networks[key] = self._lent(own_weights=not shipped)
            return self._networks[key]

        changed: list[str] = []
        try:
            yield lambda out: out.lent(network, copied=not shipped)
        finally:
            if key in self._networks and shipped:
                changed = _restore(self.model, self._weights)
            elif key in self._networks:
                changed = _restore(self._networks[key], _tensors(self.model))
        if changed:
            raise Failed(
                f"'{name}' changed the network, which is to be the same for every image and scorer "
                f"({', '.join(changed[:3])}); change a copy: copy.deepcopy(out.model)"
            )

    def _lent(self, own_weights: bool) -> Classifier:
        """Modules of its own: a hook, a patched method or a replaced layer is nobody else's."""
        shared: dict[int, Any] = {}
        if not own_weights:
            self._weights = self._weights or {name: each.clone() for name, each in _tensors(self.model).items()}
            shared = {id(each): each for each in _tensors(self.model).values()}
        lent = deepcopy(self.model, shared)
        if self.model.body._compiled_call_impl is not None:  # which is not copied
            lent.body.compile()
        return lent


def _tensors(model: Classifier) -> dict[str, Tensor]:
    """Parameters and buffers by name, also those that no state dictionary has."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _restore(network: Classifier, weights: Mapping[str, Tensor]) -> list[str]:
    """Give a network these weights again; the names of those that were others."""
    changed = []
    for name, each in _tensors(network).items():
        if name not in weights:  # of a layer that only this network has
            continue
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
