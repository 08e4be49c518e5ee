"""Classifiers of torchvision by name, with its weights or the user's, and what it says of their images and classes."""

from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from torch import nn

from oodbench.data.preprocessing import Preprocessing
from oodbench.errors import UserError, said, unknown
from oodbench.learning.timm_models import INTERPOLATIONS, unknown_among_many
from oodbench.learning.weight_files import load_into, read_tensors, rows_of_the_last
from oodbench.torchvision_import import import_with_torchvision

RESCALING = ("googlenet", "inception_v3")  # whose weights want images rescaled inside the network


def load(text: str, weights: Path | None, num_classes: int | None) -> tuple[nn.Module, dict[str, Any], Any]:
    """A network, what `made` makes the same architecture from, and the weights of torchvision's that describe it.

    Of a file of weights those are described that have its name, and otherwise the best of torchvision's.
    """
    name, _, wanted = text.partition("/")
    stated = _weights(name, wanted, weights)
    spec: dict[str, Any] = {"name": name, "num_classes": _count(stated) or num_classes, **_options(name, stated)}
    if weights is not None:
        tensors = read_tensors(weights)
        spec["num_classes"] = rows_of_the_last(tensors, made(spec)) or num_classes
        module = made(spec)
        load_into(module, tensors, weights)
        return module, spec, stated
    module = made(spec)
    if stated is None:
        raise UserError(f"torchvision has no weights for '{name}'; give a file of them: --weights FILE")
    try:
        with redirect_stderr(StringIO()):  # where torch tells of every download
            state = stated.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except Exception as error:
        raise UserError(
            f"cannot get torchvision's weights {stated.name} of '{name}' ({said(error)[:100]}); "
            "give a file of them: --weights FILE"
        ) from None
    load_into(module, state, Path(Path(stated.url).name))
    return module, spec, stated


def made(spec: Mapping[str, Any]) -> nn.Module:
    """The architecture alone; its weights are random."""
    models = _models()
    _check_name(spec["name"])
    options = {key: value for key, value in spec.items() if key != "name" and value is not None}
    if spec["name"] in RESCALING:
        options["init_weights"] = False
    try:
        return models.get_model(spec["name"], weights=None, **options)
    except Exception as error:
        raise UserError(
            f"torchvision cannot make '{spec['name']}' ({said(error)[:100]}); choose another network"
        ) from None


def preprocessing(stated: Any) -> Preprocessing:
    """Of weights of torchvision's."""
    transforms = stated.transforms()
    side, kind = transforms.crop_size[0], transforms.interpolation.value
    return Preprocessing(
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        size=(side, side),
        resize=transforms.resize_size[0],
        interpolation=kind if kind in INTERPOLATIONS else "bilinear",
        stated_by="torchvision",
    )


def classes(stated: Any) -> tuple[str, ...]:
    return tuple(stated.meta["categories"])


def _models() -> Any:
    return import_with_torchvision("torchvision").models


def _check_name(name: str) -> None:
    known = _models().list_models(module=_models())  # its classifiers, not its detectors
    if name not in known:
        raise unknown_among_many("model of torchvision", name, known, "see torchvision.models.list_models()")


def _weights(name: str, wanted: str, file: Path | None) -> Any:
    _check_name(name)
    offered = {each.name: each for each in _models().get_model_weights(name)}
    if wanted and wanted not in (*offered, "DEFAULT"):
        raise unknown(f"weights of torchvision's {name}", wanted, offered)
    if wanted in offered:
        return offered[wanted]
    named = [each for each in offered.values() if file is not None and Path(each.url).name == file.name]
    return named[0] if named else _models().get_model_weights(name).DEFAULT if offered else None


def _count(stated: Any) -> int | None:
    return None if stated is None else len(stated.meta["categories"])


def _options(name: str, stated: Any) -> dict[str, Any]:
    """What torchvision changes in a network for weights of its own."""
    if stated is None:
        return {}
    if name in RESCALING:
        return {"transform_input": True}
    if name.startswith("vit_"):
        return {"image_size": stated.meta["min_size"][0]}
    return {"input_size": list(stated.meta["min_size"])} if name.startswith("maxvit") else {}
