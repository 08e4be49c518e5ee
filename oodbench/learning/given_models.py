"""Networks that a user brings: by the name of a library's, as code, or as a module from Python."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from oodbench.data import openood
from oodbench.data.preprocessing import Preprocessing
from oodbench.errors import UserError, shown
from oodbench.learning import model_code, openood_models, own_models, timm_models, torchvision_models
from oodbench.learning.initial_weights import fill
from oodbench.learning.networks import Classifier, Network
from oodbench.learning.weight_files import load_into, read_tensors

LARGEST = 100_000  # classes or channels, in what a file says


@dataclass(frozen=True)
class GivenModel:
    """A network and what is known about it."""

    module: nn.Module  # in eval mode
    name: str  # short, for tables and folders
    text: str  # as on the command line; of a module from Python, its class
    spec: dict[str, Any] | None  # what `rebuild` makes the same architecture from; None: only code of the user's can
    preprocessing: Preprocessing | None  # None: nobody says
    classes: tuple[str, ...]  # names of the outputs, where they are known
    weights: str | None  # the name of the file they came from


def load_model(text: str, weights: Path | None = None, num_classes: int | None = None, channels: int = 3) -> GivenModel:
    """A network by what the user writes: timm:NAME, torchvision:NAME[/WEIGHTS], openood:NAME,
    oodbench:NAME[,option=value...], FILE.py:function, or the name that an installed package gives its network.
    """
    library, colon, name = text.partition(":")
    if colon and library == "timm":
        return _of_timm(name, weights, num_classes, channels)
    if colon and library == "torchvision":
        return _of_torchvision(name, weights, num_classes)
    if colon and library == "openood":
        return _of_openood(name, weights)
    if colon and library == "oodbench":
        return _of_oodbench(name, weights, num_classes, channels)
    if text.rpartition(":")[0].endswith(".py"):
        return _of_code(text, *model_code.in_file(text), weights, num_classes, channels)
    if text.endswith(".py"):
        raise UserError(f"'{text}' may define many things; name the function that makes the network: {text}:function")
    if colon or weights_like(text):
        say = "timm:NAME, torchvision:NAME, openood:NAME, oodbench:NAME or FILE.py:function, and weights with --weights"
        raise UserError(f"--model '{text}' is not a network; give {say}")
    return _of_code(text, model_code.installed(text), None, weights, num_classes, channels)


def from_module(module: nn.Module, name: str | None = None) -> GivenModel:
    """A module from Python. What oodbench or timm note at it about images is believed."""
    if not isinstance(module, nn.Module):
        raise UserError(f"a network is a torch.nn.Module, not {shown(module)}; give the module itself")
    kind, preprocessing, classes = type(module).__name__, None, tuple[str, ...]()
    settings = getattr(module, "pretrained_cfg", None)
    if isinstance(module, Classifier):
        mean, std = (tuple(values.flatten().tolist()) for values in (module.mean, module.std))
        preprocessing = Preprocessing(mean, std, stated_by="oodbench")
    elif isinstance(settings, dict) and settings.get("num_classes") == getattr(module, "num_classes", None):
        preprocessing = timm_models.preprocessing(module)  # for other classes it was trained anew, who knows how
        classes = _imagenet_numbers(getattr(module, "num_classes", None))
    return GivenModel(module, _short(name or kind), kind, None, preprocessing, classes, None)


def rebuild(spec: dict[str, Any]) -> nn.Module:
    """The architecture that a detector was made with; it runs no code of the user's. Weights are random."""
    makers: dict[str, Callable[[Mapping[str, Any]], nn.Module]] = {
        "timm": timm_models.made,
        "torchvision": torchvision_models.made,
        "openood": openood_models.made,
        "oodbench": own_models.made,
    }
    maker = makers.get(str(spec.get("library")))
    rest = {name: value for name, value in spec.items() if name != "library" and value is not None}
    wrong = [name for name, value in rest.items() if not _is_sound(name, value)]
    if maker is None or wrong or "name" not in rest:
        raise UserError(f"nothing makes a network of {shown(spec)}; give it with --model")
    return maker(rest).eval()


def _is_sound(name: str, value: Any) -> bool:
    """Whether a file may say so of a network."""
    if name in ("num_classes", "in_chans", "channels", "image_size"):
        return type(value) is int and 1 <= value <= LARGEST
    if name == "input_size":
        return isinstance(value, list) and len(value) == 2 and all(_is_sound("image_size", side) for side in value)
    kinds = {"name": str, "options": dict, "transform_input": bool}
    return name in kinds and isinstance(value, kinds[name])


def output_names(model: GivenModel) -> list[tuple[str, ...]]:
    """All names of each output: those of ImageNet's classes are WordNet's numbers and words."""
    if len(model.classes) == timm_models.IMAGENET:
        imagenet = timm_models.imagenet_names()
        theirs = {name for names in imagenet for name in names}
        if sum(name in theirs for name in model.classes) > len(model.classes) / 2:  # torchvision words some otherwise
            return [
                (name, *(other for other in names if other != name))
                for name, names in zip(model.classes, imagenet, strict=True)
            ]
    return [(name,) for name in model.classes]


def weights_like(text: str) -> bool:
    return text.endswith((".pt", ".pth", ".safetensors", ".ckpt", ".bin"))


def _of_timm(name: str, weights: Path | None, num_classes: int | None, channels: int) -> GivenModel:
    module, spec = timm_models.load(name, weights, num_classes, channels)
    of_hub = name.startswith(timm_models.HUB)  # which holds options of the architecture that only it knows
    return GivenModel(
        module.eval(),
        _short(name.rpartition("/")[2] if of_hub else name),
        f"timm:{name}",
        None if of_hub else {"library": "timm", **spec},
        timm_models.preprocessing(module),
        _imagenet_numbers(getattr(module, "num_classes", None)),
        None if weights is None else weights.name,
    )


def _imagenet_numbers(classes: int | None) -> tuple[str, ...]:
    if classes != timm_models.IMAGENET:
        return ()
    return tuple(names[0] for names in timm_models.imagenet_names())


def _of_torchvision(text: str, weights: Path | None, num_classes: int | None) -> GivenModel:
    module, spec, stated = torchvision_models.load(text, weights, num_classes)
    name = text.partition("/")[0]
    names = () if stated is None else torchvision_models.classes(stated)
    return GivenModel(
        module.eval(),
        _short(name),
        f"torchvision:{name}" + (f"/{stated.name}" if stated is not None and weights is None else ""),
        {"library": "torchvision", **spec},
        None if stated is None else torchvision_models.preprocessing(stated),
        names if len(names) == spec["num_classes"] else (),
        None if weights is None else weights.name,
    )


def _of_openood(name: str, weights: Path | None) -> GivenModel:
    module, spec = openood_models.load(name, weights)
    benchmark = openood.of_classes(spec["num_classes"])
    preprocessing = None if benchmark is None else benchmark.preprocessing
    file = None if weights is None else weights.name
    spec = {"library": "openood", **spec}
    return GivenModel(module.eval(), _short(name), f"openood:{name}", spec, preprocessing, (), file)


def _of_code(
    text: str, factory: Any, path: Path | None, weights: Path | None, num_classes: int | None, channels: int
) -> GivenModel:
    """Of a function or class of the user's."""
    name = _short(text if path is None else path.stem)
    tensors = None if weights is None else read_tensors(weights)
    with model_code.in_one_line(text, path):
        if isinstance(factory, type) and issubclass(factory, Network):
            factory = factory()
        if isinstance(factory, Network):
            module: nn.Module = own_models.classifier(factory, tensors, num_classes, channels)[0]
        else:
            module = model_code.built(factory, text, path, num_classes)
    if tensors is not None and weights is not None:
        module = _filled(module, tensors, weights, lambda classes: model_code.built(factory, text, path, classes))
    file = None if weights is None else weights.name
    return GivenModel(module.eval(), name, text, None, None, (), file)


def _filled(
    module: nn.Module, tensors: Mapping[str, Tensor], path: Path, build: Callable[[int], nn.Module]
) -> nn.Module:
    """With the weights of a file, which may be for another number of classes."""
    if isinstance(module, Classifier):
        fill(module, tensors, path)
        return module
    try:
        load_into(module, tensors, path)
    except UserError:
        rows = [len(value) for value in tensors.values() if value.ndim == 2]
        if not rows:
            raise
        other = build(rows[-1])
        if _shapes(other) == _shapes(module):  # it is not for the function to say
            raise
        with suppress(UserError):
            load_into(other, tensors, path)
            return other
        raise
    return module


def _shapes(module: nn.Module) -> list[Any]:
    return [each.shape for each in module.state_dict().values() if isinstance(each, Tensor)]


def _of_oodbench(text: str, weights: Path | None, num_classes: int | None, channels: int) -> GivenModel:
    module, spec, written = own_models.load(text, weights, num_classes, channels)
    spec, file = {"library": "oodbench", **spec}, None if weights is None else weights.name
    return GivenModel(module.eval(), _short(spec["name"]), f"oodbench:{written}", spec, None, (), file)


def _short(name: str) -> str:
    """With the letters that names of folders have."""
    return re.sub(r"[^A-Za-z0-9.+_-]+", "-", name).strip("-.") or "network"
