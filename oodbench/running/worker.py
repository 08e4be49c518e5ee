"""The process of a worker: it does its share of a plan by the ordinary loop, and says how it goes, a line of JSON each.

It ends when its standard input does, whatever it is at: no worker outlives the supervisor that started it.
"""

import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from oodbench import files
from oodbench.errors import UserError, said
from oodbench.files import Holder

if TYPE_CHECKING:
    from oodbench.learning.loop import Progress
    from oodbench.results.result import Result
    from oodbench.running.cells import Cell, Training
    from oodbench.running.reporting import Advanced

PROGRESS = ("epoch", "epochs", "loss", "images_per_second", "remaining")


@dataclass(frozen=True)
class Start:
    """What a worker is told, once."""

    name: str
    request: dict[str, Any]  # in plain values
    keys: str  # a digest of the keys that its plan must have
    device: str
    since: int  # when the run began
    order: list[str]  # keys of the trainings, the first to do first


@dataclass
class Wire:
    """Says to the supervisor how the work goes."""

    out: Any  # a stream of bytes

    def say(self, do: str, **values: Any) -> None:
        self.out.write(json.dumps({"do": do, **values}).encode() + b"\n")
        self.out.flush()

    def note(self, text: str) -> None:
        self.say("note", text=text)

    def training(self, training: "Training") -> None:
        self.say("training", training=training.key)

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
    threading.Thread(target=_end_with, args=(orders,), daemon=True).start()
    start, wire = Start(**json.loads(line)), Wire(out)
    files.leader = os.getppid()
    try:
        _work(start, wire)
    except UserError as error:
        wire.say("refused", why=f"{start.name}: {error}")
    except Exception as error:
        traceback.print_exc()
        wire.say("refused", why=f"{start.name}: {said(error)}")
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


def _end_with(orders: IO[bytes]) -> None:
    """End in the middle of whatever the worker is at, when the supervisor is gone."""
    orders.read()
    os._exit(1)


def _work(start: Start, wire: Wire) -> None:
    import torch

    from oodbench.running.plan import plan
    from oodbench.running.request import request
    from oodbench.running.session import Session
    from oodbench.running.work import work

    planned = plan(request(**start.request))
    if planned.keys != start.keys:
        raise UserError("code, data or a file has changed since the run was planned: keys differ; repeat the command")
    folder = Path(planned.request.results)
    at = Session(folder, torch.device(start.device), wire, planned.request, start.since)
    work(planned, at, [planned.training(key) for key in start.order])
