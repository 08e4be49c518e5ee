"""Results: one JSON file per cell, its raw scores beside it. Reading is strict. Imports no torch.

Folder: <results>/<suite>[-<preset>]/<setting>/<method>/seed<seed>-<key>.json, with .npz (raw scores) and .jsonl
(training log) of the same name. The fields are described in docs/results.md.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import cache, cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from textwrap import shorten
from typing import Any, Literal, get_type_hints

import msgspec
import numpy as np

from oodbench.config.cards import BUDGET
from oodbench.config.recipe import Recipe
from oodbench.config.registry import LABELS, changed_words
from oodbench.config.schema import Misfit, conform, spell
from oodbench.config.suite import Contents, Setting, Suite
from oodbench.files import CannotWrite, write_atomically, write_bytes, write_text
from oodbench.results import summary
from oodbench.results.given_run import GivenRun as GivenRun
from oodbench.results.metrics import Scored
from oodbench.results.raw_scores import Unreadable as Unreadable
from oodbench.results.raw_scores import read_scores as read_scores
from oodbench.user_files import read_regular

SCHEMA = 2
RESULT_LIMIT = 2**28  # bytes of a file; the largest of ours has 100,000
WEIGHTS = "weights"  # the folder of cached weights inside a results folder
OUTPUTS = "outputs"  # and that of outputs that were to be kept
WILD_MIXTURE = "the wild mixture"  # what takes the place of outliers where there is no auxiliary set
NOT_STORED = ("path", "collection")  # what a reader knows and the file does not say


@dataclass(frozen=True)
class ComponentRun:
    """A trainer or scorer as it ran."""

    name: str
    display: str  # as its author spells it
    code: str  # name@version, or name@digest where the code is not what oodbench ships
    values: dict[str, Any]  # of every hyperparameter
    changed: dict[str, Any] = field(default_factory=dict)  # those that the user set to another than the default


@dataclass(frozen=True)
class MethodRun:
    """A method as it ran."""

    name: str
    display: str  # as its author spells it
    group: str  # of rows in a table
    trainer: ComponentRun
    scorer: ComponentRun
    starts_from: list[ComponentRun] = field(default_factory=list)  # trainers before this one, the nearest first
    outliers: str | None = None  # the auxiliary set that it learned from; None: none, or the wild mixture

    @property
    def first(self) -> str:
        """What the method is named after; of a pair, the trainer."""
        return self.scorer.name if self.scorer.name == self.name else self.trainer.name

    @property
    def changed(self) -> list[str]:
        """Its changed hyperparameters, as its label has them, with a budget of labels and a set of outliers."""
        return changed_words(self.name, {each.name: self.shown(each) for each in (self.trainer, self.scorer)})

    def shown(self, component: ComponentRun) -> dict[str, Any]:
        """What the names of rows say of its trainer or scorer."""
        own = dict(component.changed)
        if component is self.trainer:
            own |= {BUDGET: component.values[BUDGET]} if self.group == LABELS and BUDGET in component.values else {}
            own |= {"outliers": self.outliers} if self.outliers is not None else {}
        return own


@dataclass(frozen=True)
class Search:
    """Which draw of a random search a result is."""

    draw: int
    of: str  # the variant of draw 0


@dataclass(frozen=True)
class Config:
    """What ran, as the values that ran."""

    suite: Contents  # of the suite file, under its preset
    setting: Setting
    method: MethodRun
    recipe: Recipe  # of the two in the suite, the one that trained
    code: dict[str, str]  # the components of the harness, the network and the corruptions, as name@version
    threads: int  # on a CPU
    init: str | None = None  # digest of the weights given by --init
    search: Search | None = None
    given: GivenRun | None = None  # the network, where none was trained


SHARED: dict[str, Any] = {"suite": Contents, "setting": Setting, "method": MethodRun, "recipe": Recipe}


@dataclass(frozen=True)
class SetRead:
    """A data set that was read."""

    fingerprint: str
    source: str


@dataclass(frozen=True)
class PartRead:
    """The images that played one part."""

    rows: int
    digest: str
    origin: str


@dataclass(frozen=True)
class DataRead:
    sets: dict[str, SetRead] = field(default_factory=dict)
    parts: dict[str, PartRead] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochAccuracies:
    """Accuracies by domain at the end of an epoch, where a setting holds out domains."""

    epoch: int
    step: int
    validation: dict[str, float]  # on the validation part of every domain
    test: dict[str, float]  # on the test part of the held-out ones

    @property
    def on_training_domains(self) -> float:
        return fmean(value for domain, value in self.validation.items() if domain not in self.test)

    @property
    def on_held_out_domains(self) -> float:
        return fmean(self.validation[domain] for domain in self.test)


@dataclass(frozen=True)
class Result:
    """One cell: what was run and what came out. Every field is described in docs/results.md."""

    suite: str
    preset: str | None
    setting: str
    method: str
    seed: int
    status: Literal["ok", "failed"]
    error: str | None
    traceback: str | None
    metrics: dict[str, float]
    metrics_version: int
    key: str
    variant: str
    training: str
    config: Config
    seeds: dict[str, int]
    versions: dict[str, str]
    commit: str | None
    device: str
    machine: dict[str, str]
    data: DataRead
    weights: str | None
    notes: dict[str, Any]
    domain_accuracies: list[EpochAccuracies]
    seconds: dict[str, float]
    written: str
    schema: int = SCHEMA
    path: Path | None = field(default=None, compare=False)  # where it was read from; not stored
    collection: str | None = field(default=None, compare=False)  # that a reader added it from; not stored

    def __repr__(self) -> str:
        return summary.one_line(self)

    def _repr_html_(self) -> str:
        return summary.as_html(self)

    @property
    def suite_label(self) -> str:
        """Suite and preset, and the collection where it was added from one: what tables keep apart."""
        label = self.suite if self.preset is None else f"{self.suite}-{self.preset}"
        return label if self.collection is None else f"{label} ({self.collection})"

    @property
    def group(self) -> str:
        return self.config.method.group

    @property
    def draw(self) -> int:
        """Of a random search; 0 for the values of the suite and the methods."""
        return 0 if self.config.search is None else self.config.search.draw

    @property
    def family(self) -> str:
        """What all draws of one search have in common: the variant of draw 0."""
        return self.variant if self.config.search is None else self.config.search.of

    @cached_property
    def ran_suite(self) -> Suite:
        """The suite as it ran, whatever its file says today."""
        return Suite(self.suite, Path(self.suite), self.preset, self.config.suite)

    @cached_property
    def settings_order(self) -> list[str]:
        """The columns of its suite."""
        suite = self.ran_suite
        return [suite.setting_name(setting) for setting in suite.settings]

    @cached_property
    def held_out(self) -> tuple[str, ...]:
        """The domains that the setting holds out."""
        return tuple(self.ran_suite.held_out(self.config.setting))


@cache
def _types() -> dict[str, Any]:
    """The fields of a file and their types."""
    return {name: type_ for name, type_ in get_type_hints(Result).items() if name not in NOT_STORED}


@cache
def _decoder() -> "msgspec.json.Decoder[Any]":
    """None of the fields may be missing, and no other be there. What results have in common is left as text."""
    types = get_type_hints(Config)
    texts = [(name, msgspec.Raw) for name in SHARED]
    others = [(each.name, types[each.name], *_default(each)) for each in fields(Config) if each.name not in SHARED]
    config = msgspec.defstruct("StoredConfig", [*texts, *others])
    stored = {**_types(), "config": config, "data": msgspec.Raw}
    return msgspec.json.Decoder(msgspec.defstruct("Stored", list(stored.items()), forbid_unknown_fields=True))


def _default(each: "Field[Any]") -> tuple[Any, ...]:
    return () if each.default is MISSING else (each.default,)


@lru_cache(maxsize=10_000)
def _shared(type_: Any, text: bytes) -> Any:
    """Most results of a folder have suite, method and data in common: such a text is read once, into one object."""
    return msgspec.json.decode(text, type=type_)


def file_of(folder: Path, suite: str, setting: str, method: str, seed: int, key: str) -> Path:
    """Where the result of a cell lies in a results folder."""
    method = re.sub(r"[^\w.,=+-]", "_", method)[:200]  # a hyperparameter may be any text
    return folder / suite / setting / method / f"seed{seed}-{key[:8]}.json"


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
        write_atomically(path.with_suffix(".npz"), lambda file: np.savez_compressed(file, **arrays), followed=True)
    if log:
        write_text(path.with_suffix(".jsonl"), "".join(json.dumps(record) + "\n" for record in log), followed=True)
    write_text(path, as_json(result))


def read_log(path: Path) -> list[dict[str, Any]]:
    """A record for every epoch of a training; FileNotFoundError without a file, `Unreadable` for what is no log."""
    try:
        records = [json.loads(line) for line in read_regular(path, RESULT_LIMIT).splitlines() if line.strip()]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Unreadable("not the log of a training") from None
    if not all(isinstance(record, dict) for record in records):
        raise Unreadable("not the log of a training")
    return records


def place(path: Path, files: Mapping[str, bytes]) -> None:
    """The files of a result that was written elsewhere, by their suffix; in the same order."""
    _keep_unreadable(path)
    for suffix in sorted(files, key=lambda suffix: suffix == path.suffix):
        write_bytes(path.with_suffix(suffix), files[suffix], followed=suffix != path.suffix)


def as_json(result: Result) -> str:
    values = asdict(result)
    for name in NOT_STORED:
        del values[name]
    suite = values["config"]["suite"]
    for kind in ("presets", "methods", "sweeps", "search"):  # what may be run, not what was
        del suite[kind]
    if not suite["groups"]:  # which tables need: the file of a user's suite is not at hand then
        del suite["groups"]
    if values["config"]["given"] is None:
        del values["config"]["given"]
    return json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _keep_unreadable(path: Path) -> None:
    """A file that stands where the result goes, but is none, is moved aside and not lost."""
    try:
        if path.exists() and not _is_readable(path):
            aside, n = path.with_suffix(".json.unreadable"), 1
            while aside.exists():
                aside, n = path.with_suffix(f".json.unreadable{n}"), n + 1
            os.replace(path, aside)
    except OSError as error:
        raise CannotWrite(
            f"cannot write '{path}': {error.strerror}; fix permissions or choose another folder"
        ) from None


def _is_readable(path: Path) -> bool:
    try:
        read(path)
    except Unreadable:
        return False
    return True


def read(path: Path) -> Result:
    try:
        content = read_regular(path, RESULT_LIMIT)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    try:
        stored = _decoder().decode(content.removeprefix(b"\xef\xbb\xbf"))
        values = {name: getattr(stored, name) for name in stored.__struct_fields__}
        shared = {name: _shared(type_, bytes(getattr(stored.config, name))) for name, type_ in SHARED.items()}
        given = {name: getattr(stored.config, name) for name in stored.config.__struct_fields__}
        values |= {"config": Config(**{**given, **shared}), "data": _shared(DataRead, bytes(stored.data))}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(_reason(content, str(error))) from None
    if stored.schema != SCHEMA:
        raise Unreadable(_reason(content, ""))
    return Result(**values, path=path)


def _reason(content: bytes, problem: str) -> str:
    """Why a file is not a result, in words."""
    try:
        values = json.loads(content.decode("utf-8-sig"))
        json.dumps(values, ensure_ascii=False).encode()  # \ud800 is JSON, but not text
    except (ValueError, RecursionError):
        return "truncated, or not JSON"
    if not isinstance(values, dict) or type(values.get("schema")) is not int or "variant" not in values:
        return "not an oodbench result"
    if values["schema"] > SCHEMA:
        return f"written by a newer oodbench (schema {values['schema']}, this one reads {SCHEMA}); upgrade oodbench"
    if values["schema"] == 1:
        return "made by oodbench 0.1; run it again, or read it with oodbench 0.1"
    if values["schema"] != SCHEMA:
        return f"not a result of schema {SCHEMA}"
    wrong = [name for name in _types() if name not in values] + sorted(set(values) - set(_types()))
    if wrong:
        return f"not a result of schema {SCHEMA}: missing or unknown field {wrong[0]!r}"
    try:
        for name, type_ in _types().items():
            conform(values[name], type_, (name,))
    except Misfit as error:
        problem = f"{spell(error.place)!r}: {error.message}"
    return shorten(f"damaged: {problem}", 120)
