"""`oodbench status`: what is done, what failed, and what runs or was left, in all processes that share a folder."""

import json
import os
import socket
from dataclasses import replace

import pytest
import torch
from command_line import assert_done, assert_refused, oodbench, smoke
from made_results import a_result

from oodbench.cli.status import _time_left
from oodbench.files import claim, note_epoch
from oodbench.learning.checkpoint import save_tensors
from oodbench.results.folder import read_folder
from oodbench.results.stored import write
from oodbench.running.plan import plan
from oodbench.running.request import request, save
from oodbench.running.time_left import TimeLeft, estimate


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "digits-c" / "unseen-digits"
    write(a_result(method="msp", training="a1"), home / "msp" / "seed0-1.json", {}, [])
    write(a_result(method="scone", training="b2"), home / "scone" / "seed0-1.json", {}, [])
    failed = a_result(method="scone", seed=1, status="failed", error="the loss became nan")
    write(failed, home / "scone" / "seed1-1.json", {}, [])
    write(a_result(preset="smoke"), tmp_path / "digits-c-smoke" / "a.json", {}, [])
    write(a_result(), tmp_path / "reference" / "a.json", {}, [])
    (tmp_path / "reference" / "COLLECTION").write_text("reference")
    return tmp_path


def checkpoint(folder, name):
    path = folder / "weights" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (1_800_000_000, 1_800_000_000))  # 2027-01-15T08:00:00 UTC


def test_what_is_done_and_what_failed_is_counted_by_suite(folder):
    path = folder / "digits-c" / "unseen-digits" / "scone" / "seed1-1.json"
    assert assert_done(oodbench("status", folder)) == (
        f"{folder}: 3 done, 1 failed, 0 left; trainings: 0 running, 0 interrupted\n"
        "  digits-c: 2 done, 1 failed\n"
        "  digits-c-smoke: 1 done, 0 failed\n"
        "failed; the same command tries again\n"
        "  digits-c / unseen-digits / scone / seed 1: the loss became nan\n"
        f"    oodbench show {path}\n"
    )


def test_a_training_that_a_process_holds_runs(folder):
    checkpoint(folder, "b2.ckpt")
    with claim(folder / "weights" / "b2.lock", wait=False) as mine, claim(folder / "weights" / "c3.lock", wait=False):
        assert mine
        out = assert_done(oodbench("status", folder))
    who = f"process {os.getpid()} on {socket.gethostname()} since 20"
    first, second = (line for line in out.splitlines() if who in line)
    assert "trainings: 2 running, 0 interrupted" in out and "\nrunning\n" in out and "interrupted;" not in out
    assert first.startswith("  training b2 of scone, process ") and first.endswith(
        "checkpoint of 2027-01-15T08:00:00+00:00"
    )
    assert second.startswith("  training c3, process ") and second.endswith(", no checkpoint yet")


def test_a_checkpoint_that_nobody_holds_was_left(folder):
    checkpoint(folder, "b2.ckpt")
    checkpoint(folder, "d4.first.ckpt")  # of a training in stages
    (folder / "weights" / "e5.lock").write_text("")  # of a training that has ended
    out = assert_done(oodbench("status", folder))
    assert "trainings: 0 running, 2 interrupted" in out
    assert out.endswith(
        "interrupted; the same command resumes from the checkpoint\n"
        "  training b2 of scone, checkpoint of 2027-01-15T08:00:00+00:00\n"
        "  training d4, checkpoint of 2027-01-15T08:00:00+00:00\n"
    )


def test_the_same_for_programs(folder):
    checkpoint(folder, "b2.ckpt")
    (folder / "broken.json").write_text("{")
    with claim(folder / "weights" / "c3.lock", wait=False):
        outcome = oodbench("status", folder, "--json")
    assert outcome.status == 0 and outcome.err.startswith(f"oodbench: skipped {folder / 'broken.json'}: ")
    values = json.loads(outcome.out)
    assert values["done"] == 3 and values["failed"][0]["error"] == "the loss became nan"
    assert values["suites"] == {"digits-c": {"done": 2, "failed": 1}, "digits-c-smoke": {"done": 1, "failed": 0}}
    assert [each["training"] for each in values["interrupted"]] == ["b2"]
    (running,) = values["running"]
    assert (running["training"], running["saved"], running["holder"]["pid"]) == ("c3", None, os.getpid())
    assert values["unreadable"] == {str(folder / "broken.json"): "truncated, or not JSON"}


def test_a_run_that_has_ended_has_left_nothing(tmp_path):
    assert_done(smoke(tmp_path, "msp,scone"))
    out = assert_done(oodbench("status", tmp_path))
    assert out.startswith(f"{tmp_path}: 4 done, 0 failed, 0 left; trainings: 0 running, 0 interrupted\n")
    assert {r.status for r in read_folder(tmp_path)[0]} == {"ok"} and list((tmp_path / "weights").glob("*.pt"))


def test_what_a_run_was_asked_for_and_has_not_done_is_left(tmp_path):
    assert_done(smoke(tmp_path, "msp,scone", "--setting", "unseen-digits"))
    (gone,) = (tmp_path / "digits-c-smoke" / "unseen-digits" / "scone").glob("*.json")
    gone.unlink()
    out = assert_done(oodbench("status", tmp_path))
    assert "1 done, 0 failed, 1 left;" in out and out.endswith(
        "left of what runs were asked for; the same command resumes\n"
        "  digits-c-smoke / unseen-digits / scone / seed 0\n"
        "time left: under a second for one process; an estimate from what is done of the same trainer and suite\n"
    )
    values = json.loads(assert_done(oodbench("status", tmp_path, "--json")))
    assert values["left"] == ["digits-c-smoke / unseen-digits / scone / seed 0"]
    assert 0 < values["time_left"].pop("seconds") == values["time_left"].pop("together") < 5
    assert values["time_left"] == {"processes": 0, "unknown": 0}  # its weights are there, so it is only scored
    (request,) = (tmp_path / "requests").glob("*.yaml")
    request.write_text("suite: digits-c\npreset: smok\n")
    message = f"what is left of '{request}' is not known here: unknown preset of digits-c 'smok'; did you mean 'smoke'?"
    assert message in assert_done(oodbench("status", tmp_path))


def test_many_cells_that_are_left_are_counted_and_the_first_are_named(tmp_path):
    save([request(suite="digits-c", preset="smoke", methods="msp,scone", seeds=20)], tmp_path / "requests" / "a.yaml")
    out = assert_done(oodbench("status", tmp_path))
    assert ": 0 done, 0 failed, 80 left;" in out and out.count("\n  digits-c-smoke / ") == 20
    assert out.endswith(
        "  and 60 more, which --json lists\ntime left: not known, since nothing like 60 of what is left is done\n"
    )


def test_the_time_left_is_that_of_the_like_of_it(tmp_path):
    """Worked by hand: two trainings of ERM took 10 and 20 s, scoring 1 and 3 s; SCONE was never trained."""
    made = [
        a_result(preset="smoke", method="msp", training="a", seconds={"train": 10.0, "fit": 0.5, "score": 0.5}),
        a_result(preset="smoke", method="knn", training="a", seconds={"train": 10.0, "fit": 0.5, "score": 0.5}),
        a_result(preset="smoke", method="msp", training="b", seconds={"train": 20.0, "score": 4.0}),
        a_result(method="msp", training="c", seconds={"train": 1000.0, "score": 1000.0}),  # of another preset
        a_result(preset="smoke", method="msp", status="failed", training="d"),
    ]
    asked = request(suite="digits-c", preset="smoke", methods="msp,scone", seeds=[0, 1], settings="unseen-digits")
    cells = plan(replace(asked, results=str(tmp_path))).todo
    erm = [cell.training.root.key for cell in cells if cell.method.name == "msp"]
    # Two trainings of ERM, of which one is half through, and four cells; two of SCONE are not known.
    left = estimate(made, cells, {erm[0]: 0.5}, tmp_path, processes=2)
    assert left == TimeLeft(seconds=1.5 * 15 + 4 * 2.0, processes=2, unknown=2) and left.together == 15.25
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / f"{erm[1]}.pt").write_bytes(b"")
    assert estimate(made, cells, {erm[0]: 0.5}, tmp_path, processes=0) == TimeLeft(0.5 * 15 + 4 * 2.0, 0, 2)


@pytest.mark.parametrize(
    "left, words",
    [
        (TimeLeft(7200, 0, 0), "about 2.0 h for one process"),
        (TimeLeft(7200, 4, 0), "about 2.0 h for one process, about 30 min for the 4 that are running"),
        (
            TimeLeft(60, 1, 2),
            "about 60 s for one process, without 2 of what is left, the like of which is not done yet",
        ),
    ],
)
def test_the_time_left_is_said_to_be_an_estimate(left, words):
    assert _time_left(left) == f"time left: {words}; an estimate from what is done of the same trainer and suite"


def test_how_far_a_training_is_stands_in_the_note_of_its_holder_or_in_its_checkpoint(folder):
    home = folder / "weights"
    checkpoint(folder, "x.ckpt")
    for name, epoch in (("b2", 7), ("c3", 0)):
        save_tensors(home / f"{name}.ckpt", {"epoch": epoch, "epochs": 20, "state": [torch.zeros(3)]})
    with claim(home / "b2.lock", wait=False):
        note_epoch(home / "b2.lock", 9, 20)
        note_epoch(home / "c3.lock", 9, 20)  # which nobody holds
        out = assert_done(oodbench("status", folder))
        values = json.loads(assert_done(oodbench("status", folder, "--json")))
    assert ", epoch 9 of 20, checkpoint of 20" in out and " after epoch 7 of 20\n" in out
    (running,) = values["running"]
    assert (running["holder"]["epoch"], running["holder"]["epochs"], running["saved_epoch"]) == (9, 20, 7)
    by_name = {each["training"]: (each["saved_epoch"], each["saved_epochs"]) for each in values["interrupted"]}
    assert by_name == {"c3": (0, 20), "x": (None, None)}  # the last is damaged


def test_an_empty_folder_has_a_status_and_a_missing_one_none(tmp_path):
    assert assert_done(oodbench("status", tmp_path)).startswith(f"{tmp_path}: 0 done, 0 failed, 0 left; ")
    assert_refused(oodbench("status", tmp_path / "no"), "there is no results folder")
