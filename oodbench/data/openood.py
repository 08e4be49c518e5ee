"""What OpenOOD's CIFAR benchmarks fix: how a network sees images, and which image lists are near and far."""

from collections.abc import Iterable
from dataclasses import dataclass

from oodbench.data.preprocessing import Preprocessing

STATED_BY = "OpenOOD"


@dataclass(frozen=True)
class Benchmark:
    """Sets are named as the lists are, without `test_`."""

    name: str  # also of the ID set
    classes: int
    preprocessing: Preprocessing
    near: tuple[str, ...]
    far: tuple[str, ...] = ("mnist", "svhn", "texture", "places365")

    def group(self, name: str) -> str | None:
        """Whether a semantic set is near or far; None if it is no set of this benchmark."""
        own = set_name(name)
        return "near" if own in self.near else "far" if own in self.far else None

    def groups(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Those of these semantic sets that are near, and those that are far."""
        found: dict[str, list[str]] = {}
        for name in names:
            group = self.group(name)
            if group is not None:
                found.setdefault(group, []).append(name)
        return found


def _prepared(mean: tuple[float, ...], std: tuple[float, ...]) -> Preprocessing:
    return Preprocessing(mean, std, size=(32, 32), resize=32, interpolation="bilinear", stated_by=STATED_BY)


BENCHMARKS = (
    Benchmark("cifar10", 10, _prepared((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), near=("cifar100", "tin")),
    Benchmark("cifar100", 100, _prepared((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)), near=("cifar10", "tin")),
)


def of_classes(count: int) -> Benchmark | None:
    """The benchmark whose networks have so many classes."""
    return next((each for each in BENCHMARKS if each.classes == count), None)


def of_preprocessing(preprocessing: Preprocessing) -> Benchmark | None:
    """The benchmark whose networks see images so."""
    return next((each for each in BENCHMARKS if each.preprocessing == preprocessing), None)


def set_name(name: str) -> str:
    """What OpenOOD calls a set, by the name of its list."""
    return name.removeprefix("test_")
