"""What a method may ask for: it gets it, or is refused in words as early as that can be known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke

from oodbench import read_results
from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.data.parts import build_parts
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.scoring import refuse_negative
from oodbench.results.result import read_scores
from oodbench.running.execution import keyed
from oodbench.running.trained import build_model

SCORER = '''\
"""A. Author, A threshold from validation images, 2026."""

from dataclasses import dataclass
from typing import ClassVar

from oodbench import Scorer


@dataclass
class Mine(Scorer):
    """The largest logit, negated, and the number of validation images."""

    needs: ClassVar[frozenset[str]] = frozenset({NEEDS})

    def fit(self, train, validation=None):
        self.rows, self.y = len(validation.logits), validation.y
        assert len(validation.y) == self.rows and validation.model is train.model
        self.accuracy = (validation.logits.argmax(dim=-1) == validation.y).double().mean()
        self.training_rows = len(train.y)

    def score(self, out):
        return -out.logits.amax(dim=-1).double() * 0 + self.rows + self.accuracy + 1e6 * self.training_rows
'''
TRAINER = (
    SCORER.split("@dataclass")[0].replace("Scorer", "Trainer")
    + '''\
@dataclass
class Mine(Trainer):
    """Cross-entropy."""

    needs: ClassVar[frozenset[str]] = frozenset({NEEDS})
'''
)


@pytest.fixture
def plugin(tmp_path):
    def write(needs, text=SCORER, name="mine.py"):
        path = tmp_path / name
        path.write_text(text.replace("{NEEDS}", "{" + ", ".join(f'"{need}"' for need in needs) + "}"))
        return path

    return write


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def test_a_scorer_that_needs_validation_gets_the_id_validation_images_with_their_labels(plugin, results):
    out = assert_done(smoke(results, "mine,msp", "--plugin", plugin(["validation"])))
    assert out.count("/ mine / seed 0: OOD Acc. ") == 2
    suite = suites.load("digits-c", "smoke")
    for result in [r for r in read_results(results) if r.method == "mine"]:
        setting = next(each for each in suite.settings if suite.setting_name(each) == result.setting)
        parts = build_parts(suite, setting, 0)
        scores = read_scores(result.path)["id"].scores
        told = scores[0] - 1e6 * len(parts.labelled)
        assert np.ptp(scores) == 0 and int(told) == len(parts.id_validation)
        assert 0.3 < told - int(told) < 1, "labels belong to their images"


def test_a_row_says_when_its_scorer_saw_fewer_than_ten_validation_images_of_a_class(plugin, results):
    out = assert_done(smoke(results, "mine,msp", "--plugin", plugin(["validation"])))
    suite = suites.load("digits-c", "smoke")
    labels = build_parts(suite, suite.settings[0], 0).id_validation.labels
    rarest = np.bincount(labels, minlength=8).min()
    assert rarest < 10
    assert f"fitted on as few as {rarest} ID validation images of a class" in out
    assert [r.notes.get("few_validation") for r in read_results(results)].count(rarest) == 2
    enough = smoke(results, "mine", "--plugin", plugin(["validation"]), "--set", "splits.id_validation=0.6")
    assert "ID validation images of a class" not in assert_done(enough).split("OOD Acc.")[-1]


def test_a_scorer_is_fitted_anew_for_other_validation_images_and_only_then(plugin):
    scorer, suite = Registry([plugin(["validation"])]).method("mine").scorer, suites.load("digits-c", "smoke")
    parts = build_parts(suite, suite.settings[0], 0)
    evaluation = Evaluation(build_model(suite, 0), parts.labelled)
    first, again = (evaluation.score(keyed(scorer), parts)[0]["id"].scores for _ in range(2))
    fewer = evaluation.score(keyed(scorer), replace(parts, id_validation=parts.id_validation.take(slice(7))))[0][
        "id"
    ].scores
    assert np.array_equal(first, again) and len(evaluation._scorers) == 2
    assert fewer[0] - 1e6 * len(parts.labelled) < 8 < first[0] - 1e6 * len(parts.labelled)


def test_a_scorer_that_needs_nothing_may_have_a_fit_of_one_argument(plugin, results):
    text = SCORER.replace(", validation=None", "").replace("validation", "train")
    assert_done(smoke(results, "mine", "--plugin", plugin([], text)))


def test_validation_images_that_a_setting_lacks_are_refused_at_planning(plugin, tmp_path):
    suite = tmp_path / "no-semantic.yaml"
    text = SUITE_FILE.read_text().replace(
        "  - semantic: unseen-digits\n  - semantic: photo-patches", "  - semantic: none"
    )
    suite.write_text(text)
    outcome = oodbench("run", "--suite", suite, "--methods", "mine", "--plugin", plugin(["validation"]), "--dry-run")
    assert_refused(outcome, "the method 'mine' needs validation images, which 'covariate=gaussian_noise' does not have")


@pytest.mark.parametrize(
    ("text", "needs", "message"),
    [
        (SCORER, ["wild"], "mine.py:13: 'wild' is a need of trainers; a scorer may need validation, "),
        (TRAINER, ["validation"], "mine.py:13: 'validation' is a need of scorers; a trainer may need wild, "),
        (SCORER, ["valdiation"], "mine.py:13: unknown need 'valdiation'; did you mean 'validation'?"),
        (TRAINER, ["wild", "envs"], "mine.py:13: unknown need 'envs'; "),
    ],
)  # fmt: skip
def test_a_need_of_another_kind_is_refused_when_the_file_is_read(text, needs, message, plugin):
    assert_refused(oodbench("list", "--plugin", plugin(needs, text)), message)


@pytest.mark.parametrize(("text", "need"), [(TRAINER, "views"), (TRAINER, "outliers"), (SCORER, "ood-head")])
def test_what_this_version_cannot_serve_is_refused_at_planning_and_left_out_of_all(text, need, plugin, results):
    path = plugin([need], text)
    reason = f"needs {need}, which this version of oodbench does not provide"
    assert_refused(smoke(results, "mine", "--plugin", path), f"the method 'mine' {reason}; leave it out\n")
    assert f"mine ({reason})" in assert_done(smoke(results, "all", "--plugin", path, "--dry-run"))
    assert not results.exists()


def test_needs_are_shown(plugin):
    path = plugin(["validation", "nonnegative-features"])
    assert Registry([path]).method("mine").needs == {"validation", "nonnegative-features"}
    shown = assert_done(oodbench("show", "mine", "--plugin", path))
    assert "needs:    nonnegative-features, validation\n" in shown


NONNEGATIVE = SCORER.replace("validation=None", "").replace("validation", "train")


def test_negative_features_are_refused_before_training_where_the_network_says_so(plugin, results, tmp_path):
    suite = tmp_path / "other.yaml"
    network = "name: mnist-cnn, options: {width: 8}"
    suite.write_text(SUITE_FILE.read_text().replace("name: small-cnn, options: {width: 16}", network))
    given = ["run", "--suite", suite, "--preset", "smoke", "--methods", "mine,msp", "--results", results]
    path = plugin(["nonnegative-features"], NONNEGATIVE)
    message = "the method 'mine' needs nonnegative-features, which the network 'mnist-cnn' does not give; leave it out"
    assert_refused(oodbench(*given, "--plugin", path), message)
    assert not list(results.rglob("*.pt"))


def test_negative_features_of_a_trained_network_fail_the_cell_in_words(plugin, results):
    path = plugin(["nonnegative-features"], NONNEGATIVE)
    assert_done(smoke(results, "mine", "--plugin", path))
    values = ["--set", "mtl.embedding=published_noise", "--set", "mtl.environments=random:2"]
    outcome = smoke(results, "mtl+mine", "--plugin", path, "--setting", "unseen-digits", *values)
    message = (
        "'mine' needs features that are not negative, and 25% of this network's are; choose a network that ends in"
    )
    assert outcome.status == 1 and f"1 of 1 cells failed; the first: {message}" in outcome.err


def test_few_negative_features_do_no_harm():
    refuse_negative("vim", torch.tensor([-1.0] + [1.0] * 99))
