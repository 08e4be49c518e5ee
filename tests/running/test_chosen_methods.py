"""Which methods a run has: those named, the words that stand for many, and what a suite runs where nothing is named."""

import re

import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke
from stand_ins import stand_ins

import oodbench as package
from oodbench.config import suite as suites
from oodbench.config.cards import EVERY
from oodbench.config.registry import Registry
from oodbench.config.shipped import GENERALIZATION
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
        text = SUITE_FILE.read_text(encoding="utf-8").replace("scratch: {epochs: 45", "scratch: {epochs: 1")
        text = text[: text.index("\nmethods:")] + text[text.index("\npresets:") :]
        path = tmp_path / "mine.yaml"
        path.write_text(text + (f"methods: {methods}\n" if methods else ""), encoding="utf-8")
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
    chosen = [cell.method.name for cell in made.cells]
    assert sorted([*chosen, *made.left_out]) == sorted(TRAINERS) and {*chosen} >= {"erm", "mixup", "scone"}
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
    assert "needs environments" in planned("all-trainers").left_out["coral"]
    with pytest.raises(UserError, match="the method 'coral' needs environments"):
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
    assert_refused(smoke(tmp_path / "results", written), "' means several methods, and one is needed here; name it")


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


DIGITS = ["erm", "msp", "odin", "energy", "mahalanobis", "vim", "knn", "mixup", "irm", "vrex", "sagnet", "rsc", "oe",
          "energy-oe", "woods", "scone", "bn-adapt"]  # fmt: skip
PAPER = [name for name in DIGITS if name not in ("sagnet", "rsc")]
DOMAINS = ("pacs", "colored-mnist", "colored-mnist-irm", "rotated-mnist")
SCORER = """\
\"\"\"A plugin.\"\"\"

from dataclasses import dataclass

from torch import Tensor

from oodbench import Outputs, Scorer


@dataclass
class Mine(Scorer):
    \"\"\"The first logit.\"\"\"

    def score(self, out: Outputs) -> Tensor:
        return out.logits[:, 0]
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SCORER, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", suites.suite_files())
def test_every_suite_of_ours_lists_its_methods_by_name_but_for_those_of_scorers(name):
    for preset in (None, *suites.load(name).contents.presets):
        listed = suites.load(name, preset).contents.methods
        is_for_scorers = preset == "scorers" or name == "pacs-photos"
        assert (list(listed) == ["all-scorers"]) if is_for_scorers else (set(listed) <= {*CARDS} and listed)


def test_the_demo_runs_its_seventeen_methods_however_many_there_are():
    assert names(planned()) == DIGITS and list(suites.load("digits-c", "smoke").contents.methods) == DIGITS


def test_the_papers_suites_run_its_methods_and_the_control():
    for name in ("mnist-c", "cifar10-c", "imagenet100-c"):
        contents = suites.load(name).contents
        assert set(contents.methods) == set(PAPER)
        assert set(suites.load(name, "released").contents.methods) == set(PAPER) - {"bn-adapt"}
        assert not any("form" in values for values in contents.methods.values())


@pytest.mark.parametrize("name", DOMAINS)
def test_suites_of_domains_run_the_trainers_that_fit_and_no_scorer(name):
    """Those for generalization; the rows of a later paper's table are run when they are named."""
    methods, registry = suites.load(name).contents.methods, Registry()
    later = {"eqrm", "hypo", "sharpdro"}
    fitting = {each for each in TRAINERS if registry.method(each).group == GENERALIZATION} - later
    assert set(methods) == fitting and not any(methods.values())


def test_a_suite_without_a_list_runs_erm_and_three_quick_scorers(suite_file):
    made = planned(suite=suite_file())
    assert names(made) == ["erm", "msp", "energy", "knn"] and len({cell.training.key for cell in made.cells}) == 1


def test_a_plugin_runs_too_where_nothing_is_named(suite_file, plugin):
    assert names(planned(plugins=[plugin])) == [*DIGITS, "mine"]
    assert names(planned(suite=suite_file(), plugins=[plugin])) == ["erm", "msp", "energy", "knn", "mine"]
    assert names(planned(suite=suite_file("{mine: {}, msp: {}}"), plugins=[plugin])) == ["mine", "msp"]
    assert names(planned("msp", plugins=[plugin])) == ["msp"]


@pytest.mark.parametrize("name", ["digits-c", "mnist-c", "cifar10-c"])
def test_the_preset_scorers_is_every_scorer_on_the_training_of_erm_that_others_share(name, tmp_path):
    with stand_ins(tmp_path):
        made = planned(suite=name, preset="scorers", settings=())
        other = planned("erm", suite=name, preset="cpu-effect" if name == "cifar10-c" else None, settings=())
    assert {cell.method.label for cell in made.cells} == {*SCORERS} - {*made.left_out}
    assert {cell.training.key for cell in made.cells} == {cell.training.key for cell in other.cells}
    assert [*made.suite.settings] == [*other.suite.settings]


def test_a_preset_of_methods_alone_trains_nothing_again(suite_file, tmp_path):
    run = ["run", "--suite", suite_file(), "--setting", "unseen-digits", "--results", tmp_path / "results"]
    assert_done(oodbench(*run, "--methods", "erm"))
    out = assert_done(oodbench(*run, "--preset", "scorers"))
    assert len(list((tmp_path / "results" / "weights").glob("*.pt"))) == 1 and "epoch" not in out


def fitting(text):
    return re.findall(r"^More methods for `oodbench run`: (.*)$", text, re.MULTILINE)


def test_a_run_of_the_suites_own_list_ends_with_what_else_fits(suite_file, tmp_path):
    run = ["run", "--suite", suite_file(), "--setting", "unseen-digits", "--results", tmp_path / "results"]
    scorers = len(planned("all-scorers").cells) - 3
    trainers = len(planned("all-trainers").cells) - 1
    expected = [f"{scorers} scorers (--methods all-scorers) and {trainers} trainers (--methods all-trainers)"]
    assert fitting(assert_done(oodbench(*run, "--dry-run"))) == expected
    done = oodbench(*run)
    assert fitting(assert_done(done)) == expected
    assert done.err.splitlines()[-1].startswith("More methods for ")
    for named in ("erm", "all", "all-scorers"):
        assert fitting(assert_done(oodbench(*run, "--methods", named, "--dry-run"))) == []


def test_a_single_method_that_fits_is_counted_as_one(suite_file):
    rest = [name for name in TRAINERS if name not in planned("all").left_out and name != "oe"]
    path = suite_file(f"{{all-scorers: {{}}, {', '.join(f'{name}: {{}}' for name in rest)}}}")
    assert fitting(assert_done(oodbench("run", "--suite", path, "--dry-run"))) == ["1 trainer (--methods all-trainers)"]


def test_scorers_are_not_offered_where_there_is_nothing_to_detect(tmp_path):
    with stand_ins(tmp_path):
        assert planned(suite="pacs", preset="smoke", settings=()).unlisted.keys() == {"all-trainers"}
