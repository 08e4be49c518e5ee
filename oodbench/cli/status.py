"""`oodbench status`: what is done in a results folder, what failed, and what runs, in all processes that share it."""

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from oodbench.cli.json_output import add_json, print_json
from oodbench.cli.reading import add_folder, report_problems
from oodbench.cli.times import duration
from oodbench.running import status
from oodbench.running.status import Status, Unfinished
from oodbench.running.time_left import TimeLeft

LISTED = 20  # cells that are left; a plan may have thousands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    add_json(parser)


def main(given: argparse.Namespace) -> int:
    state = status.of_folder(Path(given.folder))
    report_problems(state.problems)
    if given.json:
        print_json(_as_values(state))
        return 0
    counts = f"{state.done} done, {len(state.failed)} failed, {len(state.left)} left"
    counts += f", {len(state.problems)} unreadable" if state.problems else ""
    print(f"{given.folder}: {counts}; trainings: {len(state.running)} running, {len(state.interrupted)} interrupted")
    for suite, found in state.by_suite().items():
        print(f"  {suite}: {found['ok']} done, {found['failed']} failed")
    if state.failed:
        print("failed; the same command tries again")
    for result in state.failed:
        print(f"  {result.suite_label} / {result.setting} / {result.method} / seed {result.seed}: {result.error}")
        print(f"    oodbench show {shlex.quote(str(result.path))}")
    _print_trainings("running", state.running)
    _print_trainings("interrupted; the same command resumes from the checkpoint", state.interrupted)
    if state.left:
        print("left of what runs were asked for; the same command resumes")
    for cell in state.left[:LISTED]:
        print(f"  {cell}")
    if len(state.left) > LISTED:
        print(f"  and {len(state.left) - LISTED} more, which --json lists")
    if state.left:
        print(_time_left(state.time_left))
    for path, reason in state.unplanned.items():
        print(f"what is left of '{path}' is not known here: {reason}")
    return 0


def _print_trainings(heading: str, trainings: list[Unfinished]) -> None:
    if trainings:
        print(heading)
    for each in trainings:
        words = [f"training {each.training}" + (f" of {each.trainer}" if each.trainer else "")]
        if each.holder is not None:
            words.append(f"process {each.holder.pid} on {each.holder.host} since {each.holder.started}")
            words += [f"epoch {each.holder.epoch} of {each.holder.epochs}"] if each.holder.epoch is not None else []
        saved = f"checkpoint of {each.saved}" if each.saved else "no checkpoint yet"
        words.append(saved + (f" after epoch {each.saved_epoch} of {each.saved_epochs}" if each.saved_epoch else ""))
        print(f"  {', '.join(words)}")


def _time_left(left: TimeLeft) -> str:
    if left.unknown and left.seconds < 1:
        return f"time left: not known, since nothing like {left.unknown} of what is left is done"
    words = [f"time left: {duration(left.seconds)} for one process"]
    if left.processes > 1:
        words.append(f"{duration(left.together)} for the {left.processes} that are running")
    if left.unknown:
        words.append(f"without {left.unknown} of what is left, the like of which is not done yet")
    return f"{', '.join(words)}; an estimate from what is done of the same trainer and suite"


def _as_values(state: Status) -> dict[str, object]:
    """Described in docs/results.md."""
    return {
        "done": state.done,
        "failed": [
            {
                "suite": result.suite_label,
                "setting": result.setting,
                "method": result.method,
                "seed": result.seed,
                "error": result.error,
                "path": str(result.path),
            }
            for result in state.failed
        ],
        "left": state.left,
        "running": [asdict(each) for each in state.running],
        "interrupted": [asdict(each) for each in state.interrupted],
        "time_left": {**asdict(state.time_left), "together": state.time_left.together} if state.left else None,
        "suites": {
            suite: {"done": found["ok"], "failed": found["failed"]} for suite, found in state.by_suite().items()
        },
        "unreadable": {str(path): reason for path, reason in state.problems.items()},
        "unplanned": {str(path): reason for path, reason in state.unplanned.items()},
    }
