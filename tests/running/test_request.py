"""One request behind three doors: the command line, Python and a file give the same cells."""

import dataclasses
import inspect
import json

import pytest
from command_line import assert_done, assert_refused, oodbench
from stand_ins import data_in

import oodbench as package
from oodbench.cli import run as command
from oodbench.cli.parser import Parser
from oodbench.data import availability
from oodbench.errors import UserError
from oodbench.results.result import as_json, read
from oodbench.running import request as requests
from oodbench.running.plan import Plan, plan
from oodbench.running.request import Request, alternatives, request, seeds


def by_command(*arguments):
    """The requests that the command line makes of its arguments."""
    parser = Parser()
    command.add_arguments(parser)
    return command._requests(parser.parse_args([str(each) for each in arguments]))


def names(asked):
    return [str(cell) for cell in plan(asked).cells]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], {}),
        (["--seeds", "0-2"], {"seeds": 3}),
        (["--seeds", "0,1,2"], {"seeds": range(3)}),
        (["--seeds", "3"], {"seeds": [3]}),
        (["--methods", "msp,mixup+knn", "--set", "knn.k=5"], {"methods": ["msp", "mixup+knn"], "set": {"knn.k": 5}}),
        (
            ["--methods", "scone", "--set", "scone.margin=-1,-2"],
            {"methods": "scone", "set": {"scone.margin": [-1, -2]}},
        ),
        (["--setting", "photo-patches,severity=5"], {"settings": "photo-patches,severity=5"}),
        (["--preset", "smoke", "--force", "--cpu-threads", "2"], {"preset": "smoke", "force": True, "cpu_threads": 2}),
        (
            ["--semantic", "photo-patches", "--semantic", "unseen-digits"],
            {"semantic": ["photo-patches", "unseen-digits"]},
        ),
    ],
)
def test_the_command_line_and_python_make_the_same_request_and_cells(arguments, values):
    (asked,) = by_command(*arguments)
    assert asked == request(**values) and names(asked) == names(request(**values))


SWEPT = ("--suite", "cifar10-c", "--sweep", "ratio", "--methods", "scone", "--offline")


def test_two_semantic_sets_with_a_sweep_give_the_same_cells_from_both_doors():
    (asked,) = by_command(*SWEPT, "--semantic", "svhn", "--semantic", "textures")
    planned = plan(asked)
    from_python = plan(
        request(suite="cifar10-c", sweep="ratio", methods="scone", semantic=["svhn", "textures"], offline=True)
    )
    assert len(planned.cells + planned.waiting) == 10
    assert [str(each) for each in planned.waiting] == [str(each) for each in from_python.waiting]
    (alone,) = by_command(*SWEPT)
    assert len(plan(alone).cells + plan(alone).waiting) == 5  # the first setting, where the user names none


def test_python_takes_every_name_of_a_request_and_no_other():
    assert set(inspect.signature(package.run).parameters) == {field.name for field in dataclasses.fields(Request)}


def test_several_suites_are_several_requests():
    first, second = by_command("--suite", "digits-c", "--suite", "mnist-c", "--methods", "msp")
    assert (first.suite, second.suite, first.methods) == ("digits-c", "mnist-c", second.methods)


@pytest.mark.parametrize(
    ("given", "numbers"),
    [("0-4", (0, 1, 2, 3, 4)), ("7, 0-1,7", (7, 0, 1)), (3, (0, 1, 2)), (range(2), (0, 1)), ([5], (5,)), ("2-2", (2,))],
)
def test_seeds_are_written_in_several_ways(given, numbers):
    assert seeds(given) == numbers


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seeds": "4-0"}, "'4-0' holds no seeds, or too many; write the smaller number first, as in 0-4"),
        ({"seeds": "0,a"}, "'0,a' is not a list of seeds; write whole numbers, as in --seeds 0,1,2 or 0-4"),
        ({"seeds": [-1]}, "seed -1 is negative; seeds are whole numbers from 0"),
        ({"seeds": 0}, "no seed given; name at least one, for example --seeds 0,1,2"),
        ({"seeds": True}, "True is not a number of seeds; write seeds=3 or seeds=[0, 1, 2]"),
        ({"methods": " , "}, "no method given; name at least one, for example --methods msp,knn"),
        ({"draws": 0}, "--draws 0 is out of range; choose 1, which is what the suite says, or more"),
        ({"metods": "msp"}, "unknown part of a request 'metods'; did you mean 'methods'?"),
        (
            {"settings": ["a"], "semantic": ["b"]},
            "--setting names a semantic and a covariate set already; leave out --semantic and --covariate",
        ),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(values, message):
    with pytest.raises(UserError) as refused:
        request(**values)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("assignment", "values"),
    [
        ("scone.margin=-1,-2,-5", ["-1", "-2", "-5"]),
        ("scone.margin=-1", ["-1"]),
        ("recipe.milestones=[0.5,0.75]", ["[0.5,0.75]"]),
        ('mine.name="a,b",c', ['"a,b"', "c"]),
        ("mine.pair=(1,2), {a,b}", ["(1,2)", "{a,b}"]),
    ],
)
def test_a_comma_outside_brackets_and_quotes_makes_a_grid(assignment, values):
    target = assignment.partition("=")[0]
    assert alternatives(assignment) == [f"{target}={value}" for value in values]


def test_grids_are_combined_and_sections_take_one_value():
    planned = plan(request(methods="scone,knn", settings="unseen-digits", set=["scone.margin=-1,-2", "knn.k=3,4"]))
    assert [cell.method.label for cell in planned.cells] == ["scone,margin=-1", "scone,margin=-2", "knn,k=3", "knn,k=4"]
    with pytest.raises(
        UserError, match="'recipe.lr=0.1' and others: only hyperparameters of methods can be a grid; set one"
    ):
        plan(request(methods="msp", set=["recipe.lr=0.1,0.2"]))


# Files


def test_a_saved_request_is_read_back_as_it_was(tmp_path):
    asked = [
        request(methods="scone", seeds="0-2", set={"scone.margin": [-1, -2]}, preset="smoke", force=True),
        request(suite="mnist-c", semantic="folder:there", results=tmp_path / "results"),
    ]
    for some in (asked[:1], asked):
        requests.save(some, tmp_path / "mine.yaml")
        assert requests.read(tmp_path / "mine.yaml") == some


def test_a_file_holds_several_runs_that_share_what_stands_beside_them(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "seeds: 0-1\nmethods: msp\nruns:\n- suite: [digits-c, mnist-c]\n"
        "- {suite: digits-c, methods: [knn], set: {knn.k: 5}}\n"
    )
    first, second, third = requests.read(path)
    assert (first.suite, second.suite, third.suite) == ("digits-c", "mnist-c", "digits-c")
    assert first.seeds == third.seeds == (0, 1) and third.methods == ("knn",) and third.set == ("knn.k=5",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suite: digits-c\nmetods: msp\n", ":2: 'metods': unknown key 'metods'; did you mean 'methods'?"),
        ("draws: many\n", ":1: 'draws': expected a whole number, got 'many'"),
        ("runs:\n- {seeds: 4-0}\n", ":2: 'runs.0': '4-0' holds no seeds"),
        ("runs: 3\n", ":1: 'runs': expected a list of mappings, one for each run"),
        ("- a\n", ":1: expected a mapping of keys to values"),
        ("suite: [\n", "not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert_refused(oodbench("run", "--request", path), message)


def test_a_request_file_runs_as_the_command_that_saved_it(tmp_path):
    path, results = tmp_path / "mine.yaml", tmp_path / "results"
    given = ("--preset", "smoke", "--methods", "msp", "--setting", "unseen-digits", "--results", results)
    printed = assert_done(oodbench("run", *given, "--save-request", path))
    assert printed == f"run it with: oodbench run --request {path}\n" and not results.exists()
    assert "1 cell, 0 done already, 1 to run" in assert_done(oodbench("run", "--request", path))
    assert "1 done already, 0 to run: nothing to do" in assert_done(oodbench("run", *given))
    mixed = oodbench("run", "--request", path, "--methods", "knn")
    assert_refused(mixed, f"'{path}' says what to run and how; leave out --methods, or write it there")


# Plans as data


def test_a_plan_goes_through_json_and_a_cell_is_found_by_its_key(tmp_path):
    planned = plan(request(methods="scone,msp", seeds=2, results=tmp_path))
    again = Plan.from_json(planned.to_json())
    assert [cell.key for cell in again.cells] == [cell.key for cell in planned.cells]
    cell = again.cell(planned.cells[0].name)
    assert str(cell) == str(planned.cells[0]) and again.training(cell.training.parent.key).trainer.card.name == "erm"
    with pytest.raises(UserError, match="the plan has no cell 'nothing' here"):
        again.cell("nothing")


def test_a_plan_of_other_code_or_data_is_refused(tmp_path):
    values = json.loads(plan(request(methods="msp", results=tmp_path)).to_json())
    values["cells"][0]["key"] = "another"
    with pytest.raises(UserError, match="the key of 'unseen-digits / msp / seed 0' differs here"):
        Plan.from_json(json.dumps(values))
    for text in ("{}", "no plan", '{"request": 1, "cells": []}'):
        with pytest.raises(UserError, match="this is not an oodbench plan"):
            Plan.from_json(text)


def test_parents_are_trainings_of_their_own_before_their_children(tmp_path):
    planned = plan(request(methods="scone,woods", settings="unseen-digits", results=tmp_path))
    assert [each.trainer.card.name for each in planned.all_trainings.values()] == ["erm", "scone", "woods"]


@pytest.fixture
def fetching(tmp_path, monkeypatch):
    """An empty data folder, and what is fetched is said."""

    def fetch(name, listener):
        raise UserError(f"asked for {name}")

    monkeypatch.setattr(availability, "fetch", fetch)
    with data_in(tmp_path / "data"):
        yield


def test_an_unusable_device_is_told_before_anything_is_fetched(fetching, tmp_path):
    with pytest.raises(UserError, match="^the device 'nowhere' cannot be used"):
        package.run("mnist-c", device="nowhere", results=tmp_path)


def test_python_fetches_what_is_missing_as_the_command_does(fetching, tmp_path):
    with pytest.raises(UserError, match="^asked for mnist; asked for fashion-mnist$"):
        package.run("mnist-c", methods="msp", results=tmp_path)


def test_a_done_result_with_older_metrics_is_rescored_and_not_run_again(tmp_path):
    given = {"methods": "msp", "settings": "unseen-digits", "preset": "smoke", "results": tmp_path}
    (first,) = package.run(**given)
    old = dataclasses.replace(first, metrics={**first.metrics, "auroc": 0.0}, metrics_version=0)
    first.path.write_text(as_json(old))
    printed = assert_done(oodbench("run", "--preset", "smoke", "--methods", "msp", "--setting", "unseen-digits",
                                   "--results", tmp_path))  # fmt: skip
    assert "1 done already, 0 to run" in printed and "metrics of 1 results were recomputed" in printed
    assert read(first.path).metrics == first.metrics and read(first.path).written == first.written
