"""How long a plan takes: the images that its trainings and cells pass, at the pace of a machine. Imports no torch.

A pace is measured in a few steps, and remembered in the data folder by machine, network and recipe. Where nobody has
measured it, it is estimated from the FLOPs of the network: `flops.json` has those of the shipped suites, and
`benchmarks/fidelity/flops.py` writes it.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from oodbench.config import networks
from oodbench.config.contents import NetworkChoice
from oodbench.config.recipe import Recipe
from oodbench.config.suite import Setting, Suite
from oodbench.data import counting, store
from oodbench.data.counting import Counts
from oodbench.errors import UserError
from oodbench.files import write_text
from oodbench.running.cells import Training, must_train
from oodbench.running.plan import Plan

FLOPS = Path(__file__).with_name("flops.json")  # of one image forward, by network and input
BACKWARD = 2  # forward passes that a backward pass costs
SCORER = 0.1  # of a pass, what a scorer costs besides the pass that it shares: 0.08 to 0.11 in results/reference
REMEMBERED = "paces.json"  # in the data folder


@dataclass(frozen=True)
class Pace:
    """How fast a machine passes images through a network."""

    trained: float  # images a second, forward and backward
    scored: float  # forward


@dataclass(frozen=True)
class Gpu:
    """What its maker says of it, in FLOPs a second by precision."""

    name: str
    peak: Mapping[str, float]


# A100: NVIDIA's data sheet of the A100 (SXM, 2020), without sparsity. T4: NVIDIA's data sheet of the T4 (2019).
A100 = Gpu("an A100", {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12})
T4 = Gpu("a T4", {"fp32": 8.1e12})  # which has neither TF32 nor bfloat16
# The share of the peak that convolutions of networks this narrow reach; the wider the units, the less of them is used.
REACHED = {"fp32": 0.35, "tf32": 0.12, "bf16": 0.08}
STEP = 0.005  # seconds that a training step takes on a GPU at least, for its operators are started one by one
CPU_THREAD = 40e9  # FLOPs a second of one thread of a CPU with AVX2, as they are reached


@dataclass(frozen=True)
class Costs:
    """Seconds that parts of a plan will take."""

    trainings: dict[str, float]  # by key
    cell: float  # the scoring of one
    cells: int = 0
    longest: float = 0.0  # of the trainings that start from one another, those that take longest together

    @property
    def seconds(self) -> float:
        """Of all in one process."""
        return sum(self.trainings.values()) + self.cell * self.cells

    def together(self, processes: int) -> float:
        """Of all in several, which share the work evenly as far as one training need not wait for another."""
        return max(self.seconds / max(1, processes), self.longest)


Known = TypeVar("Known")
PaceOf = Callable[[Suite, Recipe], Pace | None]
CountsOf = Callable[[Suite, Setting], Counts | None]


def costs(
    plan: Plan,
    pace_of: PaceOf,
    counts_of: CountsOf = counting.counts,
    runs: Callable[[Training], int] = lambda _: 1,
) -> Costs | None:
    """Of what a plan has to do, also of what waits for data; None where a pace or a number of images is unknown.

    `runs` says how often a training runs its recipe.
    """
    cells = [*plan.todo, *(cell for each in plan.waiting for cell in each.cells)]
    settings = {each.key: cell.setting for cell in cells for each in cell.training.chain}
    every = {each.key: each for cell in cells for each in cell.training.chain}
    chains = {key: each for key, each in every.items() if plan.only is None or key in plan.only}
    counted = {setting: counts_of(plan.suite, setting) for setting in {cell.setting for cell in cells}}
    seconds: dict[str, float] = {}
    scored: dict[tuple[str, Setting | None], float] = {}  # a pass of a training's labeled images, and of each setting's
    try:
        for key, training in chains.items():
            if must_train(training, plan.folder, plan.request.force):
                images = images_of(training, _known(counted[settings[key]])) * runs(training)
                seconds[key] = images / _known(pace_of(training.suite, training.recipe)).trained
        for cell in cells if plan.only is None else ():
            counts, pace = _known(counted[cell.setting]), _known(pace_of(cell.suite, cell.training.recipe))
            for place, images in ((None, counts.labelled), (cell.setting, counts.tested)):
                one = images / pace.scored
                scored[cell.training.key, place] = scored.get((cell.training.key, place), one) + SCORER * one
    except _Unknown:
        return None
    longest = max((sum(seconds.get(each.key, 0.0) for each in one.chain) for one in chains.values()), default=0.0)
    count = len(cells) if plan.only is None else 0
    return Costs(seconds, sum(scored.values()) / count if count else 0.0, count, longest)


class _Unknown(Exception):
    pass


def _known(value: Known | None) -> Known:
    if value is None:
        raise _Unknown
    return value


def images_of(training: Training, counts: Counts) -> float:
    """The images that a training passes forward and backward, in one run of its recipe."""
    recipe = training.recipe
    labelled = counts.base if training.reads_base and counts.base is not None else counts.labelled
    steps = -(-labelled // recipe.batch_size)
    if recipe.epoch_length == "shortest" and training.reads_wild:
        steps = max(1, min(steps, *(count // recipe.batch_size for count in counts.wild)))
    return recipe.steps(steps) * recipe.batch_size * training.images_of_a_step


def remembered(device: str) -> PaceOf:
    """What was measured on a device, by its name."""
    paces = _read()

    def pace_of(suite: Suite, recipe: Recipe) -> Pace | None:
        return paces.get(device, {}).get(kind_of(suite, recipe))

    return pace_of


def remember(device: str, paces: Mapping[str, Pace]) -> None:
    """Add what was measured on a device, by `kind_of`; where the data folder cannot be written, it is forgotten."""
    known = _read()
    known[device] = {**known.get(device, {}), **paces}
    values = {name: {kind: asdict(pace) for kind, pace in sorted(kinds.items())} for name, kinds in known.items()}
    with suppress(UserError):
        write_text(store.data_folder() / REMEMBERED, json.dumps(values, indent=1) + "\n")


def _read() -> dict[str, dict[str, Pace]]:
    """By device and kind; nothing where there is no file, or a damaged one, which the next measurement replaces."""
    try:
        values = json.loads((store.data_folder() / REMEMBERED).read_text(encoding="utf-8"))
        return {
            device: {kind: Pace(float(pace["trained"]), float(pace["scored"])) for kind, pace in kinds.items()}
            for device, kinds in values.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def measured_devices() -> list[str]:
    return [*_read()]


def cpu(threads: int) -> str:
    """The name of this machine's processor as a device, with the threads of a training."""
    return f"{cpu_model()}, {threads} thread{'' if threads == 1 else 's'}"


@cache
def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, UnicodeDecodeError):
        return platform.processor()


def kind_of(suite: Suite, recipe: Recipe) -> str:
    """What a pace depends on besides the machine: network and input, batches and their augmentation, precision."""
    network = network_kind(suite.contents.network, *counting.image_shape(suite))
    return f"{network}, batch {recipe.batch_size}, augment {recipe.augment}, {suite.contents.precision}"


def network_kind(choice: NetworkChoice, channels: int, side: int) -> str:
    """A network with every option that may change how much it computes, and what it is given."""
    own = {name: parameter.default for name, parameter in networks.card(choice.name).parameters.items()}
    options = {
        name: value for name, value in {**own, **choice.options}.items() if name not in ("weights", "pretrained")
    }
    words = [choice.name, *(f"{name}={value}" for name, value in sorted(options.items()))]
    return f"{' '.join(words)}, {channels}x{side}x{side}"


@cache
def _flops() -> dict[str, float]:
    counted: dict[str, float] = json.loads(FLOPS.read_text(encoding="utf-8"))
    return counted


def estimated_on_cpu(suite: Suite, recipe: Recipe) -> Pace | None:
    return _estimated(suite, recipe, CPU_THREAD * suite.threads)


def estimated_on(gpu: Gpu) -> PaceOf:
    def pace_of(suite: Suite, recipe: Recipe) -> Pace | None:
        precision = suite.contents.precision
        if precision not in gpu.peak:
            return None
        return _estimated(suite, recipe, gpu.peak[precision] * REACHED[precision], STEP)

    return pace_of


def _estimated(suite: Suite, recipe: Recipe, speed: float, least: float = 0.0) -> Pace | None:
    """At so many FLOPs a second, and at least so many seconds a step."""
    forward = _flops().get(network_kind(suite.contents.network, *counting.image_shape(suite)))
    if forward is None:
        return None
    scoring = forward / speed
    training = max((1 + BACKWARD) * scoring, least / recipe.batch_size)
    return Pace(1 / training, 1 / max(scoring, training / (1 + BACKWARD)))


def processes(plan: Plan) -> int:
    """Of a run on this CPU: as many as were asked for or there are cores; at most one for each training."""
    trainings = {cell.training.key for each in plan.waiting for cell in each.cells} | plan.all_trainings.keys()
    slots = plan.request.workers or max(1, len(cores()) // plan.suite.threads)
    return max(1, min(slots, len(trainings)))


def cores() -> set[int] | range:
    """Those that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _once_each(suite: Suite) -> CountsOf:
    """Counts of a suite's settings, which are counted once."""
    counted = cache(lambda setting: counting.counts(suite, setting))
    return lambda _, setting: counted(setting)


@dataclass(frozen=True)
class Duration:
    """Seconds on a machine."""

    where: str
    seconds: float
    is_measured: bool


def durations(plan: Plan) -> list[Duration]:
    """Of what a plan has to do, on this CPU, on other devices that were measured, and on two GPUs; none is unknown."""
    here = cpu(plan.suite.threads)
    ways: list[tuple[str, PaceOf, bool]] = [("this CPU", remembered(here), True)]
    ways += [(name, remembered(name), True) for name in measured_devices() if name != here and " thread" not in name]
    ways.append(("this CPU", estimated_on_cpu, False))
    ways += [(gpu.name, estimated_on(gpu), False) for gpu in (A100, T4)]
    found: list[Duration] = []
    counts_of = _once_each(plan.suite)
    for where, pace_of, is_measured in ways:
        cost = None if any(where == each.where for each in found) else costs(plan, pace_of, counts_of)
        if cost is not None:
            count = processes(plan) if where == "this CPU" else plan.request.workers or 1
            found.append(Duration(where, cost.together(count), is_measured))
    return sorted(found, key=lambda each: not each.is_measured)
