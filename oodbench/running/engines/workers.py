"""The engine of one machine: a process for each device or CPU slot. Imports no torch."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from oodbench.running import tasks
from oodbench.running.engines.process import Job, Start, read_frame, write_frame
from oodbench.running.tasks import Failure, Message, Order, Send, Task

QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}  # threads that wait by spinning slow each other down
GONE = {-9: "killed (out of memory?)", -11: "a segmentation fault"}


@dataclass
class _Process:
    """A worker, and the task that it has."""

    name: str
    running: "subprocess.Popen[bytes]"
    task: Task | None = None


@dataclass
class Workers:
    """Processes by device, each with one task; one task more waits for the first that is free."""

    order: Order
    folder: str
    devices: Sequence[str]  # of each worker
    threads: int

    carries_weights = False
    _free: list[int] = field(default_factory=list, init=False)
    _processes: dict[int, _Process] = field(default_factory=dict, init=False)
    _waiting: list[Job] = field(default_factory=list, init=False)
    _heard: "queue.SimpleQueue[tuple[int, _Process, Message | None]]" = field(
        default_factory=queue.SimpleQueue, init=False
    )

    def __post_init__(self) -> None:
        self._free = [*reversed(range(len(self.devices)))]
        for place in range(len(self.devices)):  # all at once: to import torch takes seconds
            self._start(place)

    @property
    def slots(self) -> int:
        return len(self.devices)

    def submit(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> None:
        self._waiting.append(Job(task, dict(weights), dict(failures)))
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._free:
            place, job = self._free.pop(), self._waiting.pop(0)
            worker = self._processes.get(place) or self._start(place)
            worker.task = job.task
            _tell(worker, job)

    def _start(self, place: int) -> _Process:
        environment = {**os.environ, **QUIET, "OMP_NUM_THREADS": str(self.threads)}
        command = [sys.executable, "-m", "oodbench.running.engines.process"]
        pipe = subprocess.PIPE
        running = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        worker = self._processes[place] = _Process(f"worker {place + 1}", running)
        assert running.stdout is not None and running.stderr is not None
        _tell(worker, Start(worker.name, self.order, self.folder, self.devices[place]))
        threading.Thread(target=self._read, args=(place, worker, running.stdout), daemon=True).start()
        threading.Thread(target=self._overhear, args=(place, worker, running.stderr), daemon=True).start()
        return worker

    def _read(self, place: int, worker: _Process, stream: IO[bytes]) -> None:
        while (message := read_frame(stream, Message)) is not None:
            self._heard.put((place, worker, message))
        self._heard.put((place, worker, None))

    def _overhear(self, place: int, worker: _Process, stream: IO[bytes]) -> None:
        """What a component prints, line by line."""
        for line in stream:
            if text := line.decode(errors="replace").rstrip():
                self._heard.put((place, worker, tasks.Noted(text)))

    def wait(self, seconds: float, hear: Send) -> None:
        try:
            while True:
                self._deliver(*self._heard.get(timeout=seconds), hear)
                seconds = 0
        except queue.Empty:
            pass

    def _deliver(self, place: int, worker: _Process, message: Message | None, hear: Send) -> None:
        if self._processes.get(place) is not worker:  # it was stopped
            return
        if message is None:
            self._bury(place, worker, hear)
            return
        if isinstance(message, tasks.Ended):
            worker.task = None
            self._free.append(place)
            self._hand_out()
        hear(message)

    def _bury(self, place: int, worker: _Process, hear: Send) -> None:
        """A process that has ended by itself, with the task that it had."""
        del self._processes[place]
        status = worker.running.wait()
        lost, worker.task = worker.task, None
        if lost is not None:
            self._free.append(place)
            hear(tasks.Lost(lost.name, f"{worker.name} ended: {GONE.get(status, f'status {status}')}"))
        self._hand_out()

    def stop(self, task: Task) -> None:
        self._waiting = [job for job in self._waiting if job.task.name != task.name]
        for place, worker in [*self._processes.items()]:
            if worker.task is not None and worker.task.name == task.name:
                del self._processes[place]
                _end(worker)
                self._free.append(place)
        self._hand_out()

    def close(self) -> None:
        for worker in self._processes.values():
            worker.running.kill()
        for worker in self._processes.values():
            _end(worker)
        self._processes = {}


def _tell(worker: _Process, what: Start | Job) -> None:
    assert worker.running.stdin is not None
    with suppress(OSError):  # it has just died, which its reader says
        write_frame(worker.running.stdin, what)


def _end(worker: _Process) -> None:
    worker.running.kill()
    worker.running.wait()
    assert worker.running.stdin is not None
    with suppress(OSError):
        worker.running.stdin.close()
