"""What a result carries so that its numbers can be traced and repeated."""

import hashlib
import platform
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

import oodbench
from oodbench import splits
from oodbench.plan import Cell
from oodbench.seeds import derive

UNTOLD = ("presets", "sweeps", "search")  # keys of a suite file that say what may be run, not what was
SEEDS = ("init", "labelled", "covariate", "semantic", "trainer", "train")  # the purposes a run's seed is derived for


def configuration(cell: Cell) -> dict[str, Any]:
    contents = {key: value for key, value in asdict(cell.suite.contents).items() if key not in UNTOLD}
    for source in (contents["id"], *contents["semantic"].values(), *contents["covariate"].values()):
        source["dataset"] = splits.dataset(source["dataset"]).name  # of a folder its name, not its place
    told = {
        "method_display": cell.method.display,
        "trainer": repr(cell.method.trainer.make()),
        "scorer": repr(cell.method.scorer.make()),
        "trainer_values": cell.method.trainer.values,
        "scorer_values": cell.method.scorer.values,
        "code": {"trainer": cell.method.trainer.card.digest(), "scorer": cell.method.scorer.card.digest()},
        "setting": asdict(cell.setting),
        "recipe": contents["recipes"][cell.training.recipe],
        "init": cell.training.root.init_digest,
        "suite": contents,
        "settings_order": [cell.suite.setting_name(setting) for setting in cell.suite.settings],
    }
    draw, origin = cell.training.draw, cell.drawn_from
    if draw is not None and origin is not None:
        told["search"] = {"draw": draw.number, "of": origin.variant}
    return told


def seeds(cell: Cell) -> dict[str, int]:
    return {purpose: derive(cell.seed, purpose) for purpose in SEEDS}


def data(cell: Cell, parts: splits.Parts) -> dict[str, Any]:
    marks = splits.fingerprints(cell.suite, cell.setting)
    return {
        "sets": {name: {"fingerprint": mark, "source": splits.dataset(name).source} for name, mark in marks.items()},
        "parts": {name: {"rows": len(p), "digest": p.digest, "origin": p.origin} for name, p in parts.items().items()},
    }


@cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform(), "oodbench": oodbench.__version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn", "pillow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def device_name(device: torch.device, *ways: str) -> str:
    """Where it ran, and in which ways other than the usual one."""
    name = str(device)
    if device.type == "cuda":
        name += f" ({torch.cuda.get_device_name(device)})"
    elif device.type == "cpu":
        name += f" ({torch.get_num_threads()} threads)"
    return ", ".join([name, *ways])


def weights_digest(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
