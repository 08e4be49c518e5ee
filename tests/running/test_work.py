"""The loop: what is needed, in which order, what a folder says, and what becomes of what ends a worker."""

import errno
import os
from types import SimpleNamespace

import pytest
import torch
from result_files import arrays_of

from oodbench.config.registry import Registry
from oodbench.files import CannotWrite, claim
from oodbench.learning.loop import Failed
from oodbench.results.folder import read_folder
from oodbench.running import execution, supervise
from oodbench.running.cells import Source, weights_file
from oodbench.running.costs import Costs
from oodbench.running.plan import plan
from oodbench.running.reporting import Silent, Told
from oodbench.running.request import request
from oodbench.running.run import _in_order, carry_out
from oodbench.running.session import Session
from oodbench.running.supervise import TRIES, Watch
from oodbench.running.work import fail_named, make, work

CPU = torch.device("cpu")
METHODS = "msp,knn,scone"  # a training that two share, and one for each setting that starts from it


class Heard(Silent):
    """Remembers what it is told."""

    def __init__(self):
        self.notes, self.left = [], []

    def note(self, text):
        self.notes.append(text)

    def outlook(self, seconds):
        self.left.append(seconds)


def planned(folder, methods=METHODS, **more):
    return plan(request(suite="digits-c", preset="smoke", methods=methods, results=str(folder), **more))


def session(made, told=None, **more):
    return Session(made.folder, CPU, told or Told(Silent()), made.request, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    made = planned(tmp_path_factory.mktemp("whole"))
    carry_out(made, Silent())
    return made


def numbers(folder):
    results, problems = read_folder(folder)
    assert not problems
    return {(r.setting, r.method): (r.key, r.weights, r.metrics, arrays_of(r)) for r in results}


def names(sources):
    return [getattr(each, "training", each).trainer.card.name for each in sources]


def test_what_others_start_from_comes_before_them_and_before_all_else(tmp_path):
    made = planned(tmp_path, "mixup,scone,msp", settings="unseen-digits")
    assert names(made.needed()) == ["erm", "mixup", "scone"]
    assert names(planned(tmp_path, "scone", settings="unseen-digits").needed()) == ["erm", "scone"]


def test_weights_that_are_there_are_needed_only_for_their_cells(whole):
    made = planned(whole.folder, "woods", settings="unseen-digits")
    assert names(made.needed()) == ["woods"]
    assert names(planned(whole.folder, "woods", settings="unseen-digits", force=True).needed()) == ["erm", "woods"]
    assert planned(whole.folder).needed() == []


USERS = '''"""A scorer."""
from dataclasses import dataclass
from oodbench import Scorer


@dataclass
class Mine(Scorer):
    """The largest logit, negated."""

    def score(self, out):
        return -out.logits.amax(dim=-1)
'''


def test_cells_under_a_users_scorer_are_a_source_of_their_own_that_trains_nothing(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(USERS)
    made = planned(tmp_path / "r", "mine,msp,mixup+mine", settings="unseen-digits", plugins=[str(mine)])
    sources = [(each.training.trainer.card.name, {*each.files}, each.is_loaded) for each in made.sources()]
    assert sources == [("erm", set(), False), ("erm", {mine}, True), ("mixup", set(), False), ("mixup", {mine}, True)]
    assert [len(made.cells_of(each)) for each in made.sources()] == [1, 1, 0, 1]
    assert len({each.key for each in made.sources()}) == 4
    assert all(made.source(each.key) == each for each in made.sources())


def test_workers_begin_with_the_longest_chain_of_work(tmp_path):
    made = planned(tmp_path, "mixup,irm,scone,msp", settings="unseen-digits", workers=2)
    keys = {each.trainer.card.name: each.key for each in made.needed()}
    seconds = {"erm": 1.0, "mixup": 2.0, "irm": 9.0, "scone": 3.0}
    costs = Costs({keys[name]: cost for name, cost in seconds.items()}, 0.1)
    assert names(_in_order(made, costs)) == ["erm", "irm", "scone", "mixup"]


def test_a_second_loop_on_a_folder_where_all_is_done_writes_nothing(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*.*") if path.suffix != ".lock"}
    told = Told(Silent())
    work(whole, session(whole, told), [Source(cell.training) for cell in whole.cells])
    assert told.new == []
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_another_process_has_done_meanwhile_is_not_done_again(whole, tmp_path, monkeypatch):
    """It holds the parent, without weights; when it lets go, all is there but one cell."""
    made, told, waits = planned(tmp_path), Told(Heard()), []
    erm = made.needed()[0]
    other = claim(weights_file(erm.key, tmp_path, "lock"), wait=False)
    assert other.__enter__()
    at = session(made, told)

    def wait(source):
        waits.append(source.key)
        again = session(made)
        other.__exit__(None, None, None)
        for _ in make(source, made.cells_of(source)[:-1], made, again):
            pass

    monkeypatch.setattr(at, "wait", wait)
    work(made, at, made.sources())
    assert waits == [erm.key] and len(told.new) == len(made.cells) - len(made.cells_of(Source(erm))) + 1
    assert numbers(tmp_path) == numbers(whole.folder)


def test_weights_that_vanish_before_their_child_trains_are_made_again(whole, tmp_path):
    made = planned(tmp_path, "scone", settings="unseen-digits")
    told = Told(Silent())
    work(made, session(made, told), made.sources()[1:])  # as if the parent had been there when this was planned
    assert [result.status for result in told.new] == ["ok"]


def test_a_failure_of_this_run_is_not_tried_again_and_one_of_an_earlier_run_is(tmp_path, monkeypatch):
    tried = []

    def diverge(training, at, setting):
        tried.append(training.trainer.card.name)
        raise Failed("the loss became nan")

    with monkeypatch.context() as broken:
        broken.setattr(execution, "_train", diverge)
        results = carry_out(planned(tmp_path), Silent())
    reasons = {result.error for result in results}
    assert tried == ["erm"] and len(results) == 6
    assert reasons == {"the loss became nan", "'erm', which it starts from: the loss became nan"}
    assert len(carry_out(planned(tmp_path), Silent())) == 6
    assert {result.status for result in read_folder(tmp_path)[0]} == {"ok"}
    assert not [*(tmp_path / "weights").glob("*.failed")]


def test_a_bug_fails_the_cells_that_meet_it_and_the_others_are_done(whole, tmp_path, monkeypatch):
    def bug(self, out):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(type(Registry().method("msp").scorer.make()), "score", bug)
    results = carry_out(planned(tmp_path), Silent())
    failed = {result.method: result.error for result in results if result.error is not None}
    assert failed == {"msp": "ZeroDivisionError: a bug"} and len(results) == 6
    assert "in bug" in next(result.traceback for result in results if result.error)


def test_a_result_is_whole_or_not_there_when_the_disk_is_full(whole, tmp_path, monkeypatch):
    replace = os.replace

    def full(source, target):
        if str(target).endswith("seed0-" + whole.cells[1].key[:8] + ".json"):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as at_the_limit:
        at_the_limit.setattr(os, "replace", full)
        with pytest.raises(CannotWrite, match=r"cannot write '.*\.json': No space left on device; free space"):
            carry_out(planned(tmp_path), Silent())
    assert len(read_folder(tmp_path)[0]) == 1 and not [*tmp_path.rglob("*.tmp")]
    carry_out(planned(tmp_path), Silent())
    assert numbers(tmp_path) == numbers(whole.folder)


def test_the_time_left_goes_to_nothing(tmp_path):
    heard = Heard()
    carry_out(planned(tmp_path), heard)
    assert heard.left and heard.left[-1] == 0 and min(heard.left) >= 0


def test_what_a_supervisor_gives_up_fails_alone(whole, tmp_path):
    """A cell; then a training, with its cells and those that start from it. What has a result keeps it."""
    made = planned(tmp_path)
    told = Told(Silent())
    at = session(made, told)
    first, erm = made.cells[0], made.needed()[0]
    fail_named(first.name, "it took longer than --timeout 8", made, at)
    fail_named(first.name, "said again", made, at)
    assert [result.error for result in told.new] == ["it took longer than --timeout 8"]
    fail_named(erm.key, "its worker was lost 3 times", made, at)
    work(made, at, made.sources())
    errors = [result.error for result in told.new]
    assert errors.count("its worker was lost 3 times") == len(made.cells_of(Source(erm))) - 1
    assert errors.count("'erm', which it starts from: its worker was lost 3 times") == 2 and len(errors) == 6


def test_what_workers_die_at_has_failed_at_the_third_time():
    watch = Watch(timeout=None)
    assert watch.died("worker 1") == (None, False)
    for count in range(1, TRIES + 1):
        watch.begins(f"worker {count}", "a")
        assert watch.died(f"worker {count}") == ("a", count == TRIES)
    watch.begins("worker 1", "b")
    assert watch.died("worker 1") == ("b", False) and watch.late() == [] and watch.patience() is None


def test_what_takes_too_long_is_late_and_what_comes_next_has_its_own_time(monkeypatch):
    now = 100.0
    monkeypatch.setattr(supervise, "time", SimpleNamespace(monotonic=lambda: now))
    watch = Watch(timeout=10)
    watch.begins("worker 1", "a")
    now = 105.0
    watch.begins("worker 2", "b")
    assert watch.late() == [] and watch.patience() == 5.0
    now = 111.0
    assert watch.late() == ["worker 1"]
    watch.again("worker 1")
    assert watch.late() == [] and watch.patience() == 4.0
