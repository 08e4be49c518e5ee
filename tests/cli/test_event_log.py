"""`--log`: how a run goes, for a program to read."""

import errno
import json
import os
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, complaints, smoke

from oodbench.cli.event_log import Logged
from oodbench.cli.progress import Lines


def test_every_event_of_a_run_is_a_line(tmp_path):
    log = tmp_path / "run.jsonl"
    assert_done(smoke(tmp_path / "results", "msp,scone", "--setting", "unseen-digits", "--log", log))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert (
        events[0]["event"] == "note"
        and {"event": "begin", "cells": 2, "workers": 1}.items()
        <= [each for each in events if each["event"] == "begin"][0].items()
    )
    trainings = [each["training"] for each in events if each["event"] == "training"]
    assert trainings == ["erm, seed 0", "scone, unseen-digits, seed 0"]
    done = [each for each in events if each["event"] == "result"]
    assert [(each["method"], each["status"]) for each in done] == [("msp", "ok"), ("scone", "ok")]
    assert all(0 <= each["metrics"]["auroc"] <= 1 for each in done)
    assert any(each["event"] == "progress" and each["epochs"] == 3 for each in events)
    assert [each["time"] for each in events] == sorted(each["time"] for each in events)


def test_a_log_that_cannot_be_written_is_told_before_anything_runs(tmp_path):
    outcome = smoke(tmp_path / "results", "msp", "--log", tmp_path / "nowhere" / "run.jsonl")
    assert_refused(outcome, "run.jsonl': No such file or directory; choose another file for --log")
    assert not (tmp_path / "results").exists()


def complained(outcome):
    """All that was complained of is the log, and the run went as it would have gone without."""
    (line,) = complaints(outcome)
    assert outcome.status == 0 and line.endswith("; the run goes on without --log"), line
    return line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_disk_that_is_full_costs_the_log_and_not_the_run(tmp_path):
    outcome = smoke(tmp_path / "results", "msp", "--setting", "unseen-digits", "--log", "/dev/full")
    assert complained(outcome).startswith("oodbench: cannot write '/dev/full': No space left on device")
    assert len([*(tmp_path / "results").rglob("msp/*.json")]) == 1


def test_a_disk_that_fills_leaves_whole_lines(tmp_path, monkeypatch):
    log, room, write = tmp_path / "run.jsonl", [300], os.write

    def fill(file, data):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= (taken := min(room[0], len(data)))
        return write(file, data[:taken])

    told = []
    logged = Logged(Lines(), log)
    monkeypatch.setattr(logged.reporter, "note", told.append)
    with monkeypatch.context() as full:
        full.setattr(os, "write", fill)
        for number in range(20):
            logged.note(f"{number} {'x' * 50}")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["text"][0] for each in events] == ["0", "1"]
    assert len(told) == 21 and len([each for each in told if "--log" in each]) == 1


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    outcome = smoke(tmp_path / "results", "msp", "--setting", "unseen-digits", "--log", tmp_path / "pipe")
    assert "nobody reads" in complained(outcome)


def test_a_pipe_gets_every_line_until_its_reader_goes(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    reader, told = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK), []
    logged = Logged(Lines(), tmp_path / "pipe")
    monkeypatch.setattr(logged.reporter, "note", told.append)
    logged.note("heard")
    assert json.loads(os.read(reader, 4096))["text"] == "heard"
    os.close(reader)
    logged.note("lost")
    logged.note("after")
    assert [each.startswith("oodbench: ") for each in told] == [False, True, False, False]
