"""A network of the user's from Python: what is measured, stored, repeated and refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from own_digits import digits, made, trained, write_folder
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import oodbench
from oodbench.config import suite as suites
from oodbench.data.parts import build_parts
from oodbench.errors import UserError
from oodbench.results import metrics
from oodbench.results.result import read
from oodbench.results.stored import read_scores


def evaluate(model=None, tmp_path=None, **given):
    data = digits()
    sets = {
        "train": (data.train, data.train_labels),
        "id": (data.test, data.test_labels),
        "semantic": {"unseen": data.unseen},
        "scorers": "msp,energy,knn",
        "results": tmp_path / "results",
    }
    return oodbench.evaluate(trained() if model is None else model, **{**sets, **given})


def test_a_module_and_arrays_give_ordinary_results(tmp_path):
    results = evaluate(tmp_path=tmp_path, covariate={"noisy": (digits().noisy, digits().test_labels)})
    frame = results.frame()
    assert list(frame["scorer"]) == ["msp", "energy", "knn"]
    assert set(frame["trainer"]) == {"given"} and set(frame["group"]) == {"Your network"}
    assert set(frame["suite"]) == {"Net"} and set(frame["setting"]) == {"unseen"}
    assert frame["id_acc"].between(0.9, 1).all() and frame["auroc"].between(0.5, 1).all()
    assert (frame["covariate_acc"] < frame["id_acc"]).all()
    on_disk = oodbench.frame(tmp_path / "results")
    assert set(on_disk["key"]) == set(frame["key"])
    assert "MSP" in results.table() and results.best().scorer in {"msp", "energy", "knn"}


def test_metrics_are_those_of_the_network_s_own_outputs(tmp_path):
    """Of MSP, by hand: softmax of the module's logits."""
    data, net = digits(), trained()
    found = evaluate(net, tmp_path, scorers="msp")[0]

    def scores(images):
        with torch.no_grad():
            logits = net(torch.from_numpy(images).float() / 255)
        return -logits.softmax(1).amax(1).double().numpy(), logits.argmax(1).numpy()

    (id_scores, predicted), (semantic, _) = scores(data.test), scores(data.unseen)
    assert found.metrics["auroc"] == pytest.approx(metrics.auroc(id_scores, semantic), abs=1e-6)
    assert found.metrics["id_acc"] == np.mean(predicted == data.test_labels)


def test_the_same_call_twice_does_nothing_the_second_time(tmp_path):
    first = evaluate(tmp_path=tmp_path)
    times = [result.path.stat().st_mtime_ns for result in first]
    second = evaluate(tmp_path=tmp_path)
    assert [result.path for result in second] == [result.path for result in first]
    assert [result.path.stat().st_mtime_ns for result in second] == times
    evaluate(tmp_path=tmp_path, force=True)
    assert [result.path.stat().st_mtime_ns for result in first] != times


def test_a_folder_that_has_changed_since_is_read_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    for name, rows in (("one", 120), ("two", 90)):
        write_folder(tmp_path / name / "id", digits().test[:rows], digits().test_labels[:rows])
    found = []
    for name in ("one", "two"):
        monkeypatch.chdir(tmp_path / name)
        found.append(evaluate(tmp_path=tmp_path, train=None, id="folder:id", scorers="msp")[0])
    next(Path("id/digit3").iterdir()).unlink()
    found.append(evaluate(tmp_path=tmp_path, train=None, id="folder:id", scorers="msp")[0])
    rows = [sum(result.data.parts[part].rows for part in ("labelled", "id_validation", "id")) for result in found]
    assert rows == [120, 90, 89]


def test_other_weights_images_preprocessing_or_code_have_other_keys(tmp_path):
    def keys(model=None, **given):
        return {each.key for each in evaluate(model, tmp_path, **{"scorers": "msp", **given})}

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = trained()

        def forward(self, x):
            return self.net(x * 1.01)

    untrained = made()
    every = [
        keys(),
        keys(untrained),
        keys(mean="0.5", std="0.5"),
        keys(Other(), name="Net"),
        keys(semantic={"unseen": digits().unseen[:-1]}),
        keys(train=(digits().train[:-1], digits().train_labels[:-1])),
        keys(head="classify", set="knn.k=3", scorers="knn"),
        keys(scorers="knn"),
    ]
    assert len(set().union(*every)) == len(every)
    assert keys(name="another") == every[0]  # what a network is called changes no number


def test_a_loader_gives_the_numbers_of_the_same_array(tmp_path):
    data = digits()

    def loader(images, labels=None):
        floats = torch.from_numpy(images).float() / 255
        labels = torch.zeros(len(images), dtype=torch.long) if labels is None else torch.from_numpy(labels)
        return DataLoader(TensorDataset(floats, labels), batch_size=50)

    of_loaders = evaluate(
        tmp_path=tmp_path,
        train=loader(data.train, data.train_labels),
        id=loader(data.test, data.test_labels),
        semantic={"unseen": loader(data.unseen)},
        scorers="msp,knn,odin,gram",
    )
    of_arrays = evaluate(tmp_path=tmp_path, scorers="msp,knn,odin,gram", results=tmp_path / "others")
    assert [each.status for each in of_loaders] == ["ok"] * 4, [each.error for each in of_loaders]
    for ours, theirs in zip(of_loaders, of_arrays, strict=True):
        assert ours.metrics == pytest.approx(theirs.metrics, abs=1e-9)
    assert of_loaders[0].config.given.preprocessing["stated_by"] == "already preprocessed"


def test_a_shuffling_loader_is_refused_when_a_scorer_goes_back_to_the_images(tmp_path):
    data = digits()
    floats = torch.from_numpy(data.test).float() / 255
    shuffling = DataLoader(TensorDataset(floats, torch.from_numpy(data.test_labels)), batch_size=50, shuffle=True)
    train = (torch.from_numpy(data.train).float() / 255, data.train_labels)
    semantic = {"unseen": data.unseen.astype(np.float32) / 255}
    (found,) = evaluate(tmp_path=tmp_path, train=train, id=shuffling, semantic=semantic, scorers="odin")
    assert found.status == "failed" and "shuffle=False" in found.error


def test_a_network_of_a_run_gives_the_raw_scores_of_that_run(tmp_path):
    """To the bit, where the path is the same: the same images under scorers that are fitted on none."""
    (ran,) = oodbench.run("digits-c", "msp", settings="unseen-digits", preset="smoke", results=tmp_path / "run")
    suite = suites.load("digits-c", "smoke")
    parts = build_parts(suite, suite.setting("unseen-digits"), 0)
    found = oodbench.evaluate(
        oodbench.load(ran.path).model,
        train=(np.asarray(parts.labelled.images), parts.labelled.labels),
        id=(np.asarray(parts.id.images), parts.id.labels),
        covariate={"noisy": (np.asarray(parts.covariate.images), parts.covariate.labels)},
        semantic={"unseen": np.asarray(parts.semantic.images)},
        scorers="msp,energy,max-logit",
        cpu_threads=1,
        results=tmp_path / "given",
    )
    ours, theirs = read_scores(found[0]), read_scores(ran)
    for split in ("id", "covariate", "semantic"):
        assert np.array_equal(ours[split].scores, theirs[split].scores)
        assert np.array_equal(ours[split].confidence, theirs[split].confidence)
    assert found[0].metrics == ran.metrics


def test_a_suite_is_another_way_to_give_images(tmp_path):
    (ran,) = oodbench.run("digits-c", "msp", settings="unseen-digits", preset="smoke", results=tmp_path / "run")
    model = oodbench.load(ran.path).model
    found = oodbench.evaluate(
        model,
        suite="digits-c",
        preset="smoke",
        settings="unseen-digits",
        name="mine",
        scorers="msp,knn",
        results=tmp_path,
    )
    assert [each.method for each in found] == ["mine+msp", "mine+knn"]
    assert found[0].suite_label == "digits-c-smoke"
    assert found[0].metrics["id_acc"] == ran.metrics["id_acc"]  # the published test part
    parts = found[0].data.parts
    assert parts["labelled"].rows + parts["id_validation"].rows > 2 * ran.data.parts["labelled"].rows * 0.9
    assert parts["semantic"].rows >= ran.data.parts["semantic"].rows


def test_sets_may_be_missing_and_what_cannot_be_measured_is(tmp_path):
    covariate = {"noisy": (digits().noisy, digits().test_labels)}
    (accuracy,) = evaluate(tmp_path=tmp_path, semantic=None, covariate=covariate, scorers="msp")
    assert accuracy.setting == "covariate=noisy" and "auroc" not in accuracy.metrics
    (alone,) = evaluate(tmp_path=tmp_path, semantic=None, scorers="msp")
    assert alone.setting == "id" and set(alone.metrics) == {"id_acc", "id_ece"}
    probes = evaluate(tmp_path=tmp_path, semantic="probes", scorers="msp,energy")
    assert {each.setting for each in probes} == {
        "uniform-noise",
        "gaussian-noise",
        "bundled-photographs",
        "digits",
        "shuffled-patches",
    }


def test_without_training_images_a_part_of_the_id_images_stands_for_them(tmp_path):
    (found,) = evaluate(tmp_path=tmp_path, train=None, scorers="knn")
    rows = {name: part.rows for name, part in found.data.parts.items()}
    assert rows["labelled"] + rows["id_validation"] == pytest.approx(0.7 * len(digits().test), abs=CLASS_ROUNDING)
    assert sum(rows[name] for name in ("labelled", "id_validation", "id")) == len(digits().test)


CLASS_ROUNDING = 8  # a row of each class


def test_a_network_without_a_linear_head_is_measured_by_its_logits_alone(tmp_path):
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = trained()

        def forward(self, x):
            layer = self.net.classify
            return nn.functional.linear(self.net.stem(x), layer.weight, layer.bias)

    results = evaluate(Functional(), tmp_path, scorers=None)
    found = {each.method for each in results}
    assert {"msp", "energy", "gen", "odin"} <= found and not {"knn", "vim", "react"} & found
    with pytest.raises(UserError, match="the scorer 'knn' cannot be used: reads distances"):
        evaluate(Functional(), tmp_path, scorers="knn")


def test_all_scorers_may_be_asked_for_by_a_word(tmp_path):
    assert {each.method for each in evaluate(tmp_path=tmp_path, scorers="all")} >= {"msp", "knn", "odin", "gram"}


def test_outputs_with_negative_features_leave_out_scorers_that_need_others(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"weight": rng.normal(size=(3, 4)).astype("f4")}
    for part in ("train", "id"):
        arrays[f"{part}_features"] = rng.normal(size=(60, 4)).astype("f4")
        arrays[f"{part}_labels"] = np.arange(60) % 3
    arrays["semantic_features"] = rng.normal(size=(20, 4)).astype("f4")
    np.savez(tmp_path / "negative.npz", **arrays)
    results = oodbench.evaluate(arrays=tmp_path / "negative.npz", results=tmp_path / "results")
    assert {each.status for each in results} == {"ok"} and not {"ash", "scale", "vra"} & {r.method for r in results}
    with pytest.raises(UserError, match=r"'ash' cannot be used: needs features that are not negative, and \d\d % of"):
        oodbench.evaluate(arrays=tmp_path / "negative.npz", scorers="ash", results=tmp_path / "results")


def test_settings_of_a_suite_without_data_are_left_out_where_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "nothing"))
    contents = yaml.safe_load(suites.suite_files()["digits-c"].read_text())
    contents["semantic"]["clothes"] = {"dataset": "fashion-mnist"}
    contents["settings"] = [{"semantic": "unseen-digits"}, {"semantic": "clothes"}]
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(contents))
    given = {"suite": tmp_path / "own.yaml", "offline": True, "scorers": "msp"}
    with pytest.raises(UserError, match="the data set 'fashion-mnist' is missing; .*; --available leaves out settings"):
        oodbench.evaluate(trained(), results=tmp_path / "results", **given)
    assert not (tmp_path / "results").exists()
    found = oodbench.evaluate(trained(), results=tmp_path / "results", available=True, **given)
    assert [each.config.setting.semantic for each in found] == ["unseen-digits"]


def test_the_caller_s_module_stays_as_it_was(tmp_path):
    net = trained().train()
    net.classify.weight.requires_grad_(False)
    before = {name: each.clone() for name, each in net.state_dict().items()}
    evaluate(net, tmp_path)
    assert net.training and net.stem[0].weight.requires_grad and not net.classify.weight.requires_grad
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())


def test_half_of_the_bank_changes_little_and_says_so_in_the_key(tmp_path):
    (whole,) = evaluate(tmp_path=tmp_path, scorers="knn")
    (half,) = evaluate(tmp_path=tmp_path, scorers="knn", half_bank=True)
    assert half.key != whole.key
    assert half.metrics["auroc"] == pytest.approx(whole.metrics["auroc"], abs=1e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": None}, 'there are no ID images; give suite=, id="folder:PATH"'),
        ({"suite": "digits-c"}, "a suite has its own ID data; leave out id="),
        ({"scorers": "mspp"}, "unknown scorer 'mspp'; did you mean 'msp'"),
        ({"scorers": "scone"}, "'scone' is not a scorer, and nothing is trained here"),
        ({"set": "recipe.epochs=3"}, "is for training, and nothing is trained here"),
        ({"settings": "unseen"}, "settings=, preset= and available= choose in a suite"),
        ({"id": (digits().test, digits().test_labels + 4)}, "labels? "),
        ({"id": digits().test}, "'id' has no labels"),
        ({"id": (digits().test[:0], digits().test_labels[:0])}, "no images"),
        ({"semantic": {"same": (digits().test, digits().test_labels)}}, "'same' holds the ID images themselves"),
        (
            {"semantic": {"mixed": np.concatenate([digits().unseen[:80], digits().test[:10]])}},
            "10 of the 90 images of 'mixed' are ID images, pixel by pixel; give images of no class",
        ),
        ({"semantic": {"color": np.zeros((4, 3, 8, 8), np.uint8)}}, "color images \\(3 channels\\)"),
        ({"semantic": {"floats": np.zeros((4, 1, 8, 8), np.float32)}}, "give all images in one of the two ways"),
        ({"head": "clasify"}, "clasify"),
        ({"weights": "mine.pt"}, "a module from Python already has its weights"),
        ({"device": "cuda:7"}, "the device 'cuda:7' cannot be used"),
        ({"cpu_threads": 0}, "cpu_threads=0 is out of range"),
        ({"name": "cifar10-c"}, "a network cannot be called 'cifar10-c'"),
        ({"name": "../up"}, "a network cannot be called '../up'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(given, message, tmp_path):
    with pytest.raises(UserError, match=message):
        evaluate(tmp_path=tmp_path, **given)
    assert not (tmp_path / "results").exists()


def test_images_for_a_network_of_another_number_of_classes_are_refused(tmp_path):
    with pytest.raises(UserError, match="the network has 5 classes, counted from 0"):
        evaluate(made(5), tmp_path)


def test_a_result_says_which_network_it_is_of(tmp_path):
    (found,) = evaluate(tmp_path=tmp_path, scorers="msp")
    stored = json.loads(Path(found.path).read_text())["config"]["given"]
    assert stored["head"] == "classify" and stored["form"] == "W f + b" and stored["model"] == "Net"
    assert read(found.path) == found
