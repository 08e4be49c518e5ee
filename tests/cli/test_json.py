"""`--json`: one object on standard output and nothing else, with the fields that the documents name."""

import json
import re
import shutil
from pathlib import Path

import pytest
from command_line import assert_refused, oodbench
from result_files import change

from oodbench.config.registry import Registry
from oodbench.config.suite import suite_files

PAGE = Path(__file__).parents[2] / "docs" / "defaults.md"


def values(*arguments, status=0):
    outcome = oodbench(*arguments, "--json")
    assert (outcome.status, outcome.err) == (status, "")
    found = json.loads(outcome.out)
    assert found.pop("schema") == 1
    return found


def documented(command):
    """The fields of a command that the page names, those of inner objects too."""
    (row,) = re.findall(rf"^\| {re.escape(command)} \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return {*re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize("name", [*Registry().cards, "mixup+knn"])
def test_every_method_is_shown_with_the_documented_fields(name):
    found = values("show", name)
    assert {*found} <= documented("`show`, a method") and found["kind"] == "method" and found["name"] == name
    assert {*found["hyperparameters"]} == {found["trainer"], found["scorer"]}


def test_a_method_s_values_are_those_that_are_shown_in_words():
    found = values("show", "knn")
    assert (found["trainer"], found["scorer"], found["reads"], found["needs"]) == ("erm", "knn", "distances", [])
    (k,) = (each for each in found["hyperparameters"]["knn"] if each["name"] == "k")
    assert (k["default"], k["type"]) == (50, "a whole number")
    assert values("show", "scone")["needs"] == ["wild"]


@pytest.mark.parametrize("name", suite_files())
def test_every_suite_is_shown_with_the_documented_fields(name, tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path))
    found = values("show", name)
    assert {*found} == documented("`show`, a suite") & {*found} and found["kind"] == "suite"
    for setting in found["settings"]:
        assert {*setting} <= documented("`show`, a suite")
        assert (setting["images"] is None) == (setting["missing"] is not None)
    assert all({*each} == {"name", "state", "details"} for each in found["datasets"])


def test_a_suite_counts_the_images_of_each_part():
    (setting, _) = values("show", "digits-c")["settings"]
    assert setting["images"]["id"]["count"] > 100 and setting["images"]["id"]["of"] == "digits"
    assert (setting["name"], setting["covariate"], setting["severity"]) == ("unseen-digits", "gaussian_noise", 3)


@pytest.mark.parametrize(("name", "kind"), [("digits", "data set"), ("small-cnn", "network")])
def test_a_piece_is_shown_with_the_documented_fields(name, kind):
    found = values("show", name)
    assert found["kind"] == kind and {*found} <= documented("`show`, a data set or network")


def test_a_result_is_shown_as_its_file_with_the_command_that_repeats_it(results):
    path = next(results.glob("digits-c-smoke/*/msp/*.json"))
    found = values("show", path)
    assert {*found} == documented("`show`, a result")
    assert found["result"] == json.loads(path.read_text()) and found["command"].startswith("oodbench run ")


def test_a_check_lists_its_cells_and_keeps_its_status(results, tmp_path):
    other = shutil.copytree(results, tmp_path / "other")
    found = values("check", results, "--against", other, "--same-machine")
    assert {*found} <= documented("`check`") and {*found["cells"][0]} <= documented("`check`")
    assert found["counts"]["differs"] == 0 and found["counts"]["agrees"] == len(found["cells"])
    shutil.rmtree(other / "digits-c-smoke" / "unseen-digits" / "knn")
    assert values("check", results, "--against", other)["not_compared"] == ["knn"]
    path = next(other.glob("digits-c-smoke/unseen-digits/msp/*.json"))
    change(path, lambda stored: stored["metrics"].update(auroc=stored["metrics"]["auroc"] - 0.5))
    (wrong,) = (
        each
        for each in values("check", results, "--against", other, "--same-machine", status=1)["cells"]
        if each["status"] == "differs"
    )
    assert (wrong["metric"], wrong["row"]) == ("auroc", "msp") and wrong["difference"] == pytest.approx(0.5)


def test_a_status_has_the_documented_fields(results):
    found = values("status", results)
    assert {*found} == documented("`status`") and found["done"] == 4


def test_lists_have_the_documented_fields():
    for kind, entries in values("list").items():
        assert all({*each} <= documented("`list`") for each in entries), kind


def test_an_error_is_a_line_on_standard_error_and_no_json():
    outcome = oodbench("show", "knnn", "--json")
    assert outcome.out == ""
    assert_refused(outcome, "unknown name 'knnn'")
