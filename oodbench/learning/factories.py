"""A user's function as a network: the module that it returns becomes a body that turns images into features."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from oodbench.errors import UserError, line_in, said
from oodbench.learning.networks import Network

ROWS = 2  # images that a new module is tried on
INSTEAD = "return a classifier that gives N x classes logits, or a body that gives N x d features"


class _Call(NamedTuple):
    """A linear layer at work."""

    layer: nn.Linear
    given: Tensor
    gave: Tensor


@dataclass
class Factory(Network):
    """A function that returns a classifier, whose last linear layer oodbench's head replaces, or a body."""

    make: Callable[..., object]
    name: str  # as the user wrote it
    path: Path
    takes: frozenset[str]  # which of `channels` and `num_classes` are parameters of it
    options: Mapping[str, Any]
    num_classes: int
    side: int  # of the images, in pixels

    def made(self, channels: int) -> nn.Module:
        """What the function returns."""
        known = {"channels": channels, "num_classes": self.num_classes}
        module = self.make(**{name: known[name] for name in sorted(self.takes)}, **self.options)
        if not isinstance(module, nn.Module):
            raise UserError(f"'{self.name}' returns {type(module).__name__}, which is not a torch.nn.Module; {INSTEAD}")
        return module

    def body(self, channels: int) -> tuple[nn.Module, int]:
        module = self.made(channels)
        images = torch.randn(ROWS, channels, self.side, self.side, generator=torch.Generator().manual_seed(0))
        module.eval()
        try:
            output, calls = _passed(module, images)
        except Exception as error:
            reason = f"{type(error).__name__} at {line_in(self.path, error)}: {said(error)}"
            raise UserError(
                f"'{self.name}' cannot read images of {channels} x {self.side} x {self.side}: {reason}; "
                "a function may take their number of channels as `channels`"
            ) from error
        features = self._checked(output)
        heads = [call for call in calls if call.layer.out_features == self.num_classes]
        if heads and heads[-1].gave.shape == features.shape:
            if not torch.equal(heads[-1].gave, features):
                raise UserError(f"'{self.name}' does more after its last linear layer; {INSTEAD}")
            module, features = self._without(module, heads[-1], images), heads[-1].given
        return module.train(), features.shape[1]

    def _checked(self, output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise UserError(f"'{self.name}' gives {type(output).__name__} for {ROWS} images; {INSTEAD}")
        if output.ndim != 2 or len(output) != ROWS or not output.is_floating_point():
            shape = " x ".join(map(str, output.shape)) or "one number"
            raise UserError(f"'{self.name}' gives {shape} ({output.dtype}) for {ROWS} images; {INSTEAD}")
        return output

    def _without(self, module: nn.Module, head: _Call, images: Tensor) -> nn.Module:
        """The module with nothing in place of its head, proven to give what the head was given."""
        places = [
            (owner, name) for owner in module.modules() for name, each in owner._modules.items() if each is head.layer
        ]
        for owner, name in places:
            setattr(owner, name, nn.Identity())
        body = module if places else nn.Identity()  # of a module that is nothing but the layer
        try:
            output = _passed(body, images)[0]
            proven = isinstance(output, Tensor) and torch.equal(output, head.given)
        except (AttributeError, TypeError, RuntimeError):  # it reads the weights of its head, say
            proven = False
        if not proven:
            raise UserError(
                f"'{self.name}' uses its last linear layer for more than its output; {INSTEAD}, without that layer"
            )
        return body


@torch.no_grad()
def _passed(module: nn.Module, images: Tensor) -> tuple[object, list[_Call]]:
    """What a module gives for images, and every call of a linear layer on the way."""
    calls: list[_Call] = []

    def note(layer: nn.Module, given: tuple[Any, ...], gave: Any) -> None:
        assert isinstance(layer, nn.Linear)
        if given:  # and not by keyword
            calls.append(_Call(layer, given[0], gave))

    hooks = [each.register_forward_hook(note) for each in module.modules() if isinstance(each, nn.Linear)]
    try:
        return module(images), calls
    finally:
        for hook in hooks:
            hook.remove()
