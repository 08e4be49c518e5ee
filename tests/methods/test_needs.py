"""What a method may ask for: it gets it, or is refused in words as early as that can be known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke

from oodbench import load, read_results
from oodbench.config import suite as suites
from oodbench.config.registry import Registry
from oodbench.data.parts import build_parts
from oodbench.learning.batches import WildMixture
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.rows import Streamed, joined
from oodbench.learning.scoring import refuse_negative
from oodbench.results.stored import read_scores
from oodbench.running.execution import keyed
from oodbench.running.repeat import command
from oodbench.running.trained import build_model
from oodbench.testing import Violation, check_method

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
        scores = read_scores(result)["id"].scores
        told = scores[0] - 1e6 * len(parts.labelled)
        assert np.ptp(scores) == 0 and int(told) == len(parts.id_validation)
        assert 0.3 < told - int(told) < 1, "labels belong to their images"


def test_a_row_says_when_its_scorer_saw_fewer_than_ten_validation_images_of_a_class(plugin, results):
    out = assert_done(smoke(results, "mine,msp", "--plugin", plugin(["validation"])))
    suite = suites.load("digits-c", "smoke")
    labels = build_parts(suite, suite.settings[0], 0).id_validation.labels
    rarest = np.bincount(labels, minlength=8).min()
    assert rarest < 10
    assert f"fitted on as few as {rarest} ID validation images per class" in out
    assert [r.notes.get("few_validation") for r in read_results(results)].count(rarest) == 2
    enough = smoke(results, "mine", "--plugin", plugin(["validation"]), "--set", "splits.id_validation=0.6")
    assert "ID validation images per class" not in assert_done(enough).split("OOD Acc.")[-1]


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


def test_a_scorer_that_needs_a_trainer_s_head_says_so_before_anything_trains(plugin, results):
    reason = "needs an OOD head, which the trainer 'erm' does not add to the network"
    assert_refused(smoke(results, "ood-head"), f"the method 'ood-head' {reason}; name a trainer that does")
    assert_refused(smoke(results, "mixup+ood-head"), "which the trainer 'mixup' does not add to the network")
    assert not results.exists()


HEAD = TRAINER.replace(
    """    needs: ClassVar[frozenset[str]] = frozenset({NEEDS})
""",
    """    needs: ClassVar[frozenset[str]] = frozenset({NEEDS})
    adds: ClassVar[frozenset[str]] = frozenset({"ood-head"})
    scorer: ClassVar[str] = "ood-head"

    def extend(self, model):
        model.ood_head = torch.nn.Linear(model.head.in_features, 1)

    def loss(self, model, batch):
        logits, others = model(batch.x), model.features(batch.wild)
        return torch.nn.functional.cross_entropy(logits, batch.y) - model.ood_head(others).mean()
""",
).replace("from oodbench import", "import torch\n\nfrom oodbench import")


def test_the_head_that_a_trainer_adds_is_what_ood_head_reads(plugin, results):
    path = plugin(["wild"], HEAD)
    assert_done(smoke(results, "mine,mine+energy", "--plugin", path, "--setting", "unseen-digits"))
    head, energy = sorted(read_results(results), key=lambda each: len(each.method))
    assert (head.config.method.scorer.name, energy.config.method.scorer.name) == ("ood-head", "energy")
    network = load(head, plugins=[path])
    scores = read_scores(head)["semantic"].scores
    assert len(scores) == head.data.parts["semantic"].rows and np.ptp(scores) > 0
    assert network.model.ood_head.weight.shape[0] == 1


def test_a_head_that_is_not_announced_or_not_there_breaks_the_contract(plugin):
    unsaid = HEAD.replace('    adds: ClassVar[frozenset[str]] = frozenset({"ood-head"})\n', "")
    with pytest.raises(Violation, match="extend sets one; write adds = frozenset"):
        check_method(plugin(["wild"], unsaid, "unsaid.py"))
    missing = HEAD.replace("        model.ood_head = torch.nn.Linear(model.head.in_features, 1)", "        return")
    missing = missing.replace(" - model.ood_head(others).mean()", " + others.mean()")
    with pytest.raises(Violation, match="extend does not set model.ood_head"):
        check_method(plugin(["wild"], missing, "missing.py"))


def test_a_term_without_a_gradient_breaks_the_contract(plugin):
    detached = (
        TRAINER
        + """
    def loss(self, model, batch):
        wild = model(batch.wild).detach()
        return torch.nn.functional.cross_entropy(model(batch.x), batch.y) + wild.logsumexp(dim=-1).mean()
"""
    )
    path = plugin(["wild"], detached.replace("from oodbench import", "import torch\n\nfrom oodbench import"))
    with pytest.raises(Violation, match="no step's loss has a gradient by the wild images or outliers"):
        check_method(path)


def test_a_trainer_that_needs_views_gets_every_image_twice_augmented_apart(plugin, results):
    text = (
        TRAINER
        + """
    def loss(self, model, batch):
        assert batch.views.shape == batch.x.shape and batch.wild_views.shape == batch.wild.shape
        assert not torch.equal(batch.views, batch.x) and not torch.equal(batch.wild_views, batch.wild)
        return torch.nn.functional.cross_entropy(model(torch.cat([batch.x, batch.views])), torch.cat([batch.y] * 2))
"""
    )
    path = plugin(["views", "wild"], text.replace("from oodbench import", "import torch\n\nfrom oodbench import"))
    assert_done(smoke(results, "mine", "--plugin", path, "--setting", "unseen-digits"))
    forgot = plugin(["wild"], text.replace("from oodbench import", "import torch\n\nfrom oodbench import"), "forgot.py")
    outcome = smoke(results, "forgot", "--plugin", forgot, "--setting", "unseen-digits")
    assert outcome.status == 1 and 'batch.views is None; add needs = frozenset({"views"}) to class Mine' in outcome.err


BUDGETED = (
    TRAINER
    + """
    budget: int = 5

    def train(self, model, data, loop):
        rows = torch.arange(ASKED)
        assert len(data.wild.once()) > len(rows)
        labels = loop.ask(rows)
        assert len(labels) == len(rows) and (labels >= 0).all(), "the first images of the set are ID"
        assert torch.equal(loop.ask(rows[:1]), labels[:1]), "the same image costs one label"
        super().train(model, data, loop)
"""
)


def test_labels_of_wild_images_are_counted_named_and_refused_beyond_the_budget(plugin, results):
    text = BUDGETED.replace("from oodbench import", "import torch\n\nfrom oodbench import")
    path = plugin(["wild", "labels"], text.replace("ASKED", "5"))
    out = assert_done(smoke(results, "mine,oe", "--plugin", path, "--setting", "unseen-digits"))
    assert "Learning with wild data, some of it labeled\n  Mine (5 labels)" in out
    result = next(each for each in read_results(results) if each.method == "mine,budget=5")
    assert result.notes["labels_asked"] == 5 and result.group == "Learning with wild data, some of it labeled"
    greedy = plugin(["wild", "labels"], text.replace("ASKED", "6"), "greedy.py")
    outcome = smoke(results, "greedy", "--plugin", greedy, "--setting", "unseen-digits")
    assert outcome.status == 1
    assert "asks for 6 labels of wild images, and its budget is 5; ask for fewer" in outcome.err


def test_a_trainer_that_needs_labels_states_its_budget(plugin):
    path = plugin(["wild", "labels"], TRAINER)
    assert_refused(
        oodbench("list", "--plugin", path), "a trainer that needs labels states how many; add a field budget"
    )


def test_outliers_are_named_in_key_label_and_footnote_and_the_wild_mixture_is_the_default(results):
    out = assert_done(smoke(results, "oe,erm", "--setting", "unseen-digits"))
    assert "its outliers are the wild mixture" in out
    out = assert_done(smoke(results, "oe,erm", "--semantic", "unseen-digits", "--outliers", "photo-patches"))
    assert "Learning with auxiliary outliers\n  OE (outliers=photo-patches)" in out
    assert "its outliers are photo-patches" in out
    found = {each.method: each for each in read_results(results)}
    assert [*found] == ["erm", "oe", "oe,outliers=photo-patches"] and found["oe"].key != found[[*found][2]].key
    other = found["oe,outliers=photo-patches"]
    assert other.config.suite.outliers.dataset == "photo-patches" and other.data.parts["outliers"].rows > 0
    assert found["erm"].config.suite.outliers is None and "outliers" not in found["erm"].data.parts
    words = command(other)[0].split()
    assert words[words.index("--outliers") + 1] == "photo-patches"
    again = oodbench(*words[1:], "--results", results)
    assert "1 of 1 cells are done" in assert_done(again) or "nothing to do" in assert_done(again)


@pytest.mark.parametrize(
    ("methods", "more", "message"),
    [
        ("oe", ["--outliers", "photo-patches"], "would train on outliers of 'photo-patches', which"),
        ("oe", ["--outliers", "digits"], "--outliers digits: 'digits' is the ID data set; choose another set"),
        ("oe", ["--outliers", "photo-patch"], "unknown data set 'photo-patch'; did you mean 'photo-patches'?"),
        ("erm", ["--outliers", "photo-patches"], "no chosen method learns from outliers; leave out --outliers"),
    ],
)  # fmt: skip
def test_outliers_that_cannot_be_are_refused(methods, more, message, results):
    assert_refused(smoke(results, methods, *more), message)
    assert not results.exists()


def test_a_suite_file_states_outliers_and_the_command_line_overrides_them(tmp_path, results):
    suite = tmp_path / "with-outliers.yaml"
    suite.write_text(SUITE_FILE.read_text().replace("  - semantic: photo-patches", "").replace(
        "corruptions: digits_c", "corruptions: digits_c\noutliers: {dataset: photo-patches}"
    ))  # fmt: skip
    given = ["run", "--suite", suite, "--preset", "smoke", "--methods", "oe", "--results", results]
    assert_done(oodbench(*given))
    assert_done(oodbench(*given, "--outliers", "wild"))
    assert [each.method for each in read_results(results)] == ["oe", "oe,outliers=photo-patches"]


def test_the_wild_set_holds_each_image_once_in_the_proportions_of_the_mixture():
    parts = [torch.full((count, 1, 2, 2), value, dtype=torch.uint8) for value, count in ((0, 50), (1, 20), (2, 7))]
    once = WildMixture(*parts, pi_c=0.5, pi_s=0.1).once()
    assert once[:, 0, 0, 0].tolist() == [0] * 16 + [1] * 20 + [2] * 4


def test_streamed_and_other_images_join_into_one_set():
    parts = [torch.arange(5 * 4).view(5, 1, 2, 2).to(torch.uint8), torch.arange(100, 100 + 3 * 4).view(3, 1, 2, 2)]
    streamed = Streamed(parts[1].to(torch.uint8).numpy())
    both = joined([parts[0], streamed])
    whole = torch.cat([parts[0], parts[1].to(torch.uint8)])
    assert len(both) == 8 and tuple(both.shape) == (8, 1, 2, 2)
    rows = torch.tensor([6, 0, 7, 4])
    assert torch.equal(both.index_select(0, rows), whole[rows])
    assert torch.equal(both[3:7].index_select(0, torch.tensor([3, 0])), whole[[6, 3]])


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
    message = "the method 'mine' needs nonnegative features, which the network 'mnist-cnn' does not give; leave it out"
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
