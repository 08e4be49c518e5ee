"""What is done and what is left in; how long the rest will take out, from how long the like of it took. No torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from oodbench.results.result import WEIGHTS, Result
from oodbench.running.cells import Cell

TRAINING = "train"  # the stage of a result's seconds that its cells share


@dataclass(frozen=True)
class TimeLeft:
    """An estimate."""

    seconds: float  # of work, for one process
    processes: int  # trainings that are running
    unknown: int  # trainings and cells of which nothing alike is done, or whose data is missing; not in the seconds

    @property
    def together(self) -> float:
        """Seconds until the processes that are running are through, if they share the work evenly."""
        return self.seconds / max(1, self.processes)


def estimate(
    results: Iterable[Result], left: Iterable[Cell], shares: Mapping[str, float], folder: Path, processes: int
) -> TimeLeft:
    """A training takes as long as others of the same trainer and suite took, a cell as the others of its suite.

    `shares` say how far trainings are, by key. Weights that are in the folder need no training.
    """
    trained: dict[tuple[str, str], dict[str, float]] = {}
    scored: dict[str, list[float]] = {}
    for result in results:
        if result.status == "ok" and TRAINING in result.seconds:
            trainer = (result.suite_label, result.config.method.trainer.name)
            trained.setdefault(trainer, {})[result.training] = result.seconds[TRAINING]
            rest = [value for stage, value in result.seconds.items() if stage != TRAINING]
            scored.setdefault(result.suite_label, []).append(sum(rest))
    cells = list(left)
    seconds, unknown = 0.0, 0
    trainings = {each.key: (cell.suite.label, each) for cell in cells for each in cell.training.chain}
    for key, (suite, training) in trainings.items():
        alike = trained.get((suite, training.trainer.card.name))
        if training.init is not None or (folder / WEIGHTS / f"{key}.pt").exists():
            continue
        if alike is None:
            unknown += 1
        else:
            seconds += fmean(alike.values()) * (1 - shares.get(key, 0.0))
    for cell in cells:
        seconds += fmean(scored[cell.suite.label]) if cell.suite.label in scored else 0.0
    return TimeLeft(seconds, processes, unknown)
