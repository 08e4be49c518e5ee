"""A detector for a given network: what its notes say of the images that drew its line."""

import numpy as np
import pytest
import torch
from command_line import assert_done, oodbench
from own_digits import digits, trained, write_folder, write_network

import oodbench as api
from oodbench.errors import UserError
from oodbench.learning import evaluation
from oodbench.learning.outputs import forward_reading as forward
from oodbench.running.given.fit import SEEN_IN_TRAINING
from oodbench.running.given.fit import fit as fit_given
from oodbench.running.given.request import given_request
from oodbench.running.reporting import Silent


@pytest.fixture
def pairs():
    data = digits()
    return {"train": (data.train, data.train_labels), "id": (data.test, data.test_labels)}


def test_a_line_by_a_lot_of_the_id_images_may_be_too_tight_and_the_detector_says_so(pairs):
    notes = api.fit(trained(), id=pairs["train"], scorer="msp").card.notes
    assert (
        notes[0].startswith("no training images given, so 70 % of 'id', drawn at random")
        and notes[1] == SEEN_IN_TRAINING
    )


def test_a_line_by_images_that_the_user_keeps_from_training_is_not_doubted(pairs):
    notes = api.fit(trained(), **pairs, scorer="msp").card.notes
    assert notes[0].startswith("training images are those of 'train'") and SEEN_IN_TRAINING not in notes


def test_the_note_is_printed(tmp_path):
    write_network(tmp_path)
    photos = write_folder(tmp_path / "photos", digits().train, digits().train_labels)
    command = ["fit", "--model", f"{tmp_path}/my_net.py:build", "--weights", tmp_path / "mine.pt"]
    command += ["--id", f"folder:{photos}", "--scorer", "msp", "--mean", "0", "--std", "1", "--size", "8"]
    assert f"note: {SEEN_IN_TRAINING}\n" in assert_done(oodbench(*command, "--out", tmp_path / "detector"))


@pytest.fixture
def sets(pairs):
    data = digits()
    covariate = {"snow": (data.noisy, data.test_labels)}
    return {**pairs, "semantic": {"others": data.unseen}, "covariate": covariate, "cpu_threads": 1}


def test_covariate_images_count_as_id_in_the_choice_unless_detection_alone_is_the_aim(sets, tmp_path):
    results = api.evaluate(trained(), **sets, scorers="entropy,gmm", results=tmp_path)
    by_metric = {metric: results.best(metric).scorer for metric in ("auroc", "auroc_full")}
    assert by_metric == {"auroc": "gmm", "auroc_full": "entropy"}
    chosen = {aim: fitted(sets, tmp_path, aim).card.scorer.name for aim in (None, "both", "detection")}
    assert chosen == {None: "entropy", "both": "entropy", "detection": "gmm"}
    del sets["covariate"]
    assert fitted(sets, tmp_path, None).card.scorer.name == "gmm"
    with pytest.raises(UserError, match="--aim both keeps covariate images, and there are none"):
        fitted(sets, tmp_path, "both")


def fitted(sets, folder, aim):
    asked = given_request(model=trained(), **sets, scorers="entropy,gmm", results=folder)
    return fit_given(asked, "best", 0.95, Silent(), aim).detector


@pytest.mark.parametrize(
    ("more", "message"),
    [({"aim": "all"}, "unknown aim 'all'"), ({"aim": "both", "scorer": "msp"}, "aim= is for the choice of a scorer")],
)
def test_an_aim_that_decides_nothing_is_refused(sets, more, message):
    with pytest.raises(UserError, match=message):
        api.fit(trained(), **sets, **more)


def test_scores_that_evaluate_has_stored_are_taken_over_and_give_the_same_detector(sets, tmp_path, monkeypatch):
    api.evaluate(trained(), **sets, scorers="entropy,gmm", results=tmp_path / "stored")
    anew = fitted(sets, tmp_path / "none", "detection")
    assert not (tmp_path / "none").exists()  # fit leaves no results
    passed = []

    def counted(model, rows, *rest, **more):
        passed.append(len(rows))
        return forward(model, rows, *rest, **more)

    monkeypatch.setattr(evaluation, "forward_reading", counted)
    taken = fitted(sets, tmp_path / "stored", "detection")
    assert taken.card.scorer.name == "gmm" and taken.threshold == anew.threshold
    assert taken.card.flagged == anew.card.flagged and torch.equal(taken.id_scores, anew.id_scores)
    train = len(sets["train"][0])
    assert sum(passed) <= train  # those that GMM is fitted on, and no test image
    images = torch.from_numpy(digits().unseen[:20])
    assert torch.equal(taken(images).scores, anew(images).scores)


def test_stored_scores_of_other_images_are_not_taken(sets, tmp_path):
    api.evaluate(trained(), **sets, scorers="entropy", results=tmp_path)
    sets["semantic"] = {"others": digits().unseen[:100]}
    assert fitted(sets, tmp_path, "detection").card.flagged["others"].share.count == 100


def test_a_detector_that_rejects_more_of_what_it_should_keep_says_so(sets):
    sets["covariate"] = {"strange": (digits().unseen, np.zeros(len(digits().unseen), dtype=np.int64))}
    sets["semantic"] = {"familiar": digits().noisy[:200]}
    detector = api.fit(trained(), **sets, scorer="gmm")
    flagged = detector.flagged
    assert flagged["strange"] > flagged["familiar"]
    (note,) = [note for note in detector.notes if "rejects what it should keep" in note]
    assert f"'strange' are flagged more often ({100 * flagged['strange']:.1f} %)" in note
    assert f"'familiar' ({100 * flagged['familiar']:.1f} %)" in note


def test_a_detector_that_keeps_what_it_should_says_nothing_of_it(sets):
    notes = api.fit(trained(), **sets, scorer="gmm").notes
    assert not [note for note in notes if "rejects what it should keep" in note]


# A network without a linear head


class Squashed(torch.nn.Module):
    """Its outputs are no linear function of anything."""

    def __init__(self):
        super().__init__()
        self.net = trained()

    def forward(self, x):
        return 9 * self.net(x).tanh()


def test_a_layer_s_output_is_read_as_features_where_no_head_is_linear(sets, tmp_path):
    del sets["covariate"]
    results = api.evaluate(Squashed(), **sets, features="net.stem", results=tmp_path)
    run = results[0].config.given
    assert (run.features, run.head, run.form) == ("net.stem", None, "logits beside features")
    aurocs = {each.method: each.metrics["auroc"] for each in results}
    plain = {
        each.method: each for each in api.evaluate(trained(), **sets, scorers="knn,rmd,msp", results=tmp_path / "p")
    }
    for scorer in ("knn", "rmd"):  # which read features and classes alone
        assert aurocs[scorer] == pytest.approx(plain[scorer].metrics["auroc"], abs=1e-6)
    assert aurocs["msp"] != plain["msp"].metrics["auroc"]  # of other logits
    assert aurocs.keys().isdisjoint({"vim", "react", "residual", "gradnorm", "gram"}) and "odin" in aurocs


def test_its_detector_scores_what_was_evaluated_and_comes_back_from_its_folder(sets, tmp_path):
    detector = api.fit(Squashed(), **sets, scorer="knn", features="net.stem")
    images = torch.from_numpy(digits().unseen[:10])
    detector.save(tmp_path / "detector")
    again = api.Detector.load(tmp_path / "detector", model=Squashed())
    assert torch.equal(again(images).scores, detector(images).scores)
    assert torch.equal(again(images).labels, detector(images).labels)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"features": "net.stm"}, "unknown layer 'net.stm'; did you mean 'net.stem'"),
        ({"features": "net.stem", "head": "net.classify"}, "leave one of them out"),
        ({"features": "net.stem", "scorers": "vim"}, "the scorer 'vim' cannot be used: reads the head"),
        ({"scorers": "knn"}, 'features="LAYER" names a layer to read instead'),
    ],
)
def test_a_wrong_layer_is_refused_in_words(sets, tmp_path, more, message):
    with pytest.raises(UserError, match=message):
        api.evaluate(Squashed(), **sets, **more, results=tmp_path)
