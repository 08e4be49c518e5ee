"""CPU seconds until the command line has answered: help, lists, and a run whose results are all there.

    python benchmarks/speed/startup.py

User and system time of the process, compiled files in place as after a first call, the least of the turns.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from timing import TURNS, Row, main


def answer(arguments: Sequence[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "oodbench", *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        methods = "msp" if quick else "all"
        run = [
            "run",
            "--suite",
            "digits-c",
            "--preset",
            "smoke",
            "--methods",
            methods,
            "--results",
            f"{folder}/results",
        ]
        commands = {"oodbench --help": (["--help"], 0.3), "oodbench list": (["list"], 0.3)}
        commands[f"planning a finished run, --methods {methods}"] = (run, 2.0)
        for arguments, _ in commands.values():
            answer(arguments, environment)
        fastest = dict.fromkeys(commands, float("inf"))
        for _ in range(1 if quick else TURNS):
            for name, (arguments, _) in commands.items():
                fastest[name] = min(fastest[name], answer(arguments, environment))
    for name, (_, aim) in commands.items():
        yield Row(f"CPU time of {name}", fastest[name], aim, "s")


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
