"""Networks of oodbench itself by name, with weights that a user gives."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import Tensor

from oodbench.errors import UserError, shown, unknown
from oodbench.learning import networks
from oodbench.learning.initial_weights import fill, our_name
from oodbench.learning.networks import Classifier, Network
from oodbench.learning.weight_files import read_tensors

FETCHING = ("weights", "pretrained")  # options of a network that read weights, which a detector brings itself


def load(
    text: str, weights: Path | None, num_classes: int | None, channels: int
) -> tuple[Classifier, dict[str, Any], str]:
    """A network by NAME[,option=value...], what `made` makes the same architecture from, and its text."""
    kind, *texts = text.split(",")
    network = _network(kind)
    options = _options(kind, network, texts)
    if weights is None:
        raise UserError(f"oodbench's networks come without weights; give those of '{kind}' with --weights FILE")
    tensors = read_tensors(weights)
    module, sizes = classifier(network(**options), tensors, num_classes, channels)
    fill(module, tensors, weights)
    written = [f"{name}={value}" for name, value in options.items()]
    return module, {"name": kind, "options": options, **sizes}, ",".join([kind, *written])


def made(spec: Mapping[str, Any]) -> Classifier:
    """The architecture alone; its weights are random."""
    network = _network(spec["name"])
    options = {key: value for key, value in spec.get("options", {}).items() if key not in FETCHING}
    checked = _checked(spec["name"], network, options)
    return classifier(network(**checked), None, spec.get("num_classes"), spec.get("channels", 3))[0]


def classifier(
    network: Network, tensors: Mapping[str, Tensor] | None, num_classes: int | None, channels: int
) -> tuple[Classifier, dict[str, int]]:
    """With as many classes and channels as the weights have; it leaves images as they are, for nobody says more."""
    found = {our_name(name): value for name, value in (tensors or {}).items()}
    head = found.get("head.weight")
    if head is not None and head.ndim == 2:
        num_classes = len(head)
    if num_classes is None:
        raise UserError("the network's number of classes is unknown; give its weights with --weights FILE")
    first = next((value for value in found.values() if value.ndim == 4), None)
    channels = channels if first is None else first.shape[1]
    body, dim = network.body(channels)
    model = Classifier(body, dim, num_classes, (0.0,), (1.0,))
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch leaves this form untyped
    return model, {"num_classes": num_classes, "channels": channels}


def _network(kind: str) -> type[Network]:
    """Of those that oodbench ships, which have the names of their files."""
    classes: dict[str, type[Network]] = {}
    for found in pkgutil.iter_modules(networks.__path__, f"{networks.__name__}."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Network) and value.__module__ == found.name:
                classes[found.name.rpartition(".")[2].replace("_", "-")] = value
    if kind not in classes:
        raise unknown("network of oodbench", kind, classes)
    return classes[kind]


def _options(kind: str, network: type[Network], texts: list[str]) -> dict[str, Any]:
    """`depth=40` and the like, as the fields of the network are typed."""
    given: dict[str, Any] = {}
    types = get_type_hints(network)
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"'{text}' is not an option of oodbench:{kind}; write option=value, after a comma")
        given[name] = _value(value, types.get(name, str))
    return _checked(kind, network, given)


def _value(text: str, kind: type) -> Any:
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _checked(kind: str, network: type[Network], options: dict[str, Any]) -> dict[str, Any]:
    types = get_type_hints(network)
    names = [each.name for each in fields(network)]
    for name, value in options.items():
        if name not in names:
            raise unknown(f"option of oodbench:{kind}", name, names)
        wanted = types[name]
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise UserError(
                f"{name}={shown(value)} is not of type {wanted.__name__}; correct the option of oodbench:{kind}"
            )
    return options
