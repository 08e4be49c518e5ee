"""What worker processes cost and save, and how the scheduler does beyond this machine, on a made clock.

    python benchmarks/speed/scale_out.py                   all of it: minutes
    python benchmarks/speed/scale_out.py --simulate        the scheduler alone

Wall time of `oodbench run` on digits-c in processes of their own, which take turns; the least of three counts. The
plain run is held to one core and one process. The simulation runs the real scheduler and the real loop of the driver
with engine and home that only keep count: 100,000 cells on 1,000 workers, two nodes of eight of which are lost,
and with them or alone one task in a hundred.
"""

import heapq
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from timing import Row, main

from oodbench.running import tasks
from oodbench.running.driver import Admission, Engine, drive
from oodbench.running.schedule import Schedule
from oodbench.running.tasks import Failure, Message, Send, Task

CELLS, WORKERS, NODE = 100_000, 1000, 8
LOST = 0.01  # of all tasks, each once or more often
RUN = ("run", "--suite", "digits-c", "--methods", "all", "--seeds", "0,1,2")


def made_tasks(cells: int, rng: random.Random) -> list[Task]:
    """Trainings of some minutes to hours, a tenth of which others start from, each with a few cells."""
    made: list[Task] = []
    left, parents = cells, [f"p{i}" for i in range(max(cells // 100, 1))]
    for i in itertools.count():
        if left <= 0:
            return made
        is_parent = i < len(parents)
        key = parents[i] if is_parent else f"t{i}"
        start = None if is_parent or rng.random() < 0.5 else rng.choice(parents)
        count = min(left, rng.randint(1, 9))
        left -= count
        made.append(Task("train", key, needs=start, cost=rng.lognormvariate(6, 0.7)))
        made.append(Task("score", key, tuple(f"{key}/{j}" for j in range(count)), key, cost=10.0 * count))


@dataclass
class Simulated:
    """An engine on a made clock: tasks take as long as they cost, and some are lost."""

    workers: int
    rng: random.Random
    dying: list[float]  # when whole nodes are lost

    clock: float = field(default=0.0, init=False)
    carries_weights = False
    _events: list[tuple[float, int, Message]] = field(default_factory=list, init=False)
    _gone: int = field(default=0, init=False)  # workers
    _queue: list[Task] = field(default_factory=list, init=False)
    _busy: dict[str, int] = field(default_factory=dict, init=False)  # worker of each task
    _number: "itertools.count[int]" = field(default_factory=itertools.count, init=False)

    def __post_init__(self) -> None:
        self._free = [*range(self.workers)]
        for at in self.dying:
            heapq.heappush(self._events, (at, next(self._number), tasks.Noted("a node is lost")))

    @property
    def slots(self) -> int:
        return self.workers - self._gone

    def submit(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> None:
        self._queue.append(task)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._queue and self._free:
            task = self._queue.pop(0)
            self._busy[task.name] = self._free.pop()
            if self.rng.random() < LOST:
                self._later(task.cost * self.rng.random(), tasks.Lost(task.name, "made"))
                continue
            for i, cell in enumerate(task.cells, start=1):
                self._later(task.cost * i / len(task.cells), tasks.Scored(task.name, cell))
            self._later(task.cost, tasks.Ended(task.name))

    def _later(self, seconds: float, message: Message) -> None:
        heapq.heappush(self._events, (self.clock + seconds, next(self._number), message))

    def wait(self, seconds: float, hear: Send) -> None:
        self.clock, _, message = heapq.heappop(self._events)
        if isinstance(message, tasks.Noted):
            self._lose_a_node(hear)
        elif message.task in self._busy:  # otherwise it went with its node
            if not isinstance(message, tasks.Scored):
                self._free.append(self._busy.pop(message.task))
                self._hand_out()
            hear(message)

    def _lose_a_node(self, hear: Send) -> None:
        self._gone += NODE
        gone = {*self.rng.sample(range(self.workers), NODE)}
        self._free = [worker for worker in self._free if worker not in gone]
        for name in [name for name, worker in self._busy.items() if worker in gone]:
            del self._busy[name]
            self._events = [each for each in self._events if getattr(each[2], "task", None) != name]
            heapq.heapify(self._events)
            hear(tasks.Lost(name, "its node is gone"))

    def stop(self, task: Task) -> None: ...
    def close(self) -> None: ...


@dataclass
class Count:
    """A home that keeps count of what comes."""

    schedule: Schedule
    ended: Counter[str] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def admit(self, task: Task, wait: bool) -> Admission:
        return "go"

    def send(self, task: Task, engine: Engine) -> None:
        engine.submit(task, {}, {})

    def hear(self, message: Message) -> None:
        assert not isinstance(message, tasks.Noted | tasks.Refused)
        task = self.schedule.under_way[message.task]
        if isinstance(message, tasks.Scored):
            self.scored[message.cell] += 1
        elif isinstance(message, tasks.Ended):
            self.ended[task.name] += 1
            self.schedule.ended(task)
        else:
            self.lost += 1
            self.schedule.lost(task, [tuple(cell for cell in task.cells if cell not in self.scored)])

    def look(self, engine: Engine) -> None: ...


def simulate(cells: int, workers: int) -> Iterator[Row]:
    rng = random.Random(0)
    made = made_tasks(cells, rng)
    work = sum(task.cost for task in made) / workers
    cost = {(task.kind, task.training): task.cost for task in made}
    starts = {task.training: task.needs for task in made if task.kind == "train"}
    longest = max(
        sum(cost["train", each] for each in (key, starts[key]) if each) + cost.get(("score", key), 0) for key in starts
    )
    bound = max(work, longest)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    schedule = Schedule.of(made)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    engine, home = Simulated(workers, rng, [bound / 3, bound / 2]), Count(schedule)
    began = time.process_time()
    drive(schedule, engine, home)
    seconds = time.process_time() - began
    assert len(home.scored) == cells and set(home.scored.values()) == {1}, "a cell was lost, or done twice"
    print(f"{len(made):,} tasks, {home.lost:,} losses, {held / len(made) - before:,.0f} bytes a task", file=sys.stderr)
    yield Row(f"makespan of {cells:,} cells on {workers:,} simulated workers : lower bound", engine.clock / bound, 1.10)
    yield Row("CPU time of the scheduler and its loop, per task", 1000 * seconds / len(made), 1.00, "ms")
    yield Row("memory of the schedule, per task", (held - before) / len(made) / 1000, unit="kB")


def wall(*options: str, cores: set[int] | None = None) -> float:
    """Seconds of a run from nothing."""
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-m", "oodbench", *RUN, *options, "--results", results]
        hold = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=hold)
        return time.perf_counter() - began


def measured(turns: int, *more: str) -> Iterator[Row]:
    one = {min(os.sched_getaffinity(0))}
    sides = {"plain": ((), one), "one": (("--workers", "1"), None), "two": (("--workers", "2"), None)}
    least = dict.fromkeys(sides, float("inf"))
    for _ in range(turns):
        for name, (options, cores) in sides.items():
            least[name] = min(least[name], wall(*options, *more, cores=cores))
    yield Row("wall time of --workers 1 : the plain run", least["one"] / least["plain"], 1.03)
    yield Row("wall time of --workers 2 : the plain run", least["two"] / least["plain"], 0.65)


def rows(quick: bool) -> Iterator[Row]:
    yield from simulate(1000 if quick else CELLS, 50 if quick else WORKERS)
    yield from measured(1, "--preset", "smoke") if quick else measured(3)


if __name__ == "__main__":
    if "--simulate" in sys.argv:
        print(*simulate(CELLS, WORKERS), sep="\n")
    else:
        main(rows, __doc__)
