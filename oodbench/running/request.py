"""What a user asked for, whichever door it came in by: the command line, Python, or a file of requests.

All three build the same frozen `Request` by the same names, and `plan` takes nothing else.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from oodbench import digests
from oodbench.config.contents import FOLDER
from oodbench.config.schema import Document, Misfit, conform, values_of
from oodbench.errors import UserError, shortened, shown, unknown
from oodbench.files import write_text
from oodbench.results.selection import TRAINING_DOMAIN
from oodbench.running.shards import check_stage, shard_of

DEFAULT_SUITE = "digits-c"
RUNS = "runs"  # the key of a file under which several requests stand
MOST_CELLS = 100_000  # of a request: to plan them takes minutes and a gigabyte, to run them years
MOST_POINTS = 1000  # of a path
MOST_WORKERS = 1024  # processes on a machine
RAY, SLURM = ENGINES = ("ray", "slurm")
_SPAN = re.compile(r"(\d+)\s*-\s*(\d+)")


@dataclass(frozen=True)
class Request:
    """One suite and all that may be said about running it. The names are those of the command line and of Python."""

    suite: str = DEFAULT_SUITE  # a name, or a YAML file
    methods: tuple[str, ...] = ()  # none: those of the sweep, or else the suite's own and the plugins'
    settings: tuple[str, ...] = ()  # none: those of the suite
    semantic: tuple[str, ...] = ()
    covariate: tuple[str, ...] = ()
    outliers: str | None = None  # a data set, folder:PATH or wild; None: the suite's, or the wild mixture
    sweep: str | None = None
    seeds: tuple[int, ...] = (0,)
    set: tuple[str, ...] = ()  # name.key=value, with several values a grid
    draws: int = 1
    selection: str = TRAINING_DOMAIN
    preset: str | None = None
    plugins: tuple[str, ...] = ()
    model: str | None = None  # FILE.py:function, timm:NAME or the name of a network; None: the suite's network
    init: str | None = None
    results: str = "results"
    device: str = "auto"
    precision: str | None = None
    cpu_threads: int | None = None
    compile: bool = False  # the network's body, on a GPU; on a CPU it would only cost
    deterministic: bool = False
    keep_outputs: bool = False  # features and logits of every pass on disk, and read from there
    path: int = 0  # points at which networks are measured while they train
    save_splits: bool = False
    offline: bool = False
    available: bool = False  # leave out settings whose data is missing
    force: bool = False
    take_over: bool = False  # instead of waiting for another process, do what it holds here too
    workers: int | None = None  # processes; None: on a CPU as many as there are cores, if that is worth it
    per_device: int = 1  # workers that share a GPU
    on: str | None = None  # another engine: ray[:ADDRESS] or slurm:OPTIONS
    timeout: float | None = None  # seconds for a training and for scoring a cell
    here: bool = False  # users' code in this process, for a debugger; otherwise in workers of its own
    shard: str | None = None  # 3/16: of sixteen parts of the trainings, with their cells, the third
    stage: str | None = None  # of a shard: parents, the trainings that others start from; or rest, all else
    keys: str | None = None  # a digest of the keys of all cells, which whoever runs this must have too

    def __post_init__(self) -> None:
        if self.settings and (self.semantic or self.covariate):
            raise UserError(
                "--setting names a semantic and a covariate set already; leave out --semantic and --covariate"
            )
        if not self.seeds:
            raise UserError("no seed given; name at least one, for example --seeds 0,1,2")
        for seed in self.seeds:
            if seed < 0:
                raise UserError(f"seed {seed} is negative; seeds are whole numbers from 0")
            if seed >= 2**63:
                raise UserError(f"seed {shown(seed)} is too large; choose one of at most 18 digits")
        for text in [
            self.suite,
            self.results,
            self.init or "",
            self.model or "",
            self.outliers or "",
            *self.plugins,
            *self.semantic,
            *self.covariate,
        ]:
            _check_name(text)
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise UserError(f"--workers {shown(self.workers)} is out of range; choose 1 to {MOST_WORKERS:,}")
        if not 1 <= self.per_device <= MOST_WORKERS:
            raise UserError(f"{shown(self.per_device)} workers cannot share a device; choose --per-device 1 or more")
        if self.timeout is not None and not self.timeout > 0:
            raise UserError(f"--timeout {self.timeout:g} leaves no time for anything; choose seconds above 0")
        if self.on is not None and self.on.partition(":")[0] not in ENGINES:
            raise unknown("engine", self.on.partition(":")[0], ENGINES)
        if self.engine == SLURM and (self.shard is not None or self.force):
            raise UserError("--on slurm splits the missing work itself; leave out --shard and --force")
        if self.shard is not None:
            shard_of(self.shard)
        check_stage(self.stage, self.shard)
        if self.stage is not None and self.force:
            raise UserError("--force would train in every shard what others start from; leave out --stage or --force")
        if self.path != 0 and not 2 <= self.path <= MOST_POINTS:
            raise UserError(f"--path {shown(self.path)} is out of range; choose 2 to {MOST_POINTS:,} points")
        if self.draws < 1:
            raise UserError(f"--draws {self.draws} is out of range; choose 1, which is what the suite says, or more")

    @property
    def folder(self) -> Path:
        return Path(self.results)

    @property
    def engine(self) -> str | None:
        return None if self.on is None else self.on.partition(":")[0]

    @property
    def names_settings(self) -> bool:
        """Whether the user chose the settings, rather than the suite."""
        return bool(self.settings or self.semantic or self.covariate)


def _check_name(text: str) -> None:
    """What names a file or folder; from Python or a file it may hold letters that no command line can."""
    try:
        if "\0" not in text:
            os.fsencode(text)
            return
    except UnicodeEncodeError:
        pass
    raise UserError(f"{shown(text)} cannot name a file or folder; write it without special characters")


def check_count(cells: int) -> None:
    """Before so many cells are planned."""
    if cells > MOST_CELLS:
        raise UserError(f"this asks for {cells:,} cells, and {MOST_CELLS:,} is the maximum; ask for fewer")


LISTS = {each.name for each in fields(Request) if each.type == tuple[str, ...]}
PATHS = {"init", "results", "suite"}


def request(**values: Any) -> Request:
    """A request from what a user wrote: one text or several, a number of seeds, a mapping of values to set."""
    known = {each.name: each for each in fields(Request)}
    given = {}
    for name, value in values.items():
        if name not in known:
            raise unknown("part of a request", name, known)
        if value is not None:
            given[name] = _normal(name, value)
    return Request(**given)


def _normal(name: str, value: Any) -> Any:
    if name == "seeds":
        return seeds(value)
    if name == "set":
        return _assignments(value)
    if name == "methods" and isinstance(value, str):
        words = tuple(word.strip() for word in value.split(",") if word.strip())
        if not words:
            raise UserError("no method given; name at least one, for example --methods msp,knn")
        return words
    if name in LISTS:
        each = [value] if isinstance(value, str | os.PathLike) else value
        return tuple(str(os.fspath(word)) if isinstance(word, os.PathLike) else word for word in each)
    if name == "model" and not isinstance(value, str):
        raise UserError(
            f"a run takes no {type(value).__name__} as its model; name a function that makes it, FILE.py:build"
        )
    if name in PATHS and isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def seeds(given: int | str | Iterable[int]) -> tuple[int, ...]:
    """`0,1,2`, `0-4` or `0-2,7` as text; from Python also any whole numbers, and `3` for the first three."""
    if isinstance(given, bool):
        raise UserError(f"{given} is not a number of seeds; write seeds=3 or seeds=[0, 1, 2]")
    if isinstance(given, int):
        if given > MOST_CELLS:
            raise UserError(f"{shown(given)} seeds are too many; give {MOST_CELLS:,} or fewer")
        return tuple(range(given))
    if not isinstance(given, str):
        return tuple(dict.fromkeys(int(seed) for seed in given))
    numbers: list[int] = []
    for word in [word.strip() for word in given.split(",") if word.strip()]:
        span = _SPAN.fullmatch(word)
        try:
            first, last = (int(span[1]), int(span[2])) if span else (int(word), int(word))
        except ValueError:
            raise UserError(
                f"'{shortened(given)}' is not a list of seeds; write whole numbers, as in --seeds 0,1,2 or 0-4"
            ) from None
        if last < first or last - first >= MOST_CELLS or len(numbers) >= MOST_CELLS:
            raise UserError(
                f"'{shortened(word)}' holds no seeds, or too many; write the smaller number first, as in 0-4"
            )
        numbers += range(first, last + 1)
    return tuple(dict.fromkeys(numbers))


def _assignments(given: str | Mapping[str, Any] | Iterable[str]) -> tuple[str, ...]:
    """`name.key=value` as text, or a mapping of these; a list of values is a grid."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping):
        return tuple(f"{name}={_values(value)}" for name, value in given.items())
    return tuple(given)


def _values(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_values, value))
    try:
        return str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python prints no whole number of more than 4,300 digits
        raise UserError(f"a value to set is {shown(value)}; choose a smaller one") from None


def alternatives(assignment: str) -> list[str]:
    """`scone.margin=-1,-2` as two assignments: a comma outside brackets and quotes separates values of a grid."""
    target, equals, text = assignment.partition("=")
    words, depth, quote, start = [], 0, "", 0
    for i, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in ")}]":
            depth -= 1
        elif letter == "," and depth == 0:
            words.append(text[start:i])
            start = i + 1
    words.append(text[start:])
    return [f"{target}{equals}{word.strip()}" for word in words] if equals else [assignment]


def read(path: Path) -> list[Request]:
    """The requests of a file: one mapping, or several under `runs` that share what stands beside it."""
    document = Document(path)
    if not isinstance(document.values, dict):
        raise document.error((), "expected a mapping of keys to values")
    shared = {key: value for key, value in document.values.items() if key != RUNS}
    runs = document.values.get(RUNS, [{}])
    if not isinstance(runs, list) or not runs or not all(isinstance(each, dict) for each in runs):
        raise document.error((RUNS,), "expected a list of mappings, one for each run")
    requests = []
    for i, run in enumerate(runs):
        try:
            values = {**_typed(shared, ()), **_typed(run, (RUNS, i))}
        except Misfit as error:
            raise document.error(error.place, error.message) from None
        suites = values.pop("suite", DEFAULT_SUITE)
        try:
            requests += [request(suite=suite, **values) for suite in ([suites] if isinstance(suites, str) else suites)]
            if not requests:
                raise UserError("expected at least one suite")
        except UserError as error:
            raise document.error((RUNS, i) if RUNS in document.values else (), str(error)) from None
    return requests


def _typed(values: Mapping[str, Any], place: tuple[str | int, ...]) -> dict[str, Any]:
    hints = get_type_hints(Request)
    special: dict[str, Any] = {
        "suite": str | list[str],
        "seeds": int | str | list[int],
        "set": str | list[str] | dict[str, Any],
        **dict.fromkeys(LISTS - {"set"}, str | list[str]),
    }
    typed = {}
    for name, value in values.items():
        if name not in hints:
            raise Misfit((*place, str(name)), str(unknown("key", str(name), [*hints, RUNS])))
        typed[name] = conform(value, special.get(name, hints[name]), (*place, name))
    if isinstance(typed.get("seeds"), int):  # as on the command line, where a number is that seed
        typed["seeds"] = [typed["seeds"]]
    return typed


def as_values(each: Request) -> dict[str, Any]:
    """What differs from the defaults, in plain values, as a file holds it."""
    defaults = {f.name: f.default for f in fields(Request) if f.default is not MISSING}
    stated = {name: value for name, value in values_of(each).items() if name == "suite" or value != defaults[name]}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in stated.items()}


REQUESTS = "requests"  # the folder inside a results folder that holds what was asked of it


_PROCESSES = {"device", "workers", "per_device", "on", "timeout", "here", "shard", "stage", "keys"}
HOW = {"results", "force", "take_over", "path"} | _PROCESSES


def _what(asked: Request) -> Request:
    """Without where and how it runs."""
    return Request(**{**vars(asked), **{each.name: each.default for each in fields(Request) if each.name in HOW}})


def recorded(asked: Request) -> dict[str, Any]:
    """What was asked, for a result to carry: plain values, and of what lies somewhere its name alone."""
    return {name: placeless(value) for name, value in as_values(_what(asked)).items()}


def placeless(value: Any) -> Any:
    """Of absolute paths their names, which are no secret of the user's."""
    if isinstance(value, list | tuple):
        return [placeless(each) for each in value]
    if isinstance(value, str):
        kind, colon, place = value.partition(":") if value.startswith(FOLDER) else ("", "", value)
        return f"{kind}{colon}{Path(place).name}" if Path(place).is_absolute() else value
    return value


def remember(asked: Request) -> None:
    """Write a request into its results folder, so that others can tell what is left of it."""
    plain = _what(asked)
    name = f"{Path(asked.suite).stem}-{digests.of_values(as_values(plain))[:8]}.yaml"
    path = asked.folder / REQUESTS / name
    if not path.exists():
        save([plain], path)


def save(requests: Iterable[Request], path: Path) -> None:
    """A file that `read` gives the same requests from."""
    values = [as_values(each) for each in requests]
    text = yaml.safe_dump(values[0] if len(values) == 1 else {RUNS: values}, sort_keys=False, allow_unicode=True)
    write_text(path, text)
