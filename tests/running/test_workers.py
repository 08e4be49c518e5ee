"""Runs with worker processes: the same bits as in one process, whatever happens to the workers or to the run."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from command_line import assert_refused, complaints, oodbench, process, python, terminal
from result_files import arrays_of

from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.running.order import packed, unpacked
from oodbench.running.plan import plan
from oodbench.running.reporting import Silent, Told
from oodbench.running.request import request
from oodbench.running.run import _devices
from oodbench.running.session import Session
from oodbench.running.supervise import Supervisor

HEAD = '''"""A method."""
import fcntl, os, signal, sys
from dataclasses import dataclass
from pathlib import Path
from oodbench import Scorer, Trainer


def armed():
    """Once, in the test that says so."""
    file = Path(__file__).with_name("armed-" + Path(__file__).stem)
    if file.exists():
        file.unlink()
        return True
    return False


def pipe():
    """Where the messages of a worker go."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            is_pipe = number > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("pipe:")
        except OSError:
            continue
        if is_pipe and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
            return number

'''
TRAINER = '''
@dataclass
class Method(Trainer):
    """Does what it says."""

    def train(self, model, data, loop):
        {at_work}
        super().train(model, data, loop)
'''
SCORER = '''
@dataclass
class Method(Scorer):
    """Does what it says."""

    def score(self, out):
        if len(out.logits) > 2:  # not when it is tried on two rows, in the process of the run
            {at_work}
        return -out.logits.logsumexp(dim=-1)
'''
DIES = "os.kill(os.getpid(), signal.SIGKILL)"
HALF_A_LINE = "os.write(pipe(), b'half a line')"
TALKS = (
    "sys.stdout.closed or (print('so many words'), os.write(1, b'\\0' * 100 + b'\\n'), sys.stdout.close()); "
    "assert sys.stdin.read() == ''"
)
TRAINERS = {
    "broken": "raise ValueError('it cannot')",
    "shaky": f"armed() and {DIES}",
    "fatal": DIES,
    "sleepy": "__import__('time').sleep(60)",
}
SCORERS = {
    "chatty": TALKS,
    "deadly": DIES,
    "cut": f"armed() and ({HALF_A_LINE}, {DIES})",
    "garbage": "os.write(pipe(), b'\\xff' * 100)",
    "flood": "[print('x' * 1000) for _ in range(10_000)]",
}


def plugins(folder, *names):
    """Their files, as arguments."""
    words = []
    for name in names:
        body = TRAINER.format(at_work=TRAINERS[name]) if name in TRAINERS else SCORER.format(at_work=SCORERS[name])
        path = folder / f"{name}.py"
        path.write_text(HEAD + body)
        words += ["--plugin", path]
    return words


def command(folder, methods, *more, settings=("unseen-digits",)):
    chosen = [word for setting in settings for word in ("--setting", setting)]
    where = ["--results", folder]
    return ["run", "--suite", "digits-c", "--preset", "smoke", "--methods", methods, *chosen, *where, *more]


def outcome(folder):
    """All that must come out the same: everything stored except times and tracebacks, and the raw scores."""
    found, problems = read_folder(folder)
    assert not problems
    told = {}
    for result in found:
        values = {
            k: v
            for k, v in vars(result).items()
            if k not in ("path", "commit", "seconds", "written", "traceback", "request")
        }
        log = result.path.with_suffix(".jsonl")
        arrays = arrays_of(result) if result.status == "ok" else {}
        told[str(result.path.relative_to(folder))] = values, arrays, log.read_text() if log.exists() else None
    return told


def errors(folder):
    return {r.method: r.error for r in read_folder(folder)[0]}


def left_behind(home):
    """Ours, of what is in the temporary folder."""
    return [path for path in (home / "tmp").iterdir() if path.name.startswith("oodbench-")]


def weights(folder):
    return {path.name for path in (folder / "weights").iterdir() if path.suffix == ".pt"}


METHODS = "erm,scone,woods,msp,knn,broken,shaky"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One command in this process and with two workers, of which one dies once: the folder, and what was said."""
    home = tmp_path_factory.mktemp("runs")
    files = plugins(home, "broken", "shaky", "chatty")
    settings = ("unseen-digits", "photo-patches")
    alone = oodbench(*command(home / "one", METHODS, *files, settings=settings))
    (home / "armed-shaky").touch()
    (home / "tmp").mkdir()
    two = command(home / "two", f"{METHODS},chatty", *files, "--workers", 2, settings=settings)
    return home, alone, process(*two, TMPDIR=str(home / "tmp"))


def test_two_workers_give_the_same_bits_as_one_process(runs):
    home, _, _ = runs
    told, alone = outcome(home / "two"), outcome(home / "one")
    assert len(told) == 16 and len(alone) == 14
    assert {name: each for name, each in told.items() if "/chatty/" not in name} == alone
    assert weights(home / "two") == weights(home / "one") and len(weights(home / "two")) == 6


def test_a_plugin_that_raises_fails_its_cells_in_words_and_the_others_are_done(runs):
    home, _, two = runs
    failed = {method: error for method, error in errors(home / "two").items() if error is not None}
    assert [*failed] == ["broken"] and re.fullmatch(r"ValueError at .*broken.py:\d+: it cannot", failed["broken"])
    assert two.status == 1 and "2 of 16 cells failed; the first: ValueError at " in complaints(two)[-1]
    (result,) = [r for r in read_folder(home / "two")[0] if r.method == "broken" and r.setting == "unseen-digits"]
    assert "in train" in result.traceback  # for the author of the method, from the worker


def test_a_worker_that_is_killed_while_it_trains_is_replaced(runs):
    home, alone, two = runs
    assert re.search(r"^shaky, seed 0: worker [12] ended: killed \(out of memory\?\); tried again$", two.err, re.M)
    assert "tried again" not in alone.err and not (home / "armed-shaky").exists()


def test_standard_output_holds_the_table_alone_and_what_components_print_is_said(runs):
    home, _, two = runs
    table = oodbench("table", home / "two", "--format", "text").out
    assert two.out.strip() == table.strip() and table.startswith("digits-c-smoke\n") and "so many words" not in table
    assert "so many words" in two.err and "16 cells, 0 done already, 16 to run in 7 trainings" in two.err


def test_workers_leave_nothing_behind(runs):
    home, _, _ = runs
    assert left_behind(home) == []
    assert not [*(home / "two").rglob("*.tmp")] and not [*(home / "two").rglob("*ckpt")]


SCRIPT = """
import oodbench
results = oodbench.run("digits-c", "msp,scone", ["unseen-digits"], preset="smoke", results="r", workers=2, timeout=60)
print([(r.method, r.status) for r in results])
"""


def test_a_script_without_a_main_guard_uses_workers_and_no_module_of_its_folder(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text(SCRIPT)
    work = tmp_path / "work"
    work.mkdir()
    (work / "torch.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(work)
    done = python(tmp_path / "script.py")
    assert (done.status, done.out) == (0, "[('msp', 'ok'), ('scone', 'ok')]\n"), done.err
    assert not done.err


def test_a_plugin_that_changes_while_workers_start_is_refused(tmp_path):
    path = tmp_path / "restless.py"
    changes = """def __post_init__(self):
        text = Path(__file__).read_text()
        Path(__file__).write_text(text.replace("return -", "return -2 * "))
"""
    path.write_text(HEAD + SCORER.format(at_work="pass").replace("def score", f"{changes}\n    def score"))
    refused = oodbench(*command(tmp_path / "results", "restless", "--plugin", path, "--workers", 2))
    assert_refused(refused, "code, data or a file has changed since the run was planned: keys differ")
    assert not [*(tmp_path / "results").rglob("*.json")]


def test_an_order_carries_the_files_that_it_names(tmp_path):
    (words,) = [plugins(tmp_path, "chatty")]
    here = plan(request(suite="digits-c", preset="smoke", methods="chatty", plugins=[str(words[1])], results="r"))
    order = packed(here)
    words[1].write_text("raise SystemExit")
    there = unpacked(order, tmp_path / "scratch")
    assert [cell.key for cell in there.cells] == [cell.key for cell in here.cells]
    assert there.folder == tmp_path / "scratch" and Path(there.request.plugins[0]).name == "chatty.py"
    order.files[str(words[1])] = (HEAD + SCORER.format(at_work="raise ValueError")).encode()
    with pytest.raises(UserError, match="^this machine has other code: keys differ; give it what the run has$"):
        unpacked(order, tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", "0"), "--workers 0 is out of range; choose 1 to 1,024"),
        (("--workers", "2000"), "--workers 2000 is out of range"),
        (("--workers", "two"), "--workers"),
        (("--per-device", "0"), "0 workers cannot share a device; choose --per-device 1 or more"),
        (("--timeout", "0"), "--timeout 0 leaves no time for anything; choose seconds above 0"),
        (("--timeout", "-1"), "--timeout -1 leaves no time"),
        (("--timeout", "nan"), "--timeout nan leaves no time"),
        (("--on", "dask"), "unknown engine 'dask'"),
    ],
)
def test_wrong_numbers_of_workers_and_seconds_are_refused(words, message, tmp_path):
    assert_refused(oodbench(*command(tmp_path / "results", "msp", *words)), message)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("workers", "methods", "count"), [(3, "msp,knn", 1), (1, "msp,mixup", 1), (3, "msp,mixup", 2)])
def test_there_are_no_more_workers_than_trainings(workers, methods, count):
    asked = request(suite="digits-c", preset="smoke", methods=methods, results="nowhere", workers=workers)
    assert _devices(plan(asked), torch.device("cpu"), 0.0) == ["cpu"] * count


def test_a_worker_that_cannot_be_started_is_told_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planned = plan(request(suite="digits-c", preset="smoke", methods="msp", results=str(tmp_path / "r"), workers=2))
    with pytest.raises(UserError, match="^cannot start worker 1: No such file or directory; choose fewer --workers$"):
        Supervisor(planned, Session(tmp_path / "r", torch.device("cpu")), Told(Silent()), planned.sources()).run(
            ["cpu", "cpu"]
        )
    assert [*tmp_path.iterdir()] == []


def children(pid):
    """Processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid and words[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def gone(pids):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def started(arguments, home, until, **how):
    """A run in a process of its own and the workers that it has when something is so."""
    (home / "tmp").mkdir(exist_ok=True)
    words = [sys.executable, "-m", "oodbench", *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(home / "tmp")}
    # A shell has SIGINT ignored for jobs in the background, and their children inherit that.
    how["preexec_fn"] = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    run = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **how)
    end = time.monotonic() + 60
    while not until():
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    return run, children(run.pid)


LONG = ("--workers", "2", "--set", "recipe.epochs=150")


@pytest.mark.slow
def test_a_run_that_is_interrupted_or_killed_leaves_no_worker_and_goes_on_to_the_same_bits(tmp_path):
    folder, methods = tmp_path / "results", "mixup,msp"
    arguments = command(folder, methods, *LONG)

    def training(since):
        """Whether both have written a checkpoint in this run."""
        return lambda: sum(path.stat().st_mtime_ns > since for path in (folder / "weights").glob("*ckpt")) >= 2

    for to_group in (False, True):
        run, workers = started(arguments, tmp_path, training(time.time_ns()), start_new_session=True)
        assert len(workers) == 2
        os.killpg(run.pid, signal.SIGINT) if to_group else run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        assert run.returncode == 130 and gone(workers) and not out
        assert "2 of 2 cells are left\n" in err and "Traceback" not in err
        assert err.endswith("interrupted; the same command resumes\n")
        assert left_behind(tmp_path) == []
    run, workers = started(arguments, tmp_path, training(time.time_ns()))
    run.kill()
    run.communicate()
    assert len(workers) == 2 and gone(workers) and left_behind(tmp_path) == []
    assert oodbench(*arguments).status == 0
    assert oodbench(*command(tmp_path / "whole", methods, *LONG[2:])).status == 0
    assert outcome(folder) == outcome(tmp_path / "whole")


@pytest.mark.slow
def test_what_kills_its_worker_fails_alone_and_in_words(tmp_path):
    files = plugins(tmp_path, "deadly", "cut", "fatal", "garbage", "shaky")
    for name in ("cut", "shaky"):
        (tmp_path / f"armed-{name}").touch()
    methods = "msp,deadly,mixup+cut,fatal,irm+garbage,shaky+knn,scone"
    done = process(*command(tmp_path / "results", methods, *files, "--workers", 2))
    told = errors(tmp_path / "results")
    killed = r"its worker was lost 3 times: worker [12] ended: killed \(out of memory\?\)"
    assert [method for method, error in told.items() if error] == ["deadly", "fatal"] and len(told) == 7
    assert all(re.fullmatch(killed, told[method]) for method in ("deadly", "fatal"))
    assert done.status == 1 and re.search(r"2 of \d cells failed", complaints(done)[-1])
    assert re.search("^irm, seed 0: .*; tried again$", done.err, re.M)  # its messages were lost, and its result was not
    assert not (tmp_path / "armed-cut").exists() and not (tmp_path / "armed-shaky").exists()
    assert oodbench(*command(tmp_path / "one", "msp,mixup+cut,shaky+knn,scone", *files)).status == 0
    undisturbed, disturbed = outcome(tmp_path / "one"), outcome(tmp_path / "results")
    assert {name: disturbed[name] for name in undisturbed} == undisturbed


@pytest.mark.slow
def test_what_takes_too_long_fails_in_words_and_a_flood_of_words_ends_nothing(tmp_path):
    files = plugins(tmp_path, "sleepy", "flood")
    done = process(*command(tmp_path / "results", "msp,sleepy,flood", *files, "--workers", 2, "--timeout", 20))
    told = errors(tmp_path / "results")
    assert told == {"msp": None, "flood": None, "sleepy": "it took longer than --timeout 20"}
    assert done.status == 1 and done.err.count("x" * 1000 + "\n") >= 10_000


@pytest.mark.slow
def test_a_time_that_is_too_short_for_anything_ends_all_the_same(tmp_path):
    done = process(*command(tmp_path / "results", "msp,knn", "--timeout", 0.001))
    assert done.status == 1 and len(errors(tmp_path / "results")) == 2
    assert {*errors(tmp_path / "results").values()} == {"it took longer than --timeout 0.001"}


@pytest.mark.slow
def test_two_runs_with_workers_divide_the_work_of_one_folder(tmp_path):
    words = ("--seeds", "0-5", "--workers", "2")
    arguments = command(tmp_path / "two", "msp,scone", *words)
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "oodbench", *map(str, arguments)], stderr=subprocess.PIPE, text=True, stdout=-3
        )
        for _ in range(2)
    ]
    said = [run.communicate(timeout=120)[1] for run in both]
    assert [run.returncode for run in both] == [0, 0], said
    lines = [re.findall(r"^  unseen-digits / (\w+ / seed \d): OOD", text, re.M) for text in said]
    assert sorted(lines[0] + lines[1]) == sorted(f"{m} / seed {i}" for m in ("msp", "scone") for i in range(6))
    assert all(lines)
    assert oodbench(*command(tmp_path / "one", "msp,scone", "--seeds", "0-5")).status == 0
    assert outcome(tmp_path / "two") == outcome(tmp_path / "one")


@pytest.mark.slow
def test_force_with_workers_trains_all_anew_to_the_same_bits(tmp_path):
    arguments = command(tmp_path / "r", "msp,scone", "--workers", "2")
    assert oodbench(*arguments).status == 0
    before, then = outcome(tmp_path / "r"), {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    assert oodbench(*arguments, "--force").status == 0
    assert outcome(tmp_path / "r") == before and len(then) == 2
    assert all(path.stat().st_mtime_ns > time_ for path, time_ in then.items())


@pytest.mark.slow
def test_damaged_weights_that_two_workers_start_from_are_made_again(tmp_path):
    settings = ("unseen-digits", "photo-patches")
    assert oodbench(*command(tmp_path / "r", "msp", settings=settings)).status == 0
    (path,) = (tmp_path / "r" / "weights").glob("*.pt")
    path.write_bytes(path.read_bytes()[:-1000])
    done = process(*command(tmp_path / "r", "scone,woods", "--workers", "2", settings=settings))
    assert done.status == 0 and "is damaged, or not a file of weights" in done.err, done.err
    assert oodbench(*command(tmp_path / "one", "msp,scone,woods", settings=settings)).status == 0
    assert outcome(tmp_path / "r") == outcome(tmp_path / "one")


@pytest.mark.slow
def test_the_view_of_two_workers_fits_80_columns(tmp_path):
    words = ("--workers", "2", "--seeds", "0,1", "--set", "recipe.epochs=40")
    status, shown = terminal(
        *command(tmp_path / "r", "msp,scone", *words), COLUMNS="80", LINES="24", TERM="xterm", NO_COLOR="1"
    )
    assert status == 0
    moving = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", shown)]
    views = [line for line in moving if line.startswith("  worker ")]
    assert {line[:11] for line in views} == {"  worker 1:", "  worker 2:"}
    assert any("epoch " in line for line in views) and max(map(len, views)) <= 80
    assert any(re.fullmatch(r"\d of 4 cells(, .* left)?", line) for line in moving)
