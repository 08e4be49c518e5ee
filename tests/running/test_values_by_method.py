"""What a suite states for its methods: which run, with which values, under which label, and who shares a training."""

import json
import shlex

import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench
from stand_ins import stand_ins

from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.results.folder import read_folder
from oodbench.running.plan import cell_of, plan
from oodbench.running.repeat import command
from oodbench.running.request import request

SHORT = "recipes: {scratch: {epochs: 1}, finetune: {epochs: 1}}"
PRESETS = f"""\
  plain:
    {SHORT}
  own:
    {SHORT}
    methods:
      knn: {{k: 7}}
      scone: {{form: reference, margin: -2, recipe: {{lr: 1, momentum: 0.5}}}}
      erm: {{}}
      woods: {{recipe: {{lr: 0.02}}}}
  other:
    {SHORT}
    methods: {{scone: {{margin: -4}}, msp: {{}}}}
  root:
    {SHORT}
    methods: {{erm: {{recipe: {{lr: 0.05}}}}, scone: {{recipe: {{lr: 0.001}}}}, mixup+knn: {{alpha: 0.5, k: 3}}}}
"""


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "mine.yaml"
    path.write_text(SUITE_FILE.read_text() + PRESETS)
    assert suites.load(str(path), "own").settings
    return path


@pytest.fixture
def planned(suite_file):
    """A function that plans a preset: the cells by label, in their order."""

    def cells(preset, methods=None, **more):
        values = {"settings": "unseen-digits", "results": "nowhere", **more}
        asked = request(suite=str(suite_file), preset=preset, methods=methods, **values)
        return {cell.method.label: cell for cell in plan(asked).cells}

    return cells


def test_the_methods_of_a_suite_run_in_its_order_with_its_values_and_plain_labels(planned):
    cells = planned("own")
    assert list(cells) == ["knn", "scone", "erm", "woods"]
    scone = cells["scone"]
    assert scone.method.trainer.values["margin"] == -2.0 and type(scone.method.trainer.values["margin"]) is float
    assert (
        scone.method.trainer.values["form"] == "reference" and cells["woods"].method.trainer.values["form"] == "paper"
    )
    assert cells["knn"].method.scorer.values["k"] == 7
    recipes = {name: cell.training.recipe for name, cell in cells.items()}
    assert (recipes["scone"].lr, recipes["scone"].momentum, recipes["scone"].epochs) == (1.0, 0.5, 1)
    assert (recipes["woods"].lr, recipes["woods"].momentum) == (0.02, 0.9)
    assert recipes["erm"] == recipes["knn"] == planned("plain", "erm")["erm"].training.recipe


def test_stated_values_are_in_the_key_and_equal_ones_that_a_user_sets_give_the_same_training(planned):
    stated = planned("own", "scone,woods,knn")
    plain = planned("plain", "scone,woods,knn")
    assert not {cell.key for cell in stated.values()} & {cell.key for cell in plain.values()}
    by_hand = planned("plain", "knn", set=["knn.k=7"])["knn,k=7"]
    assert by_hand.key == stated["knn"].key


def test_presets_that_differ_in_their_methods_share_the_training_of_erm(planned):
    trainings = [
        planned("plain", "erm")["erm"].training,
        planned("own")["erm"].training,
        planned("own")["knn"].training,
        planned("own")["scone"].training.parent,
        planned("other")["msp"].training,
        planned("other")["scone"].training.parent,
    ]
    assert len({training.key for training in trainings}) == 1


def test_named_methods_have_the_values_that_the_suite_states(planned):
    alone, among = planned("own", "scone"), planned("own", "all")
    assert list(alone) == ["scone"] and set(among) > {"scone", "msp", "mixup", "knn"}
    assert alone["scone"].key == among["scone"].key == planned("own")["scone"].key


def test_what_a_user_sets_overrides_the_suite_and_is_in_the_label(planned):
    stated = planned("own")["scone"]
    ((label, cell),) = planned("own", "scone", set=["scone.margin=-10"]).items()  # the default of the method
    assert label == "scone,margin=-10" and cell.method.trainer.values["margin"] == -10.0
    assert cell.method.trainer.values["form"] == "reference" and cell.training.recipe == stated.training.recipe
    assert planned("own", "scone", set=["scone.margin=-2"])["scone"].key == stated.key


def test_a_recipe_that_a_user_sets_holds_for_every_method(planned):
    cells = planned("own", set=["recipe.lr=0.3"])
    assert {cell.training.recipe.lr for cell in cells.values()} == {0.3}
    assert cells["scone"].training.recipe.momentum == 0.5


def test_values_of_a_trainer_hold_for_all_that_starts_from_it_or_scores_it(planned):
    cells = planned("root", "erm,msp,scone,mixup+knn,knn,mixup")
    erm = cells["erm"].training
    assert erm.recipe.lr == 0.05
    assert erm.key == cells["msp"].training.key == cells["scone"].training.parent.key
    assert cells["scone"].training.recipe.lr == 0.001
    pair = cells["mixup+knn"].method
    assert (pair.trainer.values["alpha"], pair.scorer.values["k"]) == (0.5, 3)
    assert cells["mixup"].method.trainer.values["alpha"] != 0.5 and cells["knn"].method.scorer.values["k"] != 3


def test_a_search_draws_what_the_suite_states(suite_file):
    path = suite_file.with_name("searched.yaml")
    path.write_text(suite_file.read_text() + 'search: {recipe.lr: "U(0.001,0.002)"}\n')
    asked = request(
        suite=str(path), preset="own", methods="scone", settings="unseen-digits", draws=3, results="nowhere"
    )
    stated, *drawn = [cell.training.recipe for cell in plan(asked).cells]
    assert stated.lr == 1.0 and len(drawn) == 2
    assert all(0.001 <= recipe.lr <= 0.002 and recipe.momentum == 0.5 for recipe in drawn)


def test_a_method_that_does_not_fit_the_suite_is_left_out_unless_the_user_names_it(suite_file):
    path = suite_file.with_name("tame.yaml")
    path.write_text("wild: false\n" + suite_file.read_text())
    made = plan(request(suite=str(path), preset="own", results="nowhere"))
    assert {cell.method.name for cell in made.cells} == {"knn", "erm"} and set(made.left_out) == {"scone", "woods"}
    refused = oodbench("run", "--suite", path, "--preset", "own", "--methods", "scone", "--dry-run")
    assert_refused(refused, "the method 'scone' needs wild data, which the suite 'tame' does not have; leave it out")


@pytest.mark.parametrize("preset", ["own", "root"])
def test_a_result_says_what_ran_and_can_be_made_again(preset, suite_file, tmp_path, monkeypatch):
    """One base network for both presets, which lies in the results folder."""
    run = ["run", "--suite", suite_file, "--setting", "unseen-digits", "--results", tmp_path]
    assert_done(oodbench(*run, "--preset", "plain", "--methods", "erm"))
    out = assert_done(oodbench(*run, "--preset", preset))
    if preset == "own":  # erm is there
        assert len(list((tmp_path / "weights").glob("*.pt"))) == 3 and out.count("  epoch 1/1") == 2
    results, problems = read_folder(tmp_path / f"mine-{preset}")
    assert not problems
    monkeypatch.setattr(suites, "suite_files", lambda: {"mine": suite_file})
    for result in results:
        cell = cell_of(result, Registry(), tmp_path)
        assert (cell.key, cell.training.key, cell.path) == (result.key, result.training, result.path)
        assert "methods" not in json.loads(result.path.read_text())["config"]["suite"]
        words, remarks = command(result)
        assert "--set " not in words and not remarks
        again = oodbench(*shlex.split(words)[1:], "--results", tmp_path, "--dry-run")
        assert "1 cell, 1 done already" in assert_done(again)


def test_a_value_that_the_suite_states_otherwise_today_is_in_the_command(suite_file, tmp_path, monkeypatch):
    run = ["run", "--suite", suite_file, "--setting", "unseen-digits", "--results", tmp_path]
    assert_done(oodbench(*run, "--preset", "own", "--methods", "knn"))
    (result,), _ = read_folder(tmp_path / "mine-own")
    later = tmp_path / "later.yaml"
    later.write_text(suite_file.read_text().replace("knn: {k: 7}", "knn: {k: 9}"))
    monkeypatch.setattr(suites, "suite_files", lambda: {"mine": later})
    assert " --methods knn --set knn.k=7 --setting " in command(result)[0]


def test_a_suite_shows_its_methods_and_those_of_its_presets(suite_file):
    out = assert_done(oodbench("show", suite_file))
    stated = (
        "knn (k 7), scone (form reference, margin -2, recipe.lr 1, recipe.momentum 0.5), erm, woods (recipe.lr 0.02)"
    )
    assert f"\nmethods under own: {stated}\n" in out and "\nmethods under plain" not in out


def test_both_effect_presets_of_cifar10_c_start_from_one_network(tmp_path):
    with stand_ins(tmp_path):
        plans = [
            plan(
                request(suite="cifar10-c", preset=preset, methods="bn-adapt,woods,scone", results=tmp_path / "results")
            )
            for preset in ("cpu-effect", "cpu-effect-released")
        ]
    keys = [{cell.method.name: (cell.training.root.key, cell.training.key) for cell in each.cells} for each in plans]
    assert len({root for own in keys for root, _ in own.values()}) == 1
    assert keys[0]["bn-adapt"] == keys[1]["bn-adapt"]
    assert keys[0]["woods"][1] != keys[1]["woods"][1] and keys[0]["scone"][1] != keys[1]["scone"][1]
