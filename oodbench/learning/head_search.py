"""Which layer of a network is its linear head, proven on a batch: W f + b are the network's outputs, or nearly so.

Nearly: the outputs may be scaled, and be cosines. The head that is found has effective weights for effective features,
so that it is a plain linear layer all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.errors import UserError, unknown

TOLERANCE = 1e-4  # of the largest output: what two ways to compute the same may differ by in float32
CONVENTIONAL = ("fc", "classifier", "classifier.fc", "heads.head", "head.fc", "head")  # names that torchvision gives


@dataclass(frozen=True)
class Head:
    """A layer of a network, and how the outputs come from its input."""

    name: str
    form: str
    weight: Tensor  # effective: K x d
    bias: Tensor | None
    unit: bool  # whether the effective features are of length 1


class Tried(NamedTuple):
    """A layer that could be the head, and how far from the outputs its best form is, relative to the largest."""

    name: str
    error: float
    head: Head | None  # if it is


def tried_heads(body: nn.Module, x: Tensor, outputs: Tensor) -> list[Tried]:
    """The layers with a row of weights for every output, those of timm's and torchvision's conventions first.

    After these the one that is called last comes first.
    """
    layers = {name: each for name, each in hookable(body).items() if _matrix(each, outputs.shape[1]) is not None}
    inputs = _inputs(body, x, layers)
    usual = _conventional(body, layers)
    names = list(reversed(inputs))
    names.sort(key=lambda name: name not in usual)  # which keeps the order among equals
    tried = (_tried(name, layers[name], inputs[name], outputs) for name in names)
    return [each for each in tried if each is not None]


def refuse_head(name: str, body: nn.Module, tried: list[Tried]) -> UserError:
    """Why the layer that a user named is not the head."""
    listed = candidates(tried)
    modules = dict(body.named_modules())
    if name not in modules:
        known = [each.name for each in tried] or [each for each in modules if each]
        return unknown("layer", name, known)
    if name not in {each.name for each in tried}:
        why = "has no row of weights for every output of the network, or is not called"
        return UserError(f"the layer '{name}' {why}; choose with --head among: {listed or 'none, leave --head out'}")
    return UserError(f"the network's outputs are not linear in the input of '{name}' ({listed}); leave --head out")


def candidates(tried: list[Tried]) -> str:
    """Those that were tried, and how far off they are."""
    return ", ".join(f"'{each.name}' is off by {_percent(each.error)} %" for each in tried)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share > 0.01 else f"{100 * share:.2g}"


def head_input(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """What a head was given, as N x d: of feature maps or tokens the average, with which a linear layer commutes."""
    given = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
    if given is None or given.ndim < 2 or not given.is_floating_point():
        return None
    if given.ndim > 2:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        given = averaged(given, maps=weight.ndim == 4)
    return given.float()


def averaged(given: Tensor, maps: bool) -> Tensor:
    """As N x d: the average over places, which come last in feature maps and before the features in tokens."""
    if given.ndim == 2:
        return given
    return given.flatten(2).mean(dim=2) if maps else given.flatten(1, -2).mean(dim=1)


def hookable(body: nn.Module) -> dict[str, nn.Module]:
    """The modules inside a network, by name, but those of TorchScript, which nobody can listen to."""
    return {name: each for name, each in body.named_modules() if not isinstance(each, torch.jit.ScriptModule)}


def _matrix(layer: nn.Module, rows: int) -> Tensor | None:
    """Its weights as K x d, if it has such: those of a linear layer, a 1x1 convolution or a head of the user's."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        return None
    if weight.ndim == 4 and weight.shape[2:] == (1, 1):
        weight = weight.flatten(1)
    return weight.detach() if weight.ndim == 2 and len(weight) == rows else None


def _inputs(body: nn.Module, x: Tensor, layers: dict[str, nn.Module]) -> dict[str, Tensor]:
    """What each layer was given when it was last called, in the order of these calls."""
    inputs: dict[str, Tensor] = {}

    def listen(name: str) -> Any:
        def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            inputs.pop(name, None)
            given = head_input(layer, args, kwargs)
            if given is not None and len(given) == len(x):
                inputs[name] = given

        return hook

    hooks = [each.register_forward_pre_hook(listen(name), with_kwargs=True) for name, each in layers.items()]
    try:
        body(x)
    finally:
        for hook in hooks:
            hook.remove()
    return inputs


def _conventional(body: nn.Module, layers: dict[str, nn.Module]) -> set[str]:
    """Where timm and torchvision have the head."""
    usual = {*CONVENTIONAL}
    classifier: Any = getattr(body, "get_classifier", None)
    if callable(classifier):
        head = classifier()
        usual |= {name for name, each in layers.items() if each is head}
    sequence = getattr(body, "classifier", None)
    if isinstance(sequence, nn.Sequential) and len(sequence):
        usual.add(f"classifier.{len(sequence) - 1}")
    return usual


def _tried(name: str, layer: nn.Module, features: Tensor, outputs: Tensor) -> Tried | None:
    weight = _matrix(layer, outputs.shape[1])
    bias = getattr(layer, "bias", None)
    if weight is None or features.shape[1] != weight.shape[1]:
        return None
    if not isinstance(bias, Tensor) or bias.shape != outputs.shape[1:]:
        bias = None
    largest, least = float(outputs.abs().max()), float("inf")
    for form, scale, matrix, offset, unit in _forms(features.double(), weight.double(), bias, outputs.double()):
        rows = F.normalize(features.double(), dim=-1) if unit else features.double()
        computed = scale * rows @ matrix.T + (0.0 if offset is None else offset)
        error = float((computed - outputs).abs().max())
        if error <= TOLERANCE * largest:
            kept = None if offset is None else offset.to(weight.dtype)
            return Tried(name, error, Head(name, form, (scale * matrix).to(weight.dtype), kept, unit))
        least = min(least, error / largest) if largest else least
    return Tried(name, least, None)


def _forms(
    f: Tensor, weight: Tensor, bias: Tensor | None, outputs: Tensor
) -> Iterator[tuple[str, float, Tensor, Tensor | None, bool]]:
    """Ways from features to outputs, the plainest first: name, s, weights, bias, and whether features are of length 1.

    s is fitted by least squares.
    """
    b = None if bias is None else bias.detach().double()
    yield ("W f" if b is None else "W f + b"), 1.0, weight, b, False
    if b is not None:
        s = _fitted(f @ weight.T + b, outputs)
        yield "s (W f + b)", s, weight, s * b, False
    row = F.normalize(weight, dim=-1)
    rest, more = (outputs, "") if b is None else (outputs - b, " + b")
    for form, matrix, unit in (
        ("s W f", weight, False),
        ("s cos(W, f)", row, True),
        ("s W f/|f|", weight, True),
        ("s (W/|W|) f", row, False),
    ):
        rows = F.normalize(f, dim=-1) if unit else f
        yield form + more, _fitted(rows @ matrix.T, rest), matrix, b, unit


def _fitted(computed: Tensor, outputs: Tensor) -> float:
    """The factor that brings one nearest to the other."""
    squares = float((computed * computed).sum())
    return float((computed * outputs).sum()) / squares if squares else 0.0
