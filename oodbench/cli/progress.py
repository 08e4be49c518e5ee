"""How a run goes, on a terminal or in a log: what is training, how far it is, what came out."""

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from oodbench.data.availability import Listener
from oodbench.report import tables
from oodbench.results.metrics import METRICS
from oodbench.running.reporting import training_name as training_name

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Training

SHOWN_NOTES = ("environments", "margin", "weights")  # notes of a result that its line on screen names


def reporter() -> "Lines":
    return Terminal() if _moves() else Lines()


def _moves() -> bool:
    """Whether lines on standard output can be written over."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def downloads() -> Listener:
    """A moving line on a terminal, and a line for each set that came."""
    return Listener(_downloaded if _moves() else _nothing, lambda text: print(text, flush=True))


def _nothing(have: int, whole: int | None) -> None: ...


def _downloaded(have: int, whole: int | None) -> None:
    share = f" of {whole / 1e6:,.0f} MB ({100 * have / whole:.0f} %)" if whole else " MB"
    print(f"\r  {have / 1e6:,.0f}{share}", end="\n" if have == whole else "", flush=True)


def duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


class Lines:
    """Progress for a pipe or a log file: plain lines."""

    def __init__(self) -> None:
        self.last = time.perf_counter()
        self.download = downloads()

    def note(self, text: str) -> None:
        print(text, flush=True)

    def training(self, training: "Training", number: int, count: int) -> None:
        self.last = time.perf_counter()
        print(f"[{number}/{count}] {training_name(training)}", flush=True)

    def progress(self, progress: "Progress") -> None:
        if time.perf_counter() - self.last > 10 or progress.epoch == progress.epochs and progress.remaining == 0:
            self.last = time.perf_counter()
            print(f"  {_progress(progress)}", flush=True)

    def scoring(self, what: str, share: float) -> None:
        """Of a trained network: what is being done, and the share of it that is."""
        if time.perf_counter() - self.last > 10:
            self.last = time.perf_counter()
            print(f"  {what}: {100 * share:.0f} %", flush=True)

    def result(self, result: "Result") -> None:
        print(f"  {outcome(result)}", flush=True)


class Terminal(Lines):
    """Progress for a person: one line that moves while a network trains or is scored."""

    def note(self, text: str) -> None:
        self._show("")
        super().note(text)

    def training(self, training: "Training", number: int, count: int) -> None:
        self.label = f"[{number}/{count}] {training_name(training)}"
        self._show(self.label)

    def progress(self, progress: "Progress") -> None:
        self._show(f"{self.label}: {_progress(progress)}")

    def scoring(self, what: str, share: float) -> None:
        self._show(f"  {what}: {100 * share:.0f} %")

    def result(self, result: "Result") -> None:
        self._show("")
        super().result(result)

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[2K{text[:width]}", end="", flush=True)


def _progress(progress: "Progress") -> str:
    loss = "" if progress.loss is None else f", loss {progress.loss:.4f}"
    left = "" if progress.remaining == 0 else f", {duration(progress.remaining).removeprefix('about ')} left"
    return f"epoch {progress.epoch}/{progress.epochs}{loss}, {progress.images_per_second:,.0f} images/s{left}"


def outcome(result: "Result") -> str:
    place = f"{result.setting} / {result.method} / seed {result.seed}"
    if result.draw:
        place += f" / draw {result.draw}"
    if result.status != "ok":
        return f"{place}: FAILED: {result.error}"
    shown = [m for m in tables.DEFAULT_METRICS if m in result.metrics]
    numbers = [f"{METRICS[m].title} {100 * result.metrics[m]:.2f}" for m in shown]
    noted = [f"{key} {value}" for key, value in result.notes.items() if key in SHOWN_NOTES]
    return f"{place}: " + ", ".join(numbers + noted)
