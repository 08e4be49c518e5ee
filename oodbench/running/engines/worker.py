"""Does tasks, wherever it is: in the run's own process, in one beside it, or on another machine.

A worker knows a plan, which it has made itself, and a workplace. It finds by key what a task asks for; a key that its
plan lacks was made by other code or from other data, and the worker refuses.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from oodbench.config.suite import Setting
from oodbench.data import availability
from oodbench.errors import UserError, said
from oodbench.files import write_bytes
from oodbench.learning.loop import Failed, Progress
from oodbench.results.result import Result
from oodbench.results.stored import files_of
from oodbench.running import tasks
from oodbench.running.cells import Cell, Training, weights_file
from oodbench.running.execution import expect, score_one, train_one
from oodbench.running.plan import Plan
from oodbench.running.tasks import Failure, Message, Send, Task
from oodbench.running.workplace import Workplace


class _There(Exception):
    """Where a failure happened, as the process that met it wrote it down."""


class _Told(Failed):
    """A failure that another task has met, perhaps on another machine."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.text = failure.traceback
        self.__cause__ = _There(f"\n{failure.traceback}")  # which the traceback of what starts from it shows

    @property
    def traceback(self) -> str:
        return self.text


@dataclass
class Wire:
    """A reporter whose words travel as messages about the task at hand."""

    send: Send
    task: str = ""

    download = availability.SILENT

    def note(self, text: str) -> None:
        self.send(tasks.Noted(text))

    def begin(self, cells: int, workers: int) -> None: ...
    def end(self) -> None: ...
    def busy(self, worker: str, text: str) -> None: ...
    def outlook(self, seconds: float) -> None: ...
    def scoring(self, what: str, share: float) -> None: ...
    def result(self, result: Result) -> None: ...

    def training(self, training: Training, number: int, count: int, worker: str = "") -> None:
        self.send(tasks.Announced(self.task, training.key))

    def progress(self, progress: Progress | tasks.Advanced, worker: str = "") -> None:
        pace, left = progress.images_per_second, progress.remaining
        self.send(tasks.Advanced(self.task, progress.epoch, progress.epochs, progress.loss, pace, left))


@dataclass
class Worker:
    """A plan, a workplace whose reporter is `wire`, and whether results lie elsewhere than they shall in the end."""

    name: str
    plan: Plan
    at: Workplace
    wire: Wire
    is_away: bool  # then the files of results travel, and nothing that goes wrong here ends the run
    brings_weights: bool = False  # if the folder of its workplace is its own

    _settings: dict[str, Setting] = field(default_factory=dict, init=False)  # one whose images a training may take

    def __post_init__(self) -> None:
        for cell in self.plan.cells:
            for training in cell.training.chain:
                self._settings.setdefault(training.key, cell.setting)

    def do(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> Iterator[Message]:
        """All of a task: what comes of it, the moment it is there; how far it is, `wire` sends meanwhile."""
        self.wire.task = task.name
        yield tasks.Began(task.name, self.name)
        training = self.plan.training(task.training)
        if self.is_away:
            self.at.claims.grant(training.chain)
        for key, content in weights.items():
            write_bytes(weights_file(key, self.at.folder), content)
        self.at.failures = {key: _Told(each) for key, each in failures.items()}
        self.at.anew |= {task.needs} if task.needs is not None else set()
        brought, failure = None, None
        if task.kind == "score":
            yield from self._score(training, task)
        else:
            if self.brings_weights:
                self.at.last = None  # a network of this training, whose weights have gone home
            failure = self._train(training)
            if self.brings_weights and failure is None:
                brought = weights_file(task.training, self.at.folder).read_bytes()
        if self.brings_weights:  # nobody else reads this folder, where they would pile up
            for key in (*weights, task.training):
                weights_file(key, self.at.folder).unlink(missing_ok=True)
        yield tasks.Ended(task.name, brought, failure)

    def _train(self, training: Training) -> Failure | None:
        try:
            with self._bugs_fail():
                train_one(training, self.at, self._settings[training.key])
        except Failed as failure:
            return Failure(str(failure), failure.traceback)
        return None

    def _score(self, training: Training, task: Task) -> Iterator[Message]:
        cells = [self.plan.cell(name) for name in task.cells]
        left = [cell for cell in cells if self.at.force or self.is_away or not cell.is_done()]
        try:
            with self._bugs_fail():
                train_one(training, self.at, left[0].setting if left else None)
            expect(left, self.at)
        except Failed:
            pass  # which the cells of the training tell
        for cell in left:
            try:
                with self._bugs_fail():
                    score_one(cell, self.at)
            except Failed as failure:
                self._fail(cell, failure)
            files = files_of(cell.path) if self.is_away else {}
            content = {name: path.read_bytes() for name, path in files.items()}
            for path in files.values():
                path.unlink()
            yield tasks.Scored(task.name, cell.name, content)

    @contextmanager
    def _bugs_fail(self) -> Iterator[None]:
        """A bug ends the run that meets it in its own process; elsewhere it fails the cells that meet it."""
        try:
            yield
        except (Failed, UserError):
            raise
        except Exception as error:
            if not self.is_away:
                raise
            raise Failed(f"{type(error).__name__}: {said(error)}") from error

    def _fail(self, cell: Cell, failure: Failed) -> None:
        """Write the result of a cell that has met a bug, as of any other failure."""
        before = self.at.failures
        self.at.failures = {**before, cell.training.key: failure}
        score_one(cell, self.at)
        self.at.failures = before
