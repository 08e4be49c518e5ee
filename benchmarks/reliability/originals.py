"""Small, whole files of every kind that oodbench reads, and how it reads them."""

import io
import json
import math
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import submission_files
import torch
from damage import Damage, in_a_member, in_bytes, in_json, in_opcodes, in_yaml
from PIL import Image

from oodbench.config import suite as suites
from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.data import decoder, npy, store
from oodbench.data.untrusted import archives, arrays, cifar, matlab
from oodbench.errors import UserError
from oodbench.learning.initial_weights import read_weights
from oodbench.results import raw_scores, schema_2
from oodbench.results import result as results
from oodbench.results.metrics import evaluate
from oodbench.results.result import Unreadable
from oodbench.running import execution, plan, request, trained
from oodbench.running.provenance import weights_digest
from oodbench.running.session import Session
from oodbench.testing.toy_problem import Interrupted, toy

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[2] / "results"
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Kind:
    """Files that one reader reads."""

    name: str
    share: float  # of all files of a campaign
    originals: list[tuple[str, bytes]]  # names and contents
    damages: tuple[Damage, ...]
    read: Callable[[Path], str | None]  # a problem, if what was read is wrong
    refusals: tuple[type[Exception], ...] = (UserError,)


class Hostile:
    """Writes the canary where it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.canary),)


def kinds(folder: Path, canary: Path) -> list[Kind]:
    """Every kind. Originals that must be made by a run are made in `folder`."""
    folder.mkdir(parents=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a child process inherits no threads
    try:
        sent = _of_submissions(folder / "submission", canary)
        return [*_texts(), *_of_results(), *sent, *_of_tensors(folder, canary), *_of_data(canary)]
    finally:
        torch.set_num_threads(threads)


def _texts() -> list[Kind]:
    files = suites.suite_files()
    written = [(path.name, path.read_bytes()) for name, path in sorted(files.items()) if name in ("digits-c", "pacs")]
    asked = b"suite: digits-c\nmethods: [msp, knn]\nseeds: 0-2\nruns:\n- preset: smoke\n- set: {knn.k: 5}\n"
    return [
        Kind("suites", 0.06, written, (in_bytes, in_yaml), lambda path: _nothing(suites.load(str(path)))),
        Kind("requests", 0.06, [("a.yaml", asked)], (in_bytes, in_yaml), lambda path: _nothing(request.read(path))),
    ]


def _nothing(_: object) -> None:
    """Whatever was read has passed its checks."""


def _of_results() -> list[Kind]:
    stored = sorted(RESULTS.rglob("seed*.json"))
    some = [(path.name, path.read_bytes()) for path in stored[:: max(len(stored) // 4, 1)]]
    packed = [("r.npz", _raw_scores(save)) for save in (np.savez, np.savez_compressed)]
    arrays = np.load(io.BytesIO(packed[0][1]))
    of_today = [("r.safetensors", raw_scores.packed({name: arrays[name] for name in arrays}))]
    unreadable = (Unreadable,)
    return [
        Kind("result files", 0.12, some, (in_bytes, in_json), lambda path: _nothing(results.read(path)), unreadable),
        Kind("raw scores", 0.06, of_today, (in_bytes,), _measured, unreadable),
        Kind("raw scores of schema 2", 0.06, packed, (in_bytes, in_a_member), _measured, unreadable),
    ]


def _raw_scores(save: Callable[..., None]) -> bytes:
    made: dict[str, Any] = {}
    for split in ("id", "covariate", "semantic"):
        made[f"{split}_scores"] = RANDOM.normal(0, 1, 50).astype(np.float32)
        made[f"{split}_predictions"] = RANDOM.integers(0, 5, 50).astype(np.int16)
        made[f"{split}_confidence"] = RANDOM.random(50).astype(np.float32)
        if split != "semantic":
            made[f"{split}_labels"] = RANDOM.integers(0, 5, 50).astype(np.int16)
    file = io.BytesIO()
    save(file, **made)
    return file.getvalue()


def _measured(path: Path) -> str | None:
    if path.suffix == ".npz":
        scores = schema_2.read_scores(path)
    else:
        scores = raw_scores.by_split(raw_scores.unpacked(path.read_bytes()))
    metrics = evaluate(**scores)
    return None if all(0 <= value <= 1 for value in metrics.values()) else f"metrics out of range: {metrics}"


def _of_submissions(folder: Path, canary: Path) -> list[Kind]:
    whole = submission_files.archive(folder, canary)
    files, same = [("mine.zip", whole)], partial(submission_files.same_files, whole=whole)
    fitting = partial(submission_files.same_metrics, whole=whole)
    return [
        Kind("submissions", 0.04, files, (in_bytes, in_a_member), same),
        Kind("submissions under right digests", 0.04, files, (submission_files.in_a_file,), fitting),
    ]


def _of_tensors(folder: Path, canary: Path) -> list[Kind]:
    """Weights and a checkpoint, each of a training of a second."""
    planned = plan.plan(request.request(preset="smoke", methods="erm", settings="unseen-digits", results=folder))
    training = planned.cells[0].training
    wanted = weights_digest(execution.train_one(training, Session(folder, CPU)).model)
    weights = trained.weights_file(training.key, folder).read_bytes()

    def read_back(path: Path) -> str | None:
        place = trained.weights_file(training.key, path.parent)
        place.parent.mkdir()
        path.rename(place)
        network = trained.stored(training, path.parent, CPU)
        return None if network is None or weights_digest(network.model) == wanted else "other weights"

    def initial(path: Path) -> None:
        read_weights(trained.started(training, CPU), path)

    trainer = load_class(Registry().card("erm"))
    whole = weights_digest(toy().train(trainer(), epochs=2).model)
    stopped = folder / "0123.ckpt"
    with suppress(Interrupted):
        toy().train(trainer(), checkpoint=stopped, fails_after=1, epochs=2)

    def resumed(path: Path) -> str | None:
        model = toy().train(trainer(), checkpoint=path, epochs=2).model
        return None if weights_digest(model) == whole else "other weights than a training that was never stopped"

    hostile = io.BytesIO()
    torch.save({"model": Hostile(canary), "log": [], "notes": {}, "seconds": 1.0}, hostile)
    damages = (in_bytes, in_a_member, in_a_member)
    files = [("w.pt", weights), ("w.pt", weights), ("w.pt", hostile.getvalue())]
    return [
        Kind("weights", 0.08, files, damages, read_back, (trained.Unusable,)),
        Kind("weights given", 0.04, files, damages, initial),
        Kind("checkpoints", 0.06, [("0123.ckpt", _checkpoint(stopped))], damages, resumed),
    ]


def _checkpoint(path: Path) -> bytes:
    assert torch.load(path, weights_only=True)["epoch"] == 1
    return path.read_bytes()


def _of_data(canary: Path) -> list[Kind]:
    images, labels = RANDOM.integers(0, 256, (6, 3, 32, 32), dtype=np.uint8), RANDOM.integers(0, 10, 6)
    return [
        Kind("archives", 0.10, _archives(images), (in_bytes, in_a_member), _unpacked),
        Kind("pictures", 0.08, _pictures(images), (in_bytes,), _decoded),
        Kind("arrays", 0.14, _arrays(images, labels, canary), (in_bytes, in_a_member, in_opcodes, in_json), _array),
        Kind("stored sets", 0.06, _stored(images, labels), (in_bytes, in_json), _loaded),
    ]


def _archives(images: np.ndarray) -> list[tuple[str, bytes]]:
    files = {f"a/{i}.bin": image.tobytes() for i, image in enumerate(images)}
    made = []
    modes: tuple[Literal["w:", "w:gz", "w:bz2", "w:xz"], ...] = ("w:", "w:gz", "w:bz2", "w:xz")
    for mode in modes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as tar:
            for name, content in {**files, f"{'long' * 40}/x": b"x"}.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        made.append((f"a.tar.{mode[2:]}", out.getvalue()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in {**files, "../../escaped": b"x"}.items():
            packed.writestr(name, content)
    return [*made, ("a.zip", out.getvalue())]


def _unpacked(path: Path) -> None:
    archives.is_archive(path)
    archives.unpack(path, path.parent / "out")


def _pictures(images: np.ndarray) -> list[tuple[str, bytes]]:
    made = []
    for kind in decoder.FORMATS:
        out = io.BytesIO()
        Image.fromarray(images[0].transpose(1, 2, 0)).resize((40, 50)).save(out, kind)
        made.append((f"a.{kind.lower()}", out.getvalue()))
    return made


def _decoded(path: Path) -> None:
    try:
        decoder.examine(path)
    except UserError:
        decoder.decode(path, 32, "centre", 0)
        raise
    decoder.decode(path, 32, "centre", 0)


def _arrays(images: np.ndarray, labels: np.ndarray, canary: Path) -> list[tuple[str, bytes]]:
    def written(save: Callable[..., None], *values: Any, **named: Any) -> bytes:
        out = io.BytesIO()
        save(out, *values, **named)
        return out.getvalue()

    named = dict(zip(npy.NAMES[0], (images, labels, images, labels), strict=True))
    batch = {"data": images.reshape(6, -1), "labels": labels.tolist()}
    picture = Image.fromarray(images.transpose(0, 2, 3, 1).reshape(6, 1024, 3))
    idx = b"\0\0\x08\3" + struct.pack(">3I", 6, 32, 32) + images[:, 0].tobytes()
    return [
        ("a.npy", written(np.save, images)),
        ("a.npz", written(np.savez_compressed, **named)),
        ("b.npz", written(np.savez, **{**named, npy.NAMES[0][0]: np.array([Hostile(canary)], dtype=object)})),
        ("a.batch", pickle.dumps(batch, protocol=2)),
        ("b.batch", pickle.dumps({**batch, "labels": Hostile(canary)}, protocol=2)),
        ("a.bin", np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(6, -1)], axis=1).tobytes()),
        ("a.labels", json.dumps(labels.tolist()).encode()),
        ("a.png", written(partial(picture.save, format="PNG"))),
        ("a.idx", idx),
        ("a.mat", _mat(images, labels)),
    ]


def _mat(images: np.ndarray, labels: np.ndarray) -> bytes:
    def element(kind: int, content: bytes) -> bytes:
        return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)

    def matrix(name: str, array: np.ndarray) -> bytes:
        sizes = struct.pack(f"<{array.ndim}i", *array.shape)
        parts = (6, struct.pack("<II", 9, 0)), (5, sizes), (1, name.encode()), (2, array.tobytes(order="F"))
        return zlib.compress(element(14, b"".join(element(kind, content) for kind, content in parts)))

    both = matrix("X", images.transpose(2, 3, 1, 0)), matrix("y", labels.astype(np.uint8)[:, None])
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    return head + b"".join(struct.pack("<II", 15, len(each)) + each for each in both)


def _array(path: Path) -> None:
    readers: dict[str, Callable[[Path], object]] = {
        ".npy": lambda path: (arrays.read_npy(path), np.asarray(arrays.map_npy(path)).sum()),
        ".npz": lambda path: npy.read_npz(path, (3, 32, 32)),
        ".batch": lambda path: cifar.read_batch(path, "labels"),
        ".bin": lambda path: cifar.read_binary(path, 1),
        ".labels": cifar.read_labels,
        ".png": cifar.read_picture,
        ".idx": arrays.read_idx,
        ".mat": matlab.read_mat,
    }
    readers[path.suffix](path)


def _stored(images: np.ndarray, labels: np.ndarray) -> list[tuple[str, bytes]]:
    decoded = store.Decoded(images, labels, np.arange(6) > 3)
    store.save("whole", decoded, "made")
    return [(path.name, path.read_bytes()) for path in sorted((store.data_folder() / "whole").iterdir())]


def _loaded(path: Path) -> None:
    """The set with one file exchanged."""
    home, whole = store.data_folder(), store.data_folder() / "whole"
    (path.parent / "data").mkdir()
    for each in whole.iterdir():
        (path.parent / "data" / each.name).write_bytes((path if path.name == each.name else each).read_bytes())
    os.environ["OODBENCH_DATA"] = str(path.parent)
    try:
        loaded = store.load("data")
        math.fsum(loaded.labels.tolist())
        int(np.asarray(loaded.images).sum())
    finally:
        os.environ["OODBENCH_DATA"] = str(home)
