"""How long the rest of a run will take: the cost of what is left, at the pace of what is done."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from oodbench.running.tasks import Task


@dataclass
class Outlook:
    """Knows the cost of tasks, how much of each is done, and when the run began."""

    tasks: Iterable[Task]

    _began: float = field(default_factory=time.monotonic, init=False)
    _done: float = field(default=0.0, init=False)  # cost of what has ended
    _share: dict[str, tuple[float, float]] = field(default_factory=dict, init=False)  # done of those under way; cost

    def __post_init__(self) -> None:
        self._all = sum(task.cost for task in self.tasks)

    def advance(self, task: Task, share: float) -> None:
        self._share[task.name] = (share, task.cost)

    def end(self, task: Task, again: Iterable[Task] = ()) -> None:
        """It is no longer under way; of one that was lost, these are still to do."""
        self._share.pop(task.name, None)
        self._done += task.cost - sum(each.cost for each in again)

    @property
    def seconds(self) -> float:
        """Infinite as long as nothing is done."""
        done = self._done + sum(share * cost for share, cost in self._share.values())
        elapsed = time.monotonic() - self._began
        return elapsed * max(self._all - done, 0.0) / done if done else float("inf")
