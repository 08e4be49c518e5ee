"""Which task comes next: the ready-queue of a run, whatever engine carries it out. Knows no files, no clock, no torch.

What others start from comes first, then scoring, so that results appear early, then all other trainings. Among these
the one with the longest chain of work behind it comes first.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from oodbench.running.tasks import Task

TRIES = 3  # a task that was lost with its worker so often has failed


@dataclass
class Schedule:
    """Tasks that wait for others, are ready, are under way, or have ended. Every task ends once."""

    tries: int = TRIES

    tasks: dict[str, Task] = field(default_factory=dict, init=False)  # all that have not ended
    under_way: dict[str, Task] = field(default_factory=dict, init=False)
    _waits: dict[str, int] = field(default_factory=dict, init=False)  # for how many others a task waits
    _after: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list), init=False)
    _rank: dict[str, tuple[int, float, int]] = field(default_factory=dict, init=False)
    _ready: list[tuple[tuple[int, float, int], str]] = field(default_factory=list, init=False)
    _postponed: list[str] = field(default_factory=list, init=False)
    _losses: dict[str, int] = field(default_factory=lambda: defaultdict(int), init=False)

    @classmethod
    def of(cls, tasks: Iterable[Task], tries: int = TRIES) -> "Schedule":
        schedule = cls(tries)
        schedule.add(tasks)
        return schedule

    def add(self, tasks: Iterable[Task]) -> None:
        added = {task.name: task for task in tasks}
        trained = {task.training: name for name, task in added.items() if task.kind == "train"}
        for name, task in added.items():
            before = trained.get(task.needs) if task.needs is not None else None
            self._waits[name] = 0 if before is None else 1
            if before is not None:
                self._after[before].append(name)
        parents = {task.needs for task in added.values() if task.kind == "train"}
        behind = self._work_behind(added)
        for number, (name, task) in enumerate(added.items(), start=len(self._rank)):
            kind = 1 if task.kind == "score" else 0 if task.training in parents else 2
            self._rank[name] = (kind, -behind[name], number)
        self.tasks |= added
        for name in added:
            if not self._waits[name]:
                heapq.heappush(self._ready, (self._rank[name], name))

    def _work_behind(self, tasks: dict[str, Task]) -> dict[str, float]:
        """The cost of a task and of the longest chain of those that wait for it."""
        behind: dict[str, float] = {}
        for first in tasks:
            stack = [first]
            while stack:
                waiting = [each for each in self._after.get(stack[-1], ()) if each not in behind]
                if waiting:
                    stack += waiting
                    continue
                name = stack.pop()
                later = [behind[each] for each in self._after.get(name, ())]
                behind[name] = tasks[name].cost + max(later, default=0.0)
        return behind

    @property
    def finished(self) -> bool:
        return not self.tasks

    def next(self) -> Task | None:
        """The task to begin with now, which is under way then; None if all that is left waits."""
        if not self._ready:
            return None
        name = heapq.heappop(self._ready)[1]
        self.under_way[name] = self.tasks[name]
        return self.tasks[name]

    def postpone(self, task: Task) -> None:
        """Somebody else is at it."""
        del self.under_way[task.name]
        self._postponed.append(task.name)

    def next_postponed(self) -> Task | None:
        """What somebody else is at, when nothing else is left: the others are ready again, and this is under way."""
        self.recall()
        return self.next()

    def recall(self) -> None:
        """What somebody else was at is ready again."""
        for name in self._postponed:
            heapq.heappush(self._ready, (self._rank[name], name))
        self._postponed = []

    def ended(self, task: Task) -> None:
        """Done, or failed for good; what waits for it is ready."""
        self._leave(task)
        for name in self._after.pop(task.name, ()):
            self._waits[name] -= 1
            if not self._waits[name]:
                heapq.heappush(self._ready, (self._rank[name], name))

    def lost(self, task: Task, groups: list[tuple[str, ...]]) -> list[Task]:
        """Its worker is gone: what is ready again in its place, nothing if that has happened too often.

        Of a scoring, `groups` are the cells that have no result yet, each of which becomes a task.
        """
        losses = self.losses(task) + 1
        if losses < 2 * self.tries:
            return self._replace(task, groups, losses)
        self.ended(task)
        return []

    def stopped(self, task: Task, groups: list[tuple[str, ...]]) -> list[Task]:
        """As if lost, but by our own doing: nobody counts that against the cells of the task."""
        return self._replace(task, groups, self.losses(task))

    def _replace(self, task: Task, groups: list[tuple[str, ...]], losses: int) -> list[Task]:
        self._leave(task)
        again = [task]
        if task.kind == "score":
            share = task.cost / len(task.cells)
            again = [Task("score", task.training, group, task.needs, share * len(group)) for group in groups if group]
        rank = self._rank[task.name]
        for each in again:
            self.tasks[each.name], self._losses[each.name], self._rank[each.name] = each, losses, rank
            heapq.heappush(self._ready, (rank, each.name))
        return again

    def _leave(self, task: Task) -> None:
        del self.tasks[task.name], self.under_way[task.name]

    def losses(self, task: Task) -> int:
        return self._losses.get(task.name, 0)

    def has_failed(self, task: Task) -> bool:
        """Whether it was lost so often that nobody should try it once more."""
        return self.losses(task) >= self.tries
