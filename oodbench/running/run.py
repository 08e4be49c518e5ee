"""From a request to results: data is provided, the plan made, checked and carried out. One way for every door."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from oodbench import files
from oodbench.config.contents import FOLDER
from oodbench.data import availability, store
from oodbench.errors import UserError
from oodbench.results.rescore import NotRescored, rescore
from oodbench.results.result import OUTPUTS, Result, read
from oodbench.running.plan import Plan, plan
from oodbench.running.reporting import Reporter, left_out_line, training_name
from oodbench.running.request import SLURM, Request
from oodbench.running.shards import REST, parents_of
from oodbench.running.tasks import tasks_of

if TYPE_CHECKING:
    import torch


class DataMissing(UserError):
    """A run that cannot begin, for its data is not here."""

    def __init__(self, planned: Plan, problems: Mapping[str, str], message: str) -> None:
        super().__init__(message)
        self.planned = planned
        self.problems = problems  # data sets and files of weights, and why they could not be had


def prepare(asked: Request, reporter: Reporter) -> Plan:
    """The plan of a request once its data is there: fetched if missing, left out or refused if it cannot be had."""
    planned = plan(asked)
    theirs = [problem for name, problem in planned.lacking.items() if name.startswith(FOLDER)]
    if theirs and not asked.available:
        raise UserError("; ".join(theirs))  # a slip: nothing brings such a folder, and no other run is what was meant
    problems = dict(planned.lacking)
    if problems and not asked.offline:
        if asked.engine != SLURM:  # whose nodes have other devices
            check_device(planned)  # before anything is downloaded for nothing
        problems = availability.obtain(problems, reporter.download)
        planned = plan(asked)
        problems = {name: problems.get(name, problem) for name, problem in planned.lacking.items()}
    if problems and not asked.available:
        raise DataMissing(planned, problems, "; ".join(problems.values()))
    for setting, lacks in {each.setting: each.lacks for each in planned.waiting}.items():
        reporter.note(f"left out: the setting '{setting}': {problems[lacks[0]]}")
    if not planned.cells and asked.shard is None:
        raise DataMissing(planned, problems, f"no setting has its data here; see: oodbench data status {asked.suite}")
    for line in remarks(planned):
        reporter.note(line)
    return planned


def remarks(planned: Plan) -> Iterator[str]:
    """What a user should know of a plan before it runs."""
    for warning in availability.warnings(planned.suite, dict.fromkeys(cell.setting for cell in planned.cells)):
        yield f"note: {warning}"
    if planned.left_out:
        yield left_out_line(planned.left_out)
    if planned.request.stage == REST:
        parents = parents_of(planned.cells)
        for task in tasks_of(planned, {}):
            if task.kind == "train" and task.training in parents:
                name = training_name(parents[task.training])
                yield f"note: {name}, which others start from, is not in '{planned.folder}'; it is trained here"


def check_device(planned: Plan) -> "torch.device":
    """The device of a request, which must have the precision of the suite. Other machines have devices of their own."""
    # Threads that wait by spinning slow a shared machine down many times over; torch reads this when imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from oodbench.learning import precision
    from oodbench.running import preflight

    if planned.request.on is not None:
        return preflight.choose_device("auto")
    device = preflight.choose_device(planned.request.device)
    precision.check(planned.suite.contents.precision, device)
    return device


def carry_out(planned: Plan, reporter: Reporter) -> list[Result]:
    """Run what is still to do; the new results."""
    asked = planned.request
    if asked.engine == SLURM and planned.todo:
        raise UserError("Slurm jobs can only be submitted from the command line; use: oodbench run --on slurm:OPTIONS")
    _sweep(planned)
    if planned.todo:
        device = check_device(planned)
        from oodbench.running import dispatch

        if asked.compile and device.type == "cpu":
            reporter.note("note: --compile is for a GPU; nothing is compiled on a CPU")
        if device.type == "cpu" and planned.suite.contents.cpu_threads is None and _has_machine_to_itself(planned):
            reporter.note(
                "note: a training uses one CPU thread; --cpu-threads N uses more, and its results are stored separately"
            )
        new = dispatch.execute(planned, device, reporter)
    else:
        new = []
        files.check_writable(planned.folder)  # a shard without work has a results folder too, to be merged
    _rescore(planned, reporter)
    if asked.save_splits:
        from oodbench.running import execution

        execution.write_splits(planned)
    return new


def _sweep(planned: Plan) -> None:
    """Delete what killed runs of this suite left in the results folder, and any process in the data folder."""
    store.sweep()
    home, suite = planned.folder, planned.folder / planned.suite.label
    with suppress(OSError):  # a folder that nobody may list
        places = [(home, ".*"), (home, "*/.*"), (home / OUTPUTS, "*/.*"), (suite, "*/.*"), (suite, "*/*/.*")]
        for folder, pattern in places:
            files.sweep(folder.glob(pattern))


def _rescore(planned: Plan, reporter: Reporter) -> None:
    """Results that are done and have metrics of an older version get those of today, from their raw scores."""
    renewed = 0
    for cell in planned.done:
        if not read(cell.path).has_current_metrics:
            try:
                renewed += rescore(cell.path)
            except NotRescored as reason:
                reporter.note(f"note: '{cell.path}' keeps metrics computed by an older version: {reason}")
    if renewed:
        reporter.note(f"note: metrics of {renewed} results were recomputed from their raw scores")


def _has_machine_to_itself(planned: Plan) -> bool:
    """Whether there are many cores and nothing to use them but one training."""
    return len(planned.trainings) == 1 and (os.cpu_count() or 1) >= 4
