"""Results: one JSON file per cell, which names the digest of its own content. Reading is strict. Imports no torch.

The fields are described in docs/results.md; what lies beside the file is the business of `stored`.
"""

import json
import re
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import cache, cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from textwrap import shorten
from typing import Any, Literal, get_type_hints

import msgspec

from oodbench import digests
from oodbench.config import identity
from oodbench.config.cards import BUDGET
from oodbench.config.recipe import Recipe
from oodbench.config.registry import changed_words
from oodbench.config.schema import Misfit, conform, spell
from oodbench.config.shipped import LABELS
from oodbench.config.suite import Contents, Setting, Suite
from oodbench.results import schema_2, summary
from oodbench.results.given_run import GivenRun as GivenRun
from oodbench.results.raw_scores import Unreadable as Unreadable
from oodbench.user_files import read_regular

SCHEMA = 3
# The fields that schema 2 did not have.
SINCE_3 = ("arrays", "chain", "constraints", "network", "precision", "ranks", "request", "training_path")
DIGEST = re.compile(rb'\n "digest": "([0-9a-f]{16})",')  # as `as_json` writes it; one deeper inside is indented more
RESULT_LIMIT = 2**28  # bytes of a file; the largest of ours has 100,000
WEIGHTS = "weights"  # the folder of cached weights inside a results folder
OUTPUTS = "outputs"  # and that of outputs that were to be kept
WILD_MIXTURE = "the wild mixture"  # what takes the place of outliers where there is no auxiliary set
NOT_STORED = ("path", "collection", "pack")  # what a reader knows and the file does not say


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

    def word(self, component: str, key: str, value: Any) -> str:
        """One hyperparameter, as the label of the method has it: `k=5`, or `knn.k=5` of a pair."""
        (word,) = changed_words(self.name, {component: {key: value}})
        return word

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
class ConstraintRun:
    """What a training was to keep at or below a limit, as its labeled images had it in the end."""

    name: str
    value: float
    limit: float
    met: bool  # as the trainer tells it, which may allow for chance


@dataclass(frozen=True)
class PathPoint:
    """What the network was at a step of its training."""

    step: int
    metrics: dict[str, float]
    constraints: list[ConstraintRun] = field(default_factory=list)


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
    request: dict[str, Any] = field(default_factory=dict)  # what was asked for, as a file of requests says it
    chain: list[str] = field(default_factory=list)  # the code of trainers and scorer, in the order in which they worked
    precision: str | None = None  # of the arithmetic
    constraints: list[ConstraintRun] = field(default_factory=list)
    training_path: list[PathPoint] = field(default_factory=list)
    arrays: dict[str, str] = field(default_factory=dict)  # the digest of every array, by its name
    network: str | None = None  # digest of those that all scorers of the network share
    ranks: bool = False  # whether its scores are kept as joint ranks, as a pack may do
    schema: int = SCHEMA
    path: Path | None = field(default=None, compare=False)  # where it was read from; not stored
    collection: str | None = field(default=None, compare=False)  # that a reader added it from; not stored
    pack: Path | None = field(default=None, compare=False)  # the file that holds it, if not a folder; not stored

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
    def has_current_metrics(self) -> bool:
        """Whether its metrics are of today's version; a cell that failed has none to renew."""
        return self.status != "ok" or self.metrics_version == identity.version_of("metrics")

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
def _types(schema: int) -> dict[str, Any]:
    """The fields of a file and their types."""
    left_out = NOT_STORED if schema == SCHEMA else (*NOT_STORED, *SINCE_3)
    types = {name: type_ for name, type_ in get_type_hints(Result).items() if name not in left_out}
    return {**types, "digest": str} if schema == SCHEMA else types


@cache
def _decoder(schema: int) -> "msgspec.json.Decoder[Any]":
    """None of the fields may be missing, and no other be there. What results have in common is left as text."""
    types = get_type_hints(Config)
    texts = [(name, msgspec.Raw) for name in SHARED]
    others = [(each.name, types[each.name], *_default(each)) for each in fields(Config) if each.name not in SHARED]
    config = msgspec.defstruct("StoredConfig", [*texts, *others])
    stored = {**_types(schema), "config": config, "data": msgspec.Raw}
    return msgspec.json.Decoder(msgspec.defstruct("Stored", list(stored.items()), forbid_unknown_fields=True))


class _Schema(msgspec.Struct):
    schema: int


def _default(each: "Field[Any]") -> tuple[Any, ...]:
    return () if each.default is MISSING else (each.default,)


@lru_cache(maxsize=10_000)
def _shared(type_: Any, text: bytes) -> Any:
    """Most results of a folder have suite, method and data in common: such a text is read once, into one object."""
    return msgspec.json.decode(text, type=type_)


def as_json(result: Result) -> str:
    """With the digest of all else in it."""
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
    return _canonical({**values, "schema": SCHEMA, "digest": digests.of_text(_canonical({**values, "schema": SCHEMA}))})


def _canonical(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _is_untouched(content: bytes, digest: str) -> bool:
    """Whether its values are those that were written, whatever a program has done to spaces and order since."""
    if digests.of_bytes(DIGEST.sub(b"", content, count=1)) == digest:
        return True
    values = json.loads(content)
    del values["digest"]
    return digests.of_text(_canonical(values)) == digest


def read(path: Path) -> Result:
    """The result in a file; `Unreadable` for whatever is none, or is not what was written."""
    try:
        content = read_regular(path, RESULT_LIMIT)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    result = from_json(content, path)
    if result.schema == schema_2.SCHEMA and result.has_current_metrics:
        schema_2.check(path, content, result.metrics)
    return result


def from_json(content: bytes, path: Path) -> Result:
    """The result that a file of this path has as its content."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        schema = msgspec.json.decode(content, type=_Schema).schema
        if schema not in (SCHEMA, schema_2.SCHEMA):
            raise Unreadable(_reason(content, ""))
        stored = _decoder(schema).decode(content)
        values = {name: getattr(stored, name) for name in stored.__struct_fields__}
        shared = {name: _shared(type_, bytes(getattr(stored.config, name))) for name, type_ in SHARED.items()}
        given = {name: getattr(stored.config, name) for name in stored.config.__struct_fields__}
        values |= {"config": Config(**{**given, **shared}), "data": _shared(DataRead, bytes(stored.data))}
        if schema == SCHEMA and not _is_untouched(content, values.pop("digest")):
            raise Unreadable("edited after it was written: its digest is that of other content")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Unreadable(_reason(content, str(error))) from None
    return Result(**values, path=path)


def _reason(content: bytes, problem: str) -> str:
    """Why a file is not a result, in words."""
    try:
        values = json.loads(content)
        json.dumps(values, ensure_ascii=False).encode()  # \ud800 is JSON, but not text
    except (ValueError, RecursionError):
        return "truncated, or not JSON"
    if not isinstance(values, dict) or type(values.get("schema")) is not int or "variant" not in values:
        return "not an oodbench result"
    schema = values["schema"]
    if schema > SCHEMA:
        return f"written by a newer oodbench (schema {schema}, this one reads {SCHEMA}); upgrade oodbench"
    if schema == 1:
        return "made by oodbench 0.1; run it again, or read it with oodbench 0.1"
    if schema not in (SCHEMA, schema_2.SCHEMA):
        return f"not a result of schema {SCHEMA}"
    types = _types(schema)
    wrong = [name for name in types if name not in values] + sorted(set(values) - set(types))
    if wrong:
        return f"not a result of schema {schema}: missing or unknown field {wrong[0]!r}"
    try:
        for name, type_ in types.items():
            conform(values[name], type_, (name,))
    except Misfit as error:
        problem = f"{spell(error.place)!r}: {error.message}"
    return shorten(f"damaged: {problem}", 120)
