"""Paths of trainings: measured while any trainer trains, without a trace, and stored with its results."""

import numpy as np
import pytest
import torch
from command_line import assert_done, assert_refused, smoke

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts, build_parts
from oodbench.functional import energy
from oodbench.learning.evaluation import KeyedScorer
from oodbench.learning.loop import Loop, Observer
from oodbench.learning.outputs import forward
from oodbench.learning.rows import as_rows
from oodbench.results.folder import read_folder
from oodbench.results.metrics import curve
from oodbench.running import trained, training_path
from oodbench.testing.toy_problem import CLASSES, FailingData, Interrupted, toy

CPU = torch.device("cpu")
CARDS = {name: card for name, card in Registry().cards.items() if card.module.startswith("oodbench.methods.")}
TRAINERS = [name for name, card in CARDS.items() if card.kind == "Trainer"]


def part(images, name):
    count = len(images)
    return ImagePart(images.numpy(), np.arange(count), np.arange(count) % CLASSES, np.arange(count), name)


def toy_parts():
    """The toy problem's images as a run has them."""
    data = toy().data
    nothing = part(data.id_test[:0], "nothing")
    wild = data.wild
    return Parts(
        *[part(data.labelled.images, "labelled"), nothing, nothing, nothing],
        *[part(data.id_validation, "validation"), nothing, nothing, nothing],
        *[part(data.id_test, "id"), part(wild.covariate, "covariate"), part(wild.semantic, "semantic")],
    )


def observer(name, points=4):
    scorer = load_class(CARDS[CARDS[name].scorer or "energy"])()
    keyed = KeyedScorer(scorer, "scorer", "scorer", shipped=True)

    def look(model, loop):
        constraints = [] if loop.constraints is None else loop.constraints(model)
        return {"metrics": training_path.measured(model, keyed, toy_parts()), "constraints": constraints}

    return Observer("path", look, points)


def train(name, observers=(), checkpoint=None, fails_after=None):
    trainer = load_class(CARDS[name])()
    data, model = toy().data_for(trainer), toy().start(trainer)
    if fails_after is not None:
        data = FailingData(**vars(data), limit=fails_after)
    loop = Loop(toy().recipe(trainer), 0, CPU, checkpoint, observers=observers, oracle=toy().oracle_for(trainer))
    torch.manual_seed(0)
    trainer.train(model, data, loop)
    return model.state_dict(), loop.log, torch.get_rng_state()


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_training_whose_path_is_measured_ends_with_the_same_bits(name):
    weights, log, random = train(name)
    watched, seen, random_too = train(name, [observer(name)])
    points = [point for record in seen for point in record.pop("path", [])]
    assert same(weights, watched) and torch.equal(random, random_too) and seen == log
    assert [point["step"] for point in points] == [0, 5, 10, 15]  # 200 rows in batches of 40, three times
    for point in points:
        assert {"id_acc", "covariate_acc", "fpr95", "auroc", "covariate_flagged"} <= point["metrics"].keys()
        assert all(0 <= value <= 1 for value in point["metrics"].values())


def test_a_resumed_training_keeps_its_earlier_points(tmp_path):
    whole = train("scone", [observer("scone", points=7)])
    with pytest.raises(Interrupted):
        train("scone", [observer("scone", points=7)], tmp_path / "half.ckpt", fails_after=2)
    resumed = train("scone", [observer("scone", points=7)], tmp_path / "half.ckpt")
    assert same(whole[0], resumed[0]) and whole[1] == resumed[1]


# In a run.


def results_of(folder):
    return {result.method: result for result in read_folder(folder)[0]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders with the same cells, without and with paths."""
    folder = tmp_path_factory.mktemp("paths")
    for name, more in (("plain", ()), ("measured", ("--path", 3))):
        assert_done(smoke(folder / name, "erm,msp,scone", "--setting", "unseen-digits", *more))
    return folder


@pytest.fixture(scope="module")
def plain(runs):
    return results_of(runs / "plain")


@pytest.fixture(scope="module")
def measured(runs):
    return results_of(runs / "measured")


def test_a_path_is_no_part_of_the_key_and_changes_no_bit(plain, measured):
    for method, result in plain.items():
        assert result.training_path == [] and result.key == measured[method].key
        assert result.weights == measured[method].weights and result.metrics == measured[method].metrics


def test_a_path_begins_where_the_training_starts_and_ends_where_it_ends(measured):
    erm, scone = measured["erm"], measured["scone"]
    assert [point.step for point in erm.training_path] == [0, 12, 24]
    assert [point.step for point in scone.training_path] == [0, 8, 16]
    assert scone.training_path[0].metrics == erm.training_path[-1].metrics
    for result in (erm, scone):  # of so few images all are measured
        last = result.training_path[-1].metrics
        for name in ("id_acc", "covariate_acc", "auroc"):
            assert last[name] == result.metrics[name]
    last = scone.training_path[-1].constraints
    assert [each.name for each in last] == ["alarms", "risk"]
    assert [(each.value, each.limit, each.met) for each in last] == [
        (pytest.approx(each.value), each.limit, each.met) for each in scone.constraints
    ]


def test_a_path_is_that_of_the_trainers_own_scorer(measured):
    assert measured["msp"].training == measured["erm"].training and measured["msp"].training_path == []


def test_thresholds_along_a_path_are_those_of_validation_images(measured):
    """Of the network at the end: a threshold of the test images would give the metrics of the result."""
    result = measured["scone"]
    suite = result.ran_suite
    parts = build_parts(suite, suite.setting(result.setting), 0)
    model = trained.of(result).model
    validation, semantic, covariate = (
        energy(forward(model, as_rows(each.images)).logits).numpy()
        for each in (parts.id_validation, parts.semantic, parts.covariate)
    )
    last, found = result.training_path[-1].metrics, curve(validation, semantic)
    assert last["fpr95"] == found.fpr95() != result.metrics["fpr95"]
    assert last["covariate_flagged"] == (covariate >= found.fpr95_threshold()).mean()


def test_a_finished_result_without_a_path_is_done_and_force_makes_one(runs, plain):
    folder, asked = runs / "plain", ("erm", "--setting", "unseen-digits", "--path", 3)
    assert_done(smoke(folder, *asked))
    assert results_of(folder)["erm"].training_path == []
    assert_done(smoke(folder, *asked, "--force"))
    assert [point.step for point in results_of(folder)["erm"].training_path] == [0, 12, 24]
    assert results_of(folder)["erm"].weights == plain["erm"].weights


@pytest.mark.parametrize("points", ["1", "-2", "100000"])
def test_a_path_has_a_start_and_an_end(tmp_path, points):
    assert_refused(smoke(tmp_path, "erm", f"--path={points}"), "--path")
