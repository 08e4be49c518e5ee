"""From a request to results: data is provided, the plan made, checked and carried out. One way for every door."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oodbench import files
from oodbench.config.contents import FOLDER
from oodbench.data import availability, store
from oodbench.errors import UserError
from oodbench.results.rescore import NotRescored, rescore
from oodbench.results.result import OUTPUTS, Result, read
from oodbench.running.cells import Source, must_train
from oodbench.running.costs import Costs, cores
from oodbench.running.plan import Plan, plan
from oodbench.running.reporting import Reporter, Told, left_out_line, training_name
from oodbench.running.request import RAY, SLURM, Request, remember
from oodbench.running.shards import REST, parents_of

if TYPE_CHECKING:
    import torch

    from oodbench.running.supervise import Supervisor

SHORT = 20.0  # seconds: to start workers for less than that would not pay


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
        for each in planned.needed():
            if each.key in parents and must_train(each, planned.folder, planned.request.force):
                name = training_name(each)
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
        if asked.compile and device.type == "cpu":
            reporter.note("note: --compile is for a GPU; nothing is compiled on a CPU")
        if device.type == "cpu" and planned.suite.contents.cpu_threads is None and _has_machine_to_itself(planned):
            reporter.note(
                "note: a training uses one CPU thread; --cpu-threads N uses more, and its results are stored separately"
            )
        new = execute(planned, device, reporter)
    else:
        new = []
        files.check_writable(planned.folder)  # a shard without work has a results folder too, to be merged
    _rescore(planned, reporter)
    if asked.save_splits:
        from oodbench.running import execution

        execution.write_splits(planned)
    return new


def execute(plan: Plan, device: "torch.device", reporter: Reporter) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    from oodbench.running import preflight
    from oodbench.running.session import Session
    from oodbench.running.supervise import Supervisor
    from oodbench.running.work import work

    asked = plan.request
    if asked.engine == RAY:
        from oodbench.running import ray

        ray.check(asked)
    preflight.check(plan, device)
    try:
        costs = preflight.costs(plan, device)
    except Exception:  # a network or a picture cannot be tried; what is wrong fails its cells in turn
        costs = Costs({}, 0.0)
    order = _in_order(plan, costs)
    devices = _devices(plan, device, costs.seconds)
    told = Told(reporter, len({each.training.key for each in order}), costs)
    at = Session(plan.folder, device, told, asked)
    supervisor = Supervisor(plan, at, told, order)
    try:
        _rehearse(plan, device, supervisor, order)
        at.since = files.check_writable(plan.folder)
        remember(asked)
        if asked.engine == RAY:
            ray.run(plan, at, told, order)
        else:
            is_alone = len(devices) == 1 and asked.workers is None and asked.timeout is None
            reporter.begin(_count(plan), len(devices))
            here = [each for each in order if asked.here or not each.files] if is_alone else []
            work(plan, at, here)
            if len(here) < len(order):
                supervisor.run(devices, done=[frozenset()] if is_alone else [])
    except KeyboardInterrupt:
        reporter.note(f"{_count(plan) - len(told.new)} of {_count(plan)} cells are left")
        raise
    finally:
        supervisor.close()
        reporter.end()
    failures = {each.key: failure for each in order if (failure := at.failed(each)) is not None}
    if plan.only is not None and failures:  # which no cell tells here
        key, failure = next(iter(failures.items()))
        name = training_name(plan.source(key).training)
        raise UserError(
            f"{len(failures)} of {len(plan.only)} trainings failed; the first, {name}: {failure}; "
            "the other stage tries again and records the outcome"
        )
    return told.new


def rehearse(plan: Plan, device: "torch.device", reporter: Reporter) -> None:
    """Let users' code say what is wrong before anything trains, in a process of its own unless it is to run here."""
    from oodbench.running.session import Session
    from oodbench.running.supervise import Supervisor

    told, order = Told(reporter), plan.sources()
    supervisor = Supervisor(plan, Session(plan.folder, device, told, plan.request), told, order)
    try:
        _rehearse(plan, device, supervisor, order)
    finally:
        supervisor.close()


def _rehearse(plan: Plan, device: "torch.device", supervisor: "Supervisor", order: list[Source]) -> None:
    if plan.request.here:
        from oodbench.running import preflight

        preflight.rehearse(plan, device, frozenset[Path]().union(*(each.files for each in order)))
    else:
        supervisor.rehearse(str(device))


def _count(plan: Plan) -> int:
    return len(plan.todo) if plan.only is None else 0


def _in_order(plan: Plan, costs: Costs) -> list[Source]:
    """Parents first; where several processes work, what has the longest chain of work behind it comes before others."""
    sources = plan.sources()
    if plan.request.workers is None and plan.request.on is None:
        return sources
    behind = {each.training.key: costs.trainings.get(each.training.key, 0.0) for each in sources}
    for training in reversed([each.training for each in sources if not each.is_loaded]):
        if training.parent is not None and training.parent.key in behind:
            own = costs.trainings.get(training.parent.key, 0.0)
            behind[training.parent.key] = max(behind[training.parent.key], own + behind[training.key])
    return sorted(sources, key=lambda each: (not plan.starts_others(each.training), -behind[each.training.key]))


def _devices(plan: Plan, device: "torch.device", seconds: float) -> list[str]:
    """One for each worker: as many as were asked for or, on CPUs, as there are cores; at most one for each training."""
    asked, trainings = plan.request, len(plan.all_trainings)
    if device.type == "cpu":
        slots = max(1, len(cores()) // plan.suite.threads)
        chosen = asked.workers or (slots if seconds > SHORT else 1)
        return [str(device)] * min(chosen, trainings)
    found = [str(device)]
    if device.type == "cuda" and device.index is None:
        import torch

        found = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    chosen, most = asked.workers or 1, len(found) * asked.per_device
    if chosen > most:
        raise UserError(
            f"{chosen} workers for {len(found)} devices with {asked.per_device} each; choose --workers {most}, or more "
            "with --per-device"
        )
    return [found[i % len(found)] for i in range(min(chosen, trainings))]


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
