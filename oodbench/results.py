"""Results: one JSON file per cell, its raw scores beside it, and the ledger a run resumes from. Imports no torch.

Folder: <results>/<suite>[-<preset>]/<setting>/<method>/seed<seed>-<cell>.json, with .npz (raw scores) and .jsonl
(training log) of the same name. The fields are described in docs/results.md.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, get_type_hints

import numpy as np

from oodbench.errors import UserError
from oodbench.files import write_atomically, write_text
from oodbench.metrics import Scored
from oodbench.schema import Misfit, conform, spell

SCHEMA = 1
WEIGHTS = "weights"  # the folder of cached weights inside a results folder


@dataclass(frozen=True)
class Result:
    """One cell: what was run and what came out. Every field is described in docs/results.md."""

    suite: str
    preset: str | None
    setting: str
    method: str
    group: str
    seed: int
    status: Literal["ok", "failed"]
    error: str | None
    metrics: dict[str, float]
    cell: str
    variant: str
    config: dict[str, Any]
    seeds: dict[str, int]
    versions: dict[str, str]
    device: str
    data: dict[str, Any]
    weights: str | None
    notes: dict[str, Any]
    seconds: dict[str, float]
    written: str
    schema: int = SCHEMA
    path: Path | None = field(default=None, compare=False)  # where it was read from; not stored

    @property
    def suite_label(self) -> str:
        return self.suite if self.preset is None else f"{self.suite}-{self.preset}"

    @property
    def settings_order(self) -> list[str]:
        """The columns of its suite; none where the configuration does not tell."""
        order = self.config.get("settings_order")
        return order if isinstance(order, list) else []


STORED = {name: type_ for name, type_ in get_type_hints(Result).items() if name != "path"}


class Unreadable(Exception):
    """A file that is not a result this version can read, and why."""


def write(result: Result, path: Path, scores: dict[str, Scored], log: list[dict[str, Any]]) -> None:
    """Raw scores and log first: a result that exists is complete."""
    _keep_unreadable(path)
    if scores:
        arrays = {
            f"{split}_{name}": array
            for split, s in scores.items()
            for name, array in vars(s).items()
            if array is not None
        }
        write_atomically(path.with_suffix(".npz"), lambda file: np.savez_compressed(file, **arrays))
    if log:
        write_text(path.with_suffix(".jsonl"), "".join(json.dumps(record) + "\n" for record in log))
    values = {name: getattr(result, name) for name in STORED}
    write_text(path, json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n")


def _keep_unreadable(path: Path) -> None:
    """A file that stands where the result goes, but is none, is moved aside and not lost."""
    if path.exists():
        try:
            read(path)
        except Unreadable:
            aside, n = path.with_suffix(".json.unreadable"), 1
            while aside.exists():
                aside, n = path.with_suffix(f".json.unreadable{n}"), n + 1
            os.replace(path, aside)


def read(path: Path) -> Result:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        values = json.loads(text)
        if r"\ud" in text.lower():
            json.dumps(values, ensure_ascii=False).encode()  # \ud800 is JSON, but not text
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Unreadable("truncated, or not JSON") from None
    if not isinstance(values, dict) or type(values.get("schema")) is not int or "cell" not in values:
        raise Unreadable("not an oodbench result")
    if values["schema"] > SCHEMA:
        raise Unreadable(
            f"written by a newer oodbench (schema {values['schema']}, this one reads {SCHEMA}); upgrade oodbench"
        )
    wrong = [name for name in STORED if name not in values] + sorted(set(values) - set(STORED))
    if wrong or values["schema"] != SCHEMA:
        reason = f": missing or unknown field {wrong[0]!r}" if wrong else ""
        raise Unreadable(f"not a result of schema {SCHEMA}{reason}")
    try:
        values = {name: conform(values[name], type_, (name,)) for name, type_ in STORED.items()}
    except Misfit as error:
        raise Unreadable(shorten(f"damaged: {spell(error.place)!r}: {error.message}", 120)) from None
    return Result(**values, path=path)


def read_scores(path: Path) -> dict[str, Scored]:
    """The raw scores and predictions of a result, by split, for any metric one may think of later."""
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        splits = dict.fromkeys(name.rsplit("_", 1)[0] for name in arrays.files)
        return {s: Scored(arrays[f"{s}_scores"], arrays[f"{s}_predictions"], arrays.get(f"{s}_labels")) for s in splits}


def read_folder(folder: Path) -> tuple[list[Result], dict[Path, str]]:
    """Every result below a folder, and what could not be read and why."""
    if not folder.is_dir():
        raise UserError(
            f"there is no results folder '{folder}'; make one with: oodbench run --suite digits-c --results {folder}"
        )
    results, problems = [], {}
    for path in sorted(_json_files(folder)):
        try:
            results.append(read(path))
        except Unreadable as error:
            problems[path] = str(error)
    return results, problems


def _json_files(folder: Path) -> list[Path]:
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in files if name.endswith(".json") and not name.startswith(".")]
    return found
