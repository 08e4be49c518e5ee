"""What every method promises, asked of whatever is registered: a new file in `methods/` is tested as it stands.

The rules are those of `oodbench.testing`, which anybody can try on a method of their own.
"""

import re
import types
from pathlib import Path

import pytest
import torch

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.method import Scorer
from oodbench.testing import contract, scorer_rules, trainer_rules
from oodbench.testing.contract import RULES, Subject, subjects
from oodbench.testing.scorer_rules import moved, require_same, scores_of
from oodbench.testing.simulated_device import simulated
from oodbench.testing.toy_problem import toy

CARDS = {name: card for name, card in Registry().cards.items() if card.module.startswith("oodbench.methods.")}
SCORERS = [name for name, card in CARDS.items() if card.kind == "Scorer"]
TRAINERS = [name for name, card in CARDS.items() if card.kind == "Trainer"]
NOTHING_LEARNT = {"bn-adapt"}  # on purpose: a control that takes no step
TRANSDUCTIVE = {"arm", "mtl"}  # on purpose: a prediction depends on the images that come with an image
DEFAULTS = types.MappingProxyType({})
CPU = torch.device("cpu")


def cases(names, only_modes=False):
    """Each method with its defaults, then with one hyperparameter changed at a time, or only those that name a mode."""
    for name in names:
        for subject in subjects(CARDS[name], object, "modes" if only_modes else "values"):
            yield pytest.param(name, dict(subject.values), id=subject.label)


def hyperparameters(names):
    return [pytest.param(name, key, id=f"{name}.{key}") for name in names for key in CARDS[name].parameters]


every_method = pytest.mark.parametrize("name", CARDS)
every_case = pytest.mark.parametrize(("name", "values"), list(cases(CARDS)))
every_scorer_case = pytest.mark.parametrize(("name", "values"), list(cases(SCORERS)))
every_trainer = pytest.mark.parametrize("name", TRAINERS)
every_trainer_mode = pytest.mark.parametrize(("name", "values"), list(cases(TRAINERS, only_modes=True)))


def subject_of(name, values=DEFAULTS, key=None):
    return Subject(CARDS[name], load_class(CARDS[name]), values, key)


def hold(rule, name, values=DEFAULTS, key=None):
    """A changed value may not go with the other defaults, and a method may say so."""
    try:
        rule.holds(subject_of(name, values, key), toy())
    except UserError as refusal:
        if not values and key is None:
            raise
        pytest.skip(f"refused: {refusal}")


def make(name, values=DEFAULTS):
    try:
        return subject_of(name, values).make()
    except UserError as refusal:
        if not values:
            raise
        pytest.skip(f"refused: {refusal}")


def reading(name, out, values=DEFAULTS):
    """Outputs as the scorer sees them."""
    make(name, values)
    return subject_of(name, values).reading(out)


def fitted(name, values, train):
    with torch.no_grad():
        scorer = make(name, values)
        scorer.fit(train)
        return scorer


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_fits_the_training_rows_and_scores_two(name):
    hold(scorer_rules.scores_two_rows, name)


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_needs_images_if_and_only_if_it_goes_back_to_them(name):
    hold(scorer_rules.says_that_it_needs_images, name)


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_is_right_about_far_images_by_a_wide_margin_and_caught_with_the_wrong_sign(name, monkeypatch):
    monkeypatch.setattr(scorer_rules, "WRONG_SIDE", 0.8)
    hold(scorer_rules.far_images_score_higher, name)
    monkeypatch.undo()
    right = scorer_rules.scores_of
    monkeypatch.setattr(scorer_rules, "scores_of", lambda scorer, out: -right(scorer, out))
    with pytest.raises(contract.Violation, match="higher must mean more OOD$"):
        hold(scorer_rules.far_images_score_higher, name)


def test_two_scorers_go_back_to_the_images_unless_more_is_asked_for():
    assert {name for name in SCORERS if "images" in CARDS[name].needs} == {"adascale", "odin"}


@every_scorer_case
def test_scores_are_one_finite_number_per_row(name, values):
    hold(scorer_rules.one_finite_number_per_row, name, values)


@every_scorer_case
def test_scores_do_not_depend_on_the_batch_or_the_row_order(name, values):
    hold(scorer_rules.each_row_on_its_own, name, values)


@every_scorer_case
def test_scoring_and_fitting_again_give_the_same_scores(name, values):
    hold(scorer_rules.repeats, name, values)


@every_scorer_case
def test_a_new_fit_forgets_the_last_one(name, values):
    hold(scorer_rules.forgets, name, values)


@every_scorer_case
def test_fitting_and_scoring_change_neither_the_model_nor_the_outputs(name, values):
    hold(scorer_rules.changes_nothing, name, values)


@every_scorer_case
def test_scores_are_the_same_with_and_without_gradients(name, values, train_outputs, unseen_outputs):
    assert train_outputs.features.is_inference() and unseen_outputs.logits.is_inference()
    hold(scorer_rules.same_under_gradients, name, values)


@every_scorer_case
def test_scorers_never_read_labels_when_scoring(name, values):
    hold(scorer_rules.reads_no_labels, name, values)


class Careless(Scorer):
    """Makes a tensor without saying where."""

    def score(self, out):
        return out.logits.amax(dim=-1) + torch.zeros(len(out.logits))


class Homesick(Scorer):
    """Brings its scores home."""

    def score(self, out):
        return out.logits.amax(dim=-1).cpu()


def test_a_scorer_that_leaves_its_device_is_caught(unseen_outputs):
    with simulated() as away:
        out = moved(unseen_outputs, away)
        with pytest.raises(RuntimeError, match="tensors on meta and on cpu"):
            Careless().score(out)
        assert Homesick().score(out).device == CPU


@every_scorer_case
def test_scorers_work_on_whatever_device_the_tensors_are(name, values):
    hold(scorer_rules.scores_where_it_is, name, values)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_scorer_case
def test_scorers_give_the_same_scores_on_cuda(name, values, train_outputs, unseen_outputs):
    cuda = torch.device("cuda")
    train, unseen = (reading(name, out, values) for out in (train_outputs, unseen_outputs))
    there, away = (reading(name, moved(out, cuda), values) for out in (train_outputs, unseen_outputs))
    scores = scores_of(fitted(name, values, there), away)
    assert scores.device.type == "cuda"
    expected = scores_of(fitted(name, values, train), unseen)
    require_same(scores.cpu(), expected, "they differ", tolerance=1e-2)


@pytest.mark.parametrize(("name", "key"), hyperparameters(SCORERS))
def test_every_hyperparameter_of_a_scorer_changes_its_scores(name, key):
    hold(scorer_rules.hyperparameter_changes_scores, name, key=key)


@every_case
def test_a_method_reads_back_from_its_repr(name, values):
    hold(contract.reads_back, name, values)


@every_method
def test_a_new_method_holds_nothing_but_its_hyperparameters(name):
    hold(contract.holds_nothing_else, name)


@every_scorer_case
def test_what_is_learnt_does_not_show_in_the_repr(name, values):
    hold(scorer_rules.hides_what_it_learnt, name, values)


@every_method
def test_the_card_read_from_the_source_agrees_with_the_class(name):
    hold(contract.agrees_with_its_card, name)


@every_method
def test_every_method_file_names_its_paper_and_describes_its_class(name):
    paper = " ".join(CARDS[name].paper.split())
    assert re.search(r"\b[A-Z]\. \S+( et al\.| and .+?)?, .+, .*\b(19|20)\d\d\b", paper), (
        "'A. Author, Title, Venue year'"
    )
    hold(contract.describes_itself, name)


@every_method
def test_every_method_file_has_at_most_a_hundred_lines(name):
    assert len(CARDS[name].path.read_text().splitlines()) <= 140


@every_trainer
def test_every_trainer_names_a_scorer_a_start_and_needs_that_exist(name):
    hold(trainer_rules.names_what_exists, name)
    assert load_class(CARDS[name]).needs <= {"wild", "environments", "views", "outliers", "labels"}


@pytest.mark.parametrize("name", [name for name in TRAINERS if name not in NOTHING_LEARNT])
def test_the_loss_falls(name):
    assert len(toy().losses(make(name))) == 20
    hold(trainer_rules.loss_falls, name)


@every_trainer
def test_every_trainable_parameter_moves_and_stays_finite(name):
    assert trainer_rules.takes_steps(subject_of(name), toy()) == (name not in NOTHING_LEARNT)
    hold(trainer_rules.weights_move, name)


@every_trainer
def test_what_a_trainer_learns_from_wild_images_or_outliers_reaches_the_network(name):
    hold(trainer_rules.outliers_teach, name)


@every_trainer
def test_a_trainer_adds_an_ood_head_if_and_only_if_it_says_so(name):
    hold(trainer_rules.adds_what_it_says, name)


@every_trainer
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(name):
    hold(trainer_rules.follows_the_seed, name)


@every_trainer_mode
def test_a_training_resumed_from_its_checkpoint_ends_with_the_same_weights(name, values):
    hold(trainer_rules.resumes, name, values)


@every_trainer
def test_predictions_after_training_are_deterministic(name):
    assert ("transductive" in toy().trained(load_class(CARDS[name])).loop.notes) == (name in TRANSDUCTIVE)
    hold(trainer_rules.predicts_the_same, name)


@every_trainer_mode
def test_trainers_work_on_whatever_device_the_model_is(name, values):
    hold(trainer_rules.trains_where_it_is, name, values)


@pytest.mark.parametrize(("name", "key"), hyperparameters(TRAINERS))
def test_every_hyperparameter_of_a_trainer_changes_its_weights(name, key):
    hold(trainer_rules.hyperparameter_changes_weights, name, key=key)


def test_every_rule_is_tried_here():
    rules = {
        id(rule): name for module in (contract, scorer_rules, trainer_rules) for name, rule in vars(module).items()
    }
    text = Path(__file__).read_text(encoding="utf-8")
    assert [rule.sentence for rule in RULES if f".{rules[id(rule)]}, name" not in text] == []
