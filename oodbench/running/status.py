"""A results folder in; what is done in it, what failed, what runs or was interrupted, and what is left out.

torch is imported only to read how far a checkpoint is.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from oodbench.errors import UserError
from oodbench.files import Holder, holder
from oodbench.results.folder import read_folder
from oodbench.results.result import WEIGHTS, Result
from oodbench.running.cells import Cell
from oodbench.running.plan import plan
from oodbench.running.request import REQUESTS, read
from oodbench.running.time_left import TimeLeft, estimate


@dataclass(frozen=True)
class Unfinished:
    """A training that a process is at, or was."""

    training: str  # its key
    trainer: str | None  # where a result of it or what is left says so
    holder: Holder | None  # None: nobody is at it
    saved: str | None  # when its last checkpoint was written: UTC, ISO 8601
    saved_epoch: int | None = None  # the last epoch in that checkpoint
    saved_epochs: int | None = None  # of so many

    @property
    def share_done(self) -> float:
        """Of its epochs, as far as is known."""
        at, of = self.saved_epoch, self.saved_epochs
        if self.holder is not None and self.holder.epoch is not None:
            at, of = self.holder.epoch - 1, self.holder.epochs  # it is at that one
        return min(1.0, max(0.0, at / of)) if at is not None and of else 0.0


@dataclass(frozen=True)
class Status:
    results: list[Result]
    problems: dict[Path, str]  # files and folders that could not be read, and why
    running: list[Unfinished]
    interrupted: list[Unfinished]  # with a checkpoint that the same command goes on from
    left: list[str]  # cells that were asked for and are not done, as their runs name them
    unplanned: dict[Path, str]  # requests that cannot be planned here, and why
    time_left: TimeLeft

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.status == "failed"]

    @property
    def done(self) -> int:
        return len(self.results) - len(self.failed)

    def by_suite(self) -> dict[str, Counter[str]]:
        """How many cells of each suite and preset are ok, and how many failed."""
        suites: dict[str, Counter[str]] = {}
        for result in self.results:
            suites.setdefault(result.suite_label, Counter())[result.status] += 1
        return dict(sorted(suites.items()))


def of_folder(folder: Path) -> Status:
    """As the files are now; other processes may change them while one looks."""
    results, problems = read_folder(folder)
    left, waiting, unplanned = _left(folder)
    unfinished = _unfinished(folder / WEIGHTS, _trainers(results, left.values()))
    running = [each for each in unfinished if each.holder is not None]
    interrupted = [each for each in unfinished if each.holder is None and each.saved is not None]
    shares = {each.training: each.share_done for each in unfinished}
    time_left = estimate(results, left.values(), shares, folder, len(running))
    time_left = replace(time_left, unknown=time_left.unknown + len(waiting))
    return Status(results, problems, running, interrupted, [*left, *waiting], unplanned, time_left)


def _trainers(results: Iterable[Result], left: Iterable[Cell]) -> dict[str, str]:
    """The names of trainers, by the keys of trainings."""
    names = {each.key: each.trainer.card.name for cell in left for each in cell.training.chain}
    return names | {result.training: result.config.method.trainer.name for result in results}


def _unfinished(home: Path, trainers: dict[str, str]) -> list[Unfinished]:
    names = {path.name.split(".")[0] for pattern in ("*.lock", "*.ckpt") for path in home.glob(pattern)}
    unfinished = []
    for name in sorted(names - {""}):
        held_by = holder(home / f"{name}.lock")  # before its checkpoint, which goes before the lock does
        latest = _latest_checkpoint(home, name)
        saved, epoch, epochs = None, None, None
        if latest is not None:
            saved = datetime.fromtimestamp(latest[0], timezone.utc).isoformat(timespec="seconds")
            epoch, epochs = _epoch_of(latest[1])
        unfinished.append(Unfinished(name, trainers.get(name.partition("-")[0]), held_by, saved, epoch, epochs))
    return unfinished


def _latest_checkpoint(home: Path, training: str) -> tuple[float, Path] | None:
    """When a training's last checkpoint was written, and its file; a training in several stages has several."""
    times = []
    for path in home.glob(f"{training}.*ckpt"):
        try:
            times.append((path.stat().st_mtime, path))
        except OSError:  # the training has just ended
            continue
    return max(times) if times else None


def _epoch_of(checkpoint: Path) -> tuple[int | None, int | None]:
    from oodbench.learning.checkpoint import epoch_of

    return epoch_of(checkpoint) or (None, None)


def _left(folder: Path) -> tuple[dict[str, Cell], list[str], dict[Path, str]]:
    """What the requests of a folder still ask for, each cell once: those that can run, and those that wait for data."""
    left: dict[str, Cell] = {}
    waiting: dict[str, None] = {}
    unplanned: dict[Path, str] = {}
    for path in sorted((folder / REQUESTS).glob("*.yaml")):
        try:
            for asked in read(path):
                planned = plan(replace(asked, results=str(folder)))
                left |= {f"{planned.suite.label} / {each}": each for each in planned.todo}
                waiting |= dict.fromkeys(f"{planned.suite.label} / {each}" for each in planned.waiting)
        except UserError as error:
            unplanned[path] = str(error)
    return left, [name for name in waiting if name not in left], unplanned
