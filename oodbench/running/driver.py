"""Carries a plan out with an engine: what comes next goes there, and what comes home is written. Imports no torch.

The driver alone writes results, and holds the locks of the trainings that are under way, for all its workers. Processes
that share a results folder leave to each other what one of them holds.
"""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, Protocol

from oodbench.errors import UserError
from oodbench.files import write_bytes
from oodbench.results import result as results
from oodbench.results.result import Result
from oodbench.running import tasks
from oodbench.running.cells import Cell, must_train, weights_file
from oodbench.running.claims import Claims
from oodbench.running.outlook import Outlook
from oodbench.running.plan import Plan
from oodbench.running.reporting import Reporter, training_name
from oodbench.running.schedule import Schedule
from oodbench.running.tasks import Failure, Message, Send, Task

LOOK = 0.5  # seconds between looks at the clock and at what other processes hold
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


def drive(schedule: Schedule, engine: Engine, home: Home) -> None:
    """Keep an engine busy until every task has ended, with one task more than it has slots for."""
    while not schedule.finished:
        while len(schedule.under_way) <= engine.slots and (task := schedule.next()) is not None:
            _begin(task, schedule, engine, home, wait=False)
        if schedule.under_way:
            engine.wait(LOOK, home.hear)
            home.look(engine)
        elif (task := schedule.next_postponed()) is not None:
            _begin(task, schedule, engine, home, wait=True)


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
        self._trainings, self._cells = self.plan.trainings_by_key, self.plan.cells_by_key
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
        self._close(task)
        return "done"

    def _is_left(self, task: Task) -> bool:
        if task.kind == "train" and task.training in self.failures:
            return False
        if self.plan.request.force:
            return True
        if task.kind == "train":
            return must_train(self._trainings[task.training], self.plan.folder, force=False)
        return any(not self._cells[key].is_done() for key in task.cells)

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
            case tasks.Scored(cell=key, files=files):
                self._since[task.name] = time.monotonic()
                self._write(self._cells[key], files)
            case tasks.Ended():
                self._end(task, message)
            case tasks.Lost(why=why):
                self._lose(task, why)

    def _write(self, cell: Cell, files: Mapping[str, bytes]) -> None:
        if files:
            results.place(cell.path, files)
        result = results.read(cell.path)
        self._scored.add(cell.key)
        self.new.append(result)
        self.reporter.result(result)

    def _end(self, task: Task, message: tasks.Ended) -> None:
        if message.failure is not None:
            self.failures[task.training] = message.failure
        if message.weights is not None:
            write_bytes(weights_file(task.training, self.plan.folder), message.weights)
        self.schedule.ended(task)
        self._close(task)

    def _close(self, task: Task, in_its_place: int = 0) -> None:
        """Forget a task that is no longer under way; the lock of its training goes with its last one."""
        self.reporter.busy(self._workers.pop(task.name, ""), "")
        self._since.pop(task.name, None)
        self._outlook.end(task)
        self.reporter.outlook(self._outlook.seconds)
        self._left[task.training] += in_its_place - 1
        if not self._left[task.training] and task.training in self._locks:
            self._locks.pop(task.training).close()

    def _lose(self, task: Task, why: str, for_good: bool = False) -> None:
        """A worker is gone. What it was at is tried again, or has failed for good.

        A scoring that was lost twice is tried cell by cell, so that one that ends its worker fails alone. What has
        failed goes out once more, with the failure, so that its results are written as those of any failure.
        """
        left = tuple(key for key in task.cells if key not in self._scored)
        groups: list[tuple[str, ...]] = [left] if self.schedule.losses(task) == 0 else [(key,) for key in left]
        if for_good:  # cells are scored in their order
            groups = [left[:1], left[1:]]
        again = self.schedule.lost(task, groups)
        self._close(task, len(again))
        for i, each in enumerate(again):
            if self.schedule.has_failed(each) or (for_good and i == 0):
                failure = Failure(
                    why if for_good else f"its worker was lost {self.schedule.losses(each)} times: {why}", ""
                )
                into, key = (self.failures, each.training) if each.kind == "train" else (self._failing, each.name)
                into[key] = failure
        name = training_name(self._trainings[task.training])
        if not again:
            self.given_up |= dict.fromkeys(left, why)
        elif not for_good:
            self.reporter.note(f"{name}: {why}; tried again")

    def look(self, engine: Engine) -> None:
        """Stop what takes longer than it may; it has failed then."""
        if self.timeout is None:
            return
        now = time.monotonic()
        for name in [name for name, since in self._since.items() if now - since > self.timeout]:
            task = self.schedule.under_way[name]
            engine.stop(task)
            self._lose(task, f"it took longer than --timeout {self.timeout:g}", for_good=True)

    def close(self) -> None:
        for lock in self._locks.values():
            lock.close()
