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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import msgspec

from oodbench.errors import UserError
from oodbench.running.tasks import Failure, Message, Order, Refused, Send, Task

if TYPE_CHECKING:
    from oodbench.running.engines.worker import Worker

LENGTH = struct.Struct("<Q")


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first thing that a worker is told."""

    name: str
    order: Order
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
    jobs, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no message
    start = read_frame(jobs, Start)
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    with TemporaryDirectory(prefix="oodbench-") as scratch:
        threading.Thread(target=_listen, args=(jobs, todo, scratch), daemon=True).start()

        def send(message: Message) -> None:
            write_frame(out, message)

        try:
            worker = _worker(start, Path(scratch), send)
            while True:
                job = todo.get()
                worker.do(job.task, job.weights, job.failures)
        except UserError as error:
            send(Refused(f"{start.name}: {error}"))


def _listen(jobs: IO[bytes], todo: "queue.SimpleQueue[Job]", scratch: str) -> None:
    while (job := read_frame(jobs, Job)) is not None:
        todo.put(job)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)  # in the middle of whatever the worker is at


def _worker(start: Start, scratch: Path, send: Send) -> "Worker":
    import torch

    from oodbench.running.engines.order import unpacked
    from oodbench.running.engines.worker import Wire, Worker
    from oodbench.running.workplace import Options, Workplace

    wire = Wire(send)
    plan = unpacked(start.order, scratch)
    asked = plan.request
    options = Options(asked.compile, asked.deterministic, asked.keep_outputs)
    at = Workplace(Path(start.folder), torch.device(start.device), wire, options, asked.force)
    return Worker(start.name, plan, at, wire, is_away=True)


if __name__ == "__main__":
    main()
