"""What a result carries so that its numbers can be traced and repeated."""

import platform
import subprocess
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import oodbench
from oodbench.config import identity, networks
from oodbench.config.cards import PACKAGE, Card
from oodbench.config.registry import Component, MethodSpec
from oodbench.config.suite import Contents, Source
from oodbench.data import lookup
from oodbench.data.parts import Parts
from oodbench.errors import printable, said
from oodbench.learning.loop import Failed
from oodbench.learning.state_digest import state_digest
from oodbench.results.result import (
    WILD_MIXTURE,
    ComponentRun,
    Config,
    ConstraintRun,
    DataRead,
    EpochAccuracies,
    MethodRun,
    PartRead,
    Result,
    Search,
    SetRead,
)
from oodbench.running import keys, training_path
from oodbench.running.cells import Cell
from oodbench.running.costs import cpu_model
from oodbench.seeds import derive

if TYPE_CHECKING:
    from oodbench.running.trained import Trained

LONGEST_TRACEBACK = 20_000  # characters
FEW_VALIDATION = 10  # images of a class; with fewer, what a scorer fits on them is said to be uncertain
SEEDS = ("init", "labelled", "covariate", "semantic", "trainer", "train")  # the purposes a run's seed is derived for


def result(
    cell: Cell,
    parts: Parts,
    device: str,
    network: "Trained | None",
    measured: dict[str, float],
    seconds: dict[str, float],
    failure: Failed | None,
) -> Result:
    """A cell and what came out of it."""
    config, notes = configuration(cell), dict(network.notes) if network else {}
    constraints = [ConstraintRun(**each) for each in notes.pop("constraints", ())]
    return Result(
        suite=cell.suite.name,
        preset=cell.suite.preset,
        setting=cell.suite.setting_name(cell.setting),
        method=cell.method.label,
        seed=cell.seed,
        status="ok" if failure is None else "failed",
        error=None if failure is None else said(failure),
        traceback=None if failure is None else printable(failure.traceback, LONGEST_TRACEBACK),
        metrics=measured,
        metrics_version=identity.version_of("metrics"),
        key=cell.key,
        variant=cell.variant,
        training=cell.training.key,
        config=config,
        seeds=seeds(cell),
        versions=versions(),
        commit=commit(),
        device=device,
        machine=machine(),
        data=data(cell, parts),
        weights=network.digest if network else None,
        notes={
            **notes,
            **(_trained_elsewhere(network.machine) if network else {}),
            **_outliers(cell),
            **of_validation(cell.method.scorer.card, parts, lookup.num_classes(cell.suite)),
        },
        domain_accuracies=_observed(network.log) if network else [],
        seconds={stage: round(value, 4) for stage, value in seconds.items()},
        written=datetime.now(timezone.utc).isoformat(),
        request=dict(cell.request),
        chain=chain(config.method),
        precision=config.suite.precision,
        constraints=constraints,
        training_path=training_path.points_of(network.log, cell) if network else [],
    )


def chain(method: MethodRun) -> list[str]:
    """Who made the numbers, one after the other: the trainers from the first on, and the scorer."""
    return [each.code for each in (*reversed(method.starts_from), method.trainer, method.scorer)]


def _trained_elsewhere(there: dict[str, str]) -> dict[str, str]:
    """Host and processor of the training, where these are not what scored: a shared folder has many makers."""
    words = [printable(there[name], 200) for name in ("host", "cpu") if isinstance(there.get(name), str)]
    here = [machine()[name] for name in ("host", "cpu")]
    return {"trained_on": ", ".join(words)} if words and words != here else {}


def _outliers(cell: Cell) -> dict[str, str]:
    """What a trainer that needs outliers was given as such."""
    return {"outliers": cell.method.outliers or WILD_MIXTURE} if "outliers" in cell.method.needs else {}


def of_validation(scorer: Card, parts: Parts, classes: int) -> dict[str, int]:
    """Of a scorer that is fitted on ID validation images: how many there are of the rarest class, if they are few."""
    if "validation" not in scorer.needs:
        return {}
    rarest = int(np.bincount(parts.id_validation.labels, minlength=classes).min())
    return {"few_validation": rarest} if rarest < FEW_VALIDATION else {}


def _observed(log: list[dict[str, Any]]) -> list[EpochAccuracies]:
    """What the loop has looked at where domains are held out."""
    return [EpochAccuracies(**record["domains"]) for record in log if "domains" in record]


def configuration(cell: Cell) -> Config:
    draw, origin = cell.training.draw, cell.drawn_from
    return Config(
        suite=recorded(cell.suite.contents, with_outliers=cell.method.outliers is not None),
        setting=cell.setting,
        method=_method(cell.method, [each.trainer for each in reversed(cell.training.chain[:-1])]),
        recipe=cell.training.recipe,
        code=keys.code(cell.suite.contents),
        threads=cell.suite.threads,
        init=cell.training.root.init_digest,
        search=Search(draw.number, origin.variant) if draw is not None and origin is not None else None,
    )


def recorded(contents: Contents, with_outliers: bool = False) -> Contents:
    """What was run of a suite file, not what else may be; of a folder or a network's file its name, not its place."""
    outliers = contents.outliers if with_outliers else None

    def named(source: Source) -> Source:
        return replace(source, dataset=lookup.dataset(source.dataset).name)

    semantic = {name: named(source) for name, source in contents.semantic.items()}
    covariate = {name: named(source) for name, source in contents.covariate.items()}
    contents = replace(
        contents,
        id=named(contents.id),
        semantic=semantic,
        covariate=covariate,
        outliers=None if outliers is None else named(outliers),
    )
    network = networks.recorded(contents.network)
    return replace(contents, network=network, presets={}, methods={}, sweeps={}, search={})


def component(part: Component) -> ComponentRun:
    return ComponentRun(part.card.name, part.card.display, identity.of_card(part.card), part.values, dict(part.changed))


def _method(method: MethodSpec, starts_from: list[Component]) -> MethodRun:
    return MethodRun(
        method.name,
        method.display,
        method.group,
        component(method.trainer),
        component(method.scorer),
        [component(each) for each in starts_from],
        method.outliers,
    )


def seeds(cell: Cell) -> dict[str, int]:
    return {purpose: derive(cell.seed, purpose) for purpose in SEEDS}


def data(cell: Cell, parts: Parts) -> DataRead:
    return DataRead(
        {name: SetRead(mark, lookup.dataset(name).source) for name, mark in cell.marks.items()},
        {
            name: PartRead(len(part), part.digest, part.origin)
            for name, part in parts.items().items()
            if name != "outliers" or cell.method.outliers is not None
        },
    )


@cache
def versions() -> dict[str, str]:
    installed = {"python": platform.python_version(), "platform": platform.platform(), "oodbench": oodbench.__version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn", "pillow"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


@cache
def commit() -> str | None:
    """Of the harness, where it runs from a checkout; `+` where files differ from that commit."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(PACKAGE.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != PACKAGE.parent.resolve():
            return None  # installed inside another project's repository
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "oodbench", "methods", "benchmarks")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


@cache
def machine() -> dict[str, str]:
    """Where it was made: numbers of two processors differ in their last digits, and trainings carry that on."""
    capability = torch.backends.cpu.get_cpu_capability()
    return {"host": platform.node(), "cpu": cpu_model(), "capability": capability, "architecture": platform.machine()}


def device_name(device: torch.device, *flags: str) -> str:
    """Where it ran, and with which flags."""
    name = str(device)
    if device.type == "cuda":
        name += f" ({torch.cuda.get_device_name(device)})"
    elif device.type == "cpu":
        name += f" ({torch.get_num_threads()} threads)"
    return ", ".join([name, *flags])


def weights_digest(model: torch.nn.Module) -> str:
    return state_digest(model.state_dict())
