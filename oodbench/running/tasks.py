"""What an engine is given to do and what it brings home. A task says by key what to do, and carries no path.

A training is a task, and so is the scoring of its cells, which then share one pass. The weights that a task starts from
come before it; whoever does a task finds training and cells by their keys in a plan of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from oodbench.running.cells import Training, must_train
from oodbench.running.plan import Plan


class Task(msgspec.Struct, frozen=True):
    """A training, or the scoring of cells that have one training in common."""

    kind: Literal["train", "score"]
    training: str  # its key
    cells: tuple[str, ...] = ()  # names of those to score, which begin with their keys
    needs: str | None = None  # the key of the training whose weights it starts from or scores
    cost: float = 1.0  # in any unit, the same for all tasks of a run

    @property
    def name(self) -> str:
        return (
            f"{self.kind} {self.training}" if len(self.cells) != 1 else f"{self.kind} {self.training} {self.cells[0]}"
        )


class Failure(msgspec.Struct, frozen=True):
    """Why a training cannot be had, in one line, and where that happened, for the author of a method."""

    error: str
    traceback: str


class Began(msgspec.Struct, frozen=True, tag=True):
    """A worker begins with a task."""

    task: str
    worker: str


class Announced(msgspec.Struct, frozen=True, tag=True):
    """A training is what runs now: that of a task, or one that it starts from."""

    task: str
    training: str


class Advanced(msgspec.Struct, frozen=True, tag=True):
    """How far a training is; the fields of `learning.loop.Progress`."""

    task: str
    epoch: int
    epochs: int
    loss: float | None
    images_per_second: float
    remaining: float


class Noted(msgspec.Struct, frozen=True, tag=True):
    """What a user should know."""

    text: str


class Scored(msgspec.Struct, frozen=True, tag=True):
    """A cell has a result: its files by their suffix, or none where they are in the results folder already."""

    task: str
    cell: str  # its name
    files: dict[str, bytes] = {}


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A task is done, or its training has failed."""

    task: str
    weights: bytes | None = None  # of a training, unless they are in the results folder already
    failure: Failure | None = None


class Lost(msgspec.Struct, frozen=True, tag=True):
    """A task went with its worker or node: nobody knows how far it was."""

    task: str
    why: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A worker that would compute other numbers, or none; a run cannot go on with it."""

    why: str


Message = Began | Announced | Advanced | Noted | Scored | Ended | Lost | Refused
Send = Callable[[Message], None]


class Order(msgspec.Struct, frozen=True):
    """What the workers of a run are told once, before any task."""

    request: dict[str, Any]  # in plain values
    here: dict[str, str]  # versions and fingerprints at home, by which a worker says what differs
    files: dict[str, bytes] = {}  # what the request names: plugins, a suite, weights; by the name it gives


def tasks_of(plan: Plan, costs: Mapping[str, float], cost_of_cell: float = 0.0) -> list[Task]:
    """Every training of a plan to be trained, after those that it starts from, and the scoring of its cells.

    `costs` are of trainings, by key.
    """
    chains: dict[str, Training] = {}
    for training, _ in plan.trainings.values():
        needed = [training]
        # What is trained already needs nothing that it starts from.
        while must_train(needed[0], plan.folder, plan.request.force) and needed[0].parent is not None:
            needed.insert(0, needed[0].parent)
        chains |= {each.key: each for each in needed}
    tasks = []
    for key, training in chains.items():
        if plan.only is not None and key not in plan.only:
            continue
        if must_train(training, plan.folder, plan.request.force):
            parent = training.parent.key if training.parent is not None else None
            tasks.append(Task("train", key, needs=parent, cost=costs.get(key, 0.0)))
        if key in plan.trainings and plan.only is None:
            cells = plan.trainings[key][1]
            tasks.append(Task("score", key, tuple(cell.name for cell in cells), key, cost_of_cell * len(cells)))
    return tasks
