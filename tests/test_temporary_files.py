"""Temporary files: held by who writes them, renamed when whole, swept once their process was killed."""

import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

from oodbench import files
from oodbench.files import CannotWrite, check_writable, claim, sweep, write_text

WRITING = """
import sys, time
from pathlib import Path
from oodbench.files import write_atomically

def slowly(file):
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    sys.stdin.readline()
    file.write(b" and half")

write_atomically(Path(sys.argv[1]), slowly)
"""
LEFT = ".x.json.oodbench-{}.abcd_123.tmp"


@pytest.fixture
def writer(tmp_path):
    """A process that has half of the file x.json written; it writes the rest when it gets a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, tmp_path / "x.json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "half\n"
    yield process
    process.kill()
    process.communicate()


def left(folder, host=files.HOST, days=0.0):
    """What a killed process left."""
    path = folder / LEFT.format(host)
    path.write_bytes(b"half")
    changed = time.time() - days * files.DAY
    os.utime(path, (changed, changed))
    return path


def test_what_a_living_process_writes_is_never_swept(tmp_path, writer):
    (half,) = tmp_path.iterdir()
    assert re.fullmatch(rf"\.x\.json\.oodbench-{files.HOST}\.\w{{8}}\.tmp", half.name)
    os.utime(half, (0, 0))
    sweep([half])
    assert half.read_bytes() == b"half"
    writer.communicate("go on\n")
    assert writer.returncode == 0 and os.listdir(tmp_path) == ["x.json"]
    assert (tmp_path / "x.json").read_bytes() == b"half and half"


def test_what_a_killed_process_wrote_is_swept(tmp_path, writer):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    (half,) = tmp_path.iterdir()
    sweep([half])
    assert not half.exists()


@pytest.mark.parametrize(("days", "stays"), [(0, True), (0.9, True), (1.1, False)])
def test_what_another_host_left_stays_for_a_day(tmp_path, days, stays):
    path = left(tmp_path, "elsewhere", days)
    sweep([path])
    assert path.exists() == stays


def test_where_there_are_no_locks_nothing_is_swept(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    paths = [left(tmp_path, days=9), left(tmp_path, "elsewhere", days=9)]
    write_text(tmp_path / "y", "written all the same")
    sweep(paths)
    assert all(path.exists() for path in paths) and (tmp_path / "y").read_text() == "written all the same"


@pytest.mark.parametrize(
    "name",
    [
        "x.tmp",
        ".x.tmp",
        ".seed0-12345678.json.x1y2z3.tmp",
        "x.json.oodbench-host.abcd_123.tmp",
        ".x.json.oodbench-host.abcd.tmp",
        ".x.json.oodbench-host.abcd_123.tmp.txt",
        ".x.lock.holder",
        ".x.holder",
        ".holder",
    ],
)
def test_files_of_the_user_are_not_swept(tmp_path, name):
    path = tmp_path / name.replace("host", files.HOST)
    path.write_bytes(b"mine")
    os.utime(path, (0, 0))
    sweep([path])
    assert path.read_bytes() == b"mine" and len(os.listdir(tmp_path)) == 1


def test_the_note_of_a_killed_holder_is_swept_and_that_of_a_living_one_stays(tmp_path):
    note = tmp_path / ".x.lock.holder"
    with claim(tmp_path / "x.lock", wait=False):
        written = note.read_bytes()
        sweep([note])
        assert note.read_bytes() == written
    for text in (written, b""):  # killed before it had written who it is
        note.write_bytes(text)
        sweep([note])
        assert not note.exists()


def test_a_file_whose_temporary_was_swept_all_the_same_is_written_again(tmp_path, monkeypatch):
    replace, calls = os.replace, []

    def swept_once(source, target):
        calls.append(source)
        if len(calls) == 1:
            os.unlink(source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", swept_once)
    write_text(tmp_path / "x", "whole")
    assert (tmp_path / "x").read_text() == "whole" and os.listdir(tmp_path) == ["x"] and len(calls) == 2


def test_a_file_and_then_its_name_are_brought_to_disk(tmp_path, monkeypatch):
    fsync, replace, steps = os.fsync, os.replace, []

    def syncing(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renaming(*paths):
        steps.append("name")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "replace", renaming)
    write_text(tmp_path / "deep" / "x", "", followed=True)
    write_text(tmp_path / "deep" / "y", "")
    assert steps == ["file", "name", "file", "name", "folder"]


def test_a_folder_that_cannot_be_synced_is_no_failure(tmp_path, monkeypatch):
    fsync = os.fsync

    def files_only(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError("invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    write_text(tmp_path / "x", "whole")
    assert (tmp_path / "x").read_text() == "whole"


def test_a_folder_is_tried_without_a_trace(tmp_path):
    check_writable(tmp_path / "deep" / "er")
    assert os.listdir(tmp_path / "deep" / "er") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CannotWrite, match="cannot write '.*': Not a directory; free space, fix permissions or choose"):
        check_writable(tmp_path / "file" / "deep")


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CannotWrite, match="it is not a regular file; "):
        write_text(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()
