"""`--log`: how a run goes, for a program to read."""

import json

from command_line import assert_done, assert_refused, smoke


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
