"""The command line's work in three lines of Python."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.report import layouts, render
from oodbench.results import result as ledger
from oodbench.results.folder import read_folder
from oodbench.results.selection import TRAINING_DOMAIN
from oodbench.running import plan as planning

if TYPE_CHECKING:
    from oodbench.results.result import Result


class _Quiet:
    def training(self, *_: object) -> None: ...
    def progress(self, *_: object) -> None: ...
    def result(self, *_: object) -> None: ...


def run(
    suite: str,
    methods: str | Sequence[str] | None = None,
    settings: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    set: Iterable[str] = (),
    preset: str | None = None,
    device: str = "auto",
    results: str | Path = "results",
    plugins: Iterable[str | Path] = (),
    force: bool = False,
    init: str | Path | None = None,
    semantic: Sequence[str] = (),
    covariate: Sequence[str] = (),
    sweep: str | None = None,
    draws: int = 1,
    selection: str = TRAINING_DOMAIN,
    precision: str | None = None,
    cpu_threads: int | None = None,
    compile: bool = False,
    deterministic: bool = False,
    keep_outputs: bool = False,
) -> "list[Result]":
    """What `oodbench run` does, silently: runs what is missing and returns the results of every cell asked for."""
    from oodbench.running import execution

    chosen = suites.load(suite, preset).with_sets(semantic, covariate).with_precision(precision)
    chosen = chosen.with_threads(cpu_threads)
    swept = chosen.sweep(sweep)
    plan = planning.make(
        chosen,
        Registry(plugins),
        methods if methods is not None else swept.methods if swept else "all",
        settings,
        seeds,
        set,
        Path(results),
        force,
        Path(init) if init else None,
        sweep,
        draws,
        selection,
    )
    if plan.todo:
        options = execution.Options(compile, deterministic, keep_outputs)
        execution.execute(plan, execution.choose_device(device), _Quiet(), force, options)
    return [ledger.read(cell.path) for cell in plan.cells]


def read_results(folder: str | Path = "results") -> "list[Result]":
    """Every readable result below a folder."""
    return read_folder(Path(folder))[0]


def table(
    folder: str | Path = "results",
    format: Literal["text", "markdown", "latex", "csv", "json"] = "markdown",
    metrics: Sequence[str] | None = None,
    seeds: Literal["all"] | int = "all",
    layout: str | None = None,
    reported: bool = False,
    selection: str = TRAINING_DOMAIN,
) -> str:
    """What `oodbench table` prints."""
    return render.render(layouts.assemble(read_results(folder), metrics, seeds, layout, reported, selection), format)
