"""Checkpoints: what is measured by domain while a network trains, and that the training does not notice."""

import json

import numpy as np
import pytest
import torch
from command_line import assert_done, assert_refused, oodbench
from data_files import write
from stand_ins import arrays, data_in, keep, picture

from oodbench.config import suite as suites
from oodbench.config.cards import load_class
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Registry
from oodbench.data import lookup, store
from oodbench.data.parts import build_parts
from oodbench.learning.batches import Data
from oodbench.learning.domain_accuracy import observer
from oodbench.learning.loop import OBSERVED_EPOCHS, Observer, observed_epochs
from oodbench.learning.method import Loop
from oodbench.results.folder import read_folder
from oodbench.results.metrics import accuracy
from oodbench.results.result import EpochAccuracies
from oodbench.results.stored import read_scores
from oodbench.running.trained import build_model

CPU = torch.device("cpu")


def test_about_twenty_epochs_are_observed_evenly_spaced_and_always_the_last():
    assert observed_epochs(1) == {0} and observed_epochs(5) == {0, 1, 2, 3, 4}
    assert observed_epochs(80) == set(range(3, 80, 4))
    for epochs in range(OBSERVED_EPOCHS, 300):
        found = sorted(observed_epochs(epochs))
        assert len(found) == OBSERVED_EPOCHS and found[-1] == epochs - 1
        assert max(np.diff(found)) - min(np.diff(found)) <= 1


class Curious:
    """An observer that does what would disturb a training if it were let."""

    def __init__(self, name=""):
        self.name, self.modes = name, []

    def __call__(self, model, loop):
        self.modes.append({module.training for module in model.modules()})
        torch.rand(7)
        with torch.no_grad():
            model(torch.rand(4, 1, 8, 8))
        return {"by": self.name}


def observed_by(look):
    return [] if look is None else [Observer("domains", look)]


def trained(new_model, data, observe, method="erm", checkpoint=None, **changes):
    recipe = Recipe(**{"epochs": 3, "batch_size": 40, "lr": 0.1} | changes)
    model, loop = new_model(), Loop(recipe, 0, CPU, checkpoint, observers=observed_by(observe))
    trainer = load_class(Registry().card(method))()
    trainer.extend(model)
    trainer.train(model, data, loop)
    return model.state_dict(), loop


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("method", ["erm", "mldg", "rsc", "scone"])
@pytest.mark.parametrize("freeze_bn", [False, True])
def test_a_training_that_is_observed_ends_with_the_same_bits(new_model, toy_data, method, freeze_bn):
    curious = Curious()
    usual, log = trained(new_model, toy_data, None, method, freeze_bn=freeze_bn)
    watched, seen = trained(new_model, toy_data, curious, method, freeze_bn=freeze_bn)
    assert same(usual, watched)
    assert curious.modes == [{False}] * 3
    assert [record.pop("domains")["epoch"] for record in seen.log] == [0, 1, 2]
    assert seen.log == log.log


def test_the_network_is_given_back_in_the_mode_it_was_in(new_model, toy_data):
    model, modes = new_model(), []
    loop = Loop(Recipe(epochs=1, batch_size=40, lr=0.1, freeze_bn=True), 0, CPU, observers=observed_by(Curious()))
    for _ in loop.epochs(model, toy_data, load_class(Registry().card("erm"))().loss):
        modes = {type(module).__name__: module.training for module in model.modules()}
    assert modes["Conv2d"] and not modes["BatchNorm2d"]


def test_a_checkpoint_says_after_how_many_steps(new_model, toy_data):
    _, loop = trained(new_model, toy_data, Curious())
    told = [record["domains"] for record in loop.log]
    assert [(each["epoch"], each["step"]) for each in told] == [(0, 5), (1, 10), (2, 15)]  # 200 rows in batches of 40


def test_a_stage_is_observed_too(new_model, toy_data):
    loop = Loop(Recipe(epochs=1, batch_size=40, lr=0.1), 0, CPU, observers=observed_by(Curious())).stage("margin-1")
    load_class(Registry().card("erm"))().train(new_model(), toy_data, loop)
    assert loop.log[0]["domains"] == {"epoch": 0, "step": 5, "by": ""}


class Stopped(Exception):
    pass


def test_a_resumed_training_keeps_the_checkpoints_from_before(new_model, toy_data, tmp_path):
    before, after = Curious("before"), Curious("after")

    def stops(model, loop):
        if len(before.modes) == 2:
            raise Stopped
        return before(model, loop)

    data = Data(toy_data.labelled, toy_data.num_classes)
    whole, log = trained(new_model, data, Curious())
    with pytest.raises(Stopped):
        trained(new_model, data, stops, checkpoint=tmp_path / "half.ckpt")
    resumed, kept = trained(new_model, data, after, checkpoint=tmp_path / "half.ckpt")
    assert same(resumed, whole)
    assert [record["domains"]["epoch"] for record in kept.log] == [0, 1, 2]
    told = [record["domains"]["by"] for record in kept.log]
    assert told[0] == "before" and told[2] == "after"  # in between it depends on when it was saved
    assert [{**record, "domains": 0} for record in kept.log] == [{**record, "domains": 0} for record in log.log]


SUITE = "colored-mnist"


@pytest.fixture(scope="module")
def domains(tmp_path_factory):
    """300 small images in three domains, and a results folder."""
    folder = tmp_path_factory.mktemp("domains")
    with data_in(folder / "data"), pytest.MonkeyPatch.context() as patch:
        store.save("mnist", arrays(lookup.dataset("mnist"), np.random.default_rng(0)), "a test")
        for name in (SUITE, "rotated-mnist"):
            keep(lookup.dataset(name), np.random.default_rng(1), patch)
        yield folder


def run(folder, *more, suite=SUITE):
    smoke = ("run", "--suite", suite, "--preset", "smoke", "--results", folder, "--device", "cpu")
    return oodbench(*smoke, "--set", "recipe.epochs=3", *more)


@pytest.fixture(scope="module")
def results(domains):
    assert_done(run(domains / "results", "--methods", "erm,irm"))
    found, _ = read_folder(domains / "results")
    return found


def test_a_result_carries_accuracies_of_every_domain_at_every_checkpoint(results):
    assert len(results) == 6
    for result in results:
        held_out = result.config.setting.covariate
        told = result.domain_accuracies
        assert [each.epoch for each in told] == [0, 1, 2] and told[0].step * 3 == told[2].step
        for each in told:
            assert set(each.validation) == {"plus90", "plus80", "minus90"} and set(each.test) == {held_out}
        assert told[-1].test[held_out] == result.metrics["covariate_acc"]
        log = [json.loads(line) for line in result.path.with_suffix(".jsonl").read_text().splitlines()]
        assert [EpochAccuracies(**record["domains"]) for record in log] == told
        parts = result.data.parts
        assert parts["covariate"].rows == 80 and parts["covariate_validation"].rows == 20


def test_accuracies_on_training_domains_are_those_of_the_id_test_images(results):
    """From the predictions that the run stored, image by image."""
    suite = suites.load(SUITE, "smoke")
    names = lookup.dataset(SUITE).domains
    for result in results:
        parts = build_parts(suite, suite.setting(result.setting), 0)
        scored = read_scores(result)["id"]
        for number in set(parts.id.domains):
            rows = parts.id.domains == number
            expected = accuracy(scored.predictions[rows], scored.labels[rows])
            assert result.domain_accuracies[-1].validation[names[number]] == pytest.approx(expected, abs=1e-12)


def test_an_observer_reads_the_held_out_domain_in_the_order_of_its_parts(domains):
    """A network that always answers class 1 is right as often as the labels are 1."""
    suite = suites.load(SUITE, "smoke")
    parts = build_parts(suite, suite.setting("covariate=plus80"), 0)
    model = build_model(suite, 0)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.tensor([0.0, 1.0]))
    told = observer(lookup.dataset(SUITE).domains, parts).look(model, None)
    assert told["test"] == {"plus80": parts.covariate.labels.mean()}
    assert told["validation"]["plus80"] == parts.covariate_validation.labels.mean()
    assert told["validation"]["minus90"] == parts.id.labels[parts.id.domains == 2].mean()


def test_nothing_is_observed_where_no_domain_is_held_out():
    suite = suites.load("digits-c", "smoke")
    assert observer((), build_parts(suite, suite.settings[0], 0)) is None


def test_the_table_of_a_run_names_the_selection_and_ends_with_the_average(results, domains):
    shown = assert_done(oodbench("table", domains / "results", "--format", "text"))
    assert "Model selection: training-domain, " in shown and "\nAverage\n" in shown
    header = (domains / "results" / f"{SUITE}-smoke" / "table.md").read_text()
    assert "Model selection: training-domain, " in header
    oracle = assert_done(oodbench("table", domains / "results", "--selection", "oracle", "--format", "json"))
    by_place = {(r["method"], r["setting"], r["metric"]): r["mean"] for r in json.loads(oracle)}
    for result in results:
        assert by_place[result.method, result.setting, "covariate_acc"] == result.metrics["covariate_acc"]


def test_a_search_with_pairs_is_selected_from_by_every_rule(domains):
    """Two draws of three domains and of their three pairs; what is chosen follows from the stored records."""
    folder = domains / "search"
    assert_done(run(folder, "--methods", "erm", "--draws", "2", "--selection", "leave-one-domain-out"))
    found = {(r.setting, r.draw): r.domain_accuracies for r in read_folder(folder)[0]}
    assert len(found) == 12
    shown = assert_done(oodbench("table", folder, "--selection", "leave-one-domain-out", "--format", "json"))
    means = {r["setting"]: r["mean"] for r in json.loads(shown) if r["metric"] == "covariate_acc"}
    assert list(means) == ["covariate=plus90", "covariate=plus80", "covariate=minus90", "Average"]

    def value(draw, epoch):
        first, second = (found[f"covariate={pair}", draw][epoch].test for pair in ("plus90+plus80", "plus80+minus90"))
        return (first["plus90"] + second["minus90"]) / 2

    draw, epoch = max(((d, e) for d in range(2) for e in range(3)), key=lambda place: value(*place))
    assert means["covariate=plus80"] == found["covariate=plus80", draw][epoch].test["plus80"]
    assert "among 2 draws" in assert_done(oodbench("table", folder))


def test_wild_methods_have_checkpoints_beside_a_semantic_set(domains):
    random = np.random.default_rng(0)
    odd = write(domains / "odd", {f"{i}.png": picture(random, side=14) for i in range(60)})
    folder = domains / "wild"
    more = ("--methods", "scone", "--semantic", f"folder:{odd}", "--set", "recipe.batch_size=32")
    assert_done(run(folder, *more, "--covariate", "turn30", suite="rotated-mnist"))
    (result,) = read_folder(folder)[0]
    told = result.domain_accuracies
    assert len(told) == 3 and told[-1].test["turn30"] == result.metrics["covariate_acc"]
    assert result.data.parts["covariate"].rows == 15 and result.data.parts["id"].rows == 75  # 30 %
    assert_refused(
        run(folder, *more, "--covariate", "minus90"),
        "images of 3 channels cannot become like the ID images of 2; choose another set",
    )
