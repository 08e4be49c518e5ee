"""Where a network has the feature maps that its features are the averages of, proven on a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from oodbench.learning.head_search import TOLERANCE, hookable

Side = Literal["input", "output"]
Listener = Callable[[Side, Any], None]


@dataclass(frozen=True)
class Place:
    """What a module is given, or gives: maps, N x C x H x W."""

    module: str
    side: Side


def alike(some: Tensor, others: Tensor) -> bool:
    """Up to what two ways to compute the same differ by."""
    if some.shape != others.shape:
        return False
    return float((some - others).abs().max()) <= TOLERANCE * float(others.abs().max())


def find_maps(body: nn.Module, x: Tensor, features: Tensor) -> Place | None:
    """The input of the last pooling layer whose average over space is the features.

    Many networks pool with a function: then the output of the last layer whose average is.
    """
    averages: dict[Place, Tensor] = {}
    small: set[Place] = set()  # of a single pixel, which are what comes after pooling

    def listen(name: str) -> Listener:
        def hear(side: Side, values: Any) -> None:
            place = Place(name, side)
            averages.pop(place, None)
            if isinstance(values, Tensor) and values.ndim == 4 and values.shape[:2] == features.shape:
                averages[place] = values.float().mean(dim=(2, 3))
                (small.add if values.shape[2:].numel() == 1 else small.discard)(place)

        return hear

    modules = hookable(body)
    with _heard({name: (each, listen(name)) for name, each in modules.items()}):
        body(x)
    held = [place for place, average in reversed(averages.items()) if alike(average, features)]
    pooled = [place for place in held if place.side == "input" and "Pool" in type(modules[place.module]).__name__]
    given = [place for place in held if place.side == "output" and place not in small]
    return next(iter([*pooled, *given]), None)


@contextmanager
def _heard(modules: dict[str, tuple[nn.Module, Listener]]) -> Iterator[None]:
    """Tell of what modules are given and give, while inside."""

    def given(hear: Listener) -> Any:
        return lambda _, args: hear("input", args[0] if args else None)

    def gives(hear: Listener) -> Any:
        return lambda _, args, output: hear("output", output)

    hooks = [each.register_forward_pre_hook(given(hear)) for each, hear in modules.values()]
    hooks += [each.register_forward_hook(gives(hear)) for each, hear in modules.values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def maps_at(place: Place, body: nn.Module, x: Tensor) -> Tensor | None:
    """The maps of these images."""
    seen: list[Tensor] = []

    def hear(side: Side, values: Any) -> None:
        if side == place.side and isinstance(values, Tensor):
            seen.append(values)

    with _heard({place.module: (body.get_submodule(place.module), hear)}):
        body(x)
    return seen[-1] if seen else None


def has_timms_maps(body: Any, x: Tensor, features: Tensor) -> bool:
    """Whether the halves that timm cuts networks in lead over feature maps to these features."""
    if not (hasattr(body, "forward_features") and hasattr(body, "forward_head")):
        return False
    try:
        maps = body.forward_features(x)
        pooled = body.forward_head(maps, pre_logits=True)
    except Exception:  # a method of that name, and not timm's
        return False
    are_maps = isinstance(maps, Tensor) and maps.ndim == 4
    return are_maps and isinstance(pooled, Tensor) and alike(pooled.float(), features)
