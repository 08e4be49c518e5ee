"""Networks of timm by name, with its weights or the user's, and what timm says of their images and classes."""

import logging
import math
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from torch import Tensor, nn

from oodbench.data.preprocessing import Preprocessing
from oodbench.errors import UserError, said, shortened
from oodbench.learning.weight_files import load_into, read_tensors
from oodbench.torchvision_import import import_with_torchvision

HUB = "hf-hub:"
IMAGENET = 1000  # classes
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")


def load(name: str, weights: Path | None, num_classes: int | None, channels: int) -> tuple[nn.Module, dict[str, Any]]:
    """A network, and what `made` makes the same architecture from."""
    if not name.startswith(HUB):
        _check_name(name)
    if weights is None:
        return _pretrained(name)
    tensors = read_tensors(weights)
    spec = {"name": name, **_sizes(name, tensors, num_classes, channels)}
    module = _made(spec)
    load_into(module, tensors, weights)
    return module, {**spec, "num_classes": getattr(module, "num_classes", None)}


def made(spec: Mapping[str, Any]) -> nn.Module:
    """The architecture alone; its weights are random. Only names of timm's own are taken, and nothing is fetched."""
    _check_name(spec["name"])
    return _made(spec)


def _made(spec: Mapping[str, Any]) -> nn.Module:
    timm = import_with_torchvision("timm")
    sizes = {name: spec[name] for name in ("num_classes", "in_chans") if spec.get(name) is not None}
    with _refused(f"timm cannot make '{spec['name']}'", "choose another network"), _at_once_if_there_is_no_network():
        return timm.create_model(spec["name"], pretrained=False, **sizes)


def preprocessing(module: nn.Module) -> Preprocessing | None:
    """What timm notes at a network of its own; None where that is for other channels than the network takes."""
    settings = import_with_torchvision("timm").data.resolve_model_data_config(module)
    channels, height, width = settings["input_size"]
    mean, std = tuple(settings["mean"]), tuple(settings["std"])
    first = next((each.in_channels for each in module.modules() if isinstance(each, nn.Conv2d)), channels)
    if first != len(mean):
        return None
    kind, share = settings["interpolation"], settings["crop_pct"]
    larger = tuple(math.floor(side / share) for side in (height, width))
    squeezed = settings.get("crop_mode") == "squash" or height != width
    return Preprocessing(
        mean=mean,
        std=std,
        size=(height, width),
        resize=(larger[0], larger[1]) if squeezed else larger[0],
        interpolation=kind if kind in INTERPOLATIONS else "bicubic",
        stated_by="timm",
    )


def imagenet_names() -> list[tuple[str, ...]]:
    """The names of ImageNet's classes in the order of every network's outputs: WordNet's number, then its words."""
    info = import_with_torchvision("timm").data.ImageNetInfo()
    words = (info.index_to_description(index).split(", ") for index in range(IMAGENET))
    return [(number, *names) for number, names in zip(info.label_names(), words, strict=True)]


def _check_name(name: str) -> None:
    timm = import_with_torchvision("timm")
    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if architecture not in known:
        raise unknown_among_many("model of timm", name, known, "see timm.list_models()")
    if tag and name not in (tagged := timm.list_pretrained(f"{architecture}.*")):
        raise unknown_among_many("weights of timm", name, tagged, f"known: {', '.join(tagged) or 'none'}")


def unknown_among_many(kind: str, name: str, known: Sequence[str], otherwise: str) -> UserError:
    """As `errors.unknown`, where the list of all names would fill the screen."""
    near = get_close_matches(name, known, n=3, cutoff=0.6) if len(name) < 100 else []
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else otherwise
    return UserError(f"unknown {kind} '{shortened(name)}'; {hint}")


def _pretrained(name: str) -> tuple[nn.Module, dict[str, Any]]:
    timm = import_with_torchvision("timm")
    if not name.startswith(HUB) and not timm.is_model_pretrained(name):
        raise UserError(f"timm has no weights for '{name}'; give a file of them: --weights FILE")
    what = f"cannot get timm's weights of '{name}'"
    with _refused(what, "give a file of them: --weights FILE"), _at_once_if_there_is_no_network():
        module = timm.create_model(name, pretrained=True)
    return module, {"name": name, "num_classes": module.num_classes, "in_chans": None}


@contextmanager
def _refused(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise UserError(f"{what} ({said(error)[:100]}); {remedy}") from None


@contextmanager
def _at_once_if_there_is_no_network() -> Iterator[None]:
    """The hub's client would try for a minute; what it has stored is used either way."""
    from huggingface_hub import constants

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every attempt
    before = constants.HF_HUB_OFFLINE
    try:
        if not getproxies():
            socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _sizes(name: str, tensors: Mapping[str, Tensor], num_classes: int | None, channels: int) -> dict[str, int | None]:
    """Classes and channels, as the file has them: timm knows what the first and the last layer are called."""
    settings = import_with_torchvision("timm").get_pretrained_cfg(name)
    last = _weight(getattr(settings, "classifier", None), tensors)
    first = _weight(getattr(settings, "first_conv", None), tensors)
    return {
        "num_classes": num_classes if last is None else len(last),
        "in_chans": channels if first is None or first.ndim != 4 else first.shape[1],
    }


def _weight(layer: Any, tensors: Mapping[str, Tensor]) -> Tensor | None:
    layer = layer[0] if isinstance(layer, tuple | list) and layer else layer
    ending = f".{layer}.weight"
    found = [value for name, value in tensors.items() if f".{name}".endswith(ending) and value.ndim > 1]
    return found[0] if found else None
