"""What worker processes cost and save.

    python benchmarks/speed/scale_out.py

Wall time of `oodbench run` on digits-c in processes of their own, which take turns; the least of three counts. The
plain run is held to one core and one process.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from timing import Row, main

RUN = ("run", "--suite", "digits-c", "--methods", "all", "--seeds", "0,1,2")


def wall(*options: str, cores: set[int] | None = None) -> float:
    """Seconds of a run from nothing."""
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-m", "oodbench", *RUN, *options, "--results", results]
        hold = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=hold)
        return time.perf_counter() - began


def measured(turns: int, *more: str) -> Iterator[Row]:
    one = {min(os.sched_getaffinity(0))}
    sides = {"plain": ((), one), "one": (("--workers", "1"), None), "two": (("--workers", "2"), None)}
    least = dict.fromkeys(sides, float("inf"))
    for _ in range(turns):
        for name, (options, cores) in sides.items():
            least[name] = min(least[name], wall(*options, *more, cores=cores))
    yield Row("wall time of --workers 1 : the plain run", least["one"] / least["plain"], 1.03)
    yield Row("wall time of --workers 2 : the plain run", least["two"] / least["plain"], 0.65)


def rows(quick: bool) -> Iterator[Row]:
    yield from measured(1, "--preset", "smoke") if quick else measured(3)


if __name__ == "__main__":
    main(rows, __doc__)
