"""What one process works with: a results folder, a device, who is told, and what is in memory and on the disk."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from oodbench import files
from oodbench.config.suite import Setting, Suite
from oodbench.data.parts import Parts, build_parts
from oodbench.learning import precision
from oodbench.learning.evaluation import Evaluation, KeyedScorer
from oodbench.learning.loop import Failed, Progress
from oodbench.results.result import Unreadable, read
from oodbench.running.cells import Cell, Source, Training, weights_file
from oodbench.running.kept_outputs import KeptOutputs
from oodbench.running.reporting import Silent, Tell, Told, training_name
from oodbench.running.request import Request
from oodbench.running.trained import Trained

LOOK = 0.2  # seconds between looks at what other processes hold
EVERY = 5.0  # seconds between notes of how far a training is


class FailedBefore(Failed):
    """A failure that this run has met already, perhaps in another process."""

    def __init__(self, error: str, traceback: str) -> None:
        super().__init__(error)
        self._text = traceback

    @property
    def traceback(self) -> str:
        return self._text


@dataclass
class Session:
    """The folder says what is done: a file written since the run began is of this run, whichever process wrote it."""

    folder: Path
    device: torch.device
    tell: Tell = field(default_factory=lambda: Told(Silent()))
    asked: Request = Request()
    since: int = 0  # when the run began, by the clock of the folder's file system

    last: "Last | None" = field(default=None, init=False)  # the training that was asked for last
    _parts: dict[tuple[Setting, int], Parts] = field(default_factory=dict, init=False)
    _held: set[str] = field(default_factory=set, init=False)
    _noted: dict[str, float] = field(default_factory=dict, init=False)  # when it was last said how far each is
    _due: tuple[str, float, float] = field(default=("", 0.0, 0.0), init=False)  # when to say for whom this waits

    @property
    def compiles(self) -> bool:
        return self.asked.compile and self.device.type != "cpu"

    @property
    def run_flags(self) -> list[str]:
        """What a result says of how it ran."""
        flags = {"deterministic": self.asked.deterministic, "compiled": self.compiles}
        return [flag for flag, so in flags.items() if so]

    def parts(self, suite: Suite, setting: Setting, seed: int) -> Parts:
        if (setting, seed) not in self._parts:
            self._parts[setting, seed] = build_parts(suite, setting, seed)
        return self._parts[setting, seed]

    def has_weights(self, training: Training) -> bool:
        """Whether its weights are given or in the folder; with --force, those of this run."""
        if training.init is not None:
            return True
        path = weights_file(training.key, self.folder)
        return files.is_since(path, self.since) if self.asked.force else path.exists()

    def lacks(self, cell: Cell) -> bool:
        """Whether a cell has no result, or a failure of an earlier run, or with --force any result of one."""
        try:
            result = read(cell.path)
        except Unreadable:
            return True
        is_done = result.status == "ok" and not self.asked.force
        return result.key != cell.key or not (is_done or files.is_since(cell.path, self.since))

    def failed(self, source: Source) -> Failed | None:
        """Why its weights, or those of one that it starts from, could not be made in this run; nothing of a scorer."""
        training = source.training
        failure = self._noted_failure(source.key)
        if failure is None and source.is_loaded:
            failure = self._noted_failure(training.key)
        if failure is not None:
            return failure
        if training.parent is None or self.has_weights(training):
            return None
        failure = self.failed(Source(training.parent))
        return failure and FailedBefore(
            f"'{training.parent.trainer.card.name}', which it starts from: {failure}", failure.traceback
        )

    def _noted_failure(self, key: str) -> Failed | None:
        path = weights_file(key, self.folder, "failed")
        if files.is_since(path, self.since):
            with suppress(OSError, ValueError, TypeError):
                return FailedBefore(**json.loads(path.read_bytes()))
        return None

    def note_failure(self, key: str, error: str, traceback: str) -> None:
        text = json.dumps({"error": error, "traceback": traceback})
        files.write_text(weights_file(key, self.folder, "failed"), text)

    def forget_failure(self, key: str) -> None:
        weights_file(key, self.folder, "failed").unlink(missing_ok=True)

    def progress(self, training: Training, progress: Progress) -> None:
        """Tell how far a training is, and note it now and then for whoever asks `oodbench status`."""
        now = time.monotonic()
        if training.key in self._held and now - self._noted.setdefault(training.key, now) > EVERY:
            self._noted[training.key] = now
            files.note_epoch(weights_file(training.key, self.folder, "lock"), progress.epoch, progress.epochs)
        self.tell.progress(training, progress)

    @contextmanager
    def hold(self, source: Source, wait: bool = False, take_over: bool = False) -> Iterator[bool]:
        """Hold a source while inside; False if another process has it. In this process it may be held twice.

        Two processes that do the same only waste time: files appear whole, and both write the same into them.
        """
        if source.key in self._held:
            yield True
            return
        lock = weights_file(source.key, self.folder, "lock")
        with files.claim(lock, wait, lambda other: self._say_waiting(source.training, other)) as mine:
            if not mine and take_over:
                other = files.holder(lock)
                if other is None or not other.is_of_this_run:
                    self.tell.note(f"taking over {training_name(source.training)} from {other or 'another process'}")
                    mine = True
            if mine:
                self._held.add(source.key)
            try:
                yield mine
            finally:
                self._held.discard(source.key)

    def wait(self, source: Source) -> None:
        """For other processes, a moment; after a second, a minute, and each time after twice that, say for whom."""
        now = time.monotonic()
        key, began, due = self._due
        if key != source.key:
            began, due = now, 1.0
        if now - began >= due:
            due = max(60.0, 2 * due)
            self._say_waiting(source.training, files.noted(weights_file(source.key, self.folder, "lock")))
        self._due = source.key, began, due
        time.sleep(LOOK)

    def _say_waiting(self, training: Training, other: files.Holder | None) -> None:
        if other is None or not other.is_of_this_run:
            self.tell.waiting(training, other)


@dataclass
class Last:
    """A trained network and, once a cell was scored with it, what its cells share."""

    key: str
    network: Trained
    expected: list[KeyedScorer] = field(default_factory=list)  # of the cells that will be scored with it
    evaluation: Evaluation | None = None
    kept: KeptOutputs | None = None  # with --keep-outputs


@contextmanager
def arithmetic(suite: Suite, device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Threads and precision as the suite says, while inside."""
    with precision.threads(suite.threads, device), precision.arithmetic(suite.contents.precision, deterministic):
        yield
