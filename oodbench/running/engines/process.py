"""The process of a worker: tasks come in by its standard input, messages go out by its standard output.

It ends when its input does, whatever it is at: no worker outlives the run that started it.
"""

import os
import queue
import shutil
import signal
import struct
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import msgspec

from oodbench.errors import UserError, said
from oodbench.running.tasks import Failure, Order, Refused, Send, Task

if TYPE_CHECKING:
    from oodbench.running.engines.worker import Worker

LENGTH = struct.Struct("<Q")


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first thing that a worker is told."""

    name: str
    order: str  # the file that holds it
    scratch: str  # a folder of its own, beside that file, for what it sends
    folder: str  # of the results, where it finds weights and leaves checkpoints
    device: str


class Job(msgspec.Struct, frozen=True, tag=True):
    """A task with all that it needs."""

    task: Task
    weights: dict[str, bytes]
    failures: dict[str, Failure]


def write_frame(stream: IO[bytes], content: Any) -> None:
    text = msgspec.msgpack.encode(content)
    stream.write(LENGTH.pack(len(text)) + text)
    stream.flush()


def read_frame(stream: IO[bytes], type_: Any) -> Any:
    """None at the end, also where it comes in the middle of a frame."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    text = stream.read(length)
    return msgspec.msgpack.decode(text, type=type_) if len(text) == length else None


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to all; the run itself ends its workers
    jobs, out = _pipes()
    start = read_frame(jobs, Start)
    if start is None:  # the run ended just after it began
        return
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, todo, Path(start.order).parent), daemon=True).start()
    send = partial(write_frame, out)
    try:
        worker = _worker(start, send)
    except Exception as error:
        if not isinstance(error, UserError):
            traceback.print_exc()
        send(Refused(f"{start.name} cannot start: {said(error)}"))
        return
    try:
        while True:
            job = todo.get()
            for message in worker.do(job.task, job.weights, job.failures):
                send(message)
    except UserError as error:
        send(Refused(f"{start.name}: {error}"))


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output, for messages alone: a component finds nothing to read, and what it prints is none."""
    jobs, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    cast(TextIO, sys.stdout).reconfigure(line_buffering=True)  # type: ignore[attr-defined]  # not lost with the process
    return jobs, out


def _listen(jobs: IO[bytes], todo: "queue.SimpleQueue[Job]", scratch: Path) -> None:
    try:
        while (job := read_frame(jobs, Job)) is not None:
            todo.put(job)
    finally:  # the run is gone, and all its workers go with it
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)  # in the middle of whatever the worker is at


def _worker(start: Start, send: Send) -> "Worker":
    import torch

    from oodbench.running.engines.order import unpacked
    from oodbench.running.engines.worker import Wire, Worker
    from oodbench.running.workplace import Options, Workplace

    wire = Wire(send)
    plan = unpacked(msgspec.msgpack.decode(Path(start.order).read_bytes(), type=Order), Path(start.scratch))
    asked = plan.request
    options = Options(asked.compile, asked.deterministic, asked.keep_outputs, path=asked.path)
    at = Workplace(Path(start.folder), torch.device(start.device), wire, options, asked.force)
    return Worker(start.name, plan, at, wire, is_away=True)
