"""The driver of a real small plan with a made engine: what comes home is written, whole, and nothing else is."""

import errno
import os
from dataclasses import dataclass, field

import pytest

from oodbench.errors import UserError
from oodbench.files import CannotWrite, claim
from oodbench.results.folder import read_folder
from oodbench.results.stored import files_of
from oodbench.running import tasks
from oodbench.running.cells import weights_file
from oodbench.running.claims import Claims
from oodbench.running.driver import Driver, drive
from oodbench.running.plan import plan
from oodbench.running.reporting import Silent
from oodbench.running.request import request
from oodbench.running.run import carry_out
from oodbench.running.schedule import TRIES, Schedule
from oodbench.running.tasks import Ended, Failure, Lost, Noted, Refused, Scored, tasks_of

METHODS = "msp,knn,scone"  # a training that two share, and one for each setting that starts from it


class Heard(Silent):
    """Remembers what it is told."""

    def __init__(self):
        self.notes, self.results, self.busy_with, self.left = [], [], {}, []

    def note(self, text):
        self.notes.append(text)

    def busy(self, worker, text):
        self.busy_with[worker] = text

    def outlook(self, seconds):
        self.left.append(seconds)

    def result(self, result):
        self.results.append(result)


def planned(folder, **more):
    return plan(request(suite="digits-c", preset="smoke", methods=METHODS, results=str(folder), **more))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which all is done, whose files a made worker sends."""
    made = planned(tmp_path_factory.mktemp("whole"))
    carry_out(made, Silent())
    return made


@dataclass
class MadeEngine:
    """Knows the files of every cell and the weights of every training; a script says what goes wrong."""

    whole: object
    script: list = field(default_factory=list)  # functions of a task: messages instead of what it would send, or None

    slots = 1
    carries_weights = True
    tried: list = field(default_factory=list)
    stopped: list = field(default_factory=list)
    came_along: list = field(default_factory=list)
    queue: list = field(default_factory=list)

    def submit(self, task, weights, failures):
        self.queue.append((task, failures))
        self.came_along.append((task.name, [*weights], {key: each.error for key, each in failures.items()}))

    def wait(self, seconds, hear):
        task, failures = self.queue.pop(0)
        self.tried.append(task)
        hear(tasks.Began(task.name, "worker 1"))
        for step in self.script:
            if (messages := step(task, failures)) is not None:
                self.script.remove(step)
                for message in messages:
                    hear(message)
                return
        for message in self.done(task, failures):
            hear(message)

    def done(self, task, failures):
        if task.kind == "train":
            parent = self.whole.training(task.training).parent
            if parent is not None and parent.key in failures:
                yield Ended(task.name, failure=Failure(f"starts from what failed: {failures[parent.key].error}", ""))
            else:
                yield Ended(task.name, weights_file(task.training, self.whole.folder).read_bytes())
            return
        for key in task.cells:
            yield self.scored(task, key)
        yield Ended(task.name)

    def scored(self, task, key):
        files = files_of(self.whole.cell(key).path)
        return Scored(task.name, key, {name: path.read_bytes() for name, path in files.items()})

    def stop(self, task):
        self.stopped.append(task)

    def close(self): ...


def drive_to(folder, whole, *script, timeout=None, **more):
    made, heard = planned(folder, **more), Heard()
    schedule = Schedule.of(tasks_of(made, {}, 1.0))
    driver = Driver(made, schedule, heard, Claims(folder, heard), timeout)
    engine = MadeEngine(whole, [*script])
    try:
        drive(schedule, engine, driver, ahead=0)
    finally:
        driver.close()
    assert not engine.script, "something was to go wrong that did not"
    return driver, engine, heard


def contents(folder, pattern="*"):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob(pattern)
        if path.is_file() and path.suffix in (".json", ".safetensors", ".jsonl", ".pt")
    }


def of_kind(kind, messages, cells=None):
    """The first task of a kind is answered by these."""
    return lambda task, failures: (
        messages(task) if task.kind == kind and (not cells or len(task.cells) == cells) else None
    )


def test_what_comes_home_is_in_the_folder_to_the_bit(whole, tmp_path):
    driver, engine, heard = drive_to(tmp_path, whole)
    assert contents(tmp_path) == contents(whole.folder)
    assert len(driver.new) == len(heard.results) == len(whole.cells) == 6 and not driver.given_up
    assert [task.kind for task in engine.tried] == ["train", "score", "train", "score", "train", "score"]
    erm = engine.tried[0].training
    assert engine.came_along[0] == (engine.tried[0].name, [], {})
    assert all(keys == [task.needs] for task, (_, keys, _) in zip(engine.tried[1:], engine.came_along[1:], strict=True))
    assert engine.tried[2].needs == erm and heard.busy_with == {"worker 1": ""}
    assert heard.left[-1] == 0 and min(heard.left) >= 0
    with claim(weights_file(erm, tmp_path, "lock"), wait=False) as mine:
        assert mine


def test_a_folder_where_all_is_done_gives_the_engine_nothing_to_do(whole):
    _, engine, _ = drive_to(whole.folder, whole)
    assert engine.tried == []


def test_a_result_is_whole_or_not_there_when_the_disk_is_full(whole, tmp_path, monkeypatch):
    replace = os.replace

    def full(source, target):
        if str(target).endswith("seed0-" + whole.cells[1].key[:8] + ".json"):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CannotWrite, match=r"cannot write '.*\.json': No space left on device; free space"):
        drive_to(tmp_path, whole)
    assert len(read_folder(tmp_path)[0]) == 1 and not [*tmp_path.rglob("*.tmp")]
    monkeypatch.undo()
    drive_to(tmp_path, whole)
    assert contents(tmp_path) == contents(whole.folder)


def test_a_lost_scoring_is_tried_again_without_what_came_home(whole, tmp_path):
    def after_one(task):
        yield engine_of.scored(task, task.cells[0])
        yield Lost(task.name, "worker 1 ended: killed")

    engine_of = MadeEngine(whole)
    driver, engine, heard = drive_to(tmp_path, whole, of_kind("score", after_one, cells=4))
    scorings = [task.cells for task in engine.tried if task.kind == "score"]
    assert scorings[1] == scorings[0][1:] and len(driver.new) == 6
    assert heard.notes == ["erm, seed 0: worker 1 ended: killed; tried again"]
    assert contents(tmp_path) == contents(whole.folder) and heard.left[-1] == 0


def test_a_worker_lost_after_its_last_result_has_nothing_left_to_do(whole, tmp_path):
    engine_of = MadeEngine(whole)

    def at_the_end(task):
        yield from [engine_of.scored(task, key) for key in task.cells]
        yield Lost(task.name, "gone")

    driver, engine, heard = drive_to(tmp_path, whole, of_kind("score", at_the_end))
    assert len(engine.tried) == 6 and len(driver.new) == 6 and not driver.given_up and not heard.notes


def test_a_training_lost_three_times_has_failed_and_so_has_what_starts_from_it(whole, tmp_path):
    def lose(task):
        return [Lost(task.name, "worker 1 ended: killed")]

    _, engine, heard = drive_to(tmp_path, whole, *[of_kind("train", lose) for _ in range(TRIES)])
    assert [task.kind for task in engine.tried[:4]] == ["train"] * 3 + ["score"]
    reason = "its worker was lost 3 times: worker 1 ended: killed"
    erm = engine.tried[0].training
    told = [failures for _, _, failures in engine.came_along[3:]]
    assert told[0] == {erm: reason} and told[1] == {erm: reason}
    assert [*told[2].values()] == [f"starts from what failed: {reason}"]
    assert heard.notes[-1] == "erm, seed 0: worker 1 ended: killed; given up"


def test_a_cell_that_ends_its_worker_fails_alone(whole, tmp_path):
    deadly = []

    def lose(task, failures):
        deadly[:] = deadly or task.cells[:1]
        if task.kind == "score" and task.cells[0] == deadly[0] and not failures:
            return [Lost(task.name, "killed")]
        return None

    script = [lambda task, failures: lose(task, failures) if task.kind == "score" else None for _ in range(TRIES)]
    driver, engine, _ = drive_to(tmp_path, whole, *script)
    assert [len(task.cells) for task in engine.tried if task.kind == "score"][:3] == [4, 4, 1]
    with_failure = [name for name, _, failures in engine.came_along if failures]
    assert len(with_failure) == 1 and with_failure[0].endswith(deadly[0]) and len(driver.new) == 6


def test_what_cannot_even_be_written_as_failed_is_given_up(whole, tmp_path):
    def lose(task):
        return [Lost(task.name, "killed")]

    script = [of_kind("score", lose, cells=1) for _ in range(2 * TRIES)]
    driver, _, heard = drive_to(tmp_path, whole, *script)
    assert len(driver.given_up) == 1 and [*driver.given_up.values()] == ["killed"] and len(driver.new) == 5
    assert heard.notes[-1].endswith("killed; given up")


def test_a_message_of_a_worker_that_was_stopped_is_not_heard(whole, tmp_path):
    def late(task):
        stale = f"score {task.training}"
        yield Scored(stale, whole.cells[0].key, {".json": b"half"})
        yield Ended(stale)
        yield Lost("score nothing", "gone")
        yield Noted("hello")
        yield Ended(task.name, weights_file(task.training, whole.folder).read_bytes())

    driver, _, heard = drive_to(tmp_path, whole, of_kind("train", late))
    assert contents(tmp_path) == contents(whole.folder) and len(driver.new) == 6 and heard.notes == ["hello"]


def test_what_takes_too_long_fails_alone(whole, tmp_path):
    """Each of the first two cells of erm in its turn, then the trainings of scone; to write that takes as long."""
    made, heard = planned(tmp_path), Heard()
    schedule = Schedule.of(tasks_of(made, {}, 1.0))
    driver = Driver(made, schedule, heard, Claims(tmp_path, heard), timeout=10)

    erm, written = made.cells[0].training.key, set()

    def hang(task, failures):
        if failures and task.kind == "score" and task.name not in written:
            written.add(task.name)
            engine.queue.append((task, failures))  # which is done then
        elif failures or not (len(task.cells) > 2 or (task.kind == "train" and task.needs == erm)):
            return None
        driver._since[task.name] -= 11
        return []

    engine = MadeEngine(whole, [lambda *given: hang(*given) for _ in range(8)])
    drive(schedule, engine, driver, ahead=0)
    first = engine.stopped[0]
    assert [task.cells for task in engine.stopped] == [first.cells, first.cells[1:], (), ()]
    assert [task.kind for task in engine.stopped] == ["score", "score", "train", "train"]
    failed = {name: [*failures.values()] for name, _, failures in engine.came_along if failures}
    assert {*failed} >= {f"score {first.training} {key}" for key in first.cells[:2]}
    assert {reason for reasons in failed.values() for reason in reasons} == {"it took longer than --timeout 10"}
    assert len(failed) == 4 and len(driver.new) == 6 and not driver.given_up and not engine.script


def test_a_worker_that_refuses_ends_the_run_in_one_line(whole, tmp_path):
    refused = of_kind("train", lambda task: [Refused("worker 1: this machine has other code: keys differ")])
    with pytest.raises(UserError, match="^worker 1: this machine has other code: keys differ$"):
        drive_to(tmp_path, whole, refused)
    assert not [*tmp_path.rglob("*.json")]


def test_what_another_process_does_is_left_to_it_and_not_done_again(whole, tmp_path):
    """Which holds the training of erm until scone waits for nothing else."""
    erm = whole.cells[0].training.key
    other = claim(weights_file(erm, tmp_path, "lock"), wait=False)
    assert other.__enter__()
    made, heard = planned(tmp_path), Heard()
    schedule = Schedule.of(tasks_of(made, {}, 1.0))

    class Waiting(Claims):
        def hold(self, training, wait=True):
            if wait:  # now it has done it
                path = weights_file(erm, tmp_path)
                path.write_bytes(weights_file(erm, whole.folder).read_bytes())
                other.__exit__(None, None, None)
            return super().hold(training, wait)

    driver = Driver(made, schedule, heard, Waiting(tmp_path, heard))
    engine = MadeEngine(whole)
    drive(schedule, engine, driver)
    assert "train" not in {task.kind for task in engine.tried if task.training == erm}
    assert contents(tmp_path) == contents(whole.folder)
