"""The engine of one process: tasks one after the other, in the process of the run itself."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from oodbench.running.driver import Driver
from oodbench.running.engines.worker import Wire, Worker
from oodbench.running.plan import Plan
from oodbench.running.tasks import Failure, Send, Task
from oodbench.running.workplace import Options, Workplace


@dataclass
class Local:
    """A worker, and what it shall do next."""

    plan: Plan
    device: torch.device
    driver: Driver

    slots = 1
    carries_weights = False
    _queue: deque[tuple[Task, Mapping[str, bytes], Mapping[str, Failure]]] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        asked, wire = self.plan.request, Wire(self.driver.hear)
        options = Options(asked.compile, asked.deterministic, asked.keep_outputs, asked.take_over, asked.path)
        claims, folder = self.driver.claims, self.plan.folder
        at = Workplace(folder, self.device, wire, options, asked.force, claims=claims)
        self._worker = Worker("", self.plan, at, wire, is_away=False)

    def submit(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> None:
        self._queue.append((task, weights, failures))

    def wait(self, seconds: float, hear: Send) -> None:
        for message in self._worker.do(*self._queue.popleft()):
            hear(message)

    def stop(self, task: Task) -> None:
        raise AssertionError("a process does not stop itself")

    def close(self) -> None: ...
