"""What a result carries so that its numbers can be traced and repeated."""

import platform
import subprocess
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import oodbench
from oodbench import digests
from oodbench.config import identity
from oodbench.config.cards import PACKAGE, catalogue
from oodbench.config.registry import Component, MethodSpec
from oodbench.config.suite import Contents, Source
from oodbench.data import splits
from oodbench.results.result import ComponentRun, Config, DataRead, MethodRun, PartRead, Search, SetRead
from oodbench.running import keys
from oodbench.running.cells import Cell
from oodbench.seeds import derive

SEEDS = ("init", "labelled", "covariate", "semantic", "trainer", "train")  # the purposes a run's seed is derived for


def configuration(cell: Cell) -> Config:
    draw, origin = cell.training.draw, cell.drawn_from
    return Config(
        suite=_recorded(cell.suite.contents),
        setting=cell.setting,
        method=_method(cell.method, [each.trainer for each in reversed(cell.training.chain[:-1])]),
        recipe=cell.training.recipe,
        code=_code(cell),
        threads=cell.suite.threads,
        init=cell.training.root.init_digest,
        search=Search(draw.number, origin.variant) if draw is not None and origin is not None else None,
    )


def _recorded(contents: Contents) -> Contents:
    """What was run of a suite file, not what else may be; of a folder its name, not its place."""

    def named(source: Source) -> Source:
        return replace(source, dataset=splits.dataset(source.dataset).name)

    semantic = {name: named(source) for name, source in contents.semantic.items()}
    covariate = {name: named(source) for name, source in contents.covariate.items()}
    contents = replace(contents, id=named(contents.id), semantic=semantic, covariate=covariate)
    return replace(contents, presets={}, sweeps={}, search={})


def _component(part: Component) -> ComponentRun:
    return ComponentRun(part.card.name, part.card.display, identity.of_card(part.card), part.values, dict(part.changed))


def _method(method: MethodSpec, starts_from: list[Component]) -> MethodRun:
    return MethodRun(
        method.name,
        method.display,
        method.group,
        _component(method.trainer),
        _component(method.scorer),
        [_component(each) for each in starts_from],
    )


def _code(cell: Cell) -> dict[str, str]:
    contents = cell.suite.contents
    code = {name: identity.of_harness(name) for name in (*keys.TRAINING, *keys.SCORING)}
    code["network"] = identity.of_card(catalogue("networks")[contents.network.name])
    if contents.corruptions is not None:
        code["corruptions"] = identity.of_family(contents.corruptions)
    if contents.id.embed is not None:
        code["embedding"] = identity.of_harness("embedding")
    return code


def seeds(cell: Cell) -> dict[str, int]:
    return {purpose: derive(cell.seed, purpose) for purpose in SEEDS}


def data(cell: Cell, parts: splits.Parts) -> DataRead:
    return DataRead(
        {name: SetRead(mark, splits.dataset(name).source) for name, mark in cell.marks.items()},
        {name: PartRead(len(part), part.digest, part.origin) for name, part in parts.items().items()},
    )


@cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform(), "oodbench": oodbench.__version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn", "pillow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


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
    return {"host": platform.node(), "cpu": _cpu(), "capability": capability, "architecture": platform.machine()}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, UnicodeDecodeError):
        return platform.processor()


def device_name(device: torch.device, *flags: str) -> str:
    """Where it ran, and with which flags."""
    name = str(device)
    if device.type == "cuda":
        name += f" ({torch.cuda.get_device_name(device)})"
    elif device.type == "cpu":
        name += f" ({torch.get_num_threads()} threads)"
    return ", ".join([name, *flags])


def weights_digest(model: torch.nn.Module) -> str:
    tensors = sorted(model.state_dict().items())
    return digests.of_bytes(*(name.encode() + t.detach().cpu().contiguous().numpy().tobytes() for name, t in tensors))
