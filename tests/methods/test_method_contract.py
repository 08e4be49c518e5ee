"""What every method promises, asked of whatever is registered: a new file in `methods/` is tested as it stands.

The rules are those of `oodbench.testing`, which anybody can try on a method of their own.
"""

import re

import pytest
import torch

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.method import Scorer
from oodbench.testing import RULES, check_method, scorer_rules
from oodbench.testing.contract import Subject, Violation, subjects
from oodbench.testing.scorer_rules import moved, require_same, scores_of
from oodbench.testing.simulated_device import simulated
from oodbench.testing.toy_problem import toy
from oodbench.testing.trainer_rules import takes_steps

CARDS = {name: card for name, card in Registry().cards.items() if card.module.startswith("oodbench.methods.")}
SCORERS = [name for name, card in CARDS.items() if card.kind == "Scorer"]
TRAINERS = [name for name, card in CARDS.items() if card.kind == "Trainer"]
CPU = torch.device("cpu")


@pytest.mark.parametrize("name", CARDS)
def test_a_method_keeps_every_rule_with_its_defaults_and_with_each_hyperparameter_changed(name):
    kept = check_method(load_class(CARDS[name]))
    assert kept == [rule.sentence for rule in RULES if rule.kind in ("", CARDS[name].kind)]
    if name in TRAINERS:
        notes, does_learn = toy().trained(load_class(CARDS[name])).loop.notes, takes_steps(subject_of(name), toy())
        assert does_learn == (name != "bn-adapt")  # a control
        assert ("transductive" in notes) == (name in ("arm", "mtl"))
        assert not does_learn or len(toy().losses(subject_of(name).make())) == 20


def subject_of(name, **values):
    return Subject(CARDS[name], load_class(CARDS[name]), values)


def test_rules_are_tried_with_every_hyperparameter_changed_or_those_that_name_a_mode_or_for_each_of_them():
    labels = {cases: [each.label for each in subjects(CARDS["odin"], object, cases)] for cases in ("values", "modes")}
    assert labels == {"values": ["odin", "odin,temperature=2000.0", "odin,magnitude=0.0028"], "modes": ["odin"]}
    asked = [each.label for each in subjects(CARDS["odin"], object, "hyperparameters")]
    assert asked == ["odin.temperature", "odin.magnitude"]
    modes = [each.label for each in subjects(CARDS["woods"], object, "modes")]
    assert modes == ["woods", "woods,form=reference", "woods,bn_mode=id_only"]


def test_a_scorer_is_right_about_far_images_by_a_wide_margin_and_caught_with_the_wrong_sign(monkeypatch):
    monkeypatch.setattr(scorer_rules, "WRONG_SIDE", 0.8)
    for name in SCORERS:
        scorer_rules.far_images_score_higher.holds(subject_of(name), toy())
    monkeypatch.undo()
    right = scorer_rules.scores_of
    monkeypatch.setattr(scorer_rules, "scores_of", lambda scorer, out: -right(scorer, out))
    for name in SCORERS:
        with pytest.raises(Violation, match="higher must mean more OOD$"):
            scorer_rules.far_images_score_higher.holds(subject_of(name), toy())


def test_two_scorers_go_back_to_the_images_unless_more_is_asked_for():
    assert {name for name in SCORERS if "images" in CARDS[name].needs} == {"adascale", "odin"}


def test_the_outputs_that_scorers_are_tried_on_are_those_of_a_run(train_outputs, unseen_outputs):
    assert train_outputs.features.is_inference() and unseen_outputs.logits.is_inference()


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_scorers_give_the_same_scores_on_cuda():
    cuda = torch.device("cuda")
    for subject in (each for name in SCORERS for each in subjects(CARDS[name], load_class(CARDS[name]), "values")):
        try:
            train, validation, unseen = subject.outputs(toy())
        except UserError:  # a changed value may not go with the other defaults
            continue
        expected = scores_of(subject.fitted(train, validation), unseen)
        scores = scores_of(subject.fitted(moved(train, cuda), moved(validation, cuda)), moved(unseen, cuda))
        assert scores.device.type == "cuda"
        require_same(scores.cpu(), expected, subject.label, tolerance=1e-2)


def test_every_method_file_names_its_paper():
    citation = r"\b[A-Z]\. \S+( et al\.| and .+?)?, .+, .*\b(19|20)\d\d\b"  # A. Author, Title, Venue year
    assert [name for name in CARDS if not re.search(citation, " ".join(CARDS[name].paper.split()))] == []


def test_every_method_file_has_at_most_140_lines():
    assert [name for name in CARDS if len(CARDS[name].path.read_text().splitlines()) > 140] == []


def test_trainers_need_nothing_but_what_a_run_can_give():
    known = {"wild", "environments", "views", "outliers", "labels"}
    assert [name for name in TRAINERS if not load_class(CARDS[name]).needs <= known] == []
