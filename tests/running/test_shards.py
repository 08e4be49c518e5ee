"""`--shard`: parts of a run that jobs on any queue do, and what they come to together."""

import json
import re
from dataclasses import replace
from itertools import chain

import pytest
from command_line import assert_done, assert_refused, complaints, oodbench, smoke
from contents import content

from oodbench.running.plan import plan
from oodbench.running.request import request, save
from oodbench.running.shards import CELL, Shard, cost_of, parents_of, shard_of, trainings_of

METHODS = "msp,knn,scone,irm"


def asked(folder, **more):
    values = {"suite": "digits-c", "preset": "smoke", "methods": METHODS, "seeds": [0, 1], "results": str(folder)}
    return request(**{**values, **more})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert_done(smoke(folder, METHODS, "--seeds", "0,1"))
    return content(folder)


def test_three_shards_merged_give_the_same_bits_as_one_run(tmp_path, whole):
    folders = [tmp_path / f"shard{i}" for i in (1, 2, 3)]
    for i, folder in enumerate(folders, start=1):
        out = assert_done(smoke(folder, METHODS, "--seeds", "0,1", "--shard", f"{i}/3"))
        assert (
            f"digits-c-smoke (shard {i}/3) has ended; see the progress of all shards with: oodbench status {folder}\n"
            in out
        )
    parts = [content(folder) for folder in folders]
    assert all(parts) and sum(map(len, parts)) == len(whole)
    assert_done(oodbench("merge", *folders, "--into", tmp_path / "results"))
    assert content(tmp_path / "results") == whole
    # The requests that came along ask for all, and nothing of it is left.
    assert f"{len(whole)} done, 0 failed, 0 left;" in assert_done(oodbench("status", tmp_path / "results"))


def test_stages_on_a_shared_disk_train_each_parent_once_and_give_the_same_bits(tmp_path, whole):
    trained = []
    for stage in ("parents", "rest"):
        for i in (1, 2, 3):
            out = assert_done(smoke(tmp_path, METHODS, "--seeds", "0,1", "--shard", f"{i}/3", "--stage", stage))
            trained += re.findall(r"^\[\d+/\d+\] (.*)\n  epoch", out, re.M) if stage == "parents" else []
            assert "is trained here" not in out and f"(shard {i}/3, {stage}) has ended" in out
        assert len(content(tmp_path)) == (0 if stage == "parents" else len(whole))
    assert sorted(trained) == ["erm, seed 0", "erm, seed 1"]
    assert content(tmp_path) == whole


@pytest.mark.slow
def test_a_shard_works_with_workers_and_trains_a_missing_parent_itself_and_says_so(tmp_path, whole):
    out = assert_done(smoke(tmp_path, METHODS, "--seeds", "0,1", "--shard", "1/2", "--stage", "rest", "--workers", "2"))
    assert re.search(f"note: erm, seed ., which others start from, is not in '{tmp_path}'; it is trained here\n", out)
    found = content(tmp_path)
    assert found and found.items() <= whole.items()


@pytest.fixture(scope="module")
def planned():
    return plan(asked("nowhere"))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("stage", [None, "parents", "rest"])
def test_every_training_is_in_one_shard_and_no_other(planned, count, stage):
    cells, shards = planned.cells, [Shard(i, count) for i in range(1, count + 1)]
    expected = parents_of(cells) if stage == "parents" else {cell.training.key for cell in cells}
    assert sorted(chain(*(trainings_of(cells, shard, stage) for shard in shards))) == sorted(expected)
    parts = [planned.share(shard, stage) for shard in shards]
    if stage == "parents":
        assert sorted(key for part in parts for key in part.all_trainings) == sorted(expected)
    else:
        assert sorted(cell.key for part in parts for cell in part.cells) == sorted(cell.key for cell in cells)


def test_shards_are_the_same_whatever_is_done_already_and_in_whatever_order_things_were_asked(tmp_path):
    before = [plan(asked(tmp_path, shard=f"{i}/3")) for i in (1, 2, 3)]
    assert_done(smoke(tmp_path, "msp,scone", "--seeds", "1"))
    after = [plan(asked(tmp_path, shard=f"{i}/3")) for i in (1, 2, 3)]
    turned = [
        plan(asked(tmp_path, shard=f"{i}/3", methods=",".join(METHODS.split(",")[::-1]), seeds=[1, 0]))
        for i in (1, 2, 3)
    ]
    for one, other, third in zip(before, after, turned, strict=True):
        keys = {cell.key for cell in one.cells}
        assert keys == {cell.key for cell in other.cells} == {cell.key for cell in third.cells}
    assert not any(part.done for part in before) and sum(len(part.done) for part in after) == 4


def costs(cells, count, stage):
    """Of every shard, with what its trainings start from where no other stage has trained that."""
    found = []
    given = parents_of(cells) if stage == "rest" else {}
    trainings = {each.key: each for cell in cells for each in cell.training.chain}
    for i in range(1, count + 1):
        keys = trainings_of(cells, Shard(i, count), stage)
        needed = {each.key: each for key in keys for each in trainings[key].chain if each.key not in given}
        scored = 0 if stage == "parents" else sum(cell.training.key in keys for cell in cells)
        found.append(sum(map(cost_of, needed.values())) + CELL * scored)
    return found


def test_shards_are_balanced_and_children_stay_with_the_parent_that_they_would_train_again(tmp_path):
    cells = plan(asked(tmp_path, methods="msp,woods,scone", seeds=range(4))).cells
    for count, stage in ((4, "parents"), (4, "rest"), (3, "rest"), (4, None), (8, None)):
        assert max(costs(cells, count, stage)) <= 1.35 * sum(costs(cells, count, stage)) / count
    for i in (1, 2, 3, 4):
        keys = trainings_of(cells, Shard(i, 4), None)
        assert len({cell.seed for cell in cells if cell.training.key in keys}) == 1
    # One parent, eight children, two shards: sharing them costs the parent twice and still ends earlier.
    cells = plan(asked(tmp_path, methods="msp,scone", seeds=[0], set=["scone.margin=-1,-2,-3,-4"])).cells
    (one,), two = costs(cells, 1, None), costs(cells, 2, None)
    assert max(two) < 0.7 * one and sum(two) == one + cost_of(cells[0].training.root)


def test_what_a_training_costs_is_worked_by_hand(tmp_path):
    by_method = {cell.method.name: cell.training for cell in plan(asked(tmp_path)).cells}
    erm, scone = by_method["msp"], by_method["scone"]
    assert cost_of(erm) == erm.recipe.epochs and cost_of(scone) == 2 * scone.recipe.epochs  # which reads wild batches
    (in_steps,) = {
        cell.training.key: cell.training
        for cell in plan(asked(tmp_path, methods="msp", seeds=[0], set=["recipe.iterations=500"])).cells
    }.values()
    assert cost_of(in_steps) == 500 * in_steps.recipe.batch_size / 25_000
    assert cost_of(replace(erm, init=tmp_path)) == 0


def test_more_shards_than_trainings_leave_some_with_nothing_to_do_and_a_folder_to_merge(tmp_path):
    out = assert_done(smoke(tmp_path / "shard2", "msp", "--shard", "2/2"))
    assert "digits-c-smoke (shard 2/2): 0 cells, 0 done already, 0 to run: nothing to do.\n" in out
    assert_done(oodbench("merge", tmp_path / "shard2", "--into", tmp_path / "results"))


def test_a_dry_run_shows_the_part(tmp_path):
    out = assert_done(smoke(tmp_path, METHODS, "--shard", "1/2", "--stage", "parents", "--dry-run"))
    assert "digits-c-smoke (shard 1/2, parents): 1 training that others start from\n1 training:\n  erm, seed 0:" in out
    out = assert_done(smoke(tmp_path, METHODS, "--shard", "1/2", "--dry-run"))
    assert "to run  " in out and "digits-c-smoke (shard 1/2): " in out


FAILING = """
from oodbench import Trainer

class Broken(Trainer):
    def loss(self, model, batch):
        raise ValueError("never learns")
"""
CHILD = """
from oodbench import Trainer

class Child(Trainer):
    starts_from = "broken"
    def loss(self, model, batch):
        return model(batch.x).sum()
"""


def test_a_parent_that_fails_is_told_in_its_stage_and_by_the_results_of_the_other(tmp_path):
    for name, text in (("broken", FAILING), ("child", CHILD)):
        (tmp_path / f"{name}.py").write_text(text)
    plugins = ["--plugin", tmp_path / "broken.py", "--plugin", tmp_path / "child.py"]
    outcome = smoke(tmp_path / "r", "child", *plugins, "--shard", "1/1", "--stage", "parents")
    assert outcome.status == 2
    (complaint,) = complaints(outcome)
    assert complaint.startswith("oodbench: 1 of 1 trainings failed; the first, broken, seed 0: ")
    assert "never learns" in complaint
    outcome = smoke(tmp_path / "r", "child", *plugins, "--shard", "1/1", "--stage", "rest")
    assert outcome.status == 1 and "'broken', which it starts from" in outcome.err


@pytest.mark.parametrize(
    "options, message",
    [
        (["--shard", "0/4"], "there is no shard 0/4; the first number is from 1 to the second"),
        (["--shard", "5/4"], "there is no shard 5/4; "),
        (["--shard", "1/100001"], "which is at most 100,000"),
        (["--shard", "a/b"], "'a/b' is not a shard; write its number and how many there are, as in --shard 3/16"),
        (["--shard", "3"], "'3' is not a shard; "),
        (["--shard", "-1/4"], "'-1/4' is not a shard; "),
        (["--shard", "1/2/3"], "'1/2/3' is not a shard; "),
        (["--stage", "rest"], "--stage rest is for a part of a run; say which with --shard"),
        (["--shard", "1/2", "--stage", "all"], "unknown stage 'all'; choose --stage parents or --stage rest"),
        (["--shard", "1/2", "--stage", "rest", "--force"], "leave out --stage or --force"),
    ],
)
def test_what_is_no_part_of_a_run_is_refused_in_one_line(tmp_path, options, message):
    words = [f"{options[0]}={options[1]}", *options[2:]]  # argparse takes -1/4 for an option
    assert_refused(smoke(tmp_path / "no", "msp", *words), message)
    assert not (tmp_path / "no").exists()


def test_a_shard_is_written_as_it_is_read():
    assert shard_of("03/16") == Shard(3, 16) and str(Shard(3, 16)) == "3/16"


def test_a_request_file_may_be_done_in_parts_and_only_where_its_keys_hold(tmp_path):
    whole = asked(tmp_path / "r", methods="msp,knn")
    save([replace(whole, keys=plan(whole).keys)], tmp_path / "a.yaml")
    assert_done(oodbench("run", "--request", tmp_path / "a.yaml", "--shard", "1/2"))
    assert len(content(tmp_path / "r")) == 4
    assert_refused(
        oodbench("run", "--request", tmp_path / "a.yaml", "--seeds", "3"), "says what to run and how; leave out --seeds"
    )
    save([replace(whole, keys=plan(whole).keys, set=("recipe.epochs=2",))], tmp_path / "b.yaml")
    assert_refused(
        oodbench("run", "--request", tmp_path / "b.yaml", "--shard", "1/2"),
        "keys differ from those of the plan, because code, data or a file has changed since; submit it again",
    )
    values = json.loads(plan(whole).to_json())
    assert len(values["cells"]) == 8
