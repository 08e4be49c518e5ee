"""The loop of a run. A run in one process is this loop; so are a worker, a shard, and a task of Slurm or of Ray.

The folder is the scheduler: processes that share it divide the work by its locks, and what is done, failed or missing
is what its files say.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oodbench.errors import UserError, said
from oodbench.learning.loop import Failed
from oodbench.running.cells import Cell, Source
from oodbench.running.execution import expect, failed_result, score_one, train_one
from oodbench.running.plan import Plan
from oodbench.running.session import Session


def work(plan: Plan, at: Session, order: Sequence[Source]) -> None:
    """Train and score until nothing is left; parents come first in `order`, and what others hold, they do."""
    left, stuck = list(order), False
    while left:
        moved = False
        for source in list(left):
            failure = at.failed(source)
            if failure is None and not may_begin(source, at):
                parent = None if source.is_loaded else plan.parent_of(source)
                if parent is not None and parent.files <= source.files and parent not in left:
                    left.insert(0, parent)  # its weights were there when this was planned
                continue  # another process is at it
            with at.hold(source, take_over=stuck and not moved and at.asked.take_over) as held:
                if not held:
                    continue
                cells = [cell for cell in plan.cells_of(source) if at.lacks(cell)]  # asked again under the lock
                if failure is not None:
                    fail(cells, failure, at)
                elif cells or not at.has_weights(source.training):
                    for _ in make(source, cells, plan, at):
                        pass
                    at.tell.done(source.training)
            left.remove(source)
            moved = True
        stuck = not moved
        if left and stuck:
            at.wait(left[0])


def may_begin(source: Source, at: Session) -> bool:
    training = source.training
    if at.has_weights(training):
        return True
    return not source.is_loaded and (training.parent is None or at.has_weights(training.parent))


def make(source: Source, cells: Sequence[Cell], plan: Plan, at: Session) -> Iterator[Cell | None]:
    """Weights, then a result of each cell: None when the weights are there, and each cell when it is written."""
    training = source.training
    try:
        at.tell.begin(source)
        with bugs_fail():
            train_one(training, at, plan.setting_of(training), source)
        at.tell.trained(training)
    except Failed as failure:
        fail(cells, failure, at)
        yield from cells
        return
    yield None
    expect(cells, at)
    for cell in cells:
        at.tell.cell(cell)
        try:
            with bugs_fail():
                result = score_one(cell, at, source)
        except Failed as failure:
            result = failed_result(cell, failure, at)
        at.tell.result(cell, result)
        yield cell


def fail(cells: Sequence[Cell], failure: Failed, at: Session) -> None:
    for cell in cells:
        at.tell.result(cell, failed_result(cell, failure, at))


def fail_named(name: str, why: str, plan: Plan, at: Session) -> None:
    """What a worker was at fails for good: a source, by its key, or a cell; one that has a result is left alone."""
    if name not in plan.cells_by_name:
        at.note_failure(name, why, "")
    elif at.lacks(plan.cell(name)):
        fail([plan.cell(name)], Failed(why), at)


@contextmanager
def bugs_fail() -> Iterator[None]:
    """A bug of ours fails the cells that meet it, and the others go on."""
    try:
        yield
    except (Failed, UserError):
        raise
    except Exception as error:
        raise Failed(f"{type(error).__name__}: {said(error)}") from error
