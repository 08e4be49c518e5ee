"""Locks: one process at a time, gone with the process, and with the name of who holds them."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import warnings
from datetime import datetime, timedelta, timezone

import pytest
from command_line import complaints, smoke

from oodbench import files
from oodbench.files import CannotWrite, Holder, NoLocks, NoLocksWarning, claim, holder, locked

HOLDING = """
import sys, time
from pathlib import Path
from oodbench.files import claim
with claim(Path(sys.argv[1]), wait=True) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def another_process(path):
    """A process that holds a lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLDING, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "True\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def mine(path):
    with claim(path, wait=False) as granted:
        return granted


def test_what_another_process_holds_is_not_ours_until_it_is_killed(tmp_path):
    path = tmp_path / "deep" / "x.lock"
    with another_process(path) as process:
        assert not mine(path)
        process.kill()
        process.wait()
        assert mine(path)


def test_a_claim_that_waits_is_granted_when_the_other_process_is_killed(tmp_path):
    with another_process(tmp_path / "x.lock") as process:
        threading.Timer(0.2, process.kill).start()
        with claim(tmp_path / "x.lock", wait=True) as granted:
            assert granted and process.wait() < 0


def test_within_a_process_a_second_claim_is_refused_and_never_waits_for_the_first(tmp_path):
    with claim(tmp_path / "x.lock", wait=True) as granted:
        assert granted and not mine(tmp_path / "x.lock") and mine(tmp_path / "parent.lock")
        with pytest.raises(RuntimeError, match="Deadlock"), claim(tmp_path / "x.lock", wait=True):
            pass
    assert mine(tmp_path / "x.lock")


def test_the_holder_of_a_lock_is_named_while_it_holds_it(tmp_path):
    path = tmp_path / "x.lock"
    assert holder(path) is None and not path.exists()
    with another_process(path) as process:
        named = holder(path)
        assert (named.host, named.pid) == (socket.gethostname(), process.pid)
        assert timedelta(0) <= datetime.now(timezone.utc) - datetime.fromisoformat(named.started) < timedelta(minutes=1)
        assert not mine(path) and holder(path) == named
        process.kill()
        process.wait()
        assert (tmp_path / ".x.lock.holder").exists() and holder(path) is None
    with claim(path, wait=False):
        assert holder(path).pid == os.getpid()
    assert holder(path) is None and os.listdir(tmp_path) == ["x.lock"]


def test_a_holder_says_how_far_it_is_and_nobody_else_can(tmp_path):
    path = tmp_path / "x.lock"
    with claim(path, wait=False):
        files.note_epoch(path, 3, 20)
        named = holder(path)
        assert (named.pid, named.epoch, named.epochs) == (os.getpid(), 3, 20)
    assert os.listdir(tmp_path) == ["x.lock"]
    with another_process(path):
        files.note_epoch(path, 4, 20)
        assert holder(path).epoch is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"host": "a", "pid": 1, "started": "b", "epoch": "c"}',
        '{"host": "a", "pid": "1", "started": "b"}',
        "[" * 100_000,
    ],
)
def test_a_holder_that_cannot_be_read_is_nobody(tmp_path, text):
    with claim(tmp_path / "x.lock", wait=False):
        (tmp_path / ".x.lock.holder").write_text(text)
        assert holder(tmp_path / "x.lock") is None


def test_a_lock_holds_though_its_holder_cannot_be_written(tmp_path):
    (tmp_path / ".x.lock.holder").mkdir()
    with claim(tmp_path / "x.lock", wait=False) as granted:
        assert granted and not mine(tmp_path / "x.lock") and holder(tmp_path / "x.lock") is None


def test_a_forked_child_that_leaves_a_claim_leaves_its_parent_the_lock(tmp_path):
    path = tmp_path / "x.lock"
    held = claim(path, wait=False)
    held.__enter__()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            held.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(child, 0)
    assert not mine(path) and holder(path).pid == os.getpid()
    held.__exit__(None, None, None)
    assert mine(path)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_told_once_a_folder_and_work_goes_on(tmp_path, monkeypatch, number):
    def no_locks(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        for name in ("a", "b", "a", "deep/a"):
            with claim(tmp_path / f"{name}.lock", wait=True) as granted:
                assert granted
    assert {each.category for each in caught} == {NoLocksWarning}
    assert [str(each.message).partition("'")[2].partition("'")[0] for each in caught] == [
        str(tmp_path),
        str(tmp_path / "deep"),
    ]
    assert str(caught[0].message).endswith(
        "; run one process per folder, or divide the work with --shard I/N (docs/scale.md)"
    )
    with pytest.raises(NoLocks), locked(tmp_path / "a.lock", wait=False):
        pass
    (tmp_path / ".a.lock.holder").write_text(json.dumps({"host": "there", "pid": 7, "started": "today"}))
    assert holder(tmp_path / "a.lock") == Holder("there", 7, "today")  # nobody can tell that it is not so


def test_a_run_without_locks_says_so_in_one_line_and_does_its_work(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    outcome = smoke(tmp_path, "msp,scone")  # three trainings
    assert outcome.status == 0 and complaints(outcome) == [
        f"oodbench: the file system of '{tmp_path / 'weights'}' has no locks, so processes that share this folder "
        "would do the same work twice; run one process per folder, or divide the work with --shard I/N "
        "(docs/scale.md)"
    ]


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CannotWrite, match="cannot write '.*x.lock': .*; choose another folder with --results") as error:
        mine(tmp_path / "file" / "x.lock")
    assert "\n" not in str(error.value)


def test_what_goes_wrong_inside_a_claim_is_not_taken_for_its_own_failure(tmp_path):
    with pytest.raises(FileNotFoundError), claim(tmp_path / "x.lock", wait=False):
        (tmp_path / "missing").read_bytes()
    assert mine(tmp_path / "x.lock")


def test_who_waits_hears_for_whom_after_a_second_and_then_ever_more_rarely(tmp_path, monkeypatch):
    times = iter([0, 0.9, 1, 59, 60, 119, 120, 200, 240])
    monkeypatch.setattr(files.time, "monotonic", lambda: next(times))
    (tmp_path / ".x.lock.holder").write_text(json.dumps({"host": "there", "pid": 7, "started": "today"}))
    heard = []
    look = files._telling(tmp_path / "x.lock", heard.append)
    assert [(look(), len(heard)) for _ in range(8)] == [(False, n) for n in (0, 1, 1, 2, 2, 3, 3, 4)]
    assert heard == [Holder("there", 7, "today")] * 4


def test_a_holder_says_who_it_is_and_since_when():
    now = datetime.now(timezone.utc)
    assert str(Holder("there", 7, "today")) == "process 7 on there"
    assert Holder("there", 7, "yesterday").since() == "yesterday"
    for ago, words in (
        (timedelta(seconds=20), "0 min"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=50), "50 h"),
    ):
        started = now - ago
        day = "" if started.astimezone().date() == now.astimezone().date() else f"{started.astimezone():%Y-%m-%d} "
        assert Holder("there", 7, started.isoformat()).since() == f"{day}{started.astimezone():%H:%M} ({words} ago)"
    assert Holder("there", 7, (now + timedelta(hours=1)).isoformat()).since().endswith("(0 min ago)")
    assert Holder(socket.gethostname(), 7, "").is_here and not Holder("there", 7, "").is_here


def test_a_claim_that_waits_tells_who_has_it(tmp_path):
    with another_process(tmp_path / "x.lock") as process:
        heard = []

        def end_it(other):
            heard.append(other.pid)
            process.kill()

        with claim(tmp_path / "x.lock", wait=True, waiting=end_it) as granted:
            assert granted and heard == [process.pid]
