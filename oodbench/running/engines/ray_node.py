"""What runs in the processes of a Ray cluster: one worker in each, which has planned once. Imports no torch by itself.

All that a run writes on a node lies in one folder there, in which each process has its own. Checkpoints outlive their
process, so that a task which is tried again on the same node goes on where it was.
"""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from oodbench.errors import UserError
from oodbench.files import DAY
from oodbench.results.result import WEIGHTS
from oodbench.running.tasks import Failure, Message, Order, Refused, Send, Task

FOLDER = "oodbench-ray-"  # how the folders of runs begin, among a node's temporary ones
PATIENCE = 3.0  # seconds until processes that were ended write no more


class Job(msgspec.Struct, frozen=True):
    """A task with all that it needs but the weights, which follow in the order of these keys."""

    run: str
    task: Task
    weights: tuple[str, ...]
    failures: dict[str, Failure]
    device: str
    threads: int


class Doer(Protocol):
    """What carries out tasks in a process."""

    def do(self, task: Task, weights: Mapping[str, bytes], failures: Mapping[str, Failure]) -> Iterator[Message]: ...


Make = Callable[[Job, Order, Path, Send], Doer]
_ready: dict[str, tuple[Path, Doer]] = {}  # by run, of which a process knows one at a time


class Board:
    """An actor beside the run's driver, where workers leave how far they are. Nobody waits for it."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque(maxlen=100_000)

    def put(self, message: bytes) -> None:
        self._messages.append(message)

    def take(self) -> list[bytes]:
        taken = [*self._messages]
        self._messages.clear()
        return taken


def perform(job: bytes, order: list[Any], board: Any, make: Make, *weights: bytes) -> Iterator[bytes]:
    """A task of Ray's: the messages of one of ours. The order is a reference, which each process follows once."""
    what = msgspec.msgpack.decode(job, type=Job)
    try:
        own, doer = _own(what, order[0], board, make)
        _adopt_checkpoints(what.task.training, own)
        for message in doer.do(what.task, dict(zip(what.weights, weights, strict=True)), what.failures):
            yield msgspec.msgpack.encode(message)
    except UserError as error:
        yield msgspec.msgpack.encode(Refused(f"node {socket.gethostname()}: {error}"))


def perform_at_once(job: bytes, order: list[Any], board: Any, make: Make, *weights: bytes) -> list[bytes]:
    """The same for a driver outside the cluster, to which Ray brings no values one by one."""
    return [*perform(job, order, board, make, *weights)]


def _own(job: Job, order: Any, board: Any, make: Make) -> tuple[Path, Doer]:
    """The folder and the worker of this process."""
    if job.run not in _ready:
        import ray

        # torch reads these when it is imported; threads that wait by spinning slow each other down.
        os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(job.threads)}
        _sweep()
        own = _folder(job.run) / str(os.getpid())
        own.mkdir(parents=True, exist_ok=True)

        def send(message: Message) -> None:
            with suppress(Exception):  # how far a task is matters less than the task
                board.put.remote(msgspec.msgpack.encode(message))

        content = msgspec.msgpack.decode(ray.get(order), type=Order)
        _ready.clear()
        _ready[job.run] = own, make(job, content, own, send)
    return _ready[job.run]


def planned(job: Job, order: Order, own: Path, send: Send) -> Doer:
    """The worker of a real run."""
    from oodbench.learning import precision
    from oodbench.running.engines.order import unpacked
    from oodbench.running.engines.worker import Wire, Worker
    from oodbench.running.preflight import choose_device
    from oodbench.running.workplace import Options, Workplace

    device, wire, plan = choose_device(job.device), Wire(send), unpacked(order, own)
    precision.check(plan.suite.contents.precision, device)
    asked = plan.request
    at = Workplace(own, device, wire, Options(asked.compile, asked.deterministic), asked.force)
    name = f"{socket.gethostname()} {os.getpid()}"
    return Worker(name, plan, at, wire, is_away=True, brings_weights=True)


def _folder(run: str) -> Path:
    import ray

    return Path(tempfile.gettempdir()) / f"{FOLDER}{run}-{ray.get_runtime_context().get_node_id()[:12]}"


def _adopt_checkpoints(training: str, own: Path) -> None:
    """Those of a process of this node that was at the training before and is gone."""
    for path in own.parent.glob(f"*/{WEIGHTS}/{training}.*ckpt"):
        with suppress(OSError):
            (own / WEIGHTS).mkdir(exist_ok=True)
            os.replace(path, own / WEIGHTS / path.name)


def clean(run: str) -> None:
    """Delete what a run has left on this node; of processes that are being ended too."""
    until = time.monotonic() + PATIENCE
    while (folder := _folder(run)).exists() and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


def _sweep() -> None:
    """Delete what runs that were killed left on this node at least a day ago."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        with suppress(OSError, ValueError):
            owners = [int(each.name) for each in folder.iterdir()]
            if time.time() - folder.stat().st_mtime > DAY and not any(map(_is_alive, owners)):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # where signal 0 is no question: it is Ctrl-C
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True  # or somebody else's
