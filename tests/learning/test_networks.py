"""Networks and the weights they start from: what is computed, and what the published files are called inside."""

import hashlib
import zipfile

import pytest
import torch
from torch import nn

from oodbench.config.cards import catalogue, load_class
from oodbench.errors import UserError
from oodbench.learning.initial_weights import PUBLISHED, describe, read_weights
from oodbench.learning.networks import Classifier

SMALL = {"wrn": {"depth": 10, "width": 1}, "timm": {"model": "resnet10t"}, "small-resnet": {"width": 4}}
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def network(name, **options):
    return load_class(catalogue("networks")[name])(**options)


def classifier(name, classes=10, channels=3, **options):
    torch.manual_seed(0)
    body, dim = network(name, **options).body(channels)
    return Classifier(body, dim, classes, MEAN[:channels], STD[:channels])


def images(channels=3, side=28):
    return torch.rand(4, channels, side, side, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", catalogue("networks"))
def test_channels_last_changes_the_speed_and_not_the_features(name, channels):
    model, x = classifier(name, channels=channels, **SMALL.get(name, {})).eval(), images(channels)
    mean, std = (torch.tensor(values[:channels]).view(1, -1, 1, 1) for values in (MEAN, STD))
    with torch.no_grad():
        plain = model.body(((x - mean) / std).contiguous())
        model.to(memory_format=torch.channels_last)
        features, logits = model.features(x), model(x)
    assert features.shape == (4, model.head.in_features)
    assert torch.allclose(features, plain, rtol=1e-4, atol=1e-5)
    assert torch.allclose(logits, plain @ model.head.weight.T + model.head.bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", catalogue("networks"))
def test_a_network_that_says_its_features_are_never_negative_keeps_its_word(name):
    said, model = catalogue("networks")[name].nonnegative_features, classifier(name, **SMALL.get(name, {})).eval()
    assert said == type(network(name)).nonnegative_features
    with torch.no_grad():
        negative = (model.features(images()) < 0).float().mean()
    assert said is None or (negative == 0 if said else negative > 0.01)


def test_a_body_is_given_its_images_channels_last():
    seen = []

    class Body(nn.Module):
        def forward(self, x):
            seen.append(x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous())
            return x.flatten(1)

    Classifier(Body(), 3 * 4 * 4, 2, MEAN, STD)(images(side=4))
    assert seen == [True]


# The published WRN-40-2: names written out from the class that trained it.

NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def published_names():
    yield "conv1.weight"
    for block in (1, 2, 3):
        for unit in range(6):
            for norm, conv in (("bn1", "conv1"), ("bn2", "conv2")):
                yield from (f"block{block}.layer.{unit}.{norm}.{each}" for each in NORM)
                yield f"block{block}.layer.{unit}.{conv}.weight"
        yield f"block{block}.layer.0.convShortcut.weight"
    yield from (f"bn1.{each}" for each in NORM)
    yield from ("fc.weight", "fc.bias")


@pytest.fixture(scope="module")
def wrn():
    return classifier("wrn")


def published(model):
    """Other weights than the model's, under the published names."""
    random = torch.Generator().manual_seed(1)
    shapes, state = model.state_dict(), {}
    for name in published_names():
        ours = shapes[f"head.{name.removeprefix('fc.')}" if name.startswith("fc.") else f"body.{name}"]
        state[name] = torch.rand(ours.shape, generator=random) if ours.is_floating_point() else torch.tensor(7)
    return state


def test_wrn_40_2_has_the_published_entries_and_parameters(wrn):
    names = list(published_names())
    assert len(names) == len(set(names)) == len(wrn.state_dict()) == 227
    assert sum(p.numel() for p in wrn.parameters()) == 2_243_546
    assert wrn.state_dict()["body.block2.layer.0.convShortcut.weight"].shape == (64, 32, 1, 1)
    assert wrn.head.weight.shape == (10, 128)


OLD_NAMES = {
    "as published": lambda name: name,
    "from several GPUs": lambda name: f"module.{name}",
    "of WOODS": lambda name: "classifier" + name[2:] if name.startswith("fc.") else f"wrn.{name}",
    "of WOODS from several GPUs": lambda name: "module." + (
        "classifier" + name[2:] if name.startswith("fc.") else f"wrn.{name}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("names", OLD_NAMES)
def test_the_published_names_are_understood(wrn, names, tmp_path):
    state = published(wrn)
    torch.save({OLD_NAMES[names](name): value for name, value in state.items()}, tmp_path / "given.pt")
    model = classifier("wrn")
    read_weights(model, tmp_path / "given.pt")
    read = model.state_dict()
    assert torch.equal(read["head.weight"], state["fc.weight"]) and torch.equal(read["head.bias"], state["fc.bias"])
    for name, value in state.items():
        if not name.startswith("fc."):
            assert torch.equal(read[f"body.{name}"], value), name


def test_an_extra_ood_head_is_dropped_and_missing_counters_are_ours(wrn, tmp_path):
    state = {name: value for name, value in published(wrn).items() if not name.endswith("num_batches_tracked")}
    more = {"ood_fc.weight": torch.zeros(1, 128), "module.ood_fc.bias": torch.zeros(1)}
    torch.save({**state, **more}, tmp_path / "given.pt")
    model = classifier("wrn")
    read_weights(model, tmp_path / "given.pt")
    assert torch.equal(model.state_dict()["body.bn1.weight"], state["bn1.weight"])
    assert model.state_dict()["body.bn1.num_batches_tracked"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: {k: v for k, v in s.items() if k != "block3.layer.5.conv2.weight"}, "nothing for 'body.block3.lay"),
        (lambda s: {**s, "conv1.weight": torch.zeros(16, 1, 3, 3)}, r"shape \(16, 1, 3, 3\) for 'body.conv1.weight'"),
        (
            lambda s: {**s, "fc.weight": torch.zeros(100, 128), "fc.bias": torch.zeros(100)},
            "has 100 classes, and the",
        ),
        (lambda s: {**s, "block1.layer.6.bn1.bias": torch.zeros(32)}, "it has 'block1.layer.6.bn1.bias'"),
    ],
)
def test_weights_of_another_network_change_nothing(wrn, change, message, tmp_path):
    torch.save(change(published(wrn)), tmp_path / "given.pt")
    before = {name: value.clone() for name, value in wrn.state_dict().items()}
    with pytest.raises(UserError, match=message):
        read_weights(wrn, tmp_path / "given.pt")
    assert all(torch.equal(before[name], value) for name, value in wrn.state_dict().items())


def test_a_published_checkpoint_is_known_by_gits_name_for_it(tmp_path, monkeypatch):
    path = tmp_path / "cifar10_wrn_pretrained_epoch_99.pt"
    path.write_bytes(b"hello\n")
    assert describe(path) == path.name
    gits = "ce013625030ba8dba906f756967f9e9ca394464a"  # of `echo hello | git hash-object --stdin`
    monkeypatch.setitem(PUBLISHED, gits, "a greeting")
    assert describe(path) == f"{path.name}, a greeting"
    assert hashlib.sha1(b"hello\n").hexdigest() != gits
    assert PUBLISHED["694f7a4cc76d585ed9646f7e8bacbe9bb1ed32c2"] == "the published WRN-40-2 of CIFAR-10"
    assert PUBLISHED["e797c0a36b6ac14454c2157fc935c7eee0394767"] == "the published WRN-40-2 of CIFAR-100"


# timm


def timm_body(**options):
    torch.manual_seed(0)
    return network("timm", model="resnet10t", **options).body(3)[0]


def test_timm_starts_from_the_weights_of_a_file_whatever_its_classes(tmp_path):
    torch.manual_seed(1)
    body = network("timm", model="resnet10t").body(3)[0]
    given = {**body.state_dict(), "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    torch.save(given, tmp_path / "weights.pth")
    plain, read = timm_body().state_dict(), timm_body(weights=str(tmp_path / "weights.pth")).state_dict()
    assert all(torch.equal(read[name], value) for name, value in body.state_dict().items())
    assert not torch.equal(plain["conv1.0.weight"], read["conv1.0.weight"])


@pytest.mark.parametrize("kind", ["missing", "text", "another network"])
def test_timm_tells_a_file_that_holds_other_weights(kind, tmp_path):
    path = tmp_path / "weights.pth"
    if kind == "text":
        path.write_text("weights")
    elif kind == "another network":
        torch.save({"conv1.weight": torch.zeros(3)}, path)
    message = "cannot read the weights '.*': No such file or directory; check the path"
    if kind != "missing":
        message = "' holds no weights of timm's 'resnet10t' "
    with pytest.raises(UserError, match=message) as caught:
        timm_body(weights=str(path))
    assert "\n" not in str(caught.value)


def test_timms_own_weights_that_cannot_be_fetched_are_told_with_what_to_do(tmp_path, monkeypatch):
    timm_body()  # which imports it
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot get timm's weights of 'resnet10t' \(") as caught:
        timm_body(pretrained=True)
    assert str(caught.value).endswith("); give a file: --set network.weights=FILE") and "\n" not in str(caught.value)


def test_a_file_of_weights_is_preferred_to_fetching_them(tmp_path, monkeypatch):
    torch.save(timm_body().state_dict(), tmp_path / "weights.pth")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    timm_body(pretrained=True, weights=str(tmp_path / "weights.pth"))


def test_an_unknown_model_of_timm_is_answered_with_near_ones():
    with pytest.raises(UserError, match="timm has no model 'resnet43'; near ones: .*resnet"):
        network("timm", model="resnet43").body(3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("wrn", {"depth": 41}, "a WRN of depth 41 does not exist; choose 10, 16, 22, 28, 34 or 40"),
        ("wrn", {"dropout": 1.0}, "a WRN needs a width of 1 or more and a dropout from 0 to below 1"),
        ("small-resnet", {"width": 1}, "a small-resnet needs a width of 2 or more"),
    ],
)
def test_a_network_that_cannot_be_is_refused(name, options, message):
    with pytest.raises(UserError, match=message):
        network(name, **options).body(3)


def test_weights_that_unpack_to_more_than_their_file_are_refused(tmp_path, new_model):
    model, path = new_model(), tmp_path / "weights.pt"
    torch.save(model.state_dict(), path)
    read_weights(model, path)
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb:
        for member in stored.infolist():
            bomb.writestr(member.filename, stored.read(member))
        bomb.writestr("zeros", bytes(2**20))
    with pytest.raises(UserError, match="is not a file of weights .it unpacks to more than its own size.; save one"):
        read_weights(model, tmp_path / "bomb.pt")
