"""Ctrl-C, at any moment and however often: one line and status 130."""

import random
import subprocess
import sys
import textwrap

import pytest
from command_line import Outcome, python

from oodbench.cli.interrupts import LINE

HEARS = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever started the tests

# Runs `oodbench ARGUMENTS` and sends itself so many signals from a moment on: the n-th event that Python audits.
# Most of these are of imports and files.
STRUCK = (
    HEARS
    + """
import os, sys, threading, time
from oodbench.cli import main

moment, often, *words = sys.argv[1:]
left = int(moment)

def strike():
    for _ in range(int(often)):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.003)

def count(event, arguments):
    global left
    if left > 0 and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # it listens
        left -= 1
        if left == 0:
            threading.Thread(target=strike, daemon=True).start()

sys.argv = ["oodbench", *words]
sys.addaudithook(count)
sys.exit(main())
"""
)
SMOKE = ("run", "--suite", "digits-c", "--preset", "smoke", "--setting", "unseen-digits", "--methods", "msp")
CHANCE = random.Random(41)


def struck(words, first, last, often, *marks):
    """Within these events."""
    return pytest.param(words, CHANCE.randrange(first, last), often, id=f"{words[0]}-{often}", marks=marks)


SAMPLE = [
    struck(("list", "methods"), 1, 1_600, 1),
    struck(("list", "methods"), 1, 1_600, 5),
    struck(("table", "nowhere"), 1, 4_300, 5),
    struck(SMOKE, 5_000, 20_000, 5),  # torch is being imported
    *(struck(SMOKE, 34_000, 49_000, often, pytest.mark.slow) for often in (1, 5) for _ in range(4)),  # and used
]


@pytest.mark.parametrize(("words", "moment", "often"), SAMPLE)
def test_whatever_the_moment_there_is_one_line_or_none(tmp_path, words, moment, often):
    command = [sys.executable, "-c", STRUCK, str(moment), str(often), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    if done.returncode == 130:
        assert done.stderr.endswith(LINE) and done.stderr.count("interrupted") == 1
    else:  # it had ended before
        assert done.returncode == (2 if words[-1] == "nowhere" else 0) and "interrupted" not in done.stderr


def obeying(body: str, before: str = HEARS) -> Outcome:
    """A command of this body, in a process of its own."""
    body = textwrap.indent(textwrap.dedent(body), "    ")
    ends = "command_line.obey = obey\nsys.argv = ['oodbench']\nsys.exit(main())"
    start = "import atexit, os, signal, sys, time\nfrom oodbench.cli import command_line, main\n"
    return python("-c", f"{start}{before}def obey(arguments, interrupts):\n{body}\n    return 0\n{ends}")


@pytest.mark.parametrize(
    "body",
    [
        """
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            import nothing_of_this_name  # as what an interrupt has left half imported
        """,
        """
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(4):
                signal.raise_signal(signal.SIGINT)
        """,
        """
        class Dies:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)
        Dies()
        while True:  # for what a destructor raises is lost
            time.sleep(0.01)
        """,
        """
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException:
            pass  # as careless libraries do
        while True:
            time.sleep(0.01)
        """,
        """
        atexit.register(lambda: [signal.raise_signal(signal.SIGINT) for _ in range(5)])
        signal.raise_signal(signal.SIGINT)
        """,
    ],
    ids=["becomes another", "often", "in a destructor", "swallowed", "at the very end"],
)
def test_an_interrupt_is_one_line_whatever_becomes_of_it(body):
    assert obeying(body) == (130, "", LINE)


def test_an_interrupt_within_an_import_ends_the_process_there(tmp_path):
    """C++ that is being imported would end it with SIGABRT."""
    (tmp_path / "imported.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nfinally:\n    print('went on')"
    )
    assert obeying(f"sys.path.append({str(tmp_path)!r})\nimport imported") == (130, "", LINE)


def test_what_comes_after_a_command_has_ended_is_not_heard():
    assert obeying("atexit.register(signal.raise_signal, signal.SIGINT)") == (0, "", "")


def test_a_program_that_was_started_with_interrupts_ignored_ignores_them():
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    assert obeying("signal.raise_signal(signal.SIGINT)\nprint('done')", ignored) == (0, "done\n", "")


def test_who_calls_the_command_from_python_has_his_own_handler_afterwards():
    done = python("-c", f"{HEARS}from oodbench.cli import main\nmain(['list', 'suites'])\nsignal.raise_signal(2)")
    assert done.err.endswith("KeyboardInterrupt\n")


def test_little_is_imported_before_the_command_listens():
    code = "import sys; import oodbench.cli; print(*sys.modules)"
    loaded = {*python("-c", code).out.split()}
    ours = {name for name in loaded if name.startswith("oodbench")}
    assert ours == {"oodbench", "oodbench.cli", "oodbench.cli.interrupts"}
    assert not {"argparse", "inspect", "torch"} & loaded
