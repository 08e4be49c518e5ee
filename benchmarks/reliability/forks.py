"""Runs commands of oodbench, each in a fork of a process that has imported and read what they need: no trial waits.

Started as a script, this is that process. It runs the command of its first line itself, to have all that is needed in
memory; for every other line it forks, and answers with the exit status.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HUNG = "hung"  # in place of a status


class Forks:
    """The commands of one campaign; a context, which ends the process."""

    def __init__(self, folder: Path, warming: Sequence[str]) -> None:
        own = {name: str(folder / f".{name.lower()}") for name in ("OODBENCH_DATA", "TMPDIR")}
        for path in own.values():
            Path(path).mkdir()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **own},
        )
        self.run(warming, folder, seconds=300)

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, arguments: Sequence[str], folder: Path, seconds: float, harmless: bool = False) -> int | str:
        """The exit status of `oodbench ARGUMENTS` in a folder, whose `out.txt` and `err.txt` hold what it printed.

        What is harmless is not waited for once it has printed: to end torch takes as long as such a run.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"arguments": [*arguments], "folder": str(folder), "seconds": seconds, "harmless": harmless}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        status: int | str = json.loads(self._process.stdout.readline())
        return status


def _serve() -> None:
    from oodbench.cli import main

    answers = os.fdopen(os.dup(1), "w")  # which no command prints into
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        if number == 0:
            _print_into(asked["folder"])
            status: int | str = main(asked["arguments"])
            gc.collect()
            gc.freeze()
        else:
            status = _forked(asked)
        print(json.dumps(status), file=answers, flush=True)


def _forked(asked: dict[str, Any]) -> int | str:
    from oodbench.cli import main

    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _print_into(asked["folder"])
        status = main(asked["arguments"])
        if asked["harmless"]:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        sys.exit(status)  # the fork ends as any process of Python
    deadline = time.monotonic() + asked["seconds"]
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HUNG


def _print_into(folder: str) -> None:
    os.chdir(folder)
    for stream, name in ((1, "out.txt"), (2, "err.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)


if __name__ == "__main__":
    _serve()
