"""Runs that are killed, then run again to the end: everything must be as if nothing had happened.

Raw scores, metrics, logs, weights and tables are compared to the bits with those of an undisturbed run, and so are the
names of all files, hidden ones too.
"""

import importlib.util
import multiprocessing
import os
import random
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from campaign import Trial
from safetensors.numpy import load_file

from oodbench.cli import main
from oodbench.learning.checkpoint import RESUMES
from oodbench.results.folder import read_folder

# Trainings that two methods share, that start from another, that read the wild mixture; and written outputs.
COMMANDS = (("msp,knn", "--keep-outputs"), ("msp,woods",), ("scone",), ("mixup", "--save-splits"))
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
START = 6.0  # seconds more that a run with workers takes
WORKERS = (b"oodbench.running.worker", b"ray::perform")  # in the names of such processes
AS_TIME_ALLOWS = (".ckpt", ".holder")  # files that a slower machine writes more often
PASSING = ("path", "commit", "seconds", "written")  # of a result, which may be other each time
LIMIT = 300  # seconds that no run of these should take

# A server that has imported torch forks the processes in milliseconds; they share nothing else.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["oodbench.running.execution", "oodbench.cli", "scipy.ndimage", "torch._dynamo"])

Prepare = Callable[[], None]  # what a process does to itself before it runs


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: what every other must come to."""

    command: tuple[str, ...]
    folder: Path
    seconds: float
    events: list[str]  # suffixes of the files it wrote, in this order
    output: str


def campaign(count: int, seed: int, folder: Path) -> Iterator[Trial]:
    wholes: dict[str, Whole] = {}
    for i in range(count):
        kind, attack = list(KINDS.items())[i % len(KINDS)]
        chance = random.Random(f"{seed} {i}")
        command = chance.choice([each for each in COMMANDS if "Ray" not in kind or "--keep-outputs" not in each])
        if command[0] not in wholes:
            wholes[command[0]] = _whole(command, folder / command[0])
        whole = wholes[command[0]]
        place = folder / f"trial{i}"
        place.mkdir()
        name = f"trial {i} of seed {seed}, {whole.command[0]}"
        try:
            said = attack(whole, place, chance)
            yield Trial(kind, f"{name}, {said}", _problem(whole, place))
        except Wrong as error:
            yield Trial(kind, name, str(error))


class Wrong(Exception):
    """What a process did that it should not."""


def _whole(command: tuple[str, ...], place: Path) -> Whole:
    place.mkdir(parents=True)
    run = Run(command, place, partial(_record, place / "events"))
    status, output = run.end()
    if status != 0:
        raise RuntimeError(f"the undisturbed run ended with status {status}:\n{output}")
    events = (place / "events").read_text().split()
    seconds = time.time() - run.started.stat().st_mtime
    return Whole(command, place / "results", seconds, events, output)


def _nothing() -> None: ...


class Run:
    """One process of `oodbench run`, with its output in a file of its own."""

    def __init__(self, command: tuple[str, ...], place: Path, prepare: Prepare = _nothing, name: str = "first") -> None:
        self.output, self.started = place / f"{name}.txt", place / f"{name}.started"
        self.started.unlink(missing_ok=True)
        methods, *more = command
        what = ["run", "--suite", "digits-c", "--preset", "smoke", "--setting", "unseen-digits", "--methods", methods]
        arguments = [*what, *more, "--results", str(place / "results")]
        self.process = processes.Process(target=_child, args=(arguments, self.output, self.started, prepare))
        self.process.start()

    def end(self) -> tuple[int, str]:
        """Its status, that of the signal if one ended it, and what it said."""
        self.process.join(LIMIT)
        if self.process.exitcode is None:
            self.process.kill()
            raise Wrong("a process hung")
        return self.process.exitcode, self.output.read_text() if self.output.exists() else ""

    def signal_after(self, seconds: float, number: signal.Signals) -> bool:
        """Whether it still ran; if so it was sent the signal, and ended as that demands."""
        while self.process.is_alive() and not self.started.exists():
            time.sleep(0.001)
        self.process.join(seconds)
        ran = self.process.exitcode is None
        if ran:
            os.kill(self.process.pid or 0, number)
        status, output = self.end()  # status 0 if the signal came in its last moment
        _expect(status in (0, 130 if number == signal.SIGINT else -number), status, output)
        return ran and status != 0


def _child(arguments: list[str], output: Path, started: Path, prepare: Prepare) -> None:
    sys.stdout = sys.stderr = open(output, "w", buffering=1)  # noqa: SIM115
    os.environ["OODBENCH_DATA"] = str(output.parent / "data")  # where only a first run writes what it has measured
    torch.set_num_threads(1)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup` has ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell has ignored for jobs in the background
    prepare()
    started.touch()
    status = main(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what comes now comes too late
    sys.exit(status)


def _record(to: Path) -> None:
    """Write down the suffix of every file that appears under its name."""
    replace = os.replace

    def recording(source: Any, target: Any) -> None:
        replace(source, target)
        with to.open("a") as events:
            events.write(f"{Path(target).suffix}\n")

    os.replace = recording  # type: ignore[assignment]


def _kill_at_rename(suffix: str, nth: int, renamed: bool) -> None:
    """When the nth file of a kind is about to appear under its name, or just has."""
    replace, count = os.replace, 0

    def counting(source: Any, target: Any) -> None:
        nonlocal count
        count += Path(target).suffix == suffix
        due = Path(target).suffix == suffix and count == nth
        if due and not renamed:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = counting  # type: ignore[assignment]


def _kill_while_open(nth: int, share: float) -> None:
    """When this share of the nth file is written under its temporary name."""
    fsync, count = os.fsync, 0

    def counting(handle: int) -> None:
        nonlocal count
        about = os.fstat(handle)
        count += stat.S_ISREG(about.st_mode)
        if stat.S_ISREG(about.st_mode) and count == nth:
            os.ftruncate(handle, int(share * about.st_size))
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = counting


def _at_random(whole: Whole, place: Path, chance: random.Random) -> str:
    delays = [_interrupted(whole, place, chance, signal.SIGKILL)]
    for _ in range(chance.randint(0, 2)):
        delays.append(chance.uniform(0, whole.seconds))
        Run(whole.command, place).signal_after(delays[-1], signal.SIGKILL)
    return f"after {' and again after '.join(f'{delay:.2f} s' for delay in delays)}"


def _interrupted(
    whole: Whole,
    place: Path,
    chance: random.Random,
    number: signal.Signals,
    beside: bool = False,
    engine: tuple[str, ...] = (),
) -> float:
    """Send a signal at a moment when the run has not ended, perhaps beside another run; when that was."""
    delay = chance.uniform(0, whole.seconds + (START if engine else 0))
    for _ in range(10):
        other = Run(whole.command, place, name="beside") if beside else None
        hit = Run((*whole.command, *engine), place).signal_after(delay, number)
        if other is not None:
            status, output = other.end()
            _expect(status == 0, status, output)
        if hit:
            return delay
        shutil.rmtree(place)
        place.mkdir()
        delay /= 2
    raise Wrong(f"{number.name} never ended a run")


def _while_open(whole: Whole, place: Path, chance: random.Random) -> str:
    sure = sum(event not in AS_TIME_ALLOWS for event in whole.events) + 1  # checkpoint at the least
    nth, share = chance.randint(1, sure), chance.choice([0, chance.random(), 1])
    _killed(Run(whole.command, place, partial(_kill_while_open, nth, share)))
    return f"at temporary file {nth}, with {100 * share:.0f} % of it written"


def _before_json(whole: Whole, place: Path, chance: random.Random) -> str:
    suffix, renamed = chance.choice([(".safetensors", True), (".jsonl", True), (".json", False)])
    nth = chance.randint(1, whole.events.count(suffix))
    _killed(Run(whole.command, place, partial(_kill_at_rename, suffix, nth, renamed)))
    return f"{'after' if renamed else 'before'} {suffix} number {nth}"


def _at_checkpoint(whole: Whole, place: Path, chance: random.Random) -> str:
    suffix, renamed = chance.choice([".ckpt", ".ckpt", ".pt"]), chance.random() < 0.5
    _killed(Run(whole.command, place, partial(_kill_at_rename, suffix, 1, renamed)))
    return f"{'after' if renamed else 'before'} the first {suffix}"


def _by_signal(whole: Whole, place: Path, chance: random.Random) -> str:
    number = chance.choice(SIGNALS)
    return f"{number.name} after {_interrupted(whole, place, chance, number):.2f} s"


def _one_of_two(whole: Whole, place: Path, chance: random.Random) -> str:
    return f"after {_interrupted(whole, place, chance, signal.SIGKILL, beside=True):.2f} s"


def _driver(engine: tuple[str, ...], whole: Whole, place: Path, chance: random.Random) -> str:
    return f"after {_interrupted(whole, place, chance, signal.SIGKILL, engine=engine):.2f} s"


def _worker(engine: tuple[str, ...], whole: Whole, place: Path, chance: random.Random) -> str:
    """The run itself goes on, and ends as if nothing had happened."""
    run, killed = Run((*whole.command, *engine), place), None
    delay = chance.uniform(0, whole.seconds)
    until = time.monotonic() + LIMIT
    while killed is None and run.process.is_alive() and time.monotonic() < until:
        if workers := _workers(run.process.pid or 0):
            run.process.join(delay)  # from when there is a worker
            killed = chance.choice(_workers(run.process.pid or 0) or workers)
            with suppress(ProcessLookupError):
                os.kill(killed, signal.SIGKILL)
        time.sleep(0.01)
    status, output = run.end()
    _expect(status == 0, status, output)
    return f"{delay:.2f} s after its start"


def _workers(process: int) -> list[int]:
    """Worker processes among those that a process has started, at whatever remove."""
    found = []
    with suppress(OSError):  # it has just ended
        for child in map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()):
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            found += [child] if any(mark in command for mark in WORKERS) else []
            found += _workers(child)
    return found


ENGINES = {"two workers": ("--workers", "2")}
if importlib.util.find_spec("ray"):
    ENGINES["Ray"] = ("--on", "ray", "--workers", "2")
KINDS = {
    "killed at a random moment": _at_random,
    "killed while a temporary file was open": _while_open,
    "killed between raw scores and JSON": _before_json,
    "killed at a checkpoint": _at_checkpoint,
    "signals": _by_signal,
    "two processes, one killed": _one_of_two,
    **{f"on {name}, the driver killed": partial(_driver, engine) for name, engine in ENGINES.items()},
    **{f"on {name}, a worker killed": partial(_worker, engine) for name, engine in ENGINES.items()},
}


def _killed(run: Run) -> None:
    status, output = run.end()
    _expect(status == -signal.SIGKILL, status, output)


def _expect(fine: bool, status: int, output: str) -> None:
    if not fine or "Traceback" in output:
        raise Wrong(f"ended with status {status}: {' / '.join(output.splitlines()[-3:])}")


def _problem(whole: Whole, place: Path) -> str | None:
    """What is not as in the undisturbed run once the same command has run to the end."""
    status, output = Run(whole.command, place, name="again").end()
    _expect(status == 0, status, output)
    notes = [line for line in output.splitlines() if line.startswith(("note:", "oodbench:"))]
    new = [line for line in notes if line not in whole.output and f": {RESUMES} " not in line]
    if new:
        return f"the run that went on said: {new[0]}"
    here, there = _contents(place / "results"), _contents(whole.folder)
    odd = sorted(here.keys() ^ there.keys())
    if odd:
        return f"{'left over' if odd[0] in here else 'missing'}: {odd[0]}"
    return next((f"{name} differs" for name in here if here[name] != there[name]), None)


def _contents(folder: Path) -> dict[str, Any]:
    """Every file by its path, as what must come out the same of it: all but times."""
    results, problems = read_folder(folder)
    by_path = {result.path: result for result in results}
    contents: dict[str, Any] = {f"{path}: {why}": None for path, why in problems.items()}
    for path in folder.rglob("*"):
        if path.is_file():
            contents[str(path.relative_to(folder))] = _plain(path, by_path.get(path))
    return contents


def _plain(path: Path, result: Any) -> Any:
    if result is not None:
        return {name: value for name, value in vars(result).items() if name not in PASSING}
    if path.suffix == ".safetensors":  # the notes of kept outputs have times
        return {name: (str(array.dtype), array.tobytes()) for name, array in load_file(path).items()}
    if path.suffix == ".pt":
        return _bits({**torch.load(path, weights_only=True), "seconds": None, "digest": None})
    return path.read_bytes()


def _bits(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return {name: _bits(each) for name, each in value.items()}
    return [_bits(each) for each in value] if isinstance(value, list | tuple) else value
