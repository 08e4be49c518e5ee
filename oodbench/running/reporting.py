"""Who hears how a run goes, and what of it is told in words. Imports no torch."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from oodbench.data import availability
from oodbench.files import Holder
from oodbench.results.result import Result

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.running.cells import Cell, Source, Training
    from oodbench.running.costs import Costs


@dataclass(frozen=True)
class Advanced:
    """How far a training in another process is; the fields of `learning.loop.Progress`."""

    epoch: int
    epochs: int
    loss: float | None
    images_per_second: float
    remaining: float


class Reporter(Protocol):
    """Who hears how a run goes: how many cells it has, what each worker is at, how long the rest will take."""

    download: availability.Listener

    def note(self, text: str) -> None: ...
    def begin(self, cells: int, workers: int) -> None: ...
    def busy(self, worker: str, text: str) -> None: ...
    def training(self, training: "Training", number: int, count: int, worker: str = "") -> None: ...
    def progress(self, progress: "Progress | Advanced", worker: str = "") -> None: ...
    def outlook(self, seconds: float) -> None: ...
    def scoring(self, what: str, share: float) -> None: ...
    def result(self, result: Result) -> None: ...
    def end(self) -> None: ...


class Silent:
    """Hears and says nothing."""

    download = availability.SILENT

    def note(self, text: str) -> None: ...
    def begin(self, cells: int, workers: int) -> None: ...
    def busy(self, worker: str, text: str) -> None: ...
    def training(self, training: "Training", number: int, count: int, worker: str = "") -> None: ...
    def progress(self, progress: "Progress | Advanced", worker: str = "") -> None: ...
    def outlook(self, seconds: float) -> None: ...
    def scoring(self, what: str, share: float) -> None: ...
    def result(self, result: Result) -> None: ...
    def end(self) -> None: ...


class Tell(Protocol):
    """What a process that works says: of its own run, or to the supervisor that started it."""

    def note(self, text: str) -> None: ...
    def begin(self, source: "Source") -> None:
        """Its weights are loaded or trained."""

    def announce(self, training: "Training") -> None:
        """It is what runs now."""

    def progress(self, training: "Training", progress: "Progress | Advanced") -> None: ...
    def trained(self, training: "Training") -> None: ...
    def cell(self, cell: "Cell") -> None:
        """Its scoring begins."""

    def result(self, cell: "Cell", result: Result) -> None:
        """It is written."""

    def done(self, training: "Training") -> None:
        """With all its cells."""

    def waiting(self, training: "Training", holder: Holder | None) -> None: ...


@dataclass
class Told:
    """Tells a reporter what the processes of a run say, and remembers what came of it."""

    reporter: Reporter
    count: int = 0  # of the trainings that will be announced
    costs: "Costs | None" = None

    new: list[Result] = field(default_factory=list, init=False)
    _announced: set[str] = field(default_factory=set, init=False)  # trainings
    _shares: dict[str, float] = field(default_factory=dict, init=False)  # of trainings that are done
    _began: float = field(default_factory=time.monotonic, init=False)

    def note(self, text: str) -> None:
        self.reporter.note(text)

    def begin(self, source: "Source", worker: str = "") -> None:
        self.reporter.busy(worker, f"{training_name(source.training)}: training")

    def announce(self, training: "Training", worker: str = "") -> None:
        """Say, once, that a training and its cells are what is running now."""
        if training.key not in self._announced:
            self._announced.add(training.key)
            number = len(self._announced)
            self.reporter.training(training, number, max(number, self.count), worker)

    def progress(self, training: "Training", progress: "Progress | Advanced", worker: str = "") -> None:
        self._shares[training.key] = (progress.epoch - 1) / progress.epochs
        self.announce(training, worker)
        self.reporter.progress(progress, worker)
        self._look_ahead()

    def trained(self, training: "Training", worker: str = "") -> None:
        self._shares[training.key] = 1.0
        self._look_ahead()

    def cell(self, cell: "Cell", worker: str = "") -> None:
        self.announce(cell.training, worker)
        self.reporter.busy(worker, f"{training_name(cell.training)}: scoring")

    def result(self, cell: "Cell", result: Result, worker: str = "") -> None:
        self._shares[cell.training.key] = 1.0
        self.new.append(result)
        self.announce(cell.training, worker)  # which failed before it could begin
        self.reporter.result(result)
        self._look_ahead()

    def done(self, training: "Training", worker: str = "") -> None:
        self.reporter.busy(worker, "")

    def waiting(self, training: "Training", holder: Holder | None, worker: str = "") -> None:
        self.reporter.note(waiting_for(holder, training))

    def _look_ahead(self) -> None:
        """How long the rest will take: the cost of what is left, at the pace of what is done."""
        if self.costs is None:
            return
        done = sum(self._shares.get(key, 0.0) * cost for key, cost in self.costs.trainings.items())
        done += len(self.new) * self.costs.cell
        if done > 0:
            elapsed = time.monotonic() - self._began
            self.reporter.outlook(elapsed * max(self.costs.seconds - done, 0.0) / done)


def left_out_line(reasons: Mapping[str, str]) -> str:
    """What is left out and why in one line, however many: names that share a reason stand together."""
    if len(reasons) == 1:
        return "left out: " + " ".join(*reasons.items())
    together: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        together.setdefault(reason, []).append(name)
    return "left out: " + "; ".join(f"{', '.join(names)} ({reason})" for reason, names in together.items())


def training_name(training: "Training") -> str:
    words = [training.trainer.label]
    if training.setting is not None:
        words.append(training.suite.setting_name(training.setting))
    words.append(f"seed {training.seed}")
    return ", ".join(words if training.draw is None else [*words, str(training.draw)])


def waiting_for(holder: Holder | None, training: "Training") -> str:
    """For whom a run waits, and what to do about a process that hangs."""
    end_it = f"end it with `kill {holder.pid}`" if holder and holder.is_here and os.name != "nt" else "end it"
    since = f" since {holder.since()}" if holder else ""
    return (
        f"waiting for {holder or 'another process'}, which holds {training_name(training)}{since}; if it hangs, "
        f"{end_it}, or repeat this command with --take-over"
    )
