"""Who hears how a run goes, and what of it is told in words. Imports no torch."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from oodbench.data import availability
from oodbench.files import Holder
from oodbench.results.result import Result

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.running.cells import Training
    from oodbench.running.tasks import Advanced


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
