"""What runs in the processes of a Ray cluster: the loop's `make` on one training. Imports no torch by itself.

All that a run writes on a node lies in one folder there, in which each process has its own. Checkpoints outlive their
process, so that a training which is tried again on the same node goes on where it was.
"""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oodbench.errors import UserError
from oodbench.files import DAY, check_writable, write_bytes
from oodbench.results.result import WEIGHTS
from oodbench.results.stored import files_of
from oodbench.running.cells import weights_file
from oodbench.running.order import Order, unpacked
from oodbench.running.worker import Wire

if TYPE_CHECKING:
    from oodbench.running.plan import Plan
    from oodbench.running.session import Session

FOLDER = "oodbench-ray-"  # how the folders of runs begin, among a node's temporary ones
PATIENCE = 3.0  # seconds until processes that were ended write no more


class Job(msgspec.Struct, frozen=True):
    """A training with its cells, and whose weights come along."""

    run: str
    source: str  # its key
    cells: tuple[str, ...]  # names of those to score
    weights: str | None  # the key of the training itself, or of the one that it starts from
    device: str
    threads: int


class News(msgspec.Struct, frozen=True):
    """What came of a job: files of a cell, weights, why there are none, or why a node would compute other numbers."""

    cell: str | None = None  # its name
    files: dict[str, bytes] = {}
    weights: bytes | None = None
    failure: tuple[str, str] | None = None  # of the training: in one line, and where
    refused: str | None = None


_ready: dict[str, tuple["Plan", "Session"]] = {}  # by run, of which a process knows one at a time


class Board:
    """An actor beside the run's driver, where workers leave how far they are. Nobody waits for it."""

    def __init__(self) -> None:
        self._messages: deque[dict[str, Any]] = deque(maxlen=100_000)

    def put(self, message: dict[str, Any]) -> None:
        self._messages.append(message)

    def take(self) -> list[dict[str, Any]]:
        taken = [*self._messages]
        self._messages.clear()
        return taken


def perform(job: bytes, order: list[Any], board: Any, *weights: bytes) -> Iterator[bytes]:
    """A task of Ray's: what comes of a job, the moment it is there. Each process follows the order once."""
    try:
        for news in _performed(msgspec.msgpack.decode(job, type=Job), order[0], board, *weights):
            yield msgspec.msgpack.encode(news)
    except UserError as error:
        yield msgspec.msgpack.encode(News(refused=f"node {socket.gethostname()}: {error}"))


def perform_at_once(job: bytes, order: list[Any], board: Any, *weights: bytes) -> list[bytes]:
    """The same for a driver outside the cluster, to which Ray brings no values one by one."""
    return [*perform(job, order, board, *weights)]


def _performed(job: Job, order: Any, board: Any, *weights: bytes) -> Iterator[News]:
    planned, at = _own(job, order)
    from oodbench.running.work import make

    at.tell = Wire(_Sender(board, job.source))
    at.last, at.since = None, check_writable(at.folder)
    source, given = planned.source(job.source), dict(zip(filter(None, [job.weights]), weights, strict=True))
    training = source.training
    _adopt_checkpoints(training.key, at.folder)
    for key, content in given.items():
        write_bytes(weights_file(key, at.folder), content)
    place = weights_file(training.key, at.folder)
    for cell in make(source, [planned.cell(name) for name in job.cells], planned, at):
        if cell is None:
            if training.init is None and (content := place.read_bytes()) != given.get(training.key):
                yield News(weights=content)
            continue
        files = files_of(cell.path)
        yield News(cell.name, {name: path.read_bytes() for name, path in files.items()})
        for path in files.values():
            path.unlink()
    failure = at.failed(source)
    if failure is not None:
        yield News(failure=(str(failure), failure.traceback))
    for key in (*given, training.key):  # nobody else reads this folder, where they would pile up
        weights_file(key, at.folder).unlink(missing_ok=True)


class _Sender:
    """Takes the lines of a worker to the board."""

    def __init__(self, board: Any, source: str) -> None:
        self.board, self.about = board, {"job": source, "worker": f"{socket.gethostname()} {os.getpid()}"}

    def write(self, line: bytes) -> None:
        with suppress(Exception):  # how far a task is matters less than the task
            self.board.put.remote({**json.loads(line), **self.about})

    def flush(self) -> None: ...


def _own(job: Job, order: Any) -> tuple["Plan", "Session"]:
    """The plan and the folder of this process."""
    if job.run not in _ready:
        import ray

        # torch reads these when it is imported; threads that wait by spinning slow each other down.
        os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(job.threads)}
        _sweep()
        own = _folder(job.run) / str(os.getpid())
        own.mkdir(parents=True, exist_ok=True)
        from oodbench.learning import precision
        from oodbench.running.preflight import choose_device
        from oodbench.running.session import Session

        device = choose_device(job.device)
        planned = unpacked(msgspec.msgpack.decode(ray.get(order), type=Order), own)
        precision.check(planned.suite.contents.precision, device)
        _ready.clear()
        _ready[job.run] = planned, Session(own, device, asked=replace(planned.request, take_over=False))
    return _ready[job.run]


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
