"""Which methods a run has: those named, the words that stand for many, and what a suite runs where nothing is named."""

import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke

import oodbench as package
from oodbench.config.cards import EVERY
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.running.plan import plan
from oodbench.running.request import read, request

CARDS = Registry().cards
SCORERS = [name for name, card in CARDS.items() if card.kind == "Scorer"]
TRAINERS = [name for name, card in CARDS.items() if card.kind == "Trainer"]


@pytest.fixture
def suite_file(tmp_path):
    """A function that writes digits-c in short, with `methods:` or without."""

    def write(methods=None):
        contents = SUITE_FILE.read_text(encoding="utf-8").replace("scratch: {epochs: 45", "scratch: {epochs: 1")
        start, end = contents.index("\nmethods:") if "\nmethods:" in contents else None, contents.index("\npresets:")
        contents = contents if start is None else contents[:start] + contents[end:]
        path = tmp_path / "mine.yaml"
        path.write_text(contents + (f"methods: {methods}\n" if methods else ""), encoding="utf-8")
        return path

    return write


def planned(methods=None, suite="digits-c", **more):
    values = {"settings": "unseen-digits", "results": "nowhere", **more}
    return plan(request(suite=str(suite), methods=methods, **values))


def names(made):
    return [cell.method.label for cell in made.cells]


def test_all_scorers_is_every_scorer_on_the_one_network_of_erm():
    made = planned("all-scorers")
    assert sorted([*names(made), *made.left_out]) == sorted(SCORERS) and set(names(made)) >= {"msp", "knn", "vim"}
    assert len({cell.training.key for cell in made.cells}) == 1
    assert {cell.method.trainer.card.name for cell in made.cells} == {"erm"}


def test_all_trainers_is_every_trainer_with_its_own_scorer():
    made = planned("all-trainers")
    assert sorted([*names(made), *made.left_out]) == sorted(TRAINERS) and set(names(made)) >= {"erm", "mixup", "scone"}
    assert {cell.method.name: cell.method.scorer.card.name for cell in made.cells}["oe"] == "msp"


def test_all_is_both():
    both = [*planned("all-scorers").cells, *planned("all-trainers").cells]
    assert {cell.key for cell in planned("all").cells} == {cell.key for cell in both}


def test_words_and_names_are_combined_in_the_order_they_are_written():
    scorers = names(planned("all-scorers"))
    assert names(planned("all-scorers,scone")) == [*scorers, "scone"]
    assert names(planned("scone, all_scorers ,msp,mixup+knn")) == ["scone", *scorers, "mixup+knn"]
    assert set(names(planned("all-scorers,all-trainers"))) == set(names(planned("all")))


def test_what_does_not_fit_is_left_out_of_a_word_and_refused_by_its_name():
    assert "needs environments data" in planned("all-trainers").left_out["coral"]
    with pytest.raises(UserError, match="the method 'coral' needs environments data"):
        planned("all-trainers,coral")


def test_python_and_a_request_file_know_the_words_too(tmp_path):
    results = package.run(
        "digits-c", methods=["all-scorers", "mixup"], preset="smoke", settings="unseen-digits", results=tmp_path
    )
    assert {result.method for result in results} == {*names(planned("all-scorers")), "mixup"}
    path = tmp_path / "request.yaml"
    path.write_text("methods: [all-scorers, scone]\nsettings: unseen-digits\n", encoding="utf-8")
    (asked,) = read(path)
    assert names(plan(asked)) == names(planned("all-scorers,scone"))


@pytest.mark.parametrize(
    ("written", "meant"), [("all-scorer", "all-scorers"), ("alltrainers", "all-trainers"), ("all_score", "all-scorers")]
)
def test_a_word_that_is_misspelled_is_answered_with_the_right_one(written, meant, tmp_path):
    refused = smoke(tmp_path / "results", written)
    assert_refused(refused, f"unknown method '{written}'; did you mean '{meant}'")


@pytest.mark.parametrize("written", ["mixup+all-scorers", "all-trainers+knn", "erm+all"])
def test_a_word_is_no_half_of_a_pair(written, tmp_path):
    assert_refused(smoke(tmp_path / "results", written), "' stands for several methods, and one is meant here; name it")


def test_a_suite_may_list_a_word_beside_methods_with_values(suite_file):
    made = planned(suite=suite_file("{scone: {margin: -2}, all-scorers: {}, knn: {k: 7}}"))
    assert names(made) == ["scone", *names(planned("all-scorers"))]
    cells = {cell.method.name: cell for cell in made.cells}
    assert cells["knn"].method.scorer.values["k"] == 7 and cells["scone"].method.trainer.values["margin"] == -2.0
    assert "methods:  scone (margin -2), all-scorers, knn (k 7)\n" in assert_done(oodbench("show", made.suite.path))


@pytest.mark.parametrize("word", EVERY)
def test_values_under_a_word_are_refused_with_their_line(word, suite_file):
    for values, key in (("{k: 10}", "k"), ("{recipe: {lr: 0.1}}", "recipe")):
        path = suite_file(f"\n  msp: {{}}\n  {word}: {values}")
        line = path.read_text().splitlines().index(f"  {word}: {values}") + 1
        message = f"'methods.{word}.{key}': '{word}' states no values; state '{key}' under the name of a method"
        assert_refused(oodbench("run", "--suite", path, "--dry-run"), f"{path}:{line}: {message}")


def test_the_words_are_in_the_help_and_in_the_list():
    for command in (["run", "--help"], ["list"], ["list", "methods"]):
        assert "all, all-scorers, all-trainers" in " ".join(assert_done(oodbench(*command)).split())
