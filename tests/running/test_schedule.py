"""The ready-queue: what comes first, what waits, what comes again. Every order here was worked out by hand."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from oodbench.running import tasks
from oodbench.running.driver import drive
from oodbench.running.schedule import TRIES, Schedule
from oodbench.running.tasks import Task


def train(key, needs=None, cost=1.0):
    return Task("train", key, needs=needs, cost=cost)


def score(key, *cells, cost=0.1):
    return Task("score", key, cells or (f"{key}1",), key, cost)


def order(schedule):
    """The names of all tasks as one slot does them."""
    names = []
    while (task := schedule.next()) is not None:
        names.append(f"{task.kind} {task.training}")
        schedule.ended(task)
    assert schedule.finished
    return names


def ready(schedule):
    """What can begin now, in its order."""
    names = []
    while (task := schedule.next()) is not None:
        names.append(task.name)
    return names


def test_what_others_start_from_comes_first_then_scoring_then_the_rest():
    made = [train("irm"), score("irm"), train("scone", "erm"), score("scone"), train("erm"), score("erm")]
    assert order(Schedule.of(made)) == [
        "train erm", "score erm", "train irm", "score irm", "train scone", "score scone"
    ]  # fmt: skip


def test_the_longest_chain_comes_first():
    made = [
        train("short", cost=5), train("long", cost=6), train("equal", cost=5),
        train("a", cost=1), train("a-child", "a", cost=2), train("a-grandchild", "a-child", cost=4),
        train("b", cost=5), train("b-child", "b", cost=1),
    ]  # fmt: skip
    assert ready(Schedule.of(made)) == ["train a", "train b", "train long", "train short", "train equal"]


def test_the_work_behind_a_task_counts_its_scoring_too():
    made = [train("a", cost=3), score("a", cost=1), train("b", cost=2), score("b", "b1", "b2", cost=3)]
    assert ready(Schedule.of(made)) == ["train b", "train a"]


def test_a_task_waits_only_for_what_is_trained_in_this_run():
    schedule = Schedule.of([train("scone", "erm"), score("erm")])
    assert ready(schedule) == ["score erm erm1", "train scone"]


def test_what_waits_is_ready_when_the_task_before_it_ends():
    schedule = Schedule.of([train("erm"), train("scone", "erm"), score("erm")])
    first = schedule.next()
    assert first.name == "train erm" and schedule.next() is None and not schedule.finished
    schedule.ended(first)
    assert ready(schedule) == ["score erm erm1", "train scone"] and [*schedule.under_way] == [
        "score erm erm1", "train scone"
    ]  # fmt: skip


def test_what_another_process_is_at_comes_again_in_its_place():
    schedule = Schedule.of([train("a", cost=3), train("b", cost=2), train("c", cost=1)])
    for _ in range(2):
        schedule.postpone(schedule.next())
    c = schedule.next()
    assert c.name == "train c" and schedule.next() is None
    schedule.recall()
    assert schedule.next().name == "train a"
    schedule.ended(c)
    assert schedule.next_postponed().name == "train b" and schedule.next_postponed() is None
    assert [*schedule.under_way] == ["train a", "train b"]


def test_a_lost_training_comes_again_in_its_place_and_has_failed_after_three_losses():
    schedule = Schedule.of([train("a", cost=3), train("b", cost=2), train("child", "a")])
    for losses in range(1, TRIES + 1):
        task = schedule.next()
        assert task.name == "train a" and not schedule.has_failed(task)
        assert schedule.lost(task, []) == [task] and schedule.losses(task) == losses
    task = schedule.next()
    assert schedule.has_failed(task)
    schedule.ended(task)
    assert ready(schedule) == ["train b", "train child"]


def test_a_lost_scoring_comes_again_without_the_cells_that_have_results():
    schedule = Schedule.of([score("a", "a1", "a2", "a3", cost=3.0), train("b")])
    assert schedule.lost(schedule.next(), [("a2", "a3")]) == [score("a", "a2", "a3", cost=2.0)]
    assert schedule.lost(schedule.next(), [("a2",), ("a3",)]) == [
        score("a", "a2", cost=1.0),
        score("a", "a3", cost=1.0),
    ]
    two, three = schedule.next(), schedule.next()
    assert (two.cells, three.cells, schedule.losses(two), schedule.losses(three)) == (("a2",), ("a3",), 2, 2)
    schedule.lost(two, [("a2",)])
    assert schedule.has_failed(two) and not schedule.has_failed(three)
    assert schedule.lost(three, [()]) == []  # its result came just before
    assert ready(schedule) == ["score a a2", "train b"]


def test_what_is_lost_although_it_has_failed_is_given_up_in_the_end():
    schedule = Schedule.of([score("a")])
    for _ in range(2 * TRIES - 1):
        assert schedule.lost(schedule.next(), [("a1",)])
    assert schedule.lost(schedule.next(), [("a1",)]) == [] and schedule.finished


def test_nothing_waits_for_a_training_that_was_given_up():
    schedule = Schedule.of([train("a"), train("child", "a")])
    for _ in range(2 * TRIES):
        schedule.lost(schedule.next(), [])
    assert ready(schedule) == ["train child"]


def test_what_the_driver_stops_itself_is_no_loss():
    left = tuple(f"a{i}" for i in range(10))
    schedule = Schedule.of([score("a", *left)])
    while left:
        task = next(task for task in iter(schedule.next, None) if task.cells == left)
        again = schedule.stopped(task, [left[:1], left[1:]])
        assert [each.cells for each in again] == [cells for cells in (left[:1], left[1:]) if cells]
        assert not any(map(schedule.losses, again))
        left = left[1:]
    assert len(schedule.tasks) == 10


@dataclass
class MadeEngine:
    """Does tasks in any order; of each try it is told how it goes."""

    fates: list[str]
    slots: int
    carries_weights: bool = False

    most: int = 0
    queue: list[Task] = field(default_factory=list)

    def submit(self, task, weights, failures):
        self.queue.append(task)
        self.most = max(self.most, len(self.queue))

    def wait(self, seconds, hear):
        fate = self.fates.pop() if self.fates else "done"
        task = self.queue.pop(len(self.fates) % len(self.queue))
        hear(tasks.Began(task.name, "worker"))
        cells = task.cells if fate != "half" else task.cells[: len(task.cells) // 2]
        for cell in cells if fate in ("done", "half", "late") else ():
            hear(tasks.Scored(task.name, cell))
        hear(tasks.Ended(task.name) if fate == "done" else tasks.Lost(task.name, "the node is gone"))

    def stop(self, task): ...
    def close(self): ...


@dataclass
class MadeHome:
    """Keeps count, and postpones some tasks, as if another process had them."""

    schedule: Schedule
    postponed: set[str]

    scored: Counter = field(default_factory=Counter)
    ended: list[Task] = field(default_factory=list)
    order: list[Task] = field(default_factory=list)

    def admit(self, task, wait):
        if task.name in self.postponed and not wait:
            self.postponed.discard(task.name)
            return "later"
        return "go"

    def send(self, task, engine):
        self.order.append(task)
        engine.submit(task, {}, {})

    def hear(self, message):
        task = self.schedule.under_way[message.task]
        match message:
            case tasks.Scored(cell=cell):
                self.scored[cell] += 1
            case tasks.Ended():
                self.schedule.ended(task)
                self.ended.append(task)
            case tasks.Lost():
                left = tuple(cell for cell in task.cells if not self.scored[cell])
                self.schedule.lost(task, [left] if not self.schedule.losses(task) else [(cell,) for cell in left])

    def look(self, engine): ...


@st.composite
def graphs(draw):
    """Trainings, of which some start from earlier ones, with the scoring of their cells."""
    made = []
    for i in range(draw(st.integers(1, 12))):
        parent = draw(st.one_of(st.none(), st.integers(0, i - 1))) if i else None
        made.append(train(f"t{i}", None if parent is None else f"t{parent}", draw(st.integers(0, 9))))
        if cells := draw(st.integers(0, 4)):
            made.append(score(f"t{i}", *(f"t{i}c{j}" for j in range(cells))))
    return draw(st.permutations(made))


@given(
    graphs(), st.lists(st.sampled_from(["done", "lost", "half", "late"]), max_size=40), st.integers(1, 5),
    st.integers(0, 1), st.data(),
)  # fmt: skip
def test_every_cell_is_scored_once_after_what_it_needs_whatever_is_lost(made, fates, slots, ahead, data):
    schedule, names = Schedule.of(made, tries=1000), [task.name for task in made]
    home = MadeHome(schedule, set(data.draw(st.lists(st.sampled_from(names)))))
    engine = MadeEngine(fates, slots)
    drive(schedule, engine, home, ahead)
    assert home.scored == Counter(cell for task in made for cell in task.cells)
    trained = [task.training for task in home.ended if task.kind == "train"]
    assert Counter(trained) == Counter(task.training for task in made if task.kind == "train")
    assert engine.most <= slots + ahead and not engine.queue and not schedule.under_way


@given(graphs(), st.integers(1, 5))
def test_no_task_begins_before_the_one_it_needs_has_ended(made, slots):
    schedule, done, begun = Schedule.of(made), set(), defaultdict(list)
    trained = {task.training for task in made if task.kind == "train"}
    while not schedule.finished:
        while len(schedule.under_way) < slots and (task := schedule.next()) is not None:
            assert task.needs not in trained or task.needs in done
            begun[task.name].append(task)
        first = schedule.under_way[min(schedule.under_way)]
        schedule.ended(first)
        if first.kind == "train":
            done.add(first.training)
    assert {name: len(each) for name, each in begun.items()} == {task.name: 1 for task in made}
