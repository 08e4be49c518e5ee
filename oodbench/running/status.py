"""A results folder in; what is done in it, what failed, and which trainings a process is or was at out. No torch."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from oodbench.errors import UserError
from oodbench.files import Holder, holder
from oodbench.results.folder import read_folder
from oodbench.results.result import WEIGHTS, Result
from oodbench.running.plan import plan
from oodbench.running.request import REQUESTS, read


@dataclass(frozen=True)
class Unfinished:
    """A training that a process is at, or was."""

    training: str  # its key
    trainer: str | None  # where a result of it says so
    holder: Holder | None  # None: nobody is at it
    saved: str | None  # when its last checkpoint was written: UTC, ISO 8601


@dataclass(frozen=True)
class Status:
    results: list[Result]
    problems: dict[Path, str]  # files and folders that could not be read, and why
    running: list[Unfinished]
    interrupted: list[Unfinished]  # with a checkpoint that the same command goes on from
    left: list[str]  # cells that were asked for and are not done, as their runs name them
    unplanned: dict[Path, str]  # requests that cannot be planned here, and why

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
    trainers = {result.training: result.config.method.trainer.name for result in results}
    home = folder / WEIGHTS
    names = {path.name.split(".")[0] for pattern in ("*.lock", "*.ckpt") for path in home.glob(pattern)}
    trainings = [
        Unfinished(name, trainers.get(name), holder(home / f"{name}.lock"), _saved(home, name))
        for name in sorted(names - {""})
    ]
    running = [each for each in trainings if each.holder is not None]
    interrupted = [each for each in trainings if each.holder is None and each.saved is not None]
    return Status(results, problems, running, interrupted, *_left(folder))


def _left(folder: Path) -> tuple[list[str], dict[Path, str]]:
    """What the requests of a folder still ask for, each cell once."""
    left: dict[str, None] = {}
    unplanned: dict[Path, str] = {}
    for path in sorted((folder / REQUESTS).glob("*.yaml")):
        try:
            for asked in read(path):
                planned = plan(replace(asked, results=str(folder)))
                left |= dict.fromkeys(f"{planned.suite.label} / {each}" for each in (*planned.todo, *planned.waiting))
        except UserError as error:
            unplanned[path] = str(error)
    return list(left), unplanned


def _saved(home: Path, training: str) -> str | None:
    """Of the latest of a training's checkpoints; one with several stages has several."""
    times = []
    for path in home.glob(f"{training}.*ckpt"):
        try:
            times.append(path.stat().st_mtime)
        except OSError:  # the training has just ended
            continue
    return datetime.fromtimestamp(max(times), timezone.utc).isoformat(timespec="seconds") if times else None
