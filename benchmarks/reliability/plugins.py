"""Hostile plugins: each runs between other methods, whose numbers it must not change.

A trial runs one in the middle of others, then the others once more without it. Everything held if

- the numbers and weights of the others are, to the bits, those of a run that never saw the plugin;
- without the plugin there is nothing left to do, and nothing changes;
- the cell of the plugin is ok or failed in a line, or the whole run was refused in a line before anything trained;
- the exit status says which, and no traceback is printed;
- nothing is written outside the results folder;
- a trainer that changes its network has the same scores when the weights are read.

Of what ends the process, only a status other than 0 is asked, and that the others can be completed.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from campaign import Trial
from forks import HUNG, Forks
from hostile import NETWORK, Plugin, plugins
from safetensors.numpy import load_file

SUITE = """\
title: A few digits
id: {dataset: digits, classes: [0, 1, 2, 3]}
semantic: {unseen-digits: {dataset: digits, classes: [8]}}
corruptions: digits_c
network: {name: small-cnn, options: {width: 8}}
recipes:
  scratch: {epochs: 2, batch_size: 64, lr: 0.1}
  finetune: {epochs: 1, batch_size: 64, lr: 0.01, schedule: steps}
splits: {id_validation: 0.2}
defaults: {covariate: gaussian_noise, severity: 3}
settings: [{semantic: unseen-digits}]
"""
# Mixup trains first. A hostile trainer then trains before ERM, and a hostile scorer scores ERM's network after MSP.
# WOODS starts from the weights of ERM, and ODIN goes back to the images.
OTHERS = "mixup,msp,knn,vim,energy,odin,mahalanobis,woods"
WITH_TRAINER = OTHERS.replace("mixup,", "mixup,hostile+odin,")  # ODIN sees every part of a network
WITH_SCORER = OTHERS.replace("msp,", "msp,hostile,")
HOSTILE = "hostile"  # begins the name of the plugin's cell
ITS_OWN = ("out.txt", "err.txt", "hostile.py", "results")  # of a trial's folder
PASSING = ("commit", "seconds", "written", "digest", "request")  # of a result, other each time
LINE = 2000  # letters of a line that a person would still read
SECONDS = 60  # of a run that takes one


class Broke(Exception):
    """What did not hold."""


def campaign(count: int, seed: int, folder: Path) -> Iterator[Trial]:
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    with Forks(folder, _command(folder, OTHERS)) as forks:
        bench = _Bench(folder, forks)
        for number, plugin in enumerate(plugins(count, seed)):
            try:
                bench.attack(plugin, number)
            except Broke as problem:
                yield Trial(plugin.kind, plugin.name, str(problem))
            except Exception as error:  # of whatever kind: what is written is not what it should be
                yield Trial(plugin.kind, plugin.name, f"cannot be read: {error!r}"[:LINE])
            else:
                yield Trial(plugin.kind, plugin.name)


def _command(folder: Path, methods: str, *more: str) -> list[str]:
    suite = str(folder / "suite.yaml")
    return ["run", "--suite", suite, "--methods", methods, "--results", "results", *more]


class _Bench:
    """Where plugins are tried, and what the numbers are without any."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder, self.forks = folder, forks
        clean = folder / "clean"
        clean.mkdir()
        status = forks.run(_command(folder, OTHERS), clean, SECONDS)
        assert status == 0, (clean / "err.txt").read_text(encoding="utf-8")
        self.weights = {path.name for path in clean.glob("results/weights/*.pt")}
        self.clean = self.numbers(clean / "results")
        self.cells = len(OTHERS.split(","))
        self.beside = self._files_beside()

    def numbers(self, results: Path) -> dict[str, Any]:
        """All that must be the same in every run, by file; of methods, what is there but the plugin's."""
        numbers: dict[str, Any] = {}
        for name, cell in _cells(results).items():
            if not name.startswith(HOSTILE):
                numbers[name] = {key: value for key, value in cell.items() if key not in PASSING}
        for path in results.glob("*/*/*/*.safetensors"):
            if not path.parent.name.startswith(HOSTILE):
                numbers[f"{path.parent.name}'s scores"] = _arrays(path)
                numbers[f"{path.parent.name}'s log"] = path.with_suffix(".jsonl").read_bytes()
                numbers[f"the mode of {path.parent.name}'s files"] = path.stat().st_mode
        for path in results.glob("weights/*.pt"):
            if path.name not in self.weights:
                continue
            contents = torch.load(path)
            state = {name: _bits(values.numpy()) for name, values in contents["model"].items()}
            numbers[path.name] = {**state, "log": contents["log"], "notes": contents["notes"]}
        return numbers

    def attack(self, plugin: Plugin, number: int) -> None:
        """Try one plugin; raises Broke."""
        at = self.folder / f"trial{number}"
        at.mkdir()
        (at / "hostile.py").write_text(plugin.source(), encoding="utf-8")
        methods = WITH_TRAINER if plugin.trains else WITH_SCORER
        command = _command(self.folder, methods, "--plugin", "hostile.py")
        status = self.forks.run(command, at, SECONDS)
        self._judge_run(plugin, at, status)
        self._judge_others(at)
        self._judge_rest(at)
        if plugin.trains and plugin.deeds[-1].kind == NETWORK:
            self._judge_resumed(at, command)
        shutil.rmtree(at)

    def _judge_run(self, plugin: Plugin, at: Path, status: int | str) -> None:
        """What the plugin's own cell, the status and the output of the run say."""
        if status == HUNG:
            raise Broke(f"was not done after {SECONDS} s")
        printed = (at / "err.txt").read_text(encoding="utf-8", errors="replace")
        cells = _cells(at / "results")
        own = [cell for name, cell in cells.items() if name.startswith(HOSTILE)]
        if len(cells) < self.cells + 1:
            if status == 0:
                raise Broke(f"status 0 with {len(cells)} of {self.cells + 1} cells")
            if plugin.kills:
                return
            if status != 2 or cells:
                raise Broke(f"status {status} with {len(cells)} of {self.cells + 1} cells: {_end(printed)}")
            planned, _, refused = printed.rpartition("oodbench: ")  # before it stands what was to be done
            if planned.count("\n") > 1 or refused.count("\n") != 1:
                raise Broke(f"refused, but not in one line: {_end(printed)}")
        elif status != (0 if own[0]["status"] == "ok" else 1):
            raise Broke(f"status {status} where the plugin's cell is {own[0]['status']}: {_end(printed)}")
        if _has_traceback(printed):
            raise Broke(f"a traceback: {_end(printed)}")
        if max(map(len, printed.splitlines()), default=0) > LINE:
            raise Broke("a line of many letters on stderr")
        for cell in own:
            _judge_cell(cell, at / "results")
        if beside := sorted({path.name for path in at.iterdir()} - {*ITS_OWN} | self._files_beside() - self.beside):
            raise Broke(f"wrote outside the results folder: {beside}")

    def _files_beside(self) -> set[str]:
        """What lies beside the folders of the trials."""
        return {path.name for path in self.folder.iterdir() if not path.name.startswith("trial")}

    def _judge_others(self, at: Path) -> None:
        """Those that are there already."""
        for name, numbers in self.numbers(at / "results").items():
            if name in self.clean and numbers != self.clean[name]:
                raise Broke(f"changed {name}: {_difference(numbers, self.clean[name])}")

    def _judge_rest(self, at: Path) -> None:
        """The others without the plugin: nothing is left to do, or it is done as if there had never been one."""
        before = _bytes(at / "results")
        left = {name for name in self.clean if name not in self.numbers(at / "results")}
        status = self.forks.run(_command(self.folder, OTHERS), at, SECONDS, harmless=True)
        if status != 0:
            printed = (at / "err.txt").read_text(encoding="utf-8", errors="replace")
            raise Broke(f"later, without the plugin: status {status}: {_end(printed)}")
        if not left and _bytes(at / "results") != before:
            raise Broke("later, without the plugin: results changed")
        after = self.numbers(at / "results")
        for name, numbers in self.clean.items():
            if after.get(name) != numbers:
                raise Broke(f"later, without the plugin: changed {name}: {_difference(after.get(name), numbers)}")

    def _judge_resumed(self, at: Path, command: list[str]) -> None:
        """Scores of the plugin's network as it was trained, and as it is when its weights are read."""
        first = _own_scores(at / "results")
        for path in _own_files(at / "results"):
            path.unlink()
        self.forks.run(command, at, SECONDS, harmless=True)
        again = _own_scores(at / "results")
        if first and again != first:
            raise Broke(f"its scores differ once its weights are read: {_difference(again, first)}")


def _judge_cell(cell: dict[str, Any], results: Path) -> None:
    if cell["status"] == "ok":
        scores = {name: bits for name, bits in _own_scores(results).items() if name.endswith("_scores")}
        for name, (dtype, _, contents) in scores.items():
            if "f" not in dtype or not np.isfinite(np.frombuffer(contents, dtype)).all():
                raise Broke(f"ok, but {name} are {dtype}, or not finite")
    elif "\n" in cell["error"] or len(cell["error"]) > LINE:
        raise Broke(f"failed, but not in one line: {cell['error'][:200]!r}")


def _cells(results: Path) -> dict[str, dict[str, Any]]:
    """What is written of each method; of one that cannot be read, why."""
    cells = {}
    for path in results.glob("*/*/*/*.json"):
        try:
            cells[path.parent.name] = json.loads(path.read_bytes(), parse_constant=_refuse)
        except ValueError as error:
            raise Broke(f"'{path.name}' is no JSON: {error}") from None
    return cells


def _refuse(word: str) -> None:
    raise ValueError(word)


def _arrays(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: _bits(array) for name, array in load_file(path).items()}


def _bits(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


def _own_files(results: Path) -> list[Path]:
    return sorted(results.glob(f"*/*/{HOSTILE}*/*"))


def _own_scores(results: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Of the plugin's cell; nothing if it failed."""
    arrays = [_arrays(path) for path in _own_files(results) if path.suffix == ".safetensors"]
    return arrays[0] if arrays else {}


def _bytes(results: Path) -> dict[str, bytes]:
    kinds = (".json", ".jsonl", ".safetensors", ".pt")
    return {str(path): path.read_bytes() for path in results.rglob("*") if path.suffix in kinds}


def _difference(one: Any, other: Any) -> str:
    """The first thing that differs, in a few words."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**other, **one}:
            if one.get(key) != other.get(key):
                return f"{key}: {_difference(one.get(key), other.get(key))}".removesuffix(": ")
    if isinstance(one, tuple | bytes) or isinstance(other, tuple | bytes):
        return ""
    return f"{one} for {other}"[:200]


def _has_traceback(printed: str) -> bool:
    """One of ours: what Python says of a plugin's own threads and of what it left for the end is the plugin's."""
    lines = ["", *printed.splitlines()]
    pairs = zip(lines, lines[1:], strict=False)
    return any(line.startswith("Traceback") and not before.startswith("Exception ") for before, line in pairs)


def _end(printed: str) -> str:
    return printed.strip().splitlines()[-1][:200] if printed.strip() else "nothing on stderr"
