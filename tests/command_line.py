"""The command as the tests type it: in this process where that will do, since a new one waits for torch."""

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from oodbench.cli import main

SUITE_FILE = Path(__file__).parent.parent / "benchmarks" / "digits-c.yaml"


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


def oodbench(*arguments: object) -> Outcome:
    """`oodbench ARGUMENTS`, without a new process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as exit:  # argparse, after --help and --version
            status = int(exit.code or 0)
    return Outcome(status, out.getvalue(), err.getvalue())


def plot(*arguments: object) -> Outcome:
    """`oodbench plot ARGUMENTS`, without what it says about the figure that it is working on."""
    status, out, err = oodbench("plot", *arguments)
    return Outcome(status, out, "".join(line for line in err.splitlines(True) if not line.startswith("drawing ")))


def process(*arguments: object, **environment: str) -> Outcome:
    """`oodbench ARGUMENTS` in a process of its own."""
    return python("-m", "oodbench", *arguments, **environment)


def python(*arguments: object, stdin: str | None = None, **environment: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def terminal(*arguments: object, **environment: str) -> tuple[int, str]:
    """`oodbench ARGUMENTS` in a process of its own, on a terminal; its status, and what that shows."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "oodbench", *map(str, arguments)]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, **environment})
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    return child.wait(), shown.decode()


def on_screen(*arguments: object) -> tuple[int, str]:
    """`oodbench ARGUMENTS` with a terminal as standard error, in this process; its status, and what that shows."""
    screen = io.StringIO()
    screen.isatty = lambda: True
    with contextlib.redirect_stderr(screen):
        status = main([str(argument) for argument in arguments])
    return status, screen.getvalue()


def smoke(results: Path, methods: str, *more: object) -> Outcome:
    """A run of a second."""
    return oodbench(
        "run", "--suite", "digits-c", "--preset", "smoke", "--methods", methods, "--results", results, *more
    )


def complaints(outcome: Outcome) -> list[str]:
    """The lines on stderr that say what is wrong; others say how a run goes."""
    assert "Traceback" not in outcome.err, outcome.err
    return [line for line in outcome.err.splitlines() if line.startswith("oodbench: ")]


def assert_done(outcome: Outcome) -> str:
    """All went well and nothing was complained of; what was said, on either stream."""
    assert (outcome.status, complaints(outcome)) == (0, [])
    return outcome.err + outcome.out


def assert_refused(outcome: Outcome, *parts: object) -> None:
    """One line on stderr that holds every part, after what was said before; and the status of wrong usage."""
    assert len(complaints(outcome)) == 1 and outcome.err.endswith(f"{complaints(outcome)[0]}\n"), outcome.err
    assert [part for part in parts if str(part) not in f"{complaints(outcome)[0]}\n"] == [], outcome.err
    assert outcome.status == 2
