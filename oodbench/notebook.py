"""How far a run is, as a bar that a notebook draws; nothing anywhere else."""

import sys
import time
from html import escape
from typing import TYPE_CHECKING, Any

from oodbench.running.reporting import Advanced, Reporter, Silent, training_name

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Training

EVERY = 0.5  # seconds between two pictures


def reporter() -> Reporter:
    """Draws where a notebook shows what is displayed, and is silent in a script or a terminal."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Bar() if shell is not None and hasattr(shell, "kernel") else Silent()


class Bar(Silent):
    """Cells done of all, and what is being trained; at the end one line stays."""

    def __init__(self) -> None:
        self.cells = self.done = self.failed = 0
        self._doing: dict[str, str] = {}  # by worker
        self._labels: dict[str, str] = {}
        self._handle: Any = None
        self._drawn = 0.0

    def begin(self, cells: int, workers: int) -> None:
        from IPython.display import HTML, display

        self.cells = cells
        self._handle = display(HTML(self.html()), display_id=True)

    def training(self, training: "Training", number: int, count: int, worker: str = "") -> None:
        self._labels[worker] = self._doing[worker] = training_name(training)
        self._draw()

    def progress(self, progress: "Progress | Advanced", worker: str = "") -> None:
        self._doing[worker] = f"{self._labels.get(worker, '')}: epoch {progress.epoch}/{progress.epochs}"
        self._draw()

    def scoring(self, what: str, share: float) -> None:
        self._doing[""] = f"{what}: {100 * share:.0f} %"
        self._draw()

    def result(self, result: "Result") -> None:
        self.done += 1
        self.failed += result.status != "ok"
        self._draw()

    def end(self) -> None:
        self._doing = {}
        self._draw(at_once=True)

    def html(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        doing = "".join(f"<br><small>{escape(text)}</small>" for _, text in sorted(self._doing.items()) if text)
        bar = f'<progress value="{self.done}" max="{self.cells}"></progress>'
        return f"{bar} {self.done} of {self.cells} cells{failed}{doing}"

    def _draw(self, at_once: bool = False) -> None:
        if self._handle is None or not at_once and time.monotonic() - self._drawn < EVERY:
            return
        from IPython.display import HTML

        self._drawn = time.monotonic()
        self._handle.update(HTML(self.html()))
