"""Evaluation as a whole: what is passed and scored, and in which pieces."""

import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from data_files import write
from stand_ins import data_in, picture

import oodbench
from oodbench.config import suite as suites
from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.learning import bank, evaluation, outputs
from oodbench.learning.evaluation import Evaluation, KeyedScorer
from oodbench.learning.method import Scorer
from oodbench.results.stored import read_scores
from oodbench.running.execution import keyed
from oodbench.running.trained import build_model, frozen

KNN = load_class(Registry().card("knn"))
SCORERS = "msp,energy,odin,mahalanobis,vim,knn"


def run(folder):
    return oodbench.run("digits-c", SCORERS, ["unseen-digits"], preset="smoke", results=folder)


def test_a_large_split_is_scored_in_parts_with_the_same_scores(tmp_path, monkeypatch):
    at_once = run(tmp_path / "at-once")
    seen = []
    score = KNN.finish
    monkeypatch.setattr(evaluation, "ROWS", 7)
    monkeypatch.setattr(KNN, "finish", lambda knn, carried, out: seen.append(len(carried)) or score(knn, carried, out))
    in_parts = run(tmp_path / "in-parts")
    assert max(seen) == 7
    for one, other in zip(at_once, in_parts, strict=True):
        for part, scored in read_scores(one).items():
            np.testing.assert_allclose(read_scores(other)[part].scores, scored.scores, rtol=1e-5, atol=1e-7)


def test_the_confidence_of_every_image_is_stored_the_negated_score_of_msp(tmp_path):
    for result in run(tmp_path):
        splits = read_scores(result)
        assert splits.keys() == {"id", "covariate", "semantic"}
        for split, scored in splits.items():
            assert scored.confidence.dtype == np.float32 and scored.confidence.shape == scored.predictions.shape
            assert (scored.confidence >= 1 / 10).all() and (scored.confidence <= 1).all(), split
            if result.method == "msp":
                np.testing.assert_array_equal(scored.confidence, -scored.scores)


def test_on_a_cpu_large_images_pass_few_at_a_time(new_model):
    sizes = []
    model = new_model()
    model.features = lambda x: sizes.append(len(x)) or torch.zeros(len(x), model.head.in_features)
    for side, expected in ((32, 32), (28, 256)):
        sizes.clear()
        outputs.forward(model, torch.zeros(300, 1, side, side, dtype=torch.uint8))
        assert sizes[0] == expected and sum(sizes) == 300


SUITE = suites.load("digits-c", "smoke")
PARTS = build_parts(SUITE, SUITE.settings[0], 0)


def of(name):
    return keyed(Registry().method(name).scorer)


def evaluated(*expected):
    return Evaluation(frozen(build_model(SUITE, 0)), PARTS.labelled, expected=expected)


def scores(found):
    return {split: each.scores for split, each in found[0].items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for split in one:
        np.testing.assert_array_equal(one[split], other[split])


def test_scorers_scored_together_give_the_scores_that_each_gives_alone():
    names = SCORERS.split(",")
    together = evaluated(*map(of, names))
    for name in names:
        assert_same(scores(together.score(of(name), PARTS)), scores(evaluated().score(of(name), PARTS)))


def test_the_first_scorer_brings_the_scores_of_all_that_are_expected(monkeypatch):
    together = evaluated(of("msp"), of("knn"))
    together.score(of("msp"), PARTS)
    monkeypatch.setattr(KNN, "score", lambda *_: pytest.fail("scored again"))
    monkeypatch.setattr(bank, "compare", lambda *_: pytest.fail("compared again"))
    together.score(of("knn"), PARTS)


class Broken(Scorer):
    """Fails where it is told to."""

    calls = 0

    def __init__(self, where):
        self.where = where

    def fit(self, train, validation=None):
        if self.where == "fit":
            raise UserError("cannot fit")

    def score(self, out):
        Broken.calls += 1
        if self.where == "score":
            raise UserError("cannot score")
        return out.logits.amax(dim=-1)


@pytest.mark.parametrize("where", ["fit", "score"])
def test_an_expected_scorer_that_fails_fails_alone_and_when_it_is_asked_for(where):
    broken = KeyedScorer(Broken(where), "broken", "broken", shipped=True)
    together = evaluated(broken, of("msp"), of("energy"))
    for name in ("msp", "energy"):
        assert_same(scores(together.score(of(name), PARTS)), scores(evaluated().score(of(name), PARTS)))
    with pytest.raises(UserError, match=f"cannot {where}"):
        together.score(broken, PARTS)


def test_a_scorer_of_somebody_else_is_scored_when_it_is_asked_for_and_not_before():
    Broken.calls = 0
    theirs = KeyedScorer(Broken(""), "theirs", "theirs", shipped=False)
    together = evaluated(theirs, of("msp"))
    together.score(of("msp"), PARTS)
    assert Broken.calls == 0
    together.score(theirs, PARTS)
    assert Broken.calls == 3


def test_what_scorers_share_is_computed_once(monkeypatch):
    counts = {"unit": 0, "product": 0}
    unit, addmm = outputs.unit, torch.addmm

    def counted(name, function):
        def call(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return call

    names = [of("knn"), KeyedScorer(KNN(3), "other", "other", shipped=True)]
    together = evaluated(*names)
    for each in names:
        together.fitted(each, PARTS.id_validation)
    monkeypatch.setattr(outputs, "unit", counted("unit", unit))
    monkeypatch.setattr(bank.torch, "addmm", counted("product", addmm))
    for each in names:
        together.score(each, PARTS)
    assert counts == {"unit": 3, "product": 3}, "one for each split"


class Forgetful(KNN):
    """Fails in the second part of a split, if it is compared together with others."""

    alone = False
    parts = 0

    def finish(self, carried, out):
        Forgetful.parts += 1
        if Forgetful.parts == 2 and not Forgetful.alone:
            Forgetful.alone = True
            raise UserError("cannot go on")
        return super().finish(carried, out)


def test_scorers_that_compare_together_go_on_alone_where_one_of_them_fails(monkeypatch):
    monkeypatch.setattr(evaluation, "ROWS", 50)
    Forgetful.alone, Forgetful.parts = False, 0
    together = evaluated(KeyedScorer(Forgetful(50), "forgetful", "forgetful", shipped=True), of("knn"))
    assert_same(scores(together.score(of("knn"), PARTS)), scores(evaluated().score(of("knn"), PARTS)))


class Counting(Scorer):
    """Scores every row by the number of validation images it was fitted on."""

    needs = frozenset({"validation"})

    def fit(self, train, validation=None):
        self.rows = len(validation.logits)

    def score(self, out):
        return out.logits.amax(dim=-1) * 0 + self.rows


def test_a_scorer_that_is_fitted_on_other_validation_images_stays_fitted_on_the_first():
    counting = KeyedScorer(Counting(), "counting", "counting", shipped=True)
    together = evaluated(counting)
    fewer = replace(PARTS, id_validation=PARTS.id_validation.take(slice(7)))
    first, second = (together.fitted(counting, parts.id_validation)[0] for parts in (PARTS, fewer))
    assert (first.rows, second.rows) == (len(PARTS.id_validation), 7)
    assert not hasattr(counting.scorer, "rows")


def test_two_folders_of_one_name_get_scores_of_their_own(tmp_path):
    random = np.random.default_rng(0)
    names = [f"{kind}/{i}.png" for kind in "ab" for i in range(9)]
    places = [write(tmp_path / above / "scenes", {name: picture(random, side=8) for name in names}) for above in "ab"]
    with data_in(tmp_path / "data"):
        suite = suites.load("digits-c", "smoke").with_sets([f"folder:{places[0]}"], [f"folder:{places[1]}"])
        setting = next(each for each in suite.settings if each.semantic == each.covariate == "scenes")
        parts = build_parts(suite, setting, 0)
        rows = np.arange(4)
        semantic, covariate = (
            replace(part, chosen=rows, rows=rows, labels=rows) for part in (parts.semantic, parts.covariate)
        )
        parts = replace(parts, semantic=semantic, covariate=covariate)
        assert semantic.digest == covariate.digest and semantic.key != covariate.key
        together, alone = (Evaluation(frozen(build_model(suite, 0)), parts.labelled) for _ in range(2))
        found = scores(together.score(of("msp"), parts))
        assert not np.array_equal(found["semantic"], found["covariate"])
        swapped = scores(alone.score(of("msp"), replace(parts, semantic=covariate, covariate=semantic)))
        np.testing.assert_array_equal(found["semantic"], swapped["covariate"])


def test_images_whose_outputs_are_known_do_not_pass(monkeypatch):
    model = frozen(build_model(SUITE, 0))
    expected = {name: scores(Evaluation(model, PARTS.labelled).score(of(name), PARTS)) for name in ("msp", "knn")}
    known = {}
    for part in (PARTS.labelled, PARTS.id, PARTS.covariate, PARTS.semantic):
        known[part.key] = outputs.forward(model, torch.from_numpy(part.images), torch.from_numpy(part.labels))
    monkeypatch.setattr(evaluation, "forward_reading", lambda *_: pytest.fail("passed again"))
    knowing = Evaluation(model, PARTS.labelled, known=known)
    for name, own in expected.items():
        found = knowing.score(of(name), PARTS)
        assert_same(scores(found), own)
        assert found[1]["forward"] == 0


def test_a_split_without_images_is_left_out():
    nothing = PARTS.id.take(slice(0))
    for name in ("covariate", "semantic"):
        found, _ = evaluated().score(of("msp"), replace(PARTS, **{name: nothing}))
        assert found.keys() == {"id", "covariate", "semantic"} - {name}


BANKS = ("knn", "nnguide", "relation")


def test_a_bank_in_half_precision_is_one_for_all_and_gives_nearly_the_same_scores():
    whole, half = (
        Evaluation(frozen(build_model(SUITE, 0)), PARTS.labelled, [*map(of, BANKS)], half_bank=asked)
        for asked in (False, True)
    )
    for name in BANKS:
        found, own = scores(half.score(of(name), PARTS)), scores(whole.score(of(name), PARTS))
        for split in own:
            assert 0 < np.abs(found[split] - own[split]).max() < 0.002 * np.ptp(own[split])
    (bank_,) = {
        id(each): each for each in (half.fitted(of(name), PARTS.id_validation)[0].bank for name in BANKS)
    }.values()
    assert bank_.dtype == torch.float16 and bank_.shape[0] == len(PARTS.labelled)


def test_with_a_half_bank_the_training_rows_are_not_in_memory_otherwise_while_images_are_scored():
    model = frozen(build_model(SUITE, 0))
    half = Evaluation(model, PARTS.labelled, [of("knn"), of("mahalanobis"), of("msp")], half_bank=True)
    rows = weakref.ref(half.outputs(PARTS.labelled, labels=True)[0].features)
    half.score(of("msp"), PARTS)
    assert rows() is None
    for name in ("mahalanobis", "vim"):  # fitted before, and passed again for
        assert_same(
            scores(half.score(of(name), PARTS)), scores(Evaluation(model, PARTS.labelled).score(of(name), PARTS))
        )


def test_features_too_large_for_half_precision_have_a_half_bank_all_the_same():
    rows = 1e6 * torch.randn(9000, 4, generator=torch.Generator().manual_seed(0))
    small = bank.halved(rows)
    assert small.dtype == torch.float16
    torch.testing.assert_close(outputs.unit(small), outputs.unit(rows), rtol=0, atol=1e-3)


def test_a_half_bank_of_somebody_else_s_scorer_is_its_own():
    theirs = KeyedScorer(KNN(3), "theirs", "theirs", shipped=False)
    half = Evaluation(frozen(build_model(SUITE, 0)), PARTS.labelled, half_bank=True)
    own, ours = (half.fitted(each, PARTS.id_validation)[0].bank for each in (theirs, of("knn")))
    assert own.dtype == ours.dtype == torch.float16 and torch.equal(own, ours) and own is not ours


def test_how_far_passes_and_scoring_are_is_told():
    heard = []
    chosen = [of("msp"), of("knn"), of("vim")]
    evaluation = Evaluation(
        frozen(build_model(SUITE, 0)), PARTS.labelled, chosen, watch=lambda *each: heard.append(each)
    )
    evaluation.score(chosen[0], PARTS)
    shares = {}
    for what, share in heard:
        shares.setdefault(what, []).append(share)
    count = len(PARTS.labelled)
    passing = shares[f"{count:,} images through the network"]
    assert len(passing) == -(-count // 256) and passing == sorted(passing) and passing[-1] == 1
    assert shares[f"3 scorers on {len(PARTS.semantic):,} images"] == [0, 1 / 3, 2 / 3]
