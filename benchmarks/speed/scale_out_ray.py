"""What a Ray cluster of this machine costs beyond worker processes, and how early its first result comes.

    python benchmarks/speed/scale_out_ray.py

Wall time of `oodbench run` on digits-c, all methods and three seeds, in processes of their own, which take turns; the
least of three counts. What starting the cluster costs is measured on a run of one method, and is not in that of a task.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from timing import Row, main

from oodbench.running.plan import plan
from oodbench.running.request import request

TURNS = 3
ON_RAY = ("--on", "ray")


@dataclass(frozen=True)
class Took:
    """Seconds of a run, and until its first result."""

    whole: float
    first: float


def run(*arguments: str) -> Took:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "oodbench", "run", "--suite", "digits-c", *arguments, "--results", folder]
        started, first = time.perf_counter(), float("inf")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if " / seed " in line:
                    first = min(first, time.perf_counter() - started)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
        return Took(time.perf_counter() - started, first)


def trainings(methods: str, seeds: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        asked = request(methods=methods, seeds=seeds, results=f"{folder}/none")
        return len(plan(asked).needed())


def ray_rows(quick: bool) -> Iterator[Row]:
    if importlib.util.find_spec("ray") is None:
        yield Row("Ray", None, remark='pip install "oodbench[ray]"')
        return
    methods, seeds = ("erm", "0") if quick else ("all", "0,1,2")
    count = trainings(methods, seeds)
    small, large = ("--preset", "smoke", "--methods", "erm"), ("--methods", methods, "--seeds", seeds)
    sides = {
        "process": (*large, "--workers", "1"),
        "ray": (*large, "--workers", "1", *ON_RAY),
        "process of one": (*small, "--workers", "1"),
        "ray of one": (*small, "--workers", "1", *ON_RAY),
        "ray of two": (*large, "--workers", "2", *ON_RAY),
    }
    least: dict[str, Took] = {}
    for _ in range(1 if quick else TURNS):
        for side, arguments in sides.items():
            took = run(*arguments)
            least[side] = min(least.get(side, took), took, key=lambda each: each.whole)
    start = least["ray of one"].whole - least["process of one"].whole
    beyond = least["ray"].whole - least["process"].whole - start
    yield Row("time to start and end a Ray cluster of this machine", start, unit="s")
    yield Row(f"time per task on Ray beyond a worker process, {count} tasks", beyond / count, 0.15, "s")
    two = least["ray of two"]
    yield Row("time to the first result on Ray with 2 slots : the whole run", two.first / two.whole, 1 / 3)


rows = ray_rows  # as in every script


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
