"""Damaged files of every kind that oodbench reads: each is read as if it were whole, or refused in one line.

A reader that raises anything else, ends the process, takes long or much memory, writes elsewhere, runs what a file
says, or gives other weights than the whole file would, did not hold. Readers run in child processes, a batch in each.
"""

import json
import os
import random
import resource
import select
import shutil
import signal
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from types import FrameType
from typing import NoReturn

import torch
from campaign import Trial
from originals import Kind, kinds

BATCH = 250  # trials in one process
SECONDS = 10.0  # that a reader may take; most take milliseconds
HANGING = 60.0  # seconds after which a process is ended that does not even listen to a timer
MEGABYTES = 600  # that a reader may take beyond what the process has
ADDRESSES = 8 * 2**30  # bytes of address space that a process may add, so that nothing harms the machine


class TooLong(BaseException):
    """Not an Exception: readers turn those into one line."""


def campaign(count: int, seed: int, folder: Path, made: Callable[[Path, Path], list[Kind]] = kinds) -> Iterator[Trial]:
    """As many files as `count`, divided among the kinds by their shares."""
    os.environ["OODBENCH_DATA"], before = str(folder / "data"), os.environ.get("OODBENCH_DATA")
    try:
        every = made(folder / "originals", folder / "canary")
        edges = [round(count * part) for part in accumulate((kind.share for kind in every), initial=0.0)]
        for kind, (start, end) in zip(every, pairwise(edges), strict=True):
            yield from _trials(kind, max(end - start, 1), seed, folder)
    finally:
        del os.environ["OODBENCH_DATA"]
        if before is not None:
            os.environ["OODBENCH_DATA"] = before


def _trials(kind: Kind, count: int, seed: int, folder: Path) -> Iterator[Trial]:
    tried = 0
    while tried < count:
        for number, problem in _batch(kind, range(tried, min(tried + BATCH, count)), seed, folder):
            original = kind.originals[number % len(kind.originals)][0]
            yield Trial(f"damaged {kind.name}", f"{original}, number {number} of seed {seed}", problem)
            tried = number + 1


def _batch(kind: Kind, numbers: range, seed: int, folder: Path) -> Iterator[tuple[int, str | None]]:
    """What became of each number; at one that ends the process, the last."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_child(kind, numbers, seed, folder, writing)
    os.close(writing)
    number, rest = numbers.start, b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            if not select.select([pipe], [], [], HANGING)[0]:
                os.kill(child, signal.SIGKILL)
            received = pipe.read(65536)
            if not received:
                break
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                yield number, json.loads(line)
                number += 1
    _, status = os.waitpid(child, 0)
    if number < numbers.stop:
        yield number, f"the process ended ({os.waitstatus_to_exitcode(status)})"


def _in_child(kind: Kind, numbers: range, seed: int, folder: Path, writing: int) -> NoReturn:
    """Never returns: what lies above in the stack is the parent's."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders in C complain there
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES, taken + ADDRESSES))
        signal.signal(signal.SIGALRM, _ring)
        torch.set_num_threads(1)  # as the originals were made; and a child has no threads of its parent's
        for number in numbers:
            problem = _one(kind, number, seed, folder)
            os.write(writing, json.dumps(problem).encode() + b"\n")
        os._exit(0)
    finally:
        os._exit(1)


def _ring(number: int, frame: FrameType | None) -> NoReturn:
    raise TooLong


def _one(kind: Kind, number: int, seed: int, folder: Path) -> str | None:
    """Damage an original and read it; what did not hold."""
    chance = random.Random(f"{seed} {kind.name} {number}")
    name, content = kind.originals[number % len(kind.originals)]
    place = folder / "trial"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    file = place / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(chance.choice(kind.damages)(content, chance))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outside = _below(folder)
    problem = None
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        problem = kind.read(file)
    except kind.refusals as refusal:
        if len(str(refusal).splitlines()) != 1:
            problem = f"refused in {len(str(refusal).splitlines())} lines: {str(refusal)[:100]!r}"
    except TooLong:
        problem = f"took more than {SECONDS:g} s"
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error)[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) // 1024
    if grown > MEGABYTES:
        problem = f"took {grown} MB"
    if _below(folder) != outside:
        problem = "wrote outside its folder, or ran what the file says"
    return problem


def _below(folder: Path) -> set[str]:
    """What lies beside the trials, the canary of hostile pickles among it."""
    return {str(path) for path in folder.iterdir() if path.name != "trial"}
