"""`oodbench run`: from the command line to requests, and what came of them."""

import argparse
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oodbench.cli import missing_data, progress, slurm_jobs
from oodbench.cli.confirmation import said_yes
from oodbench.cli.defaults import help_of
from oodbench.cli.event_log import Logged
from oodbench.cli.output import check_open, results_stay, shows_bold, terminal_width
from oodbench.cli.parser import add_plugins
from oodbench.cli.progress import outcome, training_name
from oodbench.cli.reading import report_problems
from oodbench.cli.times import duration, time_of
from oodbench.config.cards import EVERY
from oodbench.errors import UserError
from oodbench.files import write_text
from oodbench.report import beside, render, tables
from oodbench.results.folder import read_folder
from oodbench.results.selection import RULES, TRAINING_DOMAIN
from oodbench.running import request as requests
from oodbench.running.costs import processes
from oodbench.running.plan import plan
from oodbench.running.reporting import Reporter
from oodbench.running.request import DEFAULT_SUITE, SLURM, Request, request
from oodbench.running.run import DataMissing, carry_out, check_device, prepare, rehearse, remarks

if TYPE_CHECKING:
    from oodbench.running.plan import Plan

PART = ("shard", "stage")  # which jobs of one request differ in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_what(
        parser.add_argument_group(
            "what to run",
            f"--methods takes methods, pairs trainer+scorer, and the words {', '.join(EVERY)}, which stand for "
            "whatever fits the suite. A SET is a set of the suite, folder:PATH or a data set. Without --setting, "
            "--semantic and --covariate, the settings of the suite run.",
        )
    )
    _add_values(
        parser.add_argument_group(
            "values",
            "--set takes hyperparameters of trainers and scorers, and recipe.KEY, id.KEY, splits.KEY and network.KEY; "
            "several values, as in scone.margin=-1,-2, are a grid. --selection matters where domains are held out: "
            f"{', '.join(RULES)}. FILE.py:FUNCTION runs that file, and the function returns the network.",
        )
    )
    _add_files(parser.add_argument_group("data and results"))
    _add_device(parser.add_argument_group("device"))
    _add_processes(
        parser.add_argument_group(
            "processes and machines",
            "Stage parents trains what other trainings start from; stage rest does everything else with those weights. "
            "docs/scale.md explains shards, Ray and Slurm.",
        )
    )
    parser.set_defaults(**{each.name: None for each in fields(Request)})  # what is not said is the request's to say


def _add_what(what: argparse._ArgumentGroup) -> None:
    what.add_argument(
        "--suite",
        action="append",
        metavar="SUITE",
        help=f"a name, or a YAML file; repeatable (default: {DEFAULT_SUITE})",
    )
    what.add_argument(
        "--methods",
        metavar="METHODS",
        help="such as msp,mixup+knn (default: the suite's list, and plugins)",
    )
    what.add_argument("--preset", metavar="PRESET", help="such as smoke; `oodbench show SUITE` lists them")
    what.add_argument("--seeds", metavar="SEEDS", help="one run for each, such as 0,1,2 or 0-4 (default: 0)")
    what.add_argument(
        "--setting",
        dest="settings",
        action="append",
        metavar="SETTING",
        help="SET, or SET,KEY=VALUE; repeatable (default: the suite's settings)",
    )
    what.add_argument("--semantic", action="append", metavar="SET", help="only this semantic set; repeatable")
    what.add_argument("--covariate", action="append", metavar="SET", help="only this covariate set; repeatable")
    what.add_argument(
        "--outliers", metavar="SET", help="auxiliary outliers (default: the suite's, or wild: the mixture)"
    )
    what.add_argument("--sweep", metavar="NAME", help="an ablation of the suite; see `oodbench show SUITE`")
    add_plugins(what, "plugins")
    what.add_argument("--request", metavar="FILE.yaml", help="a file that says all of this, for one run or several")
    what.add_argument("--save-request", metavar="FILE.yaml", help="write this command into such a file; run nothing")
    what.add_argument("--dry-run", action="store_true", help="print the plan and the estimated time; run nothing")


def _add_values(values: argparse._ArgumentGroup) -> None:
    values.add_argument(
        "--set",
        action="append",
        metavar="NAME.KEY=VALUE",
        help="a hyperparameter, or a value of the suite; repeatable",
    )
    values.add_argument("--draws", type=int, metavar="N", help="a random search: the suite's values and N - 1 draws")
    values.add_argument(
        "--selection",
        metavar="RULE",
        help=f"how the table selects checkpoints (default: {TRAINING_DOMAIN})",
    )
    values.add_argument(
        "--model", metavar="NETWORK", help="FILE.py:FUNCTION, timm:NAME or one of `oodbench list networks`"
    )
    values.add_argument("--init", metavar="FILE", help="weights of the suite's network, used in place of training erm")


def _add_files(files: argparse._ArgumentGroup) -> None:
    files.add_argument("--results", metavar="DIR", help=f"where results are stored {help_of('results')}")
    files.add_argument("--force", action="store_true", help="run again what is done already")
    files.add_argument("--offline", action="store_true", help="do not download missing data")
    files.add_argument("--available", action="store_true", help="leave out settings whose data is missing")
    files.add_argument("--keep-outputs", action="store_true", help="store features and logits in DIR/outputs")
    files.add_argument("--path", type=int, metavar="N", help="measure networks at N points while they train")
    files.add_argument("--save-splits", action="store_true", help="store which images play which part")
    files.add_argument("--log", metavar="FILE.jsonl", help="also write progress into this file, one event a line")


def _add_device(device: argparse._ArgumentGroup) -> None:
    device.add_argument("--device", metavar="DEVICE", help=f"auto, cpu, cuda or cuda:1 {help_of('device')}")
    device.add_argument(
        "--precision", metavar="PRECISION", help="fp32, tf32 or bf16, for the network's body (default: the suite's)"
    )
    device.add_argument(
        "--cpu-threads", type=int, metavar="N", help="CPU threads of a training; part of its key (default: 1)"
    )
    device.add_argument("--compile", action="store_true", help="compile the network's body with torch, on a GPU")
    device.add_argument(
        "--deterministic", action="store_true", help="use only algorithms that repeat a GPU's numbers exactly"
    )


def _add_processes(processes: argparse._ArgumentGroup) -> None:
    processes.add_argument(
        "--workers", type=int, metavar="N", help="processes on this machine (default: 1, or the cores for a long run)"
    )
    processes.add_argument("--per-device", type=int, metavar="N", help="workers that share a GPU (default: 1)")
    processes.add_argument("--on", metavar="ENGINE", help="ray, ray:ADDRESS or slurm:partition=P,time=4:00:00")
    processes.add_argument("--shard", metavar="I/N", help="run part I of N, the same N parts on every machine")
    processes.add_argument("--stage", metavar="STAGE", help="of a shard: parents or rest (default: both)")
    processes.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="limit for a training or scoring a cell (default: none)"
    )
    processes.add_argument(
        "--here", action="store_true", help="run the code of plugins in this process, for a debugger"
    )
    processes.add_argument("--take-over", action="store_true", help="do not wait for cells that another process holds")


def _requests(given: argparse.Namespace) -> list[Request]:
    """Those of a file, or the one that the options make for each suite."""
    options: dict[str, Any] = {each.name: getattr(given, each.name) for each in fields(Request)}
    stated = {name: value for name, value in options.items() if value is not None}
    if given.request is not None:
        part = {name: stated.pop(name) for name in PART if name in stated}
        if stated:
            name = next(iter(stated))
            option = {"settings": "setting", "plugins": "plugin"}.get(name, name.replace("_", "-"))
            raise UserError(f"'{given.request}' says what to run and how; leave out --{option}, or write it there")
        return [replace(each, **part) for each in requests.read(Path(given.request))]
    chosen = stated.pop("suite", [DEFAULT_SUITE])
    return [request(suite=suite, **stated) for suite in chosen]


def main(given: argparse.Namespace) -> int:
    asked = _requests(given)
    if given.save_request is not None:
        for each in asked:
            plan(each)  # so that a file is written only of what makes sense
        requests.save(asked, Path(given.save_request))
        print(f"run it with: oodbench run --request {shlex.quote(given.save_request)}")
        return 0
    return max([_describe(each) if given.dry_run else run_and_show(each, given.debug, given.log) for each in asked])


def run_and_show(asked: Request, debug: bool, log: str | None = None) -> int:
    """Run what is missing and print the tables; the exit status."""
    check_open()
    reporter: Reporter = progress.reporter()
    if log is not None:
        reporter = Logged(reporter, Path(log))
    try:
        with results_stay(asked.folder):
            return _carried_out(asked, reporter, debug)
    except DataMissing as error:
        if debug:
            traceback.print_exc()
        other = _refuse(error)
    return 2 if other is None else run_and_show(other, debug, log)


def _refuse(error: DataMissing) -> Request | None:
    """Say what is missing and what runs now; that, if the user wants it."""
    lines = [
        f"oodbench: {error.planned.suite.label} needs {_count(error.problems, 'data set')} that cannot be used here:"
    ]
    lines += missing_data.sets(error.problems)
    others = missing_data.in_its_place(error.planned, error.problems)
    lines += _what_runs_now(others)
    print("\n".join(lines), flush=True, file=sys.stderr)
    if others and sys.stdin.isatty() and sys.stdout.isatty() and said_yes("Run it now?"):
        return others[0].request
    return None


def _what_runs_now(others: Sequence["Plan"]) -> Iterator[str]:
    for number, other in enumerate(others):
        time = time_of(other)
        yield ""
        yield f"{'or' if number else 'what runs now'}{f', in {time}' if time else ''}:"
        yield f"  {missing_data.command(other.request)}"


def _carried_out(asked: Request, reporter: Reporter, debug: bool) -> int:
    if asked.engine == SLURM:
        slurm_jobs.check(asked)
    planned = prepare(asked, reporter)
    if asked.engine == SLURM and planned.todo:
        return slurm_jobs.submit(planned, dry_run=False)
    if planned.todo:
        trainings = "" if planned.only is not None else f" in {_count(planned.all_trainings, 'training')}"
        reporter.note(f"{_counts(planned)}{trainings}; results go to {asked.folder}")
    else:
        again = " (--force runs them again)" if planned.done and asked.stage is None else ""
        reporter.note(f"{_counts(planned)}: nothing to do{again}.")
    new = carry_out(planned, reporter)
    if asked.shard is None:
        _print_tables(planned, reporter.note)
        for line in _unlisted(planned):
            reporter.note(line)
    else:  # other shards may be at work: the table comes when all are through
        reporter.note(
            f"{_label(planned)} has ended; see the progress of all shards with: oodbench status {_quoted(planned)}"
        )
    failed = [result for result in new if result.status != "ok"]
    if failed:
        for result in failed if debug else ():
            print(f"{outcome(result)}\n{result.traceback}", file=sys.stderr)
        print(f"oodbench: {len(failed)} of {len(new)} cells failed; the first: {failed[0].error}", file=sys.stderr)
        return 1
    return 0


def _print_tables(planned: "Plan", note: Callable[[str], None]) -> None:
    """The table of this suite, on screen and beside its results; standard output holds nothing else."""
    home = planned.folder / planned.suite.label
    results, problems = read_folder(home)
    report_problems(problems)
    built = tables.build(results, selection=planned.request.selection, groups=planned.suite.contents.groups)
    if beside.has_stand_ins(planned.suite.name, planned.suite.preset):
        built = beside.with_reported(built, results)
    for format, name in (("markdown", "table.md"), ("latex", "table.tex")):
        text, path = render.render(built, format), home / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
    note("")
    print(render.render(built, "text", terminal_width(), shows_bold()), flush=True)
    note(f"The same table: {home / 'table.md'} and {home / 'table.tex'}")
    note(f"Next: oodbench table {_quoted(planned)} --format latex")


def _quoted(planned: "Plan") -> str:
    return shlex.quote(str(planned.folder))


def _label(planned: "Plan") -> str:
    """The suite, and which part of the run this is."""
    asked = planned.request
    stage = "" if asked.stage is None else f", {asked.stage}"
    return planned.suite.label + ("" if asked.shard is None else f" (shard {asked.shard}{stage})")


def _unlisted(planned: "Plan") -> Iterator[str]:
    """What a suite's own list leaves out, and how to have it."""
    counts = {word: _count(range(n), word.removeprefix("all-")[:-1]) for word, n in planned.unlisted.items()}
    if counts:
        more = " and ".join(f"{count} (--methods {word})" for word, count in counts.items())
        yield f"More methods for `oodbench run`: {more}"


def _describe(asked: Request) -> int:
    """`--dry-run`: the plan, without the data where that is not there."""
    planned = plan(asked)
    for line in remarks(planned):
        print(line)
    if asked.engine == SLURM and planned.todo:
        return slurm_jobs.submit(planned, dry_run=True)
    device = check_device(planned)
    seconds = 0.0
    if planned.todo:
        from oodbench.running import preflight

        preflight.check(planned, device)
        rehearse(planned, device, progress.reporter())
        seconds = preflight.costs(planned, device, anew=True).together(processes(planned))
    print(_counts(planned))
    done = {cell.path for cell in planned.done}
    for cell in planned.cells if planned.only is None else ():
        print(f"  {'done  ' if cell.path in done else 'to run'}  {cell}")
    for waiting in planned.waiting:
        print(f"  needs {' and '.join(waiting.lacks)}  {waiting}")
    if planned.todo:
        print(f"{_count(planned.all_trainings, 'training')}{', shared by their cells' * (planned.only is None)}:")
    for key, training in planned.all_trainings.items():
        cells = planned.trainings[key][1] if key in planned.trainings and planned.only is None else []
        print(f"  {training_name(training)}: {_count(cells, 'cell') if cells else 'only to start others from'}")
    for line in missing_data.sets(planned.lacking):
        print(line)
    for line in _unlisted(planned):
        print(line)
    if planned.cells or not planned.waiting:
        print(f"estimated time on {device}: {duration(seconds)}")
    time = time_of(planned) if planned.waiting else ""
    if time:
        print(f"time of all cells, with those that wait for data: {time}")
    if asked.available and not planned.cells:
        print(f"nothing is left to run: no setting of {planned.suite.label} has its data here")
        for line in _what_runs_now(missing_data.in_its_place(planned, ())):
            print(line)
    return 0


def _counts(planned: "Plan") -> str:
    if planned.only is not None:
        return f"{_label(planned)}: {_count(planned.all_trainings, 'training')} that others start from"
    todo = f"{len(planned.done)} done already, {len(planned.todo)} to run"
    helping = f" ({len(planned.for_selection)} for the selection alone)" if planned.for_selection else ""
    waiting = f", {len(planned.waiting)} waiting for data" if planned.waiting else ""
    return f"{_label(planned)}: {_count([*planned.cells, *planned.waiting], 'cell')}{helping}, {todo}{waiting}"


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"
