"""What a user asks of a network of his own, whichever door it came in by: the command line or Python."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from oodbench.config.contents import FOLDER
from oodbench.data.listing import ENDINGS
from oodbench.errors import UserError
from oodbench.running.request import placeless

ALL = "all"  # in place of scorers: all that fit
PROBES = "probes"  # in place of a semantic set: what every machine has


@dataclass(frozen=True)
class GivenRequest:
    """A network and sets of images, or a file of its outputs. The names are those of the command line and of Python."""

    model: Any = None  # a text such as timm:resnet18, or an nn.Module
    weights: str | None = None
    arrays: str | None = None  # in place of a network and images: a file of outputs
    name: str | None = None
    head: str | None = None
    features: str | None = None  # the layer whose output is the features, of a network without a linear head
    classes: str | None = None  # a file of names, one for each output of the network
    mean: str | None = None
    std: str | None = None
    size: str | None = None

    suite: str | None = None
    preset: str | None = None
    settings: tuple[str, ...] = ()
    id: Any = None
    train: Any = None
    covariate: Mapping[str, Any] = field(default_factory=dict)  # by name
    semantic: Mapping[str, Any] = field(default_factory=dict)

    scorers: tuple[str, ...] = ()  # none: all that fit
    set: tuple[str, ...] = ()  # name.key=value
    plugins: tuple[str, ...] = ()
    results: str = "results"
    device: str = "auto"
    cpu_threads: int | None = None  # all cores unless said
    half_bank: bool = False  # distances are measured to training rows in half precision
    offline: bool = False
    available: bool = False  # leave out settings of a suite whose data is missing
    force: bool = False

    def __post_init__(self) -> None:
        if (self.model is None) == (self.arrays is None):
            raise UserError("give either a network, --model, or a file of its outputs, --arrays")
        if self.arrays is not None:
            _refuse(
                self, "a file of outputs has everything", "suite", "id", "train", "covariate", "semantic", "weights"
            )
        elif self.suite is not None:
            _refuse(self, "a suite has its own ID data", "id", "train")
            if PROBES in self.semantic.values():
                raise UserError("a suite has its own semantic sets; leave out --semantic probes, or --suite")
        elif self.id is None:
            raise UserError(
                "there are no ID images; give --suite, --id folder:PATH with a folder of images for each class, or "
                "--arrays"
            )
        if self.suite is None and (self.settings or self.preset or self.available):
            raise UserError("--setting, --preset and --available choose in a suite; give --suite, or leave them out")
        if self.cpu_threads is not None and self.cpu_threads < 1:
            raise UserError(f"--cpu-threads {self.cpu_threads} is out of range; choose 1 or more")

    @property
    def folder(self) -> Path:
        return Path(self.results)


NOT_ASKED = ("results", "device", "force")  # where and how, of which results tell in their own words


def recorded(asked: GivenRequest) -> dict[str, Any]:
    """What was asked, for a result to carry; of what is no text, the kind alone."""
    said = {each.name: getattr(asked, each.name) for each in fields(GivenRequest) if each.name not in NOT_ASKED}
    plain = {name: _plain(value) for name, value in said.items()}
    return {name: placeless(value) for name, value in plain.items() if value not in (None, False, [])}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [f"{name.strip(UNNAMED)}={_plain(each)}" for name, each in value.items()]
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | bool | None) else type(value).__name__


def _refuse(asked: GivenRequest, why: str, *names: str) -> None:
    for name in names:
        value = getattr(asked, name)
        if value is not None and not (isinstance(value, Mapping) and not value):
            raise UserError(f"{why}; leave out --{name}")


def given_request(**values: Any) -> GivenRequest:
    """A request from what a user wrote: one text or several, one set or several by name."""
    given = {name: value for name, value in values.items() if value is not None}
    for name in ("covariate", "semantic"):
        if name in given:
            given[name] = _by_name(given[name])
    for name in ("settings", "set", "plugins"):
        if name in given:
            given[name] = _texts(given[name])
    if "scorers" in given:
        given["scorers"] = _words(given["scorers"])
    for name, between in (("mean", ","), ("std", ","), ("size", "x")):
        if name in given:
            given[name] = _numbers(given[name], between)
    for name in ("weights", "arrays", "classes", "results", "suite"):
        if isinstance(given.get(name), os.PathLike):
            given[name] = os.fspath(given[name])
    if isinstance(given.get("model"), os.PathLike):
        given["model"] = os.fspath(given["model"])
    return GivenRequest(**given)


def _by_name(sets: Any) -> dict[str, Any]:
    """Sets by name, where the caller has names; otherwise by their places, and whoever reads them finds names."""
    if isinstance(sets, Mapping):
        return {str(name): each for name, each in sets.items()}
    if isinstance(sets, list | tuple) and sets and all(_names_a_set(each) for each in sets):
        return {f"{UNNAMED}{i}": each for i, each in enumerate(sets)}
    return {f"{UNNAMED}0": sets}


def _names_a_set(each: Any) -> bool:
    """Whether a text names a whole set, and not one image file of a list of these."""
    if not isinstance(each, str | os.PathLike):
        return False
    text = os.fspath(each)
    return text.startswith(FOLDER) or os.path.isdir(text) or not text.lower().endswith(ENDINGS)


UNNAMED = "\0"  # before the number of a set that its caller has not named


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        return tuple(f"{name}={each}" for name, each in value.items())
    each = [value] if isinstance(value, str | os.PathLike) else value
    return tuple(os.fspath(word) for word in each)


def _words(value: str | Sequence[str]) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else [*value]
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise UserError("no scorer given; name at least one, for example --scorers msp,knn")
    return () if ALL in words else tuple(words)


def _numbers(value: Any, between: str) -> str:
    """As the command line has them: `0.5,0.5,0.5`, `224x160`."""
    return between.join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
