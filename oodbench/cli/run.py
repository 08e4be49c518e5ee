"""`oodbench run`: from the request to the plan, how the run goes, and its table."""

import argparse
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING

from oodbench.cli import data
from oodbench.cli.results_given import report_problems
from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.files import write_text
from oodbench.report import render, tables
from oodbench.results.folder import read_folder
from oodbench.results.metrics import METRICS
from oodbench.results.selection import TRAINING_DOMAIN
from oodbench.running import plan as planning

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Training
    from oodbench.running.plan import Plan

TOLD = ("environments", "margin", "weights")  # notes of a result that its line on screen names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    what.add_argument("--suite", required=True, metavar="S", help="a suite of `oodbench list suites`, or a YAML file")
    what.add_argument("--methods", metavar="A,B,C+D", help="methods, trainer+scorer pairs, or `all` that fit (default)")
    what.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="SETTING",
        help="a semantic set and what differs from the suite's settings, for example "
        "unseen-digits,covariate=blur,severity=5; may be repeated; default: the settings of the suite",
    )
    what.add_argument(
        "--semantic", action="append", default=[], metavar="NAME|folder:PATH", help="only this semantic set; repeatable"
    )
    what.add_argument(
        "--covariate", action="append", default=[], metavar="NAME|folder:PATH", help="this covariate set; repeatable"
    )
    what.add_argument("--sweep", metavar="NAME", help="an ablation of the suite; see `oodbench show SUITE`")
    what.add_argument("--seeds", default="0", metavar="0,1,2", help="whole numbers, one run each (default: 0)")
    what.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME.KEY=VALUE",
        help="a hyperparameter of a trainer or scorer, or recipe.epochs, id.jpeg, splits.labelled and the like; "
        "may be repeated",
    )
    what.add_argument(
        "--draws",
        type=int,
        default=1,
        metavar="N",
        help="a random search: the suite's values, and N - 1 draws from the distributions that suite and methods state",
    )
    what.add_argument(
        "--selection",
        default=TRAINING_DOMAIN,
        metavar="RULE",
        help="what the table selects by where domains are held out: training-domain (default), oracle, or "
        "leave-one-domain-out, for which every two domains are held out too",
    )
    what.add_argument("--preset", metavar="P", help="smoke, cpu or paper, where the suite has it")
    what.add_argument("--plugin", action="append", default=[], metavar="FILE.py", help="a file with a method of yours")
    how = parser.add_argument_group("how to run")
    how.add_argument("--init", metavar="FILE", help="weights of the suite's network that stand for those of erm")
    how.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:1")
    how.add_argument(
        "--precision",
        metavar="P",
        help="of the network's body: fp32, tf32 or bf16, where the device has it (default: the suite's, or fp32)",
    )
    how.add_argument(
        "--cpu-threads",
        type=int,
        metavar="N",
        help="threads of a training on a CPU; in its key (default: 1)",
    )
    how.add_argument("--compile", action="store_true", help="let torch compile the network's body, on a GPU")
    how.add_argument("--deterministic", action="store_true", help="only algorithms that repeat a GPU's numbers exactly")
    how.add_argument(
        "--keep-outputs", action="store_true", help="keep features and logits in DIR/outputs; later runs read them"
    )
    how.add_argument("--results", default="results", metavar="DIR", help="where results go (default: results)")
    how.add_argument("--offline", action="store_true", help="do not fetch missing data")
    how.add_argument("--available", action="store_true", help="leave out settings whose data is missing")
    how.add_argument("--save-splits", action="store_true", help="write which rows play which part beside the results")
    how.add_argument("--dry-run", action="store_true", help="print the plan and the time it will take, run nothing")
    how.add_argument("--force", action="store_true", help="run again what is done already")


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return [int(word) for word in words]
    except ValueError:
        raise UserError(f"'{text}' is not a list of seeds; write whole numbers, for example --seeds 0,1,2") from None


def main(given: argparse.Namespace) -> int:
    folder = Path(given.results)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"the results folder '{folder}' is a file; choose another with --results")
    if given.setting and (given.semantic or given.covariate):
        raise UserError("--setting names a semantic and a covariate set already; leave out --semantic and --covariate")
    suite = suites.load(given.suite, given.preset).with_sets(given.semantic, given.covariate)
    suite = suite.with_precision(given.precision).with_threads(given.cpu_threads)
    swept = suite.sweep(given.sweep)
    registry = Registry(given.plugin)
    seeds = _numbers(given.seeds)
    wanted = given.setting
    if swept and not (wanted or given.semantic or given.covariate):
        wanted = [suite.setting_name(suite.settings[0])]
    settings = data.provide(suite, wanted, given.offline or given.dry_run, given.available)
    init = Path(given.init) if given.init else None
    methods = given.methods if given.methods is not None else swept.methods if swept else "all"
    plan = planning.make(
        suite,
        registry,
        methods,
        settings,
        seeds,
        given.set,
        folder,
        given.force,
        init,
        given.sweep,
        given.draws,
        given.selection,
    )
    for warning in data.warnings(plan.suite):
        print(f"note: {warning}")
    for name, reason in plan.left_out.items():
        print(f"left out: {name} {reason}")
    if given.dry_run:
        return _describe_plan(plan, given.device)
    if not plan.todo:
        print(f"{_counts(plan)}: nothing to do (--force runs them again).")
        if given.save_splits:
            _save_splits(plan)
        _print_tables(plan, given.selection)
        return 0
    print(f"{_counts(plan)} in {_count(plan.trainings, 'training')}; results go to {folder}")
    # Threads that wait by spinning slow a shared machine down many times over; torch reads this when imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from oodbench.running import execution

    device = execution.choose_device(given.device)
    reporter = _Terminal() if sys.stdout.isatty() else _Lines()
    options = execution.Options(given.compile, given.deterministic, given.keep_outputs)
    if options.compile and device.type == "cpu":
        print("note: --compile is for a GPU; nothing is compiled on a CPU")
    if device.type == "cpu" and suite.contents.cpu_threads is None and _has_machine_to_itself(plan):
        print("note: a training uses one CPU thread; --cpu-threads N uses more, and makes results of its own")
    new = execution.execute(plan, device, reporter, given.force, options)
    if given.save_splits:
        _save_splits(plan)
    _print_tables(plan, given.selection)
    failed = [result for result in new if result.status != "ok"]
    if failed:
        for result in failed if given.debug else ():
            print(f"{_outcome(result)}\n{result.traceback}", file=sys.stderr)
        print(f"oodbench: {len(failed)} of {len(new)} cells failed; the first: {failed[0].error}", file=sys.stderr)
        return 1
    return 0


def _has_machine_to_itself(plan: "Plan") -> bool:
    """Whether there are many cores and nothing to use them but one training."""
    return len(plan.trainings) == 1 and (os.cpu_count() or 1) >= 4


def _save_splits(plan: "Plan") -> None:
    from oodbench.running import execution

    execution.write_splits(plan)


def _print_tables(plan: "Plan", selection: str) -> None:
    """The table of this suite, on screen and beside its results."""
    home = plan.folder / plan.suite.label
    found, problems = read_folder(home)
    report_problems(problems)
    built = tables.build(found, selection=selection)
    for format, name in (("markdown", "table.md"), ("latex", "table.tex")):
        text, path = render.render(built, format), home / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
    print()
    print(render.render(built, "text"))
    print(f"The same table: {home / 'table.md'} and {home / 'table.tex'}")
    print(f"Next: oodbench table {shlex.quote(str(plan.folder))} --format latex")


def _describe_plan(plan: "Plan", device_name: str) -> int:
    from oodbench.running import execution

    device = execution.choose_device(device_name)
    execution.check(plan, device)
    seconds = execution.estimate(plan, device)
    print(_counts(plan))
    done = {cell.path for cell in plan.done}
    for cell in plan.cells:
        print(f"  {'done  ' if cell.path in done else 'to run'}  {cell}")
    if plan.todo:
        print(f"{_count(plan.all_trainings, 'training')}, shared by their cells:")
    for key, training in plan.all_trainings.items():
        cells = plan.trainings[key][1] if key in plan.trainings else []
        print(f"  {_name(training)}: {_count(cells, 'cell') if cells else 'only to start others from'}")
    print(f"estimated time on {device}: {_duration(seconds)}")
    return 0


def _counts(plan: "Plan") -> str:
    todo = f"{len(plan.done)} done already, {len(plan.todo)} to run"
    helping = f" ({len(plan.for_selection)} for the selection alone)" if plan.for_selection else ""
    return f"{plan.suite.label}: {_count(plan.cells, 'cell')}{helping}, {todo}"


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _name(training: "Training") -> str:
    words = [training.trainer.label]
    if training.setting is not None:
        words.append(training.suite.setting_name(training.setting))
    words.append(f"seed {training.seed}")
    return ", ".join(words if training.draw is None else [*words, str(training.draw)])


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


class _Lines:
    """Progress for a pipe or a log file: plain lines."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def training(self, training: "Training", number: int, count: int) -> None:
        self.last = time.perf_counter()
        print(f"[{number}/{count}] {_name(training)}", flush=True)

    def progress(self, progress: "Progress") -> None:
        if time.perf_counter() - self.last > 10 or progress.epoch == progress.epochs and progress.remaining == 0:
            self.last = time.perf_counter()
            print(f"  {_progress(progress)}", flush=True)

    def result(self, result: "Result") -> None:
        print(f"  {_outcome(result)}", flush=True)


class _Terminal(_Lines):
    """Progress for a person: one line that moves while a network trains."""

    def training(self, training: "Training", number: int, count: int) -> None:
        self.label = f"[{number}/{count}] {_name(training)}"
        self._show(self.label)

    def progress(self, progress: "Progress") -> None:
        self._show(f"{self.label}: {_progress(progress)}")

    def result(self, result: "Result") -> None:
        self._show("")
        super().result(result)

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[2K{text[:width]}", end="", flush=True)


def _progress(progress: "Progress") -> str:
    loss = "" if progress.loss is None else f", loss {progress.loss:.4f}"
    left = "" if progress.remaining == 0 else f", {_duration(progress.remaining).removeprefix('about ')} left"
    return f"epoch {progress.epoch}/{progress.epochs}{loss}, {progress.images_per_second:,.0f} images/s{left}"


def _outcome(result: "Result") -> str:
    place = f"{result.setting} / {result.method} / seed {result.seed}"
    if result.draw:
        place += f" / draw {result.draw}"
    if result.status != "ok":
        return f"{place}: FAILED: {result.error}"
    shown = [m for m in tables.DEFAULT_METRICS if m in result.metrics]
    numbers = [f"{METRICS[m].title} {100 * result.metrics[m]:.2f}" for m in shown]
    told = [f"{key} {value}" for key, value in result.notes.items() if key in TOLD]
    return f"{place}: " + ", ".join(numbers + told)
