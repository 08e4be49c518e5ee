"""The first images that a network of the user's sees: what goes wrong then is told in one line."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from oodbench.errors import UserError, said
from oodbench.learning.map_search import alike


def outputs_of(body: nn.Module, x: Tensor) -> Tensor:
    """The network's outputs for a batch, N x K, if it takes such images and gives such outputs."""
    try:
        given: Any = body(x)
    except UserError:
        raise
    except Exception as error:
        raise _refused(body, x, error) from error
    outputs = as_logits(given)
    if outputs.shape[:1] != x.shape[:1] or outputs.ndim != 2:
        wanted = f"{len(x)} x the number of classes"
        raise UserError(f"the network gives {_times(outputs)} numbers for {_times(x)} images; it should give {wanted}")
    if outputs.shape[1] < 2:
        raise UserError("the network gives one number for an image; give one with an output for every class")
    if not outputs.is_floating_point():
        raise UserError("the network gives whole numbers, perhaps classes; give one that ends in its logits")
    refuse_nan(outputs, "outputs")
    return outputs.float()


def as_logits(given: Any) -> Tensor:
    """Of what a network returns: a tensor, the first of several, or what is called `logits`."""
    if isinstance(given, Mapping) and "logits" in given:
        given = given["logits"]
    elif not isinstance(given, Tensor) and hasattr(given, "logits"):
        given = given.logits
    elif isinstance(given, tuple | list) and given:
        given = given[0]
    if not isinstance(given, Tensor):
        what = type(given).__name__
        raise UserError(f"the network gives '{what}', which holds no logits; let its forward return a tensor of them")
    return given


def refuse_nan(values: Tensor, what: str) -> None:
    bad = int((~values.isfinite()).flatten(1).any(dim=1).sum())
    if bad:
        kind = "NaN" if values.isnan().any() else "infinite numbers"
        raise UserError(
            f"the network gives {kind} for {bad} of {len(values)} images ({what}); "
            "check its weights, and the mean and std of its images"
        )


def refuse_chance(body: nn.Module, x: Tensor, outputs: Tensor) -> None:
    """Numbers that nobody can repeat are of no use, and nothing can be proven with them."""
    if not alike(as_logits(body(x)).float(), outputs):
        say = "leave out what is random in eval mode, as F.dropout(x, training=self.training)"
        raise UserError(f"the network gives different outputs for the same images each time; {say}")


def doubt_about(outputs: Tensor, tried: str) -> str | None:
    """What is to be said of a network without a head, of which some layers were `tried`."""
    softmax = _ends_in_softmax(outputs)
    if softmax is not None:
        return f"the network ends in a {softmax}, so its outputs are not logits; give the network without its {softmax}"
    if tried:
        return f"no linear layer gives this network's outputs ({tried}), so scorers see only its logits"
    return None


def _ends_in_softmax(outputs: Tensor) -> str | None:
    """`softmax` or `log-softmax`, where the outputs are probabilities or their logarithms."""
    values = outputs.double()
    one = torch.ones(len(values), dtype=values.dtype, device=values.device)
    if bool((values >= 0).all()) and torch.allclose(values.sum(dim=1), one, atol=1e-4):
        return "softmax"
    if bool((values <= 0).all()) and torch.allclose(values.exp().sum(dim=1), one, atol=1e-4):
        return "log-softmax"
    return None


def _refused(body: nn.Module, x: Tensor, error: Exception) -> UserError:
    """Torch's own words are about matrices inside the network; the reason is in the images or in the network."""
    taken, given = channels_of(body), x.shape[1] if x.ndim > 1 else 0
    if taken is not None and taken != given:
        say = "give images with as many channels, or a network that takes these"
        return UserError(f"the images have {_counted(given)}, and the network takes {taken}; {say}")
    kind = next((each.dtype for each in body.parameters() if each.is_floating_point()), torch.float32)
    if kind != torch.float32:
        name = str(kind).removeprefix("torch.")
        return UserError(f"the network's weights are {name}, images are float32; give it in float32: model.float()")
    reason = f"{type(error).__name__}: {said(error)[:200]}"
    if isinstance(error, RuntimeError | ValueError | AssertionError | IndexError):
        say = "give its images the size that it takes with --size"
    else:
        say = "correct its forward"
    return UserError(f"the network does not take images of shape {_times(x[0])} ({reason}); {say}")


def channels_of(body: nn.Module) -> int | None:
    """Of the images that the first convolution takes."""
    first = next((each for each in body.modules() if isinstance(each, nn.Conv2d)), None)
    return None if first is None else first.in_channels


def _counted(channels: int) -> str:
    return f"{channels} channel{'' if channels == 1 else 's'}"


def _times(values: Tensor) -> str:
    return " x ".join(map(str, values.shape)) or "single"
