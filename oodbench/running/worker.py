"""The process of a worker: it does its share of a plan by the ordinary loop, and says how it goes, a line of JSON each.

It ends when its standard input does, whatever it is at: no worker outlives the supervisor that started it.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from oodbench import files
from oodbench.errors import UserError, said
from oodbench.files import Holder

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Cell, Source, Training
    from oodbench.running.reporting import Advanced

PROGRESS = ("epoch", "epochs", "loss", "images_per_second", "remaining")


@dataclass(frozen=True)
class Start:
    """What a worker is told, once."""

    name: str
    request: dict[str, Any]  # in plain values
    keys: str  # a digest of the keys that its plan must have
    device: str
    order: list[str]  # keys of the sources, the first to do first
    is_users: bool  # it runs users' code, and does nothing else
    rehearses: bool = False  # it tries users' code on a few images before it waits for the time when the run began


@dataclass
class Wire:
    """Says to the supervisor how the work goes."""

    out: Any  # a stream of bytes

    def say(self, do: str, **values: Any) -> None:
        self.out.write(json.dumps({"do": do, **values}).encode() + b"\n")
        self.out.flush()

    def note(self, text: str) -> None:
        self.say("note", text=text)

    def begin(self, source: "Source") -> None:
        self.say("begin", source=source.key)

    def announce(self, training: "Training") -> None:
        self.say("announce", training=training.key)

    def progress(self, training: "Training", progress: "Progress | Advanced") -> None:
        values = {name: getattr(progress, name) for name in PROGRESS}
        self.say("progress", training=training.key, progress=values)

    def trained(self, training: "Training") -> None:
        self.say("trained", training=training.key)

    def cell(self, cell: "Cell") -> None:
        self.say("cell", cell=cell.name)

    def result(self, cell: "Cell", result: "Result") -> None:
        self.say("result", cell=cell.name)

    def done(self, training: "Training") -> None:
        self.say("done", training=training.key)

    def waiting(self, training: "Training", holder: Holder | None) -> None:
        self.say("waiting", training=training.key, holder=None if holder is None else asdict(holder))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to all; the supervisor ends its workers
    orders, out = _pipes()
    line = orders.readline()
    if not line:  # the supervisor ended just after it began
        return
    since: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_end_with, args=(orders, since), daemon=True).start()
    start, wire = Start(**json.loads(line)), Wire(out)
    files.leader = os.getppid()
    try:
        _work(start, wire, since)
    except UserError as error:
        wire.say("refused", why=str(error), traceback="".join(traceback.format_exception(error)))
    except Exception as error:
        traceback.print_exc()
        wire.say("refused", why=f"{start.name}: {said(error)}", traceback="".join(traceback.format_exception(error)))
    else:
        wire.say("end")


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output, for messages alone: a component finds nothing to read, and what it prints is none."""
    orders, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    cast(TextIO, sys.stdout).reconfigure(line_buffering=True)  # type: ignore[attr-defined]  # not lost with the process
    return orders, out


def _end_with(orders: IO[bytes], since: "queue.SimpleQueue[int]") -> None:
    """A further line says when the run began. End when the supervisor does, in the middle of whatever this is at."""
    if line := orders.readline():
        since.put(int(line))
        orders.read()
    os._exit(1)


def _work(start: Start, wire: Wire, since: "queue.SimpleQueue[int]") -> None:
    import torch

    from oodbench.running import preflight
    from oodbench.running.plan import plan
    from oodbench.running.request import request
    from oodbench.running.session import Session
    from oodbench.running.work import work

    if start.is_users:
        with suppress(OSError):  # where memory runs out, this process goes first
            Path("/proc/self/oom_score_adj").write_text("1000")
    planned = plan(request(**start.request))
    if planned.keys != start.keys:
        raise UserError("code, data or a file has changed since the run was planned: keys differ; repeat the command")
    folder = Path(planned.request.results)
    at = Session(folder, torch.device(start.device), wire, planned.request)
    order = [planned.source(key) for key in start.order]
    if start.rehearses:
        wire.say("rehearsing")
        with suppress(KeyboardInterrupt):  # nobody's but the plugin's, which it fails in its turn
            preflight.rehearse(planned, at.device, frozenset[Path]().union(*(each.files for each in order)))
        wire.say("rehearsed")
    at.since = since.get()
    work(planned, at, order)
