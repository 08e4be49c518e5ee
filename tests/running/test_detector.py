"""A detector says the same before and after it was stored, and what cannot be right is refused in one line."""

import json
import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from detectors import CLASS_NAMES, PIXELS, known, part, toy_detector, toy_model, unseen
from torch import nn

from oodbench.config.registry import Component, Registry
from oodbench.data.preprocessing import ALREADY
from oodbench.errors import UserError
from oodbench.learning import given_models
from oodbench.learning.adapter import adapt
from oodbench.learning.given_models import load_model
from oodbench.learning.outputs import forward
from oodbench.learning.scoring import fit, scores_of
from oodbench.learning.threshold import Share
from oodbench.running.given.detector import Detector
from oodbench.running.given.detector_files import JSON, TENSORS, sealed
from oodbench.running.given.fitting import fit_detector, network_card
from oodbench.testing.toy_problem import toy, toy_classifier

PLUGIN = """
from dataclasses import dataclass
import torch
from oodbench import Outputs, Scorer


@dataclass
class Far(Scorer):
    scale: float = 2.0

    def fit(self, train):
        self.centers = {int(k): train.features[train.y == k].mean(dim=0) for k in train.y.unique()}
        self.first = self.centers[0]
        self.seen = len(train.y)

    def score(self, out):
        return torch.stack([(out.features - c).norm(dim=-1) for c in self.centers.values()]).amin(dim=0) * self.scale
"""


@pytest.fixture(scope="module")
def detector():
    return toy_detector()


@pytest.fixture
def folder(detector, tmp_path):
    detector.save(tmp_path / "det")
    return tmp_path / "det"


def edited(folder, change, seal=sealed):
    """The folder after something was done to the values of its JSON file, under a seal that fits them."""
    values = json.loads((folder / JSON).read_text())
    change(values)
    (folder / JSON).write_text(json.dumps(seal(values)))
    return folder


def refused(folder, says, **how):
    with pytest.raises(UserError, match=says) as caught:
        Detector.load(folder, **{"model": toy_classifier(), **how})
    assert "\n" not in str(caught.value) and "; " in str(caught.value)


def same(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


# What it says


def test_scores_are_those_of_the_scorer_and_labels_those_of_the_network():
    detector, model, images = toy_detector("energy"), toy_model(), known(20, 30)
    out = forward(model, images)
    scorer = Component(Registry().card("energy")).make()
    fit(scorer, forward(model, toy().data.labelled.images, toy().data.labelled.y), None)
    said = detector(images)
    assert torch.equal(said.scores, scores_of(scorer, out))
    assert torch.equal(said.labels, out.logits.argmax(dim=-1))


def test_an_image_is_ood_above_the_threshold_and_id_at_it(detector):
    said = detector(torch.cat([known(200, 21), unseen(60, 22)]))
    assert torch.equal(said.is_ood, said.scores > detector.threshold)
    assert detector.threshold in said.scores[:200].tolist()
    assert not said.is_ood[said.scores == detector.threshold].any()


def test_the_flagged_shares_are_those_of_the_sets(detector):
    assert detector.flagged == {
        "id": detector(known(200, 21)).is_ood.double().mean().item(),
        "noisy": detector(known(100, 23, noise=80.0)).is_ood.double().mean().item(),
        "unseen": detector(unseen(60, 22)).is_ood.double().mean().item(),
    }
    assert detector.flagged["id"] == 0.05 and detector.keep == 0.95
    assert detector.card.threshold.on_id == Share(10, 200)


def test_a_quantile_is_the_share_of_held_out_images_with_the_score_or_less(detector):
    scores = np.sort(detector(known(200, 21)).scores.numpy())
    said = detector(known(20, 30))
    by_hand = [(scores <= score).mean() for score in said.scores.numpy()]
    assert said.quantiles.tolist() == pytest.approx(by_hand, abs=0)


def test_pixels_and_what_is_made_of_them_get_the_same_verdicts(detector):
    images = known(20, 30)
    said = detector((images.float() / 255 - 0.5) / 0.25)
    assert torch.allclose(said.scores, detector(images).scores, rtol=1e-5)


def test_odin_takes_its_step_in_pixels_for_prepared_images_too():
    detector, images = toy_detector("odin"), known(20, 30)
    said = detector((images.float() / 255 - 0.5) / 0.25)
    assert torch.allclose(said.scores, detector(images).scores, rtol=1e-5, atol=1e-9)


def test_one_image_an_array_and_a_batch_of_any_size_are_alike(detector):
    images = known(40, 30)
    whole = detector(images)
    assert same(detector(images.numpy()), whole)
    assert detector(images[3]).scores.shape == (1,)
    assert torch.allclose(detector(images[3]).scores[0], whole.scores[3], rtol=1e-6)


def test_verdicts_can_be_used_like_any_tensor_and_gradients_stay_off(detector):
    said = detector(known(4, 30))
    assert not any(each.is_inference() or each.requires_grad for each in said)
    said.scores.add_(1)


def test_scorers_that_differentiate_do_so_where_gradients_are_off():
    with torch.no_grad():
        assert toy_detector("odin")(known(4, 30)).scores.isfinite().all()


def test_what_is_not_a_number_is_ood():
    detector = toy_detector("energy")
    detector.model.head.weight.data.fill_(float("nan"))
    said = detector(known(4, 30))
    assert said.is_ood.all() and said.quantiles.tolist() == [1.0] * 4


def test_it_stays_in_eval_mode(detector):
    images = known(8, 30)
    before = detector(images)
    assert same(detector.train()(images), before)
    assert not detector.training and not detector.model.training


def test_the_threshold_may_be_set_and_then_cannot_be_stored(detector, tmp_path):
    changed = deepcopy(detector)
    changed.threshold = -1.0
    assert changed(known(8, 30)).is_ood.all() and not detector(known(8, 30)).is_ood.all()
    with pytest.raises(UserError, match="the threshold was set to -1, .*; set it again after loading, or fit with"):
        changed.save(tmp_path / "det")
    assert not any(tmp_path.iterdir())
    with pytest.raises(UserError, match="a threshold of nan decides nothing; give a number"):
        changed.threshold = float("nan")


def test_it_says_in_one_line_what_it_is(detector):
    text = repr(detector)
    assert text.startswith("Detector(toy_net.py:build, KNN, OOD above ") and "\n" not in text
    assert "flags id 5.0 %, noisy " in text and detector.classes == CLASS_NAMES and detector.preprocessing == PIXELS


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (
            torch.zeros(2, 3, 8, 8, dtype=torch.uint8),
            "the images have 3 channels, and the network takes 1; convert them",
        ),
        (
            torch.zeros(2, 1, 9, 8, dtype=torch.uint8),
            "the images are 9 x 8 pixels, and the network takes 8 x 8; resize",
        ),
        (torch.zeros(8, 8, dtype=torch.uint8), r"the images are uint8 of shape \(8, 8\); give uint8 or floats"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.int64), r"the images are int64 of shape \(2, 1, 8, 8\); give uint8"),
        (torch.zeros(0, 1, 8, 8, dtype=torch.uint8), "there are no images; give at least one"),
        (["a.png"], r"\['a.png'\] holds no images; give an array or a tensor"),
    ],
)
def test_images_that_it_cannot_take_are_refused(detector, images, says):
    with pytest.raises(UserError, match=says):
        detector(images)


def test_pixels_are_refused_by_what_was_fitted_on_prepared_images():
    data = toy().data
    model = toy_model()
    model.mean.zero_(), model.std.fill_(1.0)

    def prepared(images):
        return (images.float() / 255 - 0.5) / 0.25

    train = part(prepared(data.labelled.images), data.labelled.y, "train")
    held_out = part(prepared(known(100, 21)), torch.arange(100) % 5, "held out")
    detector = fit_detector(
        model, network_card(model, "net", None, train), ALREADY, Component(Registry().card("knn")), train=train,
        validation=held_out, id=held_out,
    )  # fmt: skip
    assert torch.equal(detector(prepared(known(8, 30))).labels, forward(toy_model(), known(8, 30)).predicted)
    with pytest.raises(UserError, match="was fitted on preprocessed images, and these are uint8"):
        detector(known(8, 30))


def test_images_of_any_size_are_taken_where_the_network_says_none():
    detector = toy_detector(preprocessing=type(PIXELS)(mean=(0.5,), std=(0.25,)))
    assert detector(torch.zeros(2, 1, 12, 10, dtype=torch.uint8)).scores.shape == (2,)


# Moving and copying


def test_a_copy_is_independent_and_says_the_same(detector):
    copied, images = deepcopy(detector), known(8, 30)
    assert same(copied(images), detector(images))
    copied.learned.scorer.bank.zero_()
    assert copied.state_dict()["learned.bank"].eq(0).all()
    assert not detector.learned.scorer.bank.eq(0).all()


def test_a_state_dictionary_carries_everything_over(detector):
    other, images = deepcopy(detector), known(8, 30)
    for each in other.state_dict().values():
        each.zero_()
    assert not torch.equal(other(images).scores, detector(images).scores)
    other.load_state_dict(detector.state_dict())
    assert same(other(images), detector(images))


def test_what_the_scorer_has_learned_moves_along(detector):
    moved = deepcopy(detector).to("meta")
    assert {each.device.type for each in moved.state_dict().values()} == {"meta"}
    assert moved.learned.scorer.bank.device.type == "meta" and moved.device.type == "meta"


# Stored and read


@pytest.mark.parametrize("scorer", ["knn", "vim", "gram", "odin", "temp-scale", "energy", "nnguide"])
def test_a_stored_detector_says_the_same_to_the_bit(scorer, tmp_path):
    detector, images = toy_detector(scorer), torch.cat([known(20, 30), unseen(20, 31)])
    detector.save(tmp_path / "det")
    loaded = Detector.load(tmp_path / "det", model=toy_classifier())
    assert same(loaded(images), detector(images))
    assert loaded.card == detector.card and repr(loaded) == repr(detector)


def test_a_network_channels_last_says_the_same_to_the_bit(tmp_path):
    detector, images = toy_detector("energy"), known(20, 30)
    detector.model.to(memory_format=torch.channels_last)
    detector.save(tmp_path / "det")
    loaded = Detector.load(tmp_path / "det", model=toy_classifier())
    for layer in (0, 3):  # the first takes one channel
        assert loaded.model.body[layer].weight.stride() == detector.model.body[layer].weight.stride()
    assert loaded.model.body[3].weight.stride() != toy_classifier().body[3].weight.stride()
    assert same(loaded(images), detector(images))


def test_a_scorer_of_the_users_is_stored_and_needs_its_file(tmp_path):
    plugin = tmp_path / "far.py"
    plugin.write_text(PLUGIN)
    detector = toy_detector("far", plugins=[plugin])
    detector.save(tmp_path / "det")
    loaded = Detector.load(tmp_path / "det", model=toy_classifier(), plugins=[plugin])
    assert same(loaded(known(8, 30)), detector(known(8, 30)))
    assert loaded.learned.scorer.first is loaded.learned.scorer.centers[0] and loaded.learned.scorer.seen == 200
    refused(tmp_path / "det", r"^fitted by a scorer that is not here .*; bring its file: --plugin FILE.py$")
    plugin.write_text(PLUGIN.replace("amin(dim=0)", "amax(dim=0)"))
    refused(tmp_path / "det", r"^fitted by far@\w+, and this oodbench has far@\w+; fit it again", plugins=[plugin])


def test_changed_hyperparameters_come_back(tmp_path):
    data = toy().data
    train = part(data.labelled.images, data.labelled.y, "train")
    held_out = part(known(100, 21), torch.arange(100) % 5, "held out")
    component = Component(Registry().card("knn")).with_value("k", "7")
    model = toy_model()
    detector = fit_detector(
        model, network_card(model, "net", None, train), PIXELS, component, train=train, validation=held_out,
        id=held_out,
    )  # fmt: skip
    detector.save(tmp_path / "det")
    assert Detector.load(tmp_path / "det", model=toy_classifier()).learned.scorer.k == 7


def test_a_network_that_plain_values_describe_needs_nobody_to_bring_it(tmp_path, monkeypatch):
    train = part(toy().data.labelled.images, toy().data.labelled.y, "train")
    detector = toy_detector(network=network_card(toy_model(), "oodbench:toy", {"name": "toy"}, train))
    detector.save(tmp_path / "det")
    asked = []
    monkeypatch.setattr(given_models, "rebuild", lambda spec: asked.append(spec) or toy_classifier())
    assert same(Detector.load(tmp_path / "det")(known(8, 30)), detector(known(8, 30)))
    assert asked == [{"name": "toy"}]


def test_a_network_that_is_not_there_is_asked_for_by_its_name(folder):
    refused(
        folder,
        r"the network 'toy_net.py:build' is not stored as code; give it again: predict --model toy_net.py:build, or "
        r"Detector.load\(path, model=...\)",
        model=None,
    )


class Twice(nn.Module):
    """A network of the user's, whose logits are twice those of its linear layer."""

    def __init__(self):
        super().__init__()
        inner = toy_model()
        self.layers, self.last = inner.body, inner.head

    def forward(self, x):
        return 2 * self.last(self.layers(x))


def test_an_adapted_network_is_stored_as_its_own_module_and_its_head(tmp_path):
    train = part(toy().data.labelled.images, toy().data.labelled.y, "train")
    model = adapt(Twice(), torch.from_numpy(train.whole[:16]) / 255, (0.5,), (0.25,), rows=[3, 1, 0])
    card = network_card(model, "Twice", None, train, rows=[3, 1, 0])
    assert (card.head, card.rows, card.mean, card.std, card.input) == ("last", (3, 1, 0), (0.5,), (0.25,), (1, 8, 8))
    assert card.form == model.form and card.form.startswith("s ")
    held_out = part(known(100, 21), torch.arange(100) % 3, "held out")
    detector = fit_detector(
        model, card, PIXELS, Component(Registry().card("gram")), train=train, validation=held_out, id=held_out
    )
    detector.save(tmp_path / "det")
    names = set(safetensors.torch.load_file(tmp_path / "det" / TENSORS))
    assert {"network.last.weight", "network.layers.0.weight", "head.weight", "head.bias"} < names
    brought = Twice()
    brought.last.reset_parameters()
    before = {name: each.clone() for name, each in brought.state_dict().items()}
    loaded = Detector.load(tmp_path / "det", model=brought)
    assert same(loaded(known(8, 30)), detector(known(8, 30)))
    assert all(torch.equal(each, before[name]) for name, each in brought.state_dict().items())


def test_the_head_of_a_usual_network_is_stored_once(tmp_path):
    train = part(toy().data.labelled.images, toy().data.labelled.y, "train")
    module = nn.Sequential(toy_model().body, toy_model().head)
    model = adapt(module, torch.from_numpy(train.whole[:16]) / 255, (0.5,), (0.25,))
    held_out = part(known(100, 21), torch.arange(100) % 5, "held out")
    detector = fit_detector(
        model, network_card(model, "Sequential", None, train), PIXELS, Component(Registry().card("knn")), train=train,
        validation=held_out, id=held_out,
    )  # fmt: skip
    detector.save(tmp_path / "det")
    names = set(safetensors.torch.load_file(tmp_path / "det" / TENSORS))
    assert "network.1.weight" in names and "head.weight" not in names
    assert same(Detector.load(tmp_path / "det", model=module)(known(8, 30)), detector(known(8, 30)))


def test_a_network_is_built_again_by_the_code_that_the_user_names(tmp_path):
    file = tmp_path / "my_net.py"
    file.write_text(
        "from torch import nn\n\n\ndef build(num_classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), "
        "nn.ReLU(), nn.Linear(12, num_classes))\n"
    )
    text = f"{file}:build"
    train = part(toy().data.labelled.images, toy().data.labelled.y, "train")
    torch.manual_seed(0)
    model = adapt(load_model(text, num_classes=5, channels=1).module, torch.from_numpy(train.whole[:16]) / 255)
    held_out = part(known(100, 21), torch.arange(100) % 5, "held out")
    detector = fit_detector(
        model, network_card(model, text, None, train), replace(PIXELS, mean=(0.0,), std=(1.0,)),
        Component(Registry().card("knn")), train=train, validation=held_out, id=held_out,
    )  # fmt: skip
    detector.save(tmp_path / "det")
    assert same(Detector.load(tmp_path / "det", model=text)(known(8, 30)), detector(known(8, 30)))
    refused(tmp_path / "det", f"give it again: predict --model {text}, or", model=None)


@pytest.mark.parametrize(
    "spec",
    [
        {"library": "oodbench", "name": "small-cnn", "options": {"width": 4}, "num_classes": 4, "channels": 3},
        {"library": "timm", "name": "resnet10t", "num_classes": 4, "in_chans": 3},
        {"library": "torchvision", "name": "squeezenet1_1", "num_classes": 4},
    ],
    ids=lambda spec: spec["library"],
)
def test_a_network_of_a_library_is_built_again_from_plain_values(spec, tmp_path):
    images = torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = adapt(given_models.rebuild(spec), images[:16] / 255, (0.4, 0.5, 0.6), (0.2, 0.2, 0.3))
    some = part(images, torch.arange(40) % 4, "noise")
    detector = fit_detector(
        model, network_card(model, spec["name"], spec, some), replace(PIXELS, size=None),
        Component(Registry().card("energy")), train=some, validation=some, id=some,
    )  # fmt: skip
    detector.save(tmp_path / "det")
    assert same(Detector.load(tmp_path / "det")(images), detector(images))


def test_only_this_folder_is_written_and_an_older_detector_replaced(detector, tmp_path):
    detector.save(tmp_path / "some" / "det")
    toy_detector("energy").save(tmp_path / "some" / "det")
    assert Detector.load(tmp_path / "some" / "det", model=toy_classifier()).card.scorer.name == "energy"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["det", JSON, TENSORS, "some"]


def test_files_have_the_permissions_of_any_new_file(detector, tmp_path):
    detector.save(tmp_path / "det")
    (tmp_path / "plain").write_text("")
    wanted = (tmp_path / "plain").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "det").iterdir()} == {wanted}


@pytest.mark.parametrize("what", ["a file", "a folder", "a link"])
def test_what_is_no_detector_is_never_replaced(detector, tmp_path, what):
    place = tmp_path / "det"
    if what == "a file":
        place.write_text("mine")
    elif what == "a folder":
        place.mkdir()
        (place / "notes.txt").write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="; choose another"):
        detector.save(place)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled(detector, tmp_path):
    (tmp_path / "det").mkdir()
    detector.save(tmp_path / "det")
    assert {path.name for path in (tmp_path / "det").iterdir()} == {JSON, TENSORS}


def test_a_full_disk_leaves_the_older_detector_as_it_was(detector, folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="cannot write .*: No space left on device; free space"):
        toy_detector("energy").save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["det"]


# Refused


def test_a_folder_that_is_no_detector_is_told(tmp_path):
    refused(tmp_path / "missing", "missing' is not a detector: it has no detector.json; make one with: oodbench fit")
    refused(tmp_path, "is not a detector: it has no detector.json; make one with")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', '{"format": "1"}', "\x00", "[" * 100_000])
def test_a_damaged_description_is_told(folder, text):
    (folder / JSON).write_text(text)
    refused(folder, r"detector.json' is damaged \(.*\); fit it again: oodbench fit")


def test_a_newer_format_asks_for_a_newer_oodbench(folder):
    def newer(values):
        values["format"], values["card"]["oodbench"], values["unheard"] = 2, "9.1", {}

    refused(edited(folder, newer), r"was made by a newer oodbench 9.1 \(format 2, this one reads up to 1\); update")


def test_missing_tensors_are_told(folder):
    (folder / TENSORS).unlink()
    refused(folder, r"detector.safetensors' cannot be read \(No such file or directory\); fit it again")


def test_a_changed_bit_is_found(folder):
    content = bytearray((folder / TENSORS).read_bytes())
    content[-1] ^= 1
    (folder / TENSORS).write_bytes(content)
    refused(
        folder, r"detector.safetensors' is damaged or belongs to another detector \(its digest differs\); fit it again"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["card"]["threshold"].update(value=0.5),
        lambda values: values["card"]["preprocessing"].update(mean=[0.4]),
        lambda values: values["card"]["classes"].reverse(),
        lambda values: values.update(unheard=1),
        lambda values: values.update(seal="0" * 16),
    ],
)
def test_a_value_that_was_changed_is_found(folder, change):
    refused(
        edited(folder, change, seal=dict), r"detector.json' is damaged \(it is not what was written\); fit it again"
    )


def with_tensors(folder, change):
    """The folder with other tensors, whose digest its JSON file was given."""
    import hashlib

    tensors = safetensors.torch.load_file(folder / TENSORS)
    change(tensors)
    safetensors.torch.save_file(tensors, folder / TENSORS)
    digest = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()
    return edited(folder, lambda values: values.update(sha256=digest))


def test_a_tensor_of_another_shape_is_told(folder):
    def change(tensors):
        tensors["scorer.bank"] = torch.zeros(200, 3)

    refused(with_tensors(folder, change), r"the fitted knn does not fit the network \(.*\); fit it again")


@pytest.mark.parametrize("lost", ["scorer.bank", "id_scores"])
def test_a_tensor_that_is_missing_is_told(folder, lost):
    refused(with_tensors(folder, lambda tensors: tensors.pop(lost)), r"does not hold a fitted knn \(.*\); fit it again")


def test_no_file_of_tensors_at_all_is_told(folder):
    import hashlib

    (folder / TENSORS).write_bytes(b"pickle")
    digest = hashlib.sha256(b"pickle").hexdigest()
    edited(folder, lambda values: values.update(sha256=digest))
    refused(folder, r"detector.safetensors' does not hold what detector.json says \(.*\); fit it again")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda v: v["card"]["scorer"].update(code="knn@77"),
            r"fitted by knn@77, and this oodbench has knn@\d; fit it",
        ),
        (lambda v: v["card"]["scorer"].update(name="knnn"), r"unknown scorer 'knnn'; did you mean 'knn'"),
        (lambda v: v["card"]["scorer"].update(name="erm"), "fitted by a scorer that is not here"),
        (lambda v: v["card"]["scorer"].update(values={}), r"the hyperparameters of knn are damaged \(other"),
        (lambda v: v["card"]["scorer"]["values"].update(k="many"), "the hyperparameters of knn are damaged"),
        (lambda v: v["learned"].update(score=1, k=5), r"does not hold a fitted knn \('k' is a hyperparameter\)"),
        (lambda v: v["orders"].update({"scorer.bank": [0, 0]}), "an order of other axes"),
        (lambda v: v["orders"].update({"nothing": [0]}), "other names"),
        (lambda v: v["card"]["threshold"]["on_id"].update(flagged=-1), "is damaged"),
        (lambda v: v["card"]["threshold"]["on_id"].update(count=0, flagged=0), "is damaged"),
        (lambda v: v["card"]["network"].update(input=[1, 10**6, 10**6]), "no network takes images of 1 x 1000000"),
        (lambda v: v["card"].pop("preprocessing"), "is damaged"),
    ],
)
def test_a_description_of_another_hand_is_refused(folder, change, says):
    refused(edited(folder, change), says)


def test_weights_that_do_not_fit_the_network_are_named(folder):
    wider = toy_classifier()
    wider.head = nn.Linear(16, 7)
    refused(folder, "not the network 'toy_net.py:build' .* stored weights do not fit 'head.weight', 'head.bias'; give",
            model=wider)  # fmt: skip
    refused(folder, "do not fit '0.weight', '0.bias', 'body.0.weight', .* and 11 more; give",
            model=nn.Sequential(nn.Linear(2, 2)))  # fmt: skip


def test_weights_in_whole_numbers_are_refused(folder):
    whole = toy_classifier()
    whole.head.weight = nn.Parameter(whole.head.weight.round().long(), requires_grad=False)
    refused(folder, "stored weights do not fit 'head.weight'; give", model=whole)


def test_a_network_of_the_same_weights_that_computes_otherwise_is_found(folder):
    other = toy_classifier()
    other.body[2] = nn.SiLU()
    refused(folder, "it computes different logits with the same weights; give that one", model=other)


def test_a_network_whose_code_fails_is_told(folder):
    class Broken(type(toy_classifier())):  # type: ignore[misc]
        def features(self, x):
            raise RuntimeError("no such\nluck")

    broken = toy_classifier()
    broken.__class__ = Broken
    refused(folder, "RuntimeError: no such luck; give that one", model=broken)


# Fitting


def test_few_held_out_images_are_noted():
    detector = toy_detector(count=40, notes=["chosen by hand"])
    assert detector.notes[:2] == (
        "chosen by hand", "40 held-out ID images estimate the kept share only roughly; 100 or more are better",
    )  # fmt: skip
    assert not [note for note in toy_detector().notes if "held-out" in note]


def test_fewer_than_can_show_the_share_are_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("oodbench.running.given.fitting.Evaluation", None)
    with pytest.raises(UserError, match="19 held-out ID images cannot show what keeps 0.95 of them; give at least 20"):
        toy_detector(count=19)
    with pytest.raises(UserError, match="--keep 1.5 is out of range"):
        toy_detector(keep=1.5)


def test_sets_of_one_name_are_told_apart():
    noisy = part(known(100, 23, noise=80.0), torch.arange(100) % 5, "noisy")
    detector = toy_detector(semantic={"noisy": noisy, "id": noisy})
    assert list(detector.flagged) == ["id", "noisy", "noisy-2", "id-2"]
    assert detector.flagged["noisy"] == detector.flagged["noisy-2"]


def test_no_other_sets_are_needed():
    assert toy_detector(covariate={}, semantic=None).flagged == {"id": 0.05}


def test_what_a_plugin_does_wrong_is_told_with_its_line(tmp_path):
    plugin = tmp_path / "far.py"
    plugin.write_text(PLUGIN.replace("self.seen = len(train.y)", "self.seen = train.nothing"))
    with pytest.raises(UserError, match=rf"AttributeError at {plugin}:14: .*nothing"):
        toy_detector("far", plugins=[plugin])


def test_what_a_plugin_learns_and_nobody_can_store_is_told(tmp_path):
    plugin = tmp_path / "far.py"
    plugin.write_text(PLUGIN.replace("self.seen = len(train.y)", "self.seen = train"))
    with pytest.raises(UserError, match="class Far has learned what cannot be stored: 'seen' is"):
        toy_detector("far", plugins=[plugin])


def test_names_that_are_no_text_are_stored(tmp_path):
    odd = os.fsdecode(b"caf\xff")
    detector = toy_detector(classes=(odd, *CLASS_NAMES[1:]), semantic={odd: part(unseen(60, 22), np.zeros(60), "x")})
    detector.save(tmp_path / "det")
    loaded = Detector.load(Path(tmp_path) / "det", model=toy_classifier())
    assert loaded.classes[0] == "caf\\xff" and list(loaded.flagged) == ["id", "noisy", "caf\\xff"]
