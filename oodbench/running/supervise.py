"""Workers of a run on this machine: each is a process that does the same loop on the same folder.

The supervisor listens. What takes longer than it may is ended and has failed, and so has what three workers died at; a
worker that died is replaced. Nothing is sent to a worker but what it begins with.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from oodbench.errors import UserError
from oodbench.files import Holder
from oodbench.results.result import read
from oodbench.running.cells import Source
from oodbench.running.plan import Plan
from oodbench.running.reporting import Advanced, Told, training_name
from oodbench.running.request import as_values
from oodbench.running.session import Session
from oodbench.running.work import fail_named
from oodbench.running.worker import Start

REHEARSAL, BEGINNING = "rehearsal", "beginning"  # what a worker may be at before any source
TRIES = 3  # workers may die at a training or a cell before it has failed
QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}  # threads that wait by spinning slow each other down
# A worker imports from where this process does: with -m, a file in the working folder could stand for any module.
COMMAND = "import sys; sys.path[:] = {path!r}; from oodbench.running.worker import main; main()"
GONE = {-9: "killed (out of memory?)", -11: "a segmentation fault"}  # numbers, since Windows names no SIGKILL
MOST_UNHEARD = 10_000  # lines, before a component that prints without end has to wait
LONGEST_LINE = 2**20  # bytes of a message; of what a component prints, a line is cut to 4,096
LAST_WORDS = 2.0  # seconds in which what a process has said is read, if a child of it keeps the pipe open


@dataclass(frozen=True)
class At:
    """What a worker is at."""

    name: str  # the key of a source, or the name of a cell
    since: float


@dataclass
class Watch:
    """What each worker is at, and how often workers have died at what."""

    timeout: float | None  # seconds for a training, and for scoring a cell
    at: dict[str, At] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)

    def begins(self, worker: str, name: str) -> None:
        self.at[worker] = At(name, time.monotonic())

    def again(self, worker: str) -> None:
        """What comes next has its own time."""
        if worker in self.at:
            self.begins(worker, self.at[worker].name)

    def died(self, worker: str) -> tuple[str | None, bool]:
        """What a worker died at, if it had begun anything, and whether that has failed now."""
        at = self.at.pop(worker, None)
        if at is None:
            return None, False
        self.deaths[at.name] += 1
        return at.name, self.deaths[at.name] >= TRIES

    def late(self) -> list[str]:
        """Workers whose training or cell has taken too long."""
        now = time.monotonic()
        return [name for name, at in self.at.items() if self.timeout is not None and now - at.since > self.timeout]

    def patience(self) -> float | None:
        """Seconds until one may be late."""
        if self.timeout is None or not self.at:
            return None
        return max(0.01, min(at.since for at in self.at.values()) + self.timeout - time.monotonic())


Files = frozenset[Path]  # users' code that a worker may run


@dataclass(eq=False)
class _Worker:
    name: str
    files: Files
    device: str
    running: "subprocess.Popen[bytes]"


class InWorker(Exception):
    """Where a worker was when it refused; --debug prints it, down to the author's line."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


Heard = tuple[_Worker, dict[str, Any] | str | None]  # a message, a line that a component has printed, or the end


class Supervisor:
    """Starts workers, hears them, and ends them. No worker that runs users' code does anything else."""

    def __init__(self, plan: Plan, at: Session, told: Told, order: Sequence[Source]) -> None:
        self._plan, self._at, self._told = plan, at, told
        self._watch = Watch(plan.request.timeout)
        self._todo: dict[Files, list[str]] = {}  # the keys of sources, by the files that they need
        for source in sorted(order, key=lambda each: len(each.files)):  # what others start from needs fewer
            self._todo.setdefault(source.files, []).append(source.key)
        self._workers: dict[str, _Worker] = {}
        self._rehearsed: dict[Files, _Worker] = {}
        self._devices: dict[str, str] = {}  # of the workers that do the work, by name
        self._heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()

    def rehearse(self, device: str) -> None:
        """Let users' code try a few images; refused as it refuses. What ends its worker fails its cells in its turn."""
        try:
            for number, files in enumerate(filter(None, self._todo), start=1):
                self._start(f"trial {number}", files, device, rehearses=True)
            self._listen(lambda: len(self._rehearsed) < len(self._workers))
        except BaseException:
            self.close()
            raise

    def run(self, devices: Sequence[str], done: Sequence[Files] = ()) -> None:
        """Until every worker has nothing left to do; what needs the files of `done` is done."""
        for files in done:
            self._todo.pop(files, None)
        try:
            self._devices = {f"worker {number}": device for number, device in enumerate(devices, start=1)}
            self._fill()
            self._listen(lambda: bool(self._workers.keys() & self._devices.keys()))
        finally:
            self.close()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.running.kill()
        for worker in self._workers.values():
            _end(worker)
        self._workers = {}

    def _listen(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            with suppress(queue.Empty):
                self._hear(*self._heard.get(timeout=self._watch.patience()))
            for name in self._watch.late():
                self._end_late(self._workers[name])

    def _fill(self) -> None:
        """Give free places to the files that have fewest workers, and no more of these than there are sources."""
        for name, device in self._devices.items():
            if name in self._workers:
                continue
            busy = Counter(worker.files for each, worker in self._workers.items() if each in self._devices)
            open_ = [files for files, keys in self._todo.items() if busy[files] < len(keys)]
            if open_:
                files = min(open_, key=lambda each: busy[each])
                ready = self._rehearsed.pop(files, None)
                if ready is not None and ready.device == device:
                    del self._workers[ready.name]
                    ready.name = name
                    self._workers[name] = ready
                    _send(ready, str(self._at.since))
                else:
                    self._start(name, files, device)

    def _start(self, name: str, files: Files, device: str, rehearses: bool = False) -> None:
        environment = {**os.environ, **QUIET, "OMP_NUM_THREADS": str(self._plan.suite.threads)}
        command, pipe = [sys.executable, "-c", COMMAND.format(path=sys.path)], subprocess.PIPE
        try:
            running = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise UserError(f"cannot start {name}: {error.strerror}; choose fewer --workers") from None
        worker = self._workers[name] = _Worker(name, files, device, running)
        asked = {**as_values(self._plan.request), "results": str(self._at.folder.absolute())}
        start = Start(name, asked, self._plan.keys, device, self._todo[files], bool(files), rehearses)
        _send(worker, json.dumps(asdict(start)))
        if not rehearses:
            _send(worker, str(self._at.since))
        reader = threading.Thread(target=self._read, args=(worker,), daemon=True)
        reader.start()
        threading.Thread(target=self._overhear, args=(worker,), daemon=True).start()
        threading.Thread(target=self._wait_for, args=(worker, reader), daemon=True).start()

    def _read(self, worker: _Worker) -> None:
        with _pipe(worker.running.stdout) as stream:
            try:
                while (line := stream.readline(LONGEST_LINE)).endswith(b"\n"):
                    message = json.loads(line)
                    self._heard.put((worker, {"do": str(message["do"]), **message}))
            except (ValueError, TypeError, KeyError, RecursionError, OSError):  # a component has written there
                worker.running.kill()

    def _overhear(self, worker: _Worker) -> None:
        """What a component prints, line by line."""
        with _pipe(worker.running.stderr) as stream:
            while line := stream.readline(4096):
                while self._heard.qsize() > MOST_UNHEARD and worker.running.poll() is None:
                    time.sleep(0.01)
                if text := line.decode(errors="replace").rstrip():
                    self._heard.put((worker, text))

    def _wait_for(self, worker: _Worker, reader: threading.Thread) -> None:
        worker.running.wait()
        reader.join(LAST_WORDS)
        self._heard.put((worker, None))

    def _hear(self, worker: _Worker, message: dict[str, Any] | str | None) -> None:
        if isinstance(message, str):
            self._told.note(message)
        elif self._workers.get(worker.name) is not worker:
            pass  # it was ended
        elif message is None:
            self._bury(worker)
        else:
            self._obey(worker, **message)

    def _obey(self, worker: _Worker, do: str, **values: Any) -> None:
        if do == "refused":
            raise UserError(values["why"]) from InWorker(values["traceback"])
        if do == "rehearsing":
            self._watch.begins(worker.name, REHEARSAL)
        elif do == "rehearsed":
            self._watch.at.pop(worker.name, None)
            self._rehearsed[worker.files] = worker
        elif do == "end":
            self._watch.at.pop(worker.name, None)
            self._todo.pop(worker.files, None)
            self._forget(worker)
            self._fill()
        else:
            tell(self._plan, self._told, self._watch, worker.name, worker.name, do, **values)

    def _forget(self, worker: _Worker) -> None:
        del self._workers[worker.name]
        if self._rehearsed.get(worker.files) is worker:
            del self._rehearsed[worker.files]
        self._told.reporter.busy(worker.name, "")
        _end(worker)

    def _bury(self, worker: _Worker) -> None:
        """A worker that has ended by itself: another takes its place."""
        self._forget(worker)
        status = worker.running.returncode
        why = f"{worker.name} ended: {GONE.get(status, f'status {status}')}"
        name, has_failed = self._watch.died(worker.name)
        if name == REHEARSAL or worker.name not in self._devices:
            return
        if name is None:
            self._watch.begins(worker.name, BEGINNING)
            if self._watch.died(worker.name)[1]:
                raise UserError(f"{why} before it began; the same command tries again")
        else:
            what_next = "given up" if has_failed else "tried again"
            self._told.note(f"{self._words(name)}: {why}; {what_next}")
            if has_failed:
                fail_named(name, f"its worker was lost {TRIES} times: {why}", self._plan, self._at)
        self._start(worker.name, worker.files, worker.device)

    def _end_late(self, worker: _Worker) -> None:
        at = self._watch.at.pop(worker.name)
        self._forget(worker)
        if at.name != REHEARSAL:
            fail_named(at.name, f"it took longer than --timeout {self._watch.timeout:g}", self._plan, self._at)
            self._start(worker.name, worker.files, worker.device)

    def _words(self, name: str) -> str:
        cell = self._plan.cells_by_name.get(name)
        return training_name(self._plan.source(name).training if cell is None else cell.training)


def tell(plan: Plan, told: Told, watch: Watch, at: str, worker: str, do: str, **values: Any) -> None:
    """What a worker says of its work, as if it were said here."""
    if "source" in values:
        values["source"] = plan.source(values["source"])
    if "training" in values:
        values["training"] = plan.training(values["training"])
    if "cell" in values:
        values["cell"] = plan.cell(values["cell"])
    match do:
        case "begin":
            watch.begins(at, values["source"].key)
            told.begin(values["source"], worker)
        case "announce":
            told.announce(values["training"], worker)
        case "progress":
            told.progress(values["training"], Advanced(**values["progress"]), worker)
        case "trained":
            told.trained(values["training"], worker)
        case "cell":
            watch.begins(at, values["cell"].name)
            told.cell(values["cell"], worker)
        case "result":
            watch.again(at)
            told.result(values["cell"], read(values["cell"].path), worker)
        case "done":
            watch.at.pop(at, None)
            told.done(values["training"], worker)
        case "waiting":
            holder = values["holder"]
            told.waiting(values["training"], None if holder is None else Holder(**holder))
        case "note":
            told.note(values["text"])


def _send(worker: _Worker, line: str) -> None:
    with suppress(OSError):  # it has just died, which its watcher says
        _pipe(worker.running.stdin).write(line.encode() + b"\n")
        _pipe(worker.running.stdin).flush()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # which mypy cannot know of a process with pipes
    return stream


def _end(worker: _Worker) -> None:
    worker.running.kill()
    worker.running.wait()
    with suppress(OSError):
        _pipe(worker.running.stdin).close()
