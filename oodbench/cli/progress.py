"""How a run goes, on a terminal or in a log: what is training, how far it is, what came out.

All of it goes to standard error, so that standard output holds the table and nothing else.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from oodbench.cli.output import drawing, escaped
from oodbench.cli.times import duration
from oodbench.data.availability import Listener
from oodbench.report import tables
from oodbench.results.metrics import METRICS
from oodbench.running.reporting import training_name as training_name

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Training
    from oodbench.running.reporting import Advanced

SHOWN_NOTES = ("environments", "margin", "weights")  # notes of a result that its line on screen names
EVERY = 10.0  # seconds between two lines on one training


def reporter(each_result: bool = True) -> "Lines":
    """Without `each_result`, only cells that failed get a line that stays."""
    return Terminal(each_result) if _moves() else Lines(each_result)


def _moves() -> bool:
    """Whether lines on standard error can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def downloads(say: Callable[[str], None]) -> Listener:
    """A bar that moves on a terminal while a file comes, and lines for what stays."""
    if not _moves():
        return Listener(_nothing, say)
    bar = DownloadBar()

    def tell(text: str) -> None:
        bar.clear()
        say(text)

    return Listener(bar, tell)


def _nothing(have: int, whole: int | None) -> None: ...


class DownloadBar:
    """One line on standard error that is written over, and gone when the file is there.

    rich would hide the cursor until the download has ended, also if the user interrupts it.
    """

    EVERY = 0.1  # seconds between two pictures
    BLOCKS = 24

    def __init__(self) -> None:
        self._start, self._had, self._drawn = 0.0, 0, 0.0
        self._last = -1

    def __call__(self, have: int, whole: int | None) -> None:
        now = time.perf_counter()
        if self._last < 0 or have < self._last:  # another file
            self._start, self._had, self._drawn = now, have, 0.0
        self._last = have
        if have == whole:
            self.clear()
        elif now - self._drawn >= self.EVERY:
            self._drawn = now
            line = "  " + self.line(have, whole, now - self._start)
            columns = shutil.get_terminal_size().columns
            print(f"\r{line[: columns - 1]}\x1b[K", end="", flush=True, file=drawing(sys.stderr))

    def line(self, have: int, whole: int | None, seconds: float) -> str:
        rate = (have - self._had) / seconds if seconds > 0 else 0.0
        speed = f", {rate / 1e6:,.1f} MB/s" if rate else ""
        if not whole:
            return f"{have / 1e6:,.0f} MB{speed}"
        full = int(self.BLOCKS * have / whole)
        left = f", {duration((whole - have) / rate)} left" if rate else ""
        bar = f"[{'#' * full}{'.' * (self.BLOCKS - full)}]"
        return f"{bar} {100 * have / whole:3.0f} %  {have / 1e6:,.0f} of {whole / 1e6:,.0f} MB{speed}{left}"

    def clear(self) -> None:
        if self._last >= 0:
            self._last = -1
            print("\r\x1b[K", end="", flush=True, file=drawing(sys.stderr))


def _say(text: str) -> None:
    print(text, flush=True, file=sys.stderr)


class Lines:
    """Progress for a pipe or a log file: plain lines."""

    def __init__(self, each_result: bool = True) -> None:
        self.each_result = each_result
        self.download = downloads(self.note)
        self.cells = self.done = 0
        self._said: dict[str, float] = {}  # when each worker was last heard of
        self._labels: dict[str, str] = {}  # what each is training

    def note(self, text: str) -> None:
        self._line(text)

    def begin(self, cells: int, workers: int) -> None:
        self.cells, self.workers = cells, workers

    def busy(self, worker: str, text: str) -> None: ...

    def training(self, training: "Training", number: int, count: int, worker: str = "") -> None:
        self._said[worker], self._labels[worker] = time.perf_counter(), training_name(training)
        self._line(f"[{number}/{count}] {training_name(training)}")

    def progress(self, progress: "Progress | Advanced", worker: str = "") -> None:
        now, is_last = time.perf_counter(), progress.epoch == progress.epochs and progress.remaining == 0
        if now - self._said.get(worker, now) > EVERY or is_last:
            self._said[worker] = now
            whose = f"{self._labels.get(worker, worker)}: " if self.workers > 1 else ""
            self._line(f"  {whose}{_progress(progress)}")

    def outlook(self, seconds: float) -> None: ...

    def scoring(self, what: str, share: float) -> None:
        """Of a trained network: what is being done, and the share of it that is."""
        now = time.perf_counter()
        if now - self._said.setdefault("", now) > EVERY:
            self._said[""] = now
            self._line(f"  {what}: {100 * share:.0f} %")

    def result(self, result: "Result") -> None:
        self.done += 1
        if self.each_result or result.status != "ok":
            self._line(f"  {outcome(result)}")

    def end(self) -> None: ...

    def _line(self, text: str) -> None:
        _say(text)


class Terminal(Lines):
    """Progress for a person: a view that moves, of the whole run and of every worker, below the lines that stay."""

    def __init__(self, each_result: bool = True) -> None:
        super().__init__(each_result)
        self._live: Live | None = None
        self._left = float("inf")
        self._doing: dict[str, str] = {}

    def begin(self, cells: int, workers: int) -> None:
        from rich.console import Console
        from rich.live import Live

        super().begin(cells, workers)
        console = Console(file=drawing(sys.stderr))
        self._live = Live(console=console, transient=True, get_renderable=self._view, refresh_per_second=4)
        self._live.start()

    def busy(self, worker: str, text: str) -> None:
        self._doing[worker] = text

    def training(self, training: "Training", number: int, count: int, worker: str = "") -> None:
        self._labels[worker] = self._doing[worker] = f"[{number}/{count}] {training_name(training)}"
        if self._live is not None:
            self._live.refresh()  # at once, however short the training is

    def progress(self, progress: "Progress | Advanced", worker: str = "") -> None:
        self._doing[worker] = f"{self._labels.get(worker, '')}: {_progress(progress)}"

    def scoring(self, what: str, share: float) -> None:
        self._doing[""] = f"{what}: {100 * share:.0f} %"

    def outlook(self, seconds: float) -> None:
        self._left = seconds

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _view(self) -> "RenderableType":
        from rich.text import Text

        left = f", {duration(self._left)} left" if 0 < self._left < float("inf") else ""
        lines = [f"{self.done} of {self.cells} cells{left}"]
        lines += [f"  {name + ': ' if name else ''}{text or 'free'}" for name, text in sorted(self._doing.items())]
        return Text(escaped("\n".join(lines)), no_wrap=True, overflow="ellipsis")

    def _line(self, text: str) -> None:
        if self._live is None:
            _say(text)
        else:
            self._live.console.print(escaped(text), markup=False, highlight=False, soft_wrap=True)


def _progress(progress: "Progress | Advanced") -> str:
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
