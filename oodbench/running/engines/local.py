"""The engine of one process: trainings one after the other, parents first, each with its cells.

Any number of such processes may share a results folder; what one has claimed the others leave to it.
"""

from contextlib import suppress
from pathlib import Path

import torch

from oodbench.config.suite import Setting
from oodbench.files import check_writable
from oodbench.learning.loop import Failed
from oodbench.results.result import Result
from oodbench.running import preflight
from oodbench.running.cells import Cell, Training
from oodbench.running.execution import expect, score_one, train_one
from oodbench.running.plan import Plan
from oodbench.running.reporting import Reporter
from oodbench.running.request import remember
from oodbench.running.trained import weights_file
from oodbench.running.workplace import Options, Workplace


def execute(plan: Plan, device: torch.device, reporter: Reporter) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    preflight.check(plan, device)
    check_writable(plan.folder)
    remember(plan.request)
    asked = plan.request
    options = Options(asked.compile, asked.deterministic, asked.keep_outputs, asked.take_over)
    waiting = _steps(plan, asked.force)
    numbers = {training.key: number for number, (training, *_) in enumerate(waiting, start=1)}
    at = Workplace(plan.folder, device, reporter, options, asked.force, numbers)
    new: list[Result] = []
    only_claimed_left = False
    while waiting:
        postponed: list[_Step] = []
        for step in waiting:
            training = step[0]
            # What another process has claimed comes later, and so does what starts from it; when only such is left,
            # wait for it and use its results.
            starts_later = training.parent is not None and training.parent.key in {each[0].key for each in postponed}
            if starts_later:
                postponed.append(step)
                continue
            with at.claim(training, wait=only_claimed_left) as mine:
                if not mine:
                    postponed.append(step)
                    continue
                new += _carry_out(step, at)
        only_claimed_left = len(postponed) == len(waiting)
        waiting = postponed
    return new


_Step = tuple[Training, Setting, list[Cell]]  # a training, a setting to take its images from, and its cells


def _steps(plan: Plan, force: bool) -> list[_Step]:
    """Every training that has cells to run, and before it those that it starts from and that have yet to be trained."""
    steps: dict[str, _Step] = {}
    for training, cells in plan.trainings.values():
        parents: list[Training] = []
        each = training
        while each.parent is not None and _must_train(each, plan.folder, force):
            each = each.parent
            parents.insert(0, each)
        for each in parents:
            if _must_train(each, plan.folder, force):
                own = plan.trainings[each.key][1] if each.key in plan.trainings else []
                steps.setdefault(each.key, (each, cells[0].setting, own))
        steps.setdefault(training.key, (training, cells[0].setting, cells))
    return list(steps.values())


def _must_train(training: Training, folder: Path, force: bool) -> bool:
    return training.init is None and (force or not weights_file(training.key, folder).exists())


def _carry_out(step: _Step, at: Workplace) -> list[Result]:
    training, setting, cells = step
    left = cells if at.force else [cell for cell in cells if not cell.is_done()]
    if left or not cells:  # without cells, others start from it
        with suppress(Failed):  # a failure is told by the cells of the training and of those that start from it
            train_one(training, at, setting)
            expect(left, at)
    return [score_one(cell, at) for cell in left]
