"""The engine of one machine: a process for each device or CPU slot. Imports no torch."""

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO

import msgspec

from oodbench.errors import UserError
from oodbench.files import write_bytes
from oodbench.running import tasks
from oodbench.running.engines.process import Job, Start, read_frame, write_frame
from oodbench.running.tasks import Failure, Message, Order, Send, Task

QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}  # threads that wait by spinning slow each other down
# A worker imports from where this process does: with -m, a file in the working folder could stand for any module.
COMMAND = "import sys; sys.path[:] = {path!r}; from oodbench.running.engines.process import main; main()"
GONE = {-9: "killed (out of memory?)", -11: "a segmentation fault"}  # numbers, since Windows names no SIGKILL
MOST_UNHEARD = 10_000  # messages, before a component that prints without end has to wait
LONGEST_LINE = 4_096  # bytes of what a component prints
LAST_WORDS = 2.0  # seconds in which what a process has sent is read, if a child of it keeps the pipe open


@dataclass(eq=False)
class _Process:
    """A worker, and the task that it has."""

    name: str
    running: "subprocess.Popen[bytes]"
    task: Task | None = None


@dataclass
class Workers:
    """Processes by device, each with one task."""

    order: Order
    folder: str
    devices: Sequence[str]  # of each worker
    threads: int

    carries_weights = False
    _free: list[int] = field(default_factory=list, init=False)
    _processes: dict[int, _Process] = field(default_factory=dict, init=False)
    _heard: "queue.SimpleQueue[tuple[int, _Process, Message | None]]" = field(
        default_factory=queue.SimpleQueue, init=False
    )

    def __post_init__(self) -> None:
        self._scratch = TemporaryDirectory(prefix="oodbench-", ignore_cleanup_errors=True)
        self._free = [*reversed(range(len(self.devices)))]
        try:
            write_bytes(self._order, msgspec.msgpack.encode(self.order))
            for place in range(len(self.devices)):  # all at once: to import torch takes seconds
                self._start(place)
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        return len(self.devices)

    @property
    def _order(self) -> Path:
        return Path(self._scratch.name) / "order"

    def submit(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> None:
        place = self._free.pop()
        worker = self._processes.get(place) or self._start(place)
        worker.task = task
        _tell(worker, Job(task, dict(weights), dict(failures)))

    def _start(self, place: int) -> _Process:
        environment = {**os.environ, **QUIET, "OMP_NUM_THREADS": str(self.threads)}
        command, pipe = [sys.executable, "-c", COMMAND.format(path=sys.path)], subprocess.PIPE
        try:
            running = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise UserError(f"cannot start worker {place + 1}: {error.strerror}; choose fewer --workers") from None
        worker = self._processes[place] = _Process(f"worker {place + 1}", running)
        own = mkdtemp(dir=self._scratch.name)  # not that of the process before, which may have left half a result
        _tell(worker, Start(worker.name, str(self._order), own, self.folder, self.devices[place]))
        reader = threading.Thread(target=self._read, args=(place, worker), daemon=True)
        reader.start()
        threading.Thread(target=self._overhear, args=(place, worker), daemon=True).start()
        threading.Thread(target=self._watch, args=(place, worker, reader), daemon=True).start()
        return worker

    def _read(self, place: int, worker: _Process) -> None:
        with _opened(worker.running.stdout) as stream:
            try:
                while (message := read_frame(stream, Message)) is not None:
                    self._heard.put((place, worker, message))
            except (msgspec.MsgspecError, MemoryError, OverflowError, OSError):  # a component has written there
                worker.running.kill()

    def _overhear(self, place: int, worker: _Process) -> None:
        """What a component prints, line by line."""
        with _opened(worker.running.stderr) as stream:
            while line := stream.readline(LONGEST_LINE):
                while self._heard.qsize() > MOST_UNHEARD and worker.running.poll() is None:
                    time.sleep(0.01)
                if text := line.decode(errors="replace").rstrip():
                    self._heard.put((place, worker, tasks.Noted(text)))

    def _watch(self, place: int, worker: _Process, reader: threading.Thread) -> None:
        worker.running.wait()
        reader.join(LAST_WORDS)
        self._heard.put((place, worker, None))

    def wait(self, seconds: float, hear: Send) -> None:
        until = time.monotonic() + seconds
        with suppress(queue.Empty):
            self._deliver(*self._heard.get(timeout=seconds), hear)
            while time.monotonic() < until:
                self._deliver(*self._heard.get_nowait(), hear)

    def _deliver(self, place: int, worker: _Process, message: Message | None, hear: Send) -> None:
        if self._processes.get(place) is not worker:  # it was stopped
            return
        if message is None:
            self._bury(place, worker, hear)
            return
        if isinstance(message, tasks.Ended):
            self._release(place, worker)
        hear(message)

    def _release(self, place: int, worker: _Process) -> None:
        worker.task = None
        self._free.append(place)

    def _bury(self, place: int, worker: _Process, hear: Send) -> None:
        """A process that has ended by itself, with the task that it had."""
        del self._processes[place]
        lost, status = worker.task, _end(worker)
        if lost is not None:
            self._release(place, worker)
            hear(tasks.Lost(lost.name, f"{worker.name} ended: {GONE.get(status, f'status {status}')}"))

    def stop(self, task: Task) -> None:
        for place, worker in [*self._processes.items()]:
            if worker.task is not None and worker.task.name == task.name:
                del self._processes[place]
                _end(worker)
                self._release(place, worker)

    def close(self) -> None:
        for worker in self._processes.values():
            worker.running.kill()
        for worker in self._processes.values():
            _end(worker)
        self._processes = {}
        self._scratch.cleanup()


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # which mypy cannot know of a process with pipes
    return stream


def _tell(worker: _Process, what: Start | Job) -> None:
    with suppress(OSError):  # it has just died, which its watcher says
        write_frame(_opened(worker.running.stdin), what)


def _end(worker: _Process) -> int:
    """Its status."""
    worker.running.kill()
    status = worker.running.wait()
    with suppress(OSError):
        _opened(worker.running.stdin).close()
    return status
