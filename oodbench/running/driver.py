"""Carries a plan out with an engine: what comes next goes there, and what comes home is written. Imports no torch.

The driver alone writes results, and holds the locks of the trainings that are under way, for all its workers. Processes
that share a results folder leave to each other what one of them holds.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, Protocol

from oodbench.errors import UserError
from oodbench.files import write_bytes
from oodbench.results.result import Result, read
from oodbench.results.stored import place
from oodbench.running import tasks
from oodbench.running.cells import Cell, must_train, weights_file
from oodbench.running.claims import Claims
from oodbench.running.outlook import Outlook
from oodbench.running.plan import Plan
from oodbench.running.reporting import Reporter, training_name
from oodbench.running.schedule import Schedule
from oodbench.running.tasks import Failure, Message, Send, Task

LOOK = 0.5  # seconds between looks at the clock
RETRY = 2.0  # seconds between looks at what other processes hold
Admission = Literal["go", "later", "done"]


class Engine(Protocol):
    """Starts tasks and brings home what comes of them; where and how is its own business."""

    @property
    def slots(self) -> int:
        """How many tasks it can do at a time, which may change."""

    @property
    def carries_weights(self) -> bool:
        """Whether weights must come along, because its workers do not see the results folder."""

    def submit(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> None: ...
    def wait(self, seconds: float, hear: Send) -> None: ...
    def stop(self, task: Task) -> None: ...
    def close(self) -> None: ...


class Home(Protocol):
    """Where tasks come from and messages go to."""

    def admit(self, task: Task, wait: bool) -> Admission: ...
    def send(self, task: Task, engine: Engine) -> None: ...
    def hear(self, message: Message) -> None: ...
    def look(self, engine: Engine) -> None: ...


def drive(schedule: Schedule, engine: Engine, home: Home, ahead: int = 1) -> None:
    """Keep an engine busy until every task has ended.

    It has tasks for its slots, and some `ahead`, so that no slot waits for the next one to travel.
    """
    retried = time.monotonic()
    while not schedule.finished:
        if time.monotonic() - retried > RETRY:
            retried = time.monotonic()
            schedule.recall()
        while len(schedule.under_way) < engine.slots + ahead and (task := schedule.next()) is not None:
            _begin(task, schedule, engine, home, wait=False)
        if schedule.under_way:
            engine.wait(LOOK, home.hear)
            home.look(engine)
        elif (task := schedule.next_postponed()) is not None:
            _begin(task, schedule, engine, home, wait=True)
        else:
            assert schedule.finished, "tasks are left that wait for none"


def _begin(task: Task, schedule: Schedule, engine: Engine, home: Home, wait: bool) -> None:
    admission = home.admit(task, wait)
    if admission == "later":
        schedule.postpone(task)
    elif admission == "done":
        schedule.ended(task)
    else:
        home.send(task, engine)


@dataclass
class Driver:
    """The home of a plan's tasks: its results folder."""

    plan: Plan
    schedule: Schedule
    reporter: Reporter
    claims: Claims
    timeout: float | None = None  # seconds for a training, and for scoring a cell

    new: list[Result] = field(default_factory=list, init=False)
    given_up: dict[str, str] = field(default_factory=dict, init=False)  # cells without a result, and why
    failures: dict[str, Failure] = field(default_factory=dict, init=False)  # of trainings, by key
    _failing: dict[str, Failure] = field(default_factory=dict, init=False)  # of scorings, by the name of the task
    _locks: dict[str, ExitStack] = field(default_factory=dict, init=False)  # by training
    _since: dict[str, float] = field(default_factory=dict, init=False)  # when a task, or its cell, began
    _workers: dict[str, str] = field(default_factory=dict, init=False)  # who is at a task
    _scored: set[str] = field(default_factory=set, init=False)  # cells

    def __post_init__(self) -> None:
        self._trainings, self._cells = self.plan.trainings_by_key, self.plan.cells_by_name
        self._left = Counter(task.training for task in self.schedule.tasks.values())  # tasks, by training
        self._announced: set[str] = set()
        self._count = len(self._left)  # of trainings that will be announced
        self._outlook = Outlook(self.schedule.tasks.values())

    def admit(self, task: Task, wait: bool) -> Admission:
        """Whether a task is to be done here, is another process's for now, or has been done meanwhile."""
        if task.training not in self._locks:
            lock = ExitStack()
            if not lock.enter_context(self.claims.hold(self._trainings[task.training], wait)):
                lock.close()
                return "later"
            self._locks[task.training] = lock
        if self._is_left(task):
            return "go"
        self._leave(task)
        return "done"

    def _is_left(self, task: Task) -> bool:
        if task.kind == "train" and task.training in self.failures:
            return False
        if self.plan.request.force:
            return True
        if task.kind == "train":
            return must_train(self._trainings[task.training], self.plan.folder, force=False)
        return any(not self._cells[name].is_done() for name in task.cells)

    def send(self, task: Task, engine: Engine) -> None:
        """With the weights that it starts from, or why there are none."""
        failures = {key: each for key, each in self.failures.items() if key in (task.training, task.needs)}
        if task.name in self._failing:
            failures[task.training] = self._failing[task.name]
        weights = {}
        if engine.carries_weights and task.needs is not None and task.needs not in failures:
            path = weights_file(task.needs, self.plan.folder)
            if path.exists():  # weights that the user gives travel with the order
                weights[task.needs] = path.read_bytes()
        engine.submit(task, weights, failures)

    def hear(self, message: Message) -> None:
        match message:
            case tasks.Noted(text=text):
                self.reporter.note(text)
            case tasks.Refused(why=why):
                raise UserError(why)
            case _ if message.task in self.schedule.under_way:
                self._hear_of(self.schedule.under_way[message.task], message)
            case _:
                pass  # of a worker that was stopped

    def _hear_of(self, task: Task, message: Message) -> None:
        worker = self._workers.get(task.name, "")
        match message:
            case tasks.Began(worker=worker):
                self._since[task.name], self._workers[task.name] = time.monotonic(), worker
                doing = "training" if task.kind == "train" else "scoring"
                self.reporter.busy(worker, f"{training_name(self._trainings[task.training])}: {doing}")
            case tasks.Announced(training=key):
                if key not in self._announced:  # by the worker that trained it, if another scores it
                    self._announced.add(key)
                    number = len(self._announced)
                    self.reporter.training(self._trainings[key], number, max(number, self._count), worker)
            case tasks.Advanced():
                self._outlook.advance(task, (message.epoch - 1) / message.epochs)
                self.claims.note(task.training, message.epoch, message.epochs)
                self.reporter.progress(message, worker)
            case tasks.Scored(cell=name, files=files):
                self._since[task.name] = time.monotonic()
                self._write(self._cells[name], files)
            case tasks.Ended():
                self._end(task, message)
            case tasks.Lost(why=why):
                self._lose(task, why)

    def _write(self, cell: Cell, files: Mapping[str, bytes]) -> None:
        if files:
            place(cell.path, files)
        result = read(cell.path)
        self._scored.add(cell.name)
        self.new.append(result)
        self.reporter.result(result)

    def _end(self, task: Task, message: tasks.Ended) -> None:
        if message.failure is not None:
            self.failures[task.training] = message.failure
        if message.weights is not None:
            write_bytes(weights_file(task.training, self.plan.folder), message.weights)
        self.schedule.ended(task)
        self._leave(task)

    def _leave(self, task: Task, again: Sequence[Task] = ()) -> None:
        """Forget a task that is no longer under way; the lock of its training goes with its last one.

        These are still to do in its place.
        """
        if (worker := self._workers.pop(task.name, None)) is not None:
            self.reporter.busy(worker, "")
        self._since.pop(task.name, None)
        self._outlook.end(task, again)
        self.reporter.outlook(self._outlook.seconds)
        self._left[task.training] += len(again) - 1
        if not self._left[task.training] and task.training in self._locks:
            self._locks.pop(task.training).close()

    def _lose(self, task: Task, why: str) -> None:
        """A worker is gone. What it was at is tried again, or has failed for good.

        A scoring that was lost twice is tried cell by cell, so that one that ends its worker fails alone.
        """
        left = self._without_result(task)
        again = self.schedule.lost(task, [left] if not self.schedule.losses(task) else [(name,) for name in left])
        self._leave(task, again)
        failed = [each for each in again if self.schedule.has_failed(each)]
        for each in failed:
            self._fail(each, f"its worker was lost {self.schedule.losses(each)} times: {why}")
        if not again:
            self.given_up |= dict.fromkeys(left, why)
        if again or left:
            what_next = "tried again" if again and not failed else "given up"
            self.reporter.note(f"{training_name(self._trainings[task.training])}: {why}; {what_next}")

    def _without_result(self, task: Task) -> tuple[str, ...]:
        return tuple(name for name in task.cells if name not in self._scored)

    def _fail(self, task: Task, why: str) -> None:
        """A scoring goes out once more, with its failure, so that its results are written as those of any failure."""
        if task.kind == "train":
            self.failures[task.training] = Failure(why, "")
        else:
            self._failing[task.name] = Failure(why, "")

    def look(self, engine: Engine) -> None:
        """Stop what takes longer than it may: a training, or the cell that is being scored, has failed then."""
        if self.timeout is None:
            return
        now = time.monotonic()
        for name in [name for name, since in self._since.items() if now - since > self.timeout]:
            task = self.schedule.under_way[name]
            if name in self._failing or task.training in self.failures:
                continue  # only to write that
            engine.stop(task)
            left = self._without_result(task)  # in the order in which they are scored
            again = self.schedule.stopped(task, [left[:1], left[1:]])
            self._leave(task, again)
            for each in again[:1]:
                self._fail(each, f"it took longer than --timeout {self.timeout:g}")

    def close(self) -> None:
        for lock in self._locks.values():
            lock.close()
