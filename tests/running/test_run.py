"""The promises of a run, kept by real processes: repeated, killed, out of disk, two at once."""

import errno
import io
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from result_files import arrays_of

from oodbench import files
from oodbench.cli import main
from oodbench.config.suite import suite_files
from oodbench.data import lookup
from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.results.metrics import METRICS, evaluate
from oodbench.results.result import read
from oodbench.results.stored import read_scores

METHODS = "msp,knn,scone"  # a training that two share, and one that starts from it
CELLS = 3
LIMIT = 300  # seconds that no process of these takes, however busy the machine is
TEMPORARY = f".seed0-12345678.json.oodbench-{files.HOST}.abcd_123.tmp"

# A server that has imported torch forks the processes below in milliseconds; they share nothing else.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["oodbench.running.execution", "oodbench.cli", "scipy.ndimage", "torch._dynamo"])


def command(folder, *more, methods=METHODS, settings=("unseen-digits",)):
    chosen = [word for setting in settings for word in ("--setting", setting)]
    where = ["--results", str(folder)]
    return ["run", "--suite", "digits-c", "--preset", "smoke", "--methods", methods, *chosen, *where, *more]


def _child(arguments, output, prepare):
    sys.stdout = sys.stderr = open(output, "w", buffering=1)  # noqa: SIM115
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell has ignored for jobs in the background
    prepare()
    sys.exit(main(arguments))


def nothing():
    pass


def start(arguments, output, prepare=nothing):
    process = processes.Process(target=_child, args=(arguments, output, prepare))
    process.start()
    return process


def run(arguments, output, prepare=nothing):
    """The exit status and the output of one process; status -9 if it was killed."""
    process = start(arguments, output, prepare)
    process.join(LIMIT)
    assert process.exitcode is not None, "still running"
    return process.exitcode, Path(output).read_text()


def kill_at_write(ending, nth, done):
    """SIGKILL when the nth file with this ending is about to appear under its name, or just has."""
    replace, count = os.replace, 0

    def counting(source, target):
        nonlocal count
        matches = str(target).endswith(ending)
        count += matches
        if matches and count == nth and not done:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if matches and count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = counting


def outcome(folder):
    """All that must come out the same: everything stored but times, the commit and the request, and the raw scores."""
    found, problems = read_folder(folder)
    assert not problems
    told = {}
    for result in found:
        values = {k: v for k, v in vars(result).items() if k not in ("path", "commit", "seconds", "written", "request")}
        log = result.path.with_suffix(".jsonl")
        arrays = arrays_of(result) if result.status == "ok" else {}
        told[str(result.path.relative_to(folder))] = values, arrays, log.read_text() if log.exists() else None
    return told


def visible_files(folder):
    """What runs have made; what they were asked for is theirs to say, and differs between commands."""
    files = [p for p in Path(folder).rglob("*") if p.is_file() and not p.name.startswith(".")]
    return {str(p.relative_to(folder)) for p in files if p.parent.name != "requests"}


def snapshot(folder):
    return {
        name: ((folder / name).stat().st_mtime_ns, (folder / name).read_bytes())
        for name in visible_files(folder)
        if not name.endswith((".md", ".tex"))
    }


def trainings(output):
    """The headers of the trainings a process really did, not those whose weights it found."""
    blocks = re.split(r"^(?=\[\d+/\d+\])", output, flags=re.MULTILINE)[1:]
    return [re.sub(r"^\[.*?\] ", "", block.splitlines()[0]) for block in blocks if "  epoch " in block]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    status, output = run(command(folder / "results"), folder / "output")
    assert status == 0, output
    assert trainings(output) == ["erm, seed 0", "scone, unseen-digits, seed 0"]
    return folder / "results"


def test_the_same_command_twice_does_nothing_and_says_so(whole):
    before = snapshot(whole)
    tables = {name: (whole / "digits-c-smoke" / name).read_text() for name in ("table.md", "table.tex")}
    again = subprocess.run(
        [sys.executable, "-m", "oodbench", *command(whole)], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0
    assert again.stderr.startswith(f"digits-c-smoke: {CELLS} cells, {CELLS} done already, 0 to run: nothing to do")
    assert snapshot(whole) == before
    assert {name: (whole / "digits-c-smoke" / name).read_text() for name in tables} == tables


def test_the_same_seed_gives_the_same_bits_in_another_folder_and_process(whole, tmp_path):
    other = tmp_path / "deep" / "er"
    done = subprocess.run(
        [sys.executable, "-m", "oodbench", *command(other)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert outcome(other) == outcome(whole)
    assert visible_files(other) == visible_files(whole)


def test_neither_place_nor_time_nor_the_name_of_the_suite_decides_what_is_done(whole, tmp_path, capsys):
    folder = copy(whole, tmp_path / "moved")
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    assert main(command(folder)) == 0
    assert "nothing to do" in capsys.readouterr().err
    mine = tmp_path / "mine.yaml"
    mine.write_bytes(suite_files()["digits-c"].read_bytes())
    arguments = [str(mine) if word == "digits-c" else word for word in command(folder)]
    assert main(arguments) == 0
    output = capsys.readouterr().err
    assert f"mine-smoke: {CELLS} cells, 0 done already, {CELLS} to run" in output and not trainings(output)
    again = {r.method: (r.key, r.metrics) for r in read_folder(folder / "mine-smoke")[0]}
    assert again == {r.method: (r.key, r.metrics) for r in read_folder(whole)[0]}


def test_the_content_of_the_data_decides_what_is_done(whole, monkeypatch, capsys):
    monkeypatch.setitem(vars(lookup.dataset("digits")), "fingerprint", "0123456789abcdef")
    assert main([*command(whole), "--dry-run"]) == 0
    assert f"{CELLS} cells, 0 done already, {CELLS} to run" in capsys.readouterr().out


MOMENTS = [
    pytest.param(ending, nth, done, id=f"{'after' if done else 'at'} the {nth}. {ending}")
    for ending, nth, done in [
        ("*", 1, False),  # the very first write of all
        (".ckpt", 1, False),
        (".ckpt", 1, True),
        (".pt", 1, False),
        (".pt", 1, True),
        (".safetensors", 1, False),
        (".json", 1, False),
        (".json", 1, True),
        (".pt", 2, False),
        (".json", CELLS, True),
        ("table.md", 1, False),
    ]
]


@pytest.mark.parametrize(("ending", "nth", "done"), MOMENTS)
def test_a_run_killed_at_a_write_resumes_to_the_same_bits(ending, nth, done, whole, tmp_path):
    folder = tmp_path / "results"
    sabotage = partial(kill_at_write, ending.strip("*"), nth, done)
    status, output = run(command(folder), tmp_path / "killed", sabotage)
    assert status == -signal.SIGKILL, output
    status, output = run(command(folder), tmp_path / "resumed")
    assert status == 0, output
    assert outcome(folder) == outcome(whole)
    assert visible_files(folder) == visible_files(whole)


def test_a_training_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    """With mixup, which draws random numbers in every step."""
    long = ("--set", "recipe.epochs=30")
    whole, folder = tmp_path / "whole", tmp_path / "results"
    assert run(command(whole, *long, methods="mixup"), tmp_path / "out")[0] == 0

    def attempt(until):
        process = start(command(folder, *long, methods="mixup"), tmp_path / "out")
        deadline = time.monotonic() + LIMIT
        while process.is_alive() and not until() and time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()
        process.join()
        return process.exitcode

    def checkpoint():
        found = list((folder / "weights").glob("*.ckpt"))
        return found[0].stat().st_mtime_ns if found else None

    def epoch():
        (path,) = (folder / "weights").glob("*.ckpt")
        return torch.load(path, weights_only=True)["epoch"]

    assert attempt(lambda: True) == -signal.SIGKILL  # before it could do anything
    assert attempt(checkpoint) == -signal.SIGKILL
    first = epoch()
    assert first >= 1
    last = checkpoint()
    assert attempt(lambda: checkpoint() != last) == -signal.SIGKILL
    assert epoch() > first
    for seed in range(3):
        end = time.monotonic() + random.Random(seed).uniform(0.05, 0.6)
        attempt(lambda end=end: time.monotonic() > end)
    status, output = run(command(folder, *long, methods="mixup"), tmp_path / "out")
    assert status == 0, output
    assert outcome(folder) == outcome(whole)


PLUGIN_THAT_KILLS = '''
"""A scorer that ends its process while the file `armed` is there."""
import os, signal
from dataclasses import dataclass
from pathlib import Path
from oodbench import Outputs, Scorer


@dataclass
class Deadly(Scorer):
    """Energy, once it lets live."""

    def score(self, out: Outputs):
        armed = Path(__file__).with_name("armed")
        if armed.exists() and len(out.logits) > 2:  # not when it is tried on two rows
            armed.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return -out.logits.logsumexp(dim=-1)
'''


def test_a_run_killed_while_it_scores_goes_on_without_training_again(tmp_path):
    plugin = tmp_path / "deadly.py"
    plugin.write_text(PLUGIN_THAT_KILLS)
    (tmp_path / "armed").touch()
    arguments = command(
        tmp_path / "results", "--plugin", str(plugin), "--here", methods="msp,deadly,energy", settings=()
    )
    status, output = run(arguments, tmp_path / "out")
    assert status == -signal.SIGKILL and trainings(output) == ["erm, seed 0"]
    status, output = run(arguments, tmp_path / "out")
    assert status == 0 and "6 cells, 4 done already, 2 to run" in output and not trainings(output)
    metrics = {(r.method, r.setting): r.metrics for r in read_folder(tmp_path / "results")[0]}
    assert len(metrics) == 6
    for setting in ("unseen-digits", "photo-patches"):
        assert metrics["deadly", setting] == metrics["energy", setting]


def limit_file_size(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("kilobytes", [3, 50, 150])
def test_a_run_out_of_disk_ends_in_one_line_and_goes_on_later(kilobytes, whole, tmp_path):
    """The limit hits the raw scores, the weights or a checkpoint first, whichever is written first and larger."""
    folder = tmp_path / "results"
    status, output = run(command(folder), tmp_path / "out", partial(limit_file_size, kilobytes * 1000))
    assert status == 2 and "Traceback" not in output
    assert re.fullmatch(r"oodbench: cannot write '.*': File too large; .*", output.splitlines()[-1])
    assert not list(folder.rglob("*.tmp"))
    assert run(command(folder), tmp_path / "out")[0] == 0
    assert outcome(folder) == outcome(whole)


def fails_to(what):
    def fail(*_):
        raise what

    return fail


@pytest.mark.parametrize("part", ["fsync", "replace", "chmod"])
def test_a_write_that_fails_leaves_the_old_file_and_no_half_one(part, tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    files.write_text(path, "old")
    monkeypatch.setattr(os, part, fails_to(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(UserError, match=r"cannot write '.*file.json': No space left on device; "):
        files.write_text(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"] and path.read_text() == "old"


def test_an_interrupted_write_leaves_the_old_file_and_no_half_one(tmp_path):
    path = tmp_path / "file.json"
    files.write_text(path, "old")

    def write(file):
        file.write(b"half")
        file.flush()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(path, write)
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"] and path.read_text() == "old"


def test_a_file_has_the_permissions_that_the_umask_gives(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def copy(folder, target):
    for name in visible_files(folder):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes((folder / name).read_bytes())
    return target


def test_stray_temporary_files_do_not_matter(whole, tmp_path, capsys):
    folder = copy(whole, tmp_path / "results")
    for place in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
        (place / ".seed0-12345678.json.x1y2z3.tmp").write_text('{"half": ')
        (place / ".0123.ckpt.x1y2z3.tmp").write_bytes(b"PK")
    assert main(command(folder)) == 0
    told = capsys.readouterr()
    assert "nothing to do" in told.err and "oodbench: " not in told.err
    assert outcome(folder) == outcome(whole)


def test_what_killed_processes_left_is_swept_by_the_next_run(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    folder = copy(whole, tmp_path / "results")
    (tmp_path / "data" / "kept").mkdir(parents=True)
    (folder / "outputs" / "0123").mkdir(parents=True)
    lock = next((folder / "weights").glob("*.lock"))
    left = [lock.with_name(f".{lock.name}.holder"), tmp_path / "data" / "kept" / TEMPORARY]
    left += [place / TEMPORARY for place in [folder, *(p for p in folder.rglob("*") if p.is_dir())]]
    for path in left:
        path.write_bytes(b"half")
    assert len(left) == 11 and main(command(folder)) == 0
    assert not [path for path in left if path.exists()]
    assert outcome(folder) == outcome(whole) and visible_files(folder) == visible_files(whole)


def flip_a_bit(data):
    middle = len(data) // 2  # within a tensor: the pickle comes first and the directory last
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def foreign(data):
    file = io.BytesIO()
    torch.save({"state_dict": torch.ones(3)}, file)
    return file.getvalue()


DAMAGES = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "not an archive": lambda data: b"\x00" * len(data),
    "a bit flipped": flip_a_bit,
    "another torch file": foreign,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_are_made_again(damage, whole, tmp_path):
    folder = copy(whole, tmp_path / "results")
    for path in (folder / "weights").glob("*.pt"):
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    for path in folder.rglob("seed0-*.json"):
        path.unlink()
    status, output = run(command(folder), tmp_path / "out")
    assert status == 0, output
    assert trainings(output) == ["erm, seed 0", "scone, unseen-digits, seed 0"]
    assert outcome(folder) == outcome(whole)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(damage, whole, tmp_path):
    folder = tmp_path / "results"
    assert run(command(folder), tmp_path / "out", partial(kill_at_write, ".ckpt", 1, True))[0] == -signal.SIGKILL
    (path,) = (folder / "weights").glob("*.ckpt")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    status, output = run(command(folder), tmp_path / "out")
    assert status == 0, output
    assert outcome(folder) == outcome(whole)


def at_once(arguments, folder, names=("a", "b")):
    """Start one process for each list of arguments when all are ready; their outputs."""
    barrier = processes.Barrier(len(arguments))
    started = [start(a, folder / name, barrier.wait) for a, name in zip(arguments, names, strict=True)]
    for process in started:
        process.join(LIMIT)
    outputs = [(folder / name).read_text() for name in names]
    assert [process.exitcode for process in started] == [0, 0], outputs
    return outputs


def test_two_processes_with_the_same_command_divide_the_work(tmp_path):
    seeds = ("--seeds", "0,1,2,3,4,5")
    assert run(command(tmp_path / "one", *seeds, methods="msp,knn"), tmp_path / "out")[0] == 0
    outputs = at_once([command(tmp_path / "two", *seeds, methods="msp,knn")] * 2, tmp_path)
    done = [trainings(output) for output in outputs]
    assert sorted(done[0] + done[1]) == [f"erm, seed {seed}" for seed in range(6)]
    assert all(done)
    told = [re.findall(r"^  (\S+ / \w+ / seed \d): OOD", output, re.MULTILINE) for output in outputs]
    assert len(told[0] + told[1]) == len({*told[0], *told[1]}) == 12
    assert outcome(tmp_path / "two") == outcome(tmp_path / "one")
    assert visible_files(tmp_path / "two") == visible_files(tmp_path / "one")


def test_two_processes_with_overlapping_commands_divide_the_work(whole, tmp_path):
    folder = tmp_path / "results"
    outputs = at_once([command(folder, methods=methods) for methods in ("knn,scone", "scone,msp")], tmp_path)
    ends = [set(re.findall(r"epoch (3/3|16/16), loss", output)) for output in outputs]  # of erm; of scone, by step
    assert not ends[0] & ends[1] and ends[0] | ends[1] == {"3/3", "16/16"}
    assert outcome(folder) == outcome(whole)
    assert visible_files(folder) == visible_files(whole)


def test_a_process_goes_on_when_the_one_it_waits_for_is_killed(tmp_path):
    folder, long = tmp_path / "results", ("--set", "recipe.epochs=60")
    first = start(command(folder, *long, methods="msp"), tmp_path / "first")
    while not list((folder / "weights").glob("*.ckpt")):
        assert first.is_alive()
        time.sleep(0.001)
    os.kill(first.pid, signal.SIGSTOP)  # so that it does not end before the other waits
    second = start(command(folder, *long, methods="msp"), tmp_path / "second")
    while "waiting" not in ((tmp_path / "second").read_text() if (tmp_path / "second").exists() else ""):
        assert second.is_alive()
        time.sleep(0.01)
    first.kill()
    second.join(LIMIT)
    assert second.exitcode == 0
    assert trainings((tmp_path / "second").read_text()) == ["erm, seed 0"]


@pytest.fixture
def held(whole, tmp_path):
    """A results folder whose one training of msp this process holds and never does."""
    (training,) = {read(path).training for path in whole.rglob("msp/*.json")}
    with files.claim(tmp_path / "results" / "weights" / f"{training}.lock", wait=False) as granted:
        assert granted
        yield tmp_path / "results"


def test_a_run_says_for_whom_it_waits_and_can_be_interrupted(held, tmp_path):
    process = start(command(held, methods="msp"), tmp_path / "out")
    while "waiting" not in ((tmp_path / "out").read_text() if (tmp_path / "out").exists() else ""):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join(LIMIT)
    output = (tmp_path / "out").read_text()
    assert process.exitcode == 130 and output.endswith("interrupted; the same command resumes\n")
    (line,) = [line for line in output.splitlines() if line.startswith("waiting")]
    me = f"process {os.getpid()} on {socket.gethostname()}"
    assert re.fullmatch(
        rf"waiting for {me}, which holds erm, seed 0 since (\S+ )?\d\d:\d\d \(\d+ min ago\); if it hangs, "
        rf"end it with `kill {os.getpid()}`, or repeat this command with --take-over",
        line,
    )


def test_what_a_process_holds_that_hangs_is_taken_over_after_all_else(held, whole, tmp_path):
    status, output = run(command(held, "--seeds", "0,1", "--take-over", methods="msp"), tmp_path / "out")
    assert status == 0 and trainings(output) == ["erm, seed 1", "erm, seed 0"]
    assert f"taking over erm, seed 0 from process {os.getpid()} on {socket.gethostname()}\n" in output
    done = {name: values for name, values in outcome(whole).items() if "/msp/" in name}
    assert done and all(outcome(held)[name] == values for name, values in done.items())
    (asked,) = (held / "requests").iterdir()
    assert "take_over" not in asked.read_text()  # how it ran is not what was asked


def test_other_seeds_give_other_numbers(tmp_path):
    assert run(command(tmp_path, "--seeds", "0,1", methods="msp"), tmp_path / "out")[0] == 0
    a, b = (r for r in read_folder(tmp_path)[0] if r.setting == "unseen-digits")
    assert a.seed != b.seed and a.weights != b.weights and a.metrics != b.metrics and a.key != b.key
    assert a.variant == b.variant
    assert not np.array_equal(read_scores(a)["id"].scores, read_scores(b)["id"].scores)


def test_force_makes_everything_anew_to_the_same_numbers(whole, tmp_path):
    folder = copy(whole, tmp_path / "results")
    before = snapshot(folder)
    status, output = run(command(folder, "--force"), tmp_path / "out")
    assert status == 0
    assert len(trainings(output)) == 2 and f"{CELLS} cells, 0 done already, {CELLS} to run" in output
    after = snapshot(folder)
    assert after.keys() == before.keys()
    same = [name for name in before if name.endswith(".lock") or "/network-" in name]  # which were equal already
    assert all(after[name][0] > before[name][0] for name in before if name not in same)
    assert outcome(folder) == outcome(whole)


def test_one_training_serves_every_scorer_and_setting(tmp_path):
    settings = ("unseen-digits", "photo-patches,covariate=blur,severity=5")
    status, output = run(command(tmp_path, methods="msp,energy,knn,erm", settings=settings), tmp_path / "out")
    assert status == 0 and "8 cells, 0 done already, 8 to run in 1 training" in output
    assert len(list((tmp_path / "weights").glob("*.pt"))) == 1
    assert len({r.weights for r in read_folder(tmp_path)[0]}) == 1
    status, output = run(command(tmp_path, methods="odin"), tmp_path / "out")  # later, and from the cache
    assert status == 0 and not trainings(output)
    assert len(list((tmp_path / "weights").glob("*.pt"))) == 1


def test_every_number_of_the_table_follows_from_the_raw_scores(whole, capsys):
    recomputed = {}
    for result in read_folder(whole)[0]:
        metrics = evaluate(**read_scores(result))
        assert metrics == result.metrics
        recomputed |= {(result.setting, result.method, name): value for name, value in metrics.items()}
    assert main(["table", str(whole), "--format", "json", "--metrics", ",".join(METRICS)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == CELLS * len(METRICS) == len(recomputed)
    assert {(row["setting"], row["method"], row["metric"]): row["mean"] for row in rows} == recomputed


PLUGIN_THAT_DIVERGES = '''
"""ERM, but its loss is not a number from the second epoch on while the file `ill` is there."""
from dataclasses import dataclass
from pathlib import Path
from oodbench import Loop, Trainer


@dataclass
class Shaky(Trainer):
    """ERM that may fail."""

    def train(self, model, data, loop: Loop) -> None:
        ill = Path(__file__).with_name("ill").exists()

        def loss(model, batch):
            return self.loss(model, batch) * (float("nan") if ill and loop.step >= 10 else 1)

        for _ in loop.epochs(model, data, loss):
            pass
'''


def test_a_diverged_training_is_a_result_that_is_tried_again(tmp_path):
    plugin = tmp_path / "shaky.py"
    plugin.write_text(PLUGIN_THAT_DIVERGES)
    healthy, folder = tmp_path / "healthy", tmp_path / "results"
    arguments = ["--plugin", str(plugin)]
    assert run(command(healthy, *arguments, methods="shaky,msp", settings=()), tmp_path / "out")[0] == 0

    (tmp_path / "ill").touch()
    for _ in range(2):
        status, output = run(command(folder, *arguments, methods="shaky,msp", settings=()), tmp_path / "out")
        assert status == 1
        assert "2 of " in output and "cells failed; the first: the loss became nan at step 10; " in output
        found = {(r.method, r.setting): r for r in read_folder(folder)[0]}
        assert len(found) == 4
        for (method, _), result in found.items():
            assert result.status == ("failed" if method == "shaky" else "ok")
            if method == "shaky":
                assert result.error.startswith("the loss became nan at step 10; the last finite loss was ")
                assert result.metrics == {} and not result.path.with_suffix(".safetensors").exists()
    assert "4 cells, 2 done already, 2 to run" in output
    assert "the loss became nan" in (folder / "digits-c-smoke" / "table.md").read_text()

    (tmp_path / "ill").unlink()
    status, output = run(command(folder, *arguments, methods="shaky,msp", settings=()), tmp_path / "out")
    assert status == 0 and "4 cells, 2 done already, 2 to run" in output
    assert outcome(folder) == outcome(healthy)


PLUGIN_WITHOUT_NUMBERS = '''
"""Scores that are not numbers, on the ID test images only."""
from dataclasses import dataclass
from oodbench import Outputs, Scorer


@dataclass
class Void(Scorer):
    """NaN in the first split that is scored."""

    calls = 0

    def score(self, out: Outputs):
        self.calls += 1
        return out.logits.sum(dim=-1) * (float("nan") if self.calls == 1 else 1)
'''


def test_scores_that_are_not_numbers_fail_the_cell_and_are_not_kept_for_the_next(tmp_path):
    plugin = tmp_path / "void.py"
    plugin.write_text(PLUGIN_WITHOUT_NUMBERS)
    arguments = command(tmp_path / "results", "--plugin", str(plugin), methods="void,msp", settings=())
    status, output = run(arguments, tmp_path / "out")
    assert status == 1 and "Traceback" not in output
    found = {(r.method, r.setting): r for r in read_folder(tmp_path / "results")[0]}
    assert [key for key, r in found.items() if r.status == "failed"] == [("void", "unseen-digits")]
    assert found["void", "unseen-digits"].error == "'void' gave 433 of 433 scores that are not finite"


def only_error(capsys):
    told = capsys.readouterr()
    assert not told.out and "[1/" not in told.err and "epoch" not in told.err
    return told.err.splitlines()[-1]


def test_weights_of_another_run_stand_for_the_training(whole, tmp_path, capsys):
    trained = {r.method: r for r in read_folder(whole)[0]}
    (weights,) = (p for p in (whole / "weights").glob("*.pt") if digest(p) == trained["msp"].weights)
    assert main(command(tmp_path, "--init", str(weights))) == 0
    output = capsys.readouterr().err
    assert "epoch 3/3" not in output and "epoch 16/16" in output  # scone still learns, erm does not
    given = {r.method: r for r in read_folder(tmp_path)[0]}
    assert given.keys() == trained.keys()
    for method, result in given.items():
        assert result.metrics == trained[method].metrics and result.weights == trained[method].weights
        assert result.key != trained[method].key and result.config.init


def digest(path):
    from oodbench.config.suite import load
    from oodbench.running.provenance import weights_digest
    from oodbench.running.trained import build_model

    model = build_model(load("digits-c"), seed=0)
    model.load_state_dict(torch.load(path, weights_only=True)["model"])
    return weights_digest(model)


def test_plain_state_dictionaries_fit_too(whole, tmp_path):
    state = torch.load(min((whole / "weights").glob("*.pt")), weights_only=True)["model"]
    plain = {f"module.{name}": value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    torch.save(plain, tmp_path / "plain.pth")
    assert main(command(tmp_path / "results", "--init", str(tmp_path / "plain.pth"), methods="msp")) == 0


def without(state, name):
    return {key: value for key, value in state.items() if key != name}


MISFITS = {
    "other classes": (
        lambda s: {**s, "head.weight": torch.zeros(10, 64), "head.bias": torch.zeros(10)},
        "has 10 classes, and the suite has 8; choose other weights",
    ),
    "other width": (
        lambda s: {**s, "head.weight": torch.zeros(8, 128)},
        "belongs to another network: shape (8, 128) for 'head.weight', which has shape (8, 64) here",
    ),
    "a bias without length": (lambda s: {**s, "head.bias": torch.tensor(1.0)}, "belongs to another network: shape ()"),
    "less": (lambda s: without(s, "head.weight"), "belongs to another network: nothing for 'head.weight'"),
    "more": (lambda s: {**s, "tail.weight": torch.zeros(1)}, "belongs to another network: it has 'tail.weight'"),
    "a tensor": (lambda s: torch.zeros(3), "holds no state dictionary; save model.state_dict()"),
    "numbers for names": (lambda s: {1: torch.zeros(3)}, "holds no state dictionary; save model.state_dict()"),
    "a number": (lambda s: {"head.bias": 3}, "holds no state dictionary; save model.state_dict()"),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_weights_that_do_not_fit_are_refused_before_anything_trains(kind, whole, tmp_path, capsys):
    change, complaint = MISFITS[kind]
    state = torch.load(min((whole / "weights").glob("*.pt")), weights_only=True)["model"]
    torch.save(change(state), tmp_path / "given.pt")
    arguments = command(tmp_path / "results", "--init", str(tmp_path / "given.pt"), methods="msp,scone")
    assert main(arguments) == 2
    assert complaint in only_error(capsys)
    assert not list(tmp_path.rglob("*.json"))


class Code:
    """What a malicious file would hold."""

    def __reduce__(self):
        return print, ("this ran",)


@pytest.mark.parametrize("kind", ["missing", "a folder", "text", "code"])
def test_what_is_not_a_file_of_weights_is_refused_and_never_run(kind, tmp_path, capsys):
    given = tmp_path / "given.pt"
    if kind == "a folder":
        given.mkdir()
    elif kind == "text":
        given.write_text("weights")
    elif kind == "code":
        torch.save({"model": Code()}, given)
    assert main(command(tmp_path / "results", "--init", str(given), methods="msp")) == 2
    line = only_error(capsys)
    assert line.startswith("oodbench: ") and str(given) in line and "this ran" not in line
    assert not list(tmp_path.rglob("*.json"))


def test_a_damaged_result_is_run_again_and_kept_aside(whole, tmp_path, capsys):
    folder = copy(whole, tmp_path / "results")
    victim = min(folder.rglob("seed0-*.json"))
    half = victim.read_bytes()[:500]
    victim.write_bytes(half)
    assert main(command(folder)) == 0
    assert f"{CELLS} cells, {CELLS - 1} done already, 1 to run" in capsys.readouterr().err
    assert victim.with_suffix(".json.unreadable").read_bytes() == half
    assert read(victim).status == "ok"
    assert outcome(folder) == outcome(whole)
