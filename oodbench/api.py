"""The command line's work in three lines of Python."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from oodbench.errors import UserError
from oodbench.notebook import reporter
from oodbench.report import differences, layouts
from oodbench.report.page import site
from oodbench.report.result_set import ResultSet, Tables
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results import result as ledger
from oodbench.results.folder import read_or_warn
from oodbench.results.frame import from_records
from oodbench.results.selection import TRAINING_DOMAIN
from oodbench.running import merging
from oodbench.running.given.request import given_request
from oodbench.running.merging import Merged
from oodbench.running.repeat import Files, command
from oodbench.running.reporting import Silent
from oodbench.running.request import DEFAULT_SUITE, request
from oodbench.running.run import carry_out, prepare

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from oodbench.learning.networks import Classifier
    from oodbench.results.result import Result
    from oodbench.running.given.detector import Detector

FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: ((?:(?:[a-z]+:)?[A-Z]+|[^\s;,`']*\d[^\s;`']*)(?=[\s;,)]|$)))?")
COMMAND = "oodbench "  # begins a command in a message, which stays as a terminal takes it

P = ParamSpec("P")
T = TypeVar("T")


def _in_python(function: Callable[P, T]) -> Callable[P, T]:
    """Errors of a public function name its arguments, where the command line has options of these names."""
    known = inspect.signature(function).parameters

    def argument(match: re.Match[str]) -> str:
        name, value = match[1].replace("-", "_"), match[2] or ""
        named = next((each for each in (name, f"{name}s") if each in known), None)  # --setting is settings=
        is_text = value and re.fullmatch(r"-?[\d.]+", value) is None
        return match[0] if named is None else f'{named}="{value}"' if is_text else f"{named}={value}"

    @wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> T:
        try:
            return function(*given, **named)
        except UserError as error:
            text, command, rest = str(error.args[0]).partition(COMMAND) if error.args else ("", "", "")
            error.args = (FLAG.sub(argument, text) + command + rest, *error.args[1:])
            raise

    return called


@_in_python
def run(
    suite: str | Path = DEFAULT_SUITE,
    methods: str | Sequence[str] | None = None,
    settings: str | Sequence[str] = (),
    seeds: int | str | Iterable[int] = (0,),
    set: str | Mapping[str, Any] | Iterable[str] = (),
    preset: str | None = None,
    device: str = "auto",
    results: str | Path = "results",
    plugins: str | Path | Sequence[str | Path] = (),
    model: str | None = None,
    force: bool = False,
    init: str | Path | None = None,
    semantic: str | Sequence[str] = (),
    covariate: str | Sequence[str] = (),
    outliers: str | None = None,
    sweep: str | None = None,
    draws: int = 1,
    selection: str = TRAINING_DOMAIN,
    precision: str | None = None,
    cpu_threads: int | None = None,
    compile: bool = False,
    deterministic: bool = False,
    keep_outputs: bool = False,
    path: int = 0,
    save_splits: bool = False,
    offline: bool = False,
    available: bool = False,
    take_over: bool = False,
    workers: int | None = None,
    per_device: int = 1,
    on: str | None = None,
    timeout: float | None = None,
    here: bool = False,
    shard: str | None = None,
    stage: str | None = None,
    keys: str | None = None,
) -> ResultSet:
    """What `oodbench run` does: fetches and runs what is missing and returns the result of every cell.

    A notebook shows how far it is and the results as a table; elsewhere it is silent. The names are those of the
    command line. `seeds=3` are the first three, `seeds=0` is seed 0, and `set` may be a mapping such as
    {"scone.margin": [-1, -2]}, where a list is a grid. `workers=2` runs two processes of their own, which a script may
    ask for anywhere: it needs no `if __name__ == "__main__"`.
    """
    asked = locals() | ({"seeds": (0,)} if _is_zero(seeds) else {})
    told = reporter()
    planned = prepare(request(**asked), told)
    carry_out(planned, told)
    return ResultSet(ledger.read(cell.path) for cell in planned.cells if planned.only is None)


def _is_zero(seeds: object) -> bool:
    """Whether seed 0 is meant, where other numbers say how many."""
    return isinstance(seeds, int) and not isinstance(seeds, bool) and seeds == 0


@_in_python
def evaluate(
    model: Any = None,
    suite: str | Path | None = None,
    train: Any = None,
    id: Any = None,
    covariate: Any = None,
    semantic: Any = None,
    scorers: str | Sequence[str] | None = None,
    arrays: str | Path | None = None,
    name: str | None = None,
    weights: str | Path | None = None,
    head: str | None = None,
    features: str | None = None,
    classes: str | Path | None = None,
    mean: Any = None,
    std: Any = None,
    size: Any = None,
    preset: str | None = None,
    settings: str | Sequence[str] = (),
    set: str | Mapping[str, Any] | Iterable[str] = (),
    plugins: str | Path | Sequence[str | Path] = (),
    results: str | Path = "results",
    device: str = "auto",
    cpu_threads: int | None = None,
    half_bank: bool = False,
    offline: bool = False,
    available: bool = False,
    force: bool = False,
) -> ResultSet:
    """What `oodbench evaluate` does: a network of yours under the scorers, or all that fit.

    `model` is an `nn.Module`, or a text as on the command line. `train`, `id` and each of `covariate` and `semantic`,
    which are mappings of names to sets, are a DataLoader of (image, label), arrays (images, labels), a list of such
    pairs, or a folder with a folder per class. uint8 images are pixels; fractions are already preprocessed.
    """
    from oodbench.running.given.evaluating import carry_out as evaluated

    asked = {key: value for key, value in locals().items() if key != "evaluated"}
    return ResultSet(evaluated(given_request(**asked), reporter()).results)


@_in_python
def fit(
    model: Any,
    train: Any = None,
    id: Any = None,
    scorer: str = "best",
    keep: float = 0.95,
    aim: Literal["detection", "both"] | None = None,
    covariate: Any = None,
    semantic: Any = None,
    suite: str | Path | None = None,
    name: str | None = None,
    weights: str | Path | None = None,
    head: str | None = None,
    features: str | None = None,
    classes: str | Path | None = None,
    mean: Any = None,
    std: Any = None,
    size: Any = None,
    preset: str | None = None,
    settings: str | Sequence[str] = (),
    set: str | Mapping[str, Any] | Iterable[str] = (),
    plugins: str | Path | Sequence[str | Path] = (),
    results: str | Path = "results",
    device: str = "auto",
    cpu_threads: int | None = None,
    half_bank: bool = False,
    offline: bool = False,
    available: bool = False,
) -> "Detector":
    """What `oodbench fit` does, silently: a detector with a threshold that keeps a share of ID images it was not
    fitted on. Names as in `evaluate`; `scorer="best"` chooses on the semantic sets. With `aim="both"`, which is the
    default where there are covariate images, these count as ID. Scores of the same sets that `evaluate` has stored in
    `results` are taken from there.
    """
    from oodbench.running.given.fit import fit as fitted

    asked = {key: value for key, value in locals().items() if key not in ("scorer", "keep", "aim", "fitted")}
    return fitted(given_request(**asked), scorer, keep, Silent(), aim).detector


@_in_python
def merge(
    others: str | Path | Iterable[str | Path],
    into: str | Path = "results",
    weights: bool = False,
    dry_run: bool = False,
) -> Merged:
    """What `oodbench merge` does, silently: copies the results of other folders into one.

    Cells with other content under the same key, and files that cannot be read, stay where they are and are returned.
    """
    named = [others] if isinstance(others, str | Path) else others
    return merging.merge([Path(each) for each in named], Path(into), weights, dry_run)


@_in_python
def read_results(folder: str | Path = "results") -> "list[Result]":
    """Every readable result below a folder; a `SkippedWarning` names and counts what cannot be read."""
    return read_or_warn(Path(folder))


@_in_python
def table(
    folder: str | Path = "results",
    format: str = "markdown",
    metrics: Sequence[str] | None = None,
    seeds: Literal["all"] | int | Sequence[int] = "all",
    layout: str | None = None,
    reported: bool = False,
    selection: str | None = None,
    sort: str | None = None,
    methods: str | Sequence[str] = (),
    suite: str | Sequence[str] = (),
    setting: str | Sequence[str] = (),
    average: bool = False,
    width: int | None = None,
    columns: Sequence[str] | None = None,
    tests: bool = False,
    ranks: bool = False,
) -> Tables:
    """What `oodbench table` prints, as a `str` that a notebook shows as tables and that has `frame()` and `latex()`.

    `format` is one of `oodbench.report.render.FORMATS`. `seeds=3` are the three lowest, `seeds=[0, 2]` these two, and
    `seeds=0` is seed 0. `tests` marks what is not shown to be worse than the best, and `ranks` adds ranks. `columns`
    is another word for `metrics`. With `width`, `format="text"` has no longer lines.
    """
    if metrics is not None and columns is not None:
        raise UserError("columns and metrics are one thing; give one of them")
    shown = metrics if columns is None else columns
    methods, suites, settings = ([each] if isinstance(each, str) else each for each in (methods, suite, setting))
    counted: Literal["all"] | int | Sequence[int] = (0,) if _is_zero(seeds) else seeds
    built = layouts.assemble(
        read_results(folder),
        shown,
        counted,
        layout,
        reported,
        selection,
        sort,
        methods,
        suites,
        settings,
        average,
        tests,
        ranks,
    )
    return Tables(built, format, width)


@_in_python
def compare(
    folder: str | Path = "results",
    baseline: str | None = None,
    methods: Sequence[str] = (),
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> "pd.DataFrame":
    """What `oodbench compare` prints: a row for every suite, setting, metric and method, in rates.

    `low` and `high` are the ends of the 95 % interval of the difference to the baseline, and `covers` says of what. The
    baseline is ERM unless another is named; of given networks alone it is MSP.
    """
    compared = differences.compare(read_results(folder), baseline, methods, metrics)
    return from_records(differences.records(compared), differences.RECORDS)


@_in_python
def figure(
    results: "str | Path | Sequence[Result]" = "results",
    name: "str | Path | Sequence[Result] | None" = None,
    methods: Sequence[str] = (),
    suite: str | None = None,
    setting: str | None = None,
    width: str | float = "text",
    title: bool | None = None,
) -> "Figure":
    """A figure of `oodbench plot`, as matplotlib has it, of a folder or of results at hand; a notebook shows it.

    `name` is one of `oodbench.report.figures.FIGURES`; the other order of the two is deprecated.
    It is of the first suite and setting that allow it, unless these are named as tables name them. `width` is "column",
    "text" or inches. By default it has a title only where there are several suites or settings.
    """
    from oodbench.report.figures import FIGURES, draw_first

    if isinstance(results, str) and results in FIGURES and not (isinstance(name, str) and name in FIGURES):
        stated = "results" if name is None else name
        warnings.warn(f"write figure(results, '{results}'): the results come first", DeprecationWarning, stacklevel=3)
        results, name = stated, results
    if not isinstance(name, str):
        raise UserError(f"no figure is named; give name=, one of: {', '.join(FIGURES)}")
    found = read_results(results) if isinstance(results, (str, Path)) else list(results)
    named = [methods] if isinstance(methods, str) else methods
    return draw_first(name, found, named, suite, setting, width, title, network_of).figure


@_in_python
def report(
    results: str | Path | Sequence[str | Path] = "results",
    out: str | Path = "site",
    single: bool = False,
    title: str | None = None,
    selection: str | None = None,
) -> Path:
    """What `oodbench report` does, silently: a page of the results of a folder, or of several, and its path."""
    return site.report(results, out, single, title, selection, partial(command, files=Files()))


def network_of(result: "Result") -> "Classifier":
    """The trained network of a result, with the weights of its results folder; for figures of features."""
    from oodbench.running import trained

    return trained.of(result).model
