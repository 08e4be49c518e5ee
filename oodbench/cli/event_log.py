"""`--log FILE.jsonl`: how a run goes, an event a line, for whoever watches many runs."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from oodbench.errors import UserError
from oodbench.running.reporting import Reporter, training_name

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Training
    from oodbench.running.tasks import Advanced

FIELDS = ("epoch", "epochs", "loss", "images_per_second", "remaining")  # of progress


@dataclass
class Logged:
    """A reporter that also writes down what it hears; a line is whole or not there."""

    reporter: Reporter
    path: Path
    _file: IO[str] = field(init=False)

    def __post_init__(self) -> None:
        self.download = self.reporter.download
        try:
            self._file = open(self.path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  # as long as the run
        except OSError as error:
            raise UserError(f"cannot write '{self.path}': {error.strerror}; choose another file for --log") from None

    def _log(self, event: str, **values: Any) -> None:
        record = {"time": round(time.time(), 3), "event": event, **values}
        self._file.write(json.dumps({name: value for name, value in record.items() if value != ""}) + "\n")

    def note(self, text: str) -> None:
        self._log("note", text=text)
        self.reporter.note(text)

    def begin(self, cells: int, workers: int) -> None:
        self._log("begin", cells=cells, workers=workers)
        self.reporter.begin(cells, workers)

    def busy(self, worker: str, text: str) -> None:
        if text:
            self._log("task", worker=worker, task=text)
        self.reporter.busy(worker, text)

    def training(self, training: "Training", number: int, count: int, worker: str = "") -> None:
        self._log("training", worker=worker, training=training_name(training), key=training.key)
        self.reporter.training(training, number, count, worker)

    def progress(self, progress: "Progress | Advanced", worker: str = "") -> None:
        self._log("progress", worker=worker, **{name: getattr(progress, name) for name in FIELDS})
        self.reporter.progress(progress, worker)

    def outlook(self, seconds: float) -> None:
        self.reporter.outlook(seconds)

    def scoring(self, what: str, share: float) -> None:
        self.reporter.scoring(what, share)

    def result(self, result: "Result") -> None:
        place = {"suite": result.suite_label, "setting": result.setting, "method": result.method, "seed": result.seed}
        told = {"error": result.error} if result.error else {"metrics": result.metrics}
        self._log("result", **place, key=result.key, status=result.status, **told)
        self.reporter.result(result)

    def end(self) -> None:
        self._log("end")
        self.reporter.end()
