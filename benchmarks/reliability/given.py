"""Damaged files of what users bring: outputs and weights of networks, and detectors in their folders.

A file that has a checksum, which its damage left as it was, is refused in one line or gives the very numbers of the
whole one. Where the checksum fits the damage, or there is none, what is read must pass every check.
"""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import files
import numpy as np
import safetensors.torch
import torch
from campaign import Trial
from damage import in_a_member, in_bytes, in_header, in_json
from originals import Hostile, Kind
from PIL import Image
from torch import Tensor

from oodbench.cli import main
from oodbench.errors import UserError
from oodbench.learning import exchange
from oodbench.learning.exchange import Arrays, PartArrays
from oodbench.learning.given_models import load_model
from oodbench.learning.own_models import made
from oodbench.learning.state_digest import state_digest
from oodbench.results.result import read
from oodbench.running.given.detector_files import JSON, TENSORS, sealed

NET = """
from torch import nn

def build():
    body = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(body, nn.Linear(6, 3))
"""
SPEC = {"name": "small-cnn", "num_classes": 3, "channels": 1}
CLASSES, WIDTH, SIDE = 3, 6, 8
SCORERS = "msp,energy,mahalanobis"


def campaign(count: int, seed: int, folder: Path) -> Iterator[Trial]:
    yield from files.campaign(count, seed, folder, kinds)


def kinds(folder: Path, canary: Path) -> list[Kind]:
    """Every kind. What takes long has a small share."""
    folder.mkdir(parents=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*_outputs(folder), *_weights(folder, canary), *_detectors(folder)]
    finally:
        torch.set_num_threads(threads)


def _outputs(folder: Path) -> list[Kind]:
    arrays = _arrays()
    whole = [_written(folder / name, partial(exchange.write, arrays=arrays)) for name in ("o.npz", "o.safetensors")]
    packed = io.BytesIO()
    np.savez_compressed(packed, **{name: each.numpy() for name, each in arrays.arrays.items()})
    whole.append(("c.npz", packed.getvalue()))
    others = [*whole[::2], ("u.safetensors", safetensors.torch.save(arrays.arrays))]
    wanted = _evaluated(_placed(folder / "whole", *whole[0]))

    def same(path: Path) -> str | None:
        return None if exchange.read(path).digest == arrays.digest else "other arrays"

    def sound(path: Path) -> None:
        exchange.read(path)

    def same_numbers(path: Path) -> str | None:
        return None if _evaluated(path) == wanted else "other numbers"

    def in_range(path: Path) -> str | None:
        wrong = {name: value for metrics in _evaluated(path) for name, value in metrics.items() if not 0 <= value <= 1}
        return f"metrics out of range: {wrong}" if wrong else None

    return [
        Kind("outputs", 0.22, whole, (in_bytes, in_bytes, in_header), same),
        Kind("outputs, evaluated", 0.01, whole, (in_bytes, in_header), same_numbers),
        Kind("outputs under right checksums", 0.20, others, (in_a_member, in_header), sound),
        Kind("outputs under right checksums, evaluated", 0.01, others, (in_a_member, in_header), in_range),
    ]


def _arrays() -> Arrays:
    """Of a network that tells three classes apart."""
    chance = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, WIDTH, generator=chance)

    def part(rows: int, labelled: bool = True) -> PartArrays:
        features = torch.randn(rows, WIDTH, generator=chance).relu()
        logits = features @ weight.T
        return PartArrays(features, logits, logits.argmax(1) if labelled else None)

    parts = {"train": part(60), "id": part(20), "covariate": part(20), "semantic_far": part(20, labelled=False)}
    return Arrays(parts, weight, torch.zeros(CLASSES))


def _evaluated(path: Path) -> list[dict[str, float]]:
    """What `oodbench evaluate` measures; UserError for what it refuses."""
    results = path.parent / "results"
    _said("evaluate", "--arrays", path, "--scorers", SCORERS, "--name", "o", "--results", results, "--device", "cpu")
    return [read(each).metrics for each in sorted(results.rglob("seed*.json"))]


def _said(*words: object) -> str:
    """What a command prints. A refusal is a UserError, and whatever else is not status 0 is a fault."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(word) for word in words])
    if status == 2:
        raise UserError(err.getvalue().rstrip("\n"))
    if status:
        raise RuntimeError(f"status {status}: {err.getvalue()}")
    return out.getvalue()


def _weights(folder: Path, canary: Path) -> list[Kind]:
    code = folder / "net.py"
    code.write_text(NET)
    torch.manual_seed(0)
    state: dict[str, Tensor] = load_model(f"{code}:build").module.state_dict()
    wanted = state_digest(state)
    lightning = {"epoch": 3, "state_dict": {f"net.{name}": each for name, each in state.items()}}
    archives = [("w.pt", _saved(state)), ("w.ckpt", _saved(lightning))]
    old = ("old.pt", _saved(state, _use_new_zipfile_serialization=False))
    others = [("w.safetensors", safetensors.torch.save(state)), old, ("hostile.pt", _saved({"a": Hostile(canary)}))]

    def fits(path: Path) -> str | None:
        found = load_model(f"{code}:build", path).module.state_dict()
        return None if {n: e.shape for n, e in found.items()} == {n: e.shape for n, e in state.items()} else "others"

    def same(path: Path) -> str | None:
        found = load_model(f"{code}:build", path).module.state_dict()
        return None if state_digest(found) == wanted else "other weights"

    damages = (in_bytes, in_a_member, in_header)
    return [
        Kind("weights brought", 0.16, archives, (in_bytes,), same),
        Kind("weights brought, without checksums", 0.16, [*archives, *others], damages, fits),
    ]


def _saved(contents: Any, **how: Any) -> bytes:
    out = io.BytesIO()
    torch.save(contents, out, **how)
    return out.getvalue()


def _detectors(folder: Path) -> list[Kind]:
    """A network of oodbench's own, so that a folder is all that it takes."""
    images, detector = folder / "images", folder / "detector"
    chance = np.random.default_rng(0)
    for label in range(CLASSES):
        (images / f"class{label}").mkdir(parents=True)
        for i in range(20):
            pixels = chance.integers(0, 80, (SIDE, SIDE)) + 80 * label
            Image.fromarray(pixels.astype(np.uint8)).save(images / f"class{label}" / f"{i}.png")
    torch.manual_seed(0)
    torch.save(made(SPEC).state_dict(), folder / "own.pt")
    network = ("--model", "oodbench:small-cnn", "--weights", folder / "own.pt", "--size", SIDE, "--device", "cpu")
    _said("fit", *network, "--id", f"folder:{images}", "--scorer", "mahalanobis", "--keep", 0.8, "--out", detector)
    every = [(name, (detector / name).read_bytes()) for name in (JSON, TENSORS)]
    some = images / "class1"

    def predicted(path: Path) -> list[Any]:
        for name, content in every:
            if name != path.name:
                (path.parent / name).write_bytes(content)
        said = _said("predict", path.parent, some, "--format", "jsonl", "--device", "cpu")
        return [json.loads(line) for line in said.splitlines()]

    wanted = predicted(_placed(folder / "again", *every[0]))

    def same(path: Path) -> str | None:
        return None if predicted(path) == wanted else "other verdicts"

    def whatever(path: Path) -> str | None:
        path.write_bytes(_resealed(path.read_bytes()))
        return None if len(predicted(path)) == len(wanted) else "not a verdict for each image"

    return [
        Kind("detectors", 0.20, every, (in_bytes, in_json, in_header), same),
        Kind("detectors under right seals", 0.04, every[:1], (in_json,), whatever),
    ]


def _resealed(content: bytes) -> bytes:
    with contextlib.suppress(ValueError, RecursionError):
        values = json.loads(content)
        return json.dumps(sealed(values)).encode() if isinstance(values, dict) else content
    return content


def _placed(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder / name


def _written(path: Path, write: Callable[[Path], None]) -> tuple[str, bytes]:
    write(path)
    return path.name, path.read_bytes()
