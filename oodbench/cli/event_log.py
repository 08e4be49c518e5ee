"""`--log FILE.jsonl`: how a run goes, an event a line, for whoever watches many runs."""

import errno
import json
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oodbench.errors import UserError
from oodbench.running.reporting import Reporter, training_name

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Training
    from oodbench.running.reporting import Advanced

FIELDS = ("epoch", "epochs", "loss", "images_per_second", "remaining")  # of progress


@dataclass
class Logged:
    """A reporter that also writes down what it hears; a line is whole or not there.

    A file that cannot be opened is refused. One that takes no more costs the log, and never the run.
    """

    reporter: Reporter
    path: Path
    _file: int | None = field(init=False, default=None)  # as the system numbers it: nothing waits to be written

    def __post_init__(self) -> None:
        self.download = self.reporter.download
        try:
            self._file = _opened(self.path)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise UserError(
                    f"cannot write '{self.path}': {error.strerror}; choose another file for --log"
                ) from None
            self._give_up("nobody reads from it")

    def _log(self, event: str, **values: Any) -> None:
        if self._file is None:
            return
        record = {"time": round(time.time(), 3), "event": event, **values}
        line = json.dumps({name: value for name, value in record.items() if value != ""}) + "\n"
        try:
            _append(self._file, line.encode())
        except OSError as error:
            os.close(self._file)
            self._file = None
            self._give_up(error.strerror or "it takes no more")

    def _give_up(self, reason: str) -> None:
        self.reporter.note(f"oodbench: cannot write '{self.path}': {reason}; the run goes on without --log")

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


def _opened(path: Path) -> int:
    """A pipe that nobody reads is no file to write (ENXIO), rather than one to wait for."""
    waits_for_nobody = getattr(os, "O_NONBLOCK", 0)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | waits_for_nobody, 0o666)
    if waits_for_nobody:
        os.set_blocking(file, True)  # for a reader that is slower than the run
    return file


def _append(file: int, line: bytes) -> None:
    """The whole line or nothing of it, where a file can be cut."""
    written = 0
    try:
        while written < len(line):
            written += os.write(file, line[written:])
    except OSError:
        length = os.fstat(file).st_size
        if written and stat.S_ISREG(os.fstat(file).st_mode) and os.lseek(file, 0, os.SEEK_CUR) == length:
            os.ftruncate(file, length - written)
        raise
