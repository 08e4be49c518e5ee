"""Every suite of `benchmarks/`: who sees which image, on stand-ins of its data; the data is for test_real_data.py."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from stand_ins import stand_ins as stand_ins_in

from oodbench.config import suite as suites
from oodbench.data import lookup, views
from oodbench.data.parts import build_parts
from oodbench.running.trained import build_model, training_data

CPU = torch.device("cpu")
TEST = ("id", "covariate", "semantic")


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    with stand_ins_in(tmp_path_factory.mktemp("stand-ins")):
        yield


def suites_and_settings():
    for name in suites.suite_files():
        suite = suites.load(name)
        for setting in suite.settings:
            yield pytest.param(name, setting, id=f"{name}-{suite.setting_name(setting)}")


every_setting = pytest.mark.parametrize(("name", "setting"), list(suites_and_settings()))


def scaled(name):
    """The suite for sets of a few hundred images: shares instead of counts, small images, and these themselves."""
    suite = suites.load(name)
    if suite.contents.id.embed is not None:
        pictures = replace(suite.contents.id, embed=None, size=32)
        suite = replace(suite, contents=replace(suite.contents, id=pictures))
    if suite.contents.splits.labelled >= 1:
        suite = suite.with_value("splits", "labelled", "0.5")
    return suite if suite.contents.id.size is None else suite.with_value("id", "size", "32")


def recipe_of(suite, batch_size):
    """The suite's, without augmentation, so that an image can be recognized."""
    return replace(suite.contents.recipes.finetune, batch_size=batch_size, augment="none", epoch_length="labelled")


def given(suite, parts, setting):
    """What a trainer is given that reads all it may."""
    return training_data(suite, parts, setting if "wild" in suite.provides else None)


def originals(part):
    """Data set and row of each image; a corrupted copy counts as its original."""
    return {(part.origin.split()[0], int(row)) for row in part.rows}


def as_bytes(images):
    return [image.tobytes() for image in np.ascontiguousarray(images)]


def pixels(x):
    """Of a batch, as they were before they became numbers from 0 to 1."""
    return as_bytes((255 * x).round().to(torch.uint8).numpy())


@every_setting
def test_no_image_of_a_test_split_is_in_a_training_batch(stand_ins, name, setting):
    suite = scaled(name)
    for seed in (0, 1):
        parts = build_parts(suite, setting, seed)
        held_out = {image for split in TEST for image in as_bytes(getattr(parts, split).images)}
        data = given(suite, parts, setting)
        where = {image: part for part, p in parts.items().items() if part not in TEST for image in as_bytes(p.images)}
        labelled, wild = set(), set()
        for epoch in range(3):
            for batch in data.batches(recipe_of(suite, 32), epoch, CPU):
                labelled |= set(pixels(batch.x))
                wild |= set(pixels(batch.wild)) if batch.wild is not None else set()
        assert held_out and not (labelled | wild) & held_out
        assert {where[image] for image in labelled} == {"labelled"}
        assert labelled == set(as_bytes(parts.labelled.images)) or parts.labelled.domains is not None
        assert (len(wild) > 0) == ("wild" in suite.provides)
        assert {where[image] for image in wild} <= {f"wild_{kind}" for kind in TEST}


@every_setting
def test_no_test_image_has_its_original_in_training_and_no_other_part_shares_images(stand_ins, name, setting):
    suite = scaled(name)
    for seed in (0, 1):
        parts = build_parts(suite, setting, seed).items()
        held_out = {split: originals(parts.pop(split)) for split in TEST}
        for part in parts:
            for split in TEST:
                assert not originals(parts[part]) & held_out[split], (part, split)
        assert not held_out["semantic"] & (held_out["id"] | held_out["covariate"])
        clean = [part for part in parts if "covariate" not in part]
        for group in (
            clean,
            ["wild_covariate", "mixed_covariate"],
        ):  # a copy's original may be labeled, if a suite says so
            assert sum(len(parts[part]) for part in group) == len(
                set().union(*(originals(parts[part]) for part in group))
            )


@every_setting
def test_everything_follows_from_suite_and_seed(stand_ins, name, setting):
    def drawn(seed):
        lookup.dataset.cache_clear()
        suite = scaled(name)
        parts = build_parts(suite, setting, seed)
        batches = list(given(suite, parts, setting).batches(recipe_of(suite, 64), 7, CPU))
        digests = {part: p.digest for part, p in parts.items().items()}
        return digests, [tensor for b in batches for tensor in (b.x, b.y, b.env, b.wild) if tensor is not None]

    (digests, tensors), (again, same), (others, _) = drawn(0), drawn(0), drawn(1)
    assert digests == again and all(torch.equal(a, b) for a, b in zip(tensors, same, strict=True))
    assert digests["labelled"] != others["labelled"]


def numbered(part, number):
    """The part with images that say which row of which data set they are, and of which part."""
    rows, origin = part.rows, sum(part.origin.split()[0].encode()) % 256
    codes = np.stack([np.full_like(rows, number), np.full_like(rows, origin), rows >> 16, rows >> 8, rows], axis=1)
    return replace(part, whole=(codes & 255).astype(np.uint8)[:, None, None, :], chosen=np.arange(len(rows)))


def read_off(images):
    """The numbers of the parts, and for each image one number for its data set and row."""
    codes = np.rint(images).reshape(-1, 5).astype(np.int64)
    return codes[:, 0], codes[:, 1:] @ (1 << np.array([24, 16, 8, 0]))


def assert_kept_apart_and_in_proportion(suite, setting, seed, batch_size, epochs):
    parts = build_parts(suite, setting, seed)
    number = {name: i for i, name in enumerate(parts.items())}
    coded = replace(parts, **{name: numbered(part, number[name]) for name, part in parts.items().items()})
    held_out = np.concatenate([read_off(getattr(coded, name).images)[1] for name in TEST])
    data, recipe = given(suite, coded, setting), recipe_of(suite, batch_size)
    batches = [each for epoch in range(epochs) for each in data.batches(recipe, seed + epoch, CPU)]
    labelled = read_off(255 * torch.cat([each.x for each in batches]).numpy())
    assert set(labelled[0]) == {number["labelled"]} and not np.isin(labelled[1], held_out).any()
    if data.wild is None:
        assert "wild" not in suite.provides and all(each.wild is None for each in batches)
        return
    wild = read_off(255 * torch.cat([each.wild for each in batches]).numpy())
    mixed, clean = read_off(data.mixed_validation.numpy()), read_off(data.id_validation.numpy())
    for _, rows in (wild, mixed, clean):
        assert len(rows) > 0 and not np.isin(rows, held_out).any()
    assert set(clean[0]) == {number["id_validation"]}
    shares = (1 - setting.pi_c - setting.pi_s, setting.pi_c, setting.pi_s)
    for prefix, drawn in (("wild", wild[0]), ("mixed", mixed[0])):
        for kind, share in zip(TEST, shares, strict=True):
            found = (drawn == number[f"{prefix}_{kind}"]).mean()
            tolerance = 5 * np.sqrt(share * (1 - share) / len(drawn)) if prefix == "wild" else 3 / len(drawn)
            assert abs(found - share) <= tolerance + 1e-9, (prefix, kind)


@every_setting
def test_wild_batches_and_the_mixed_validation_set_follow_the_shares(stand_ins, name, setting):
    settings = [setting]
    if "wild" in suites.load(name).provides:
        settings += [replace(setting, pi_c=pi_c, pi_s=pi_s) for pi_c, pi_s in ((0.0, 0.3), (0.6, 0.4))]
    for each in settings:
        assert_kept_apart_and_in_proportion(scaled(name), each, seed=0, batch_size=16, epochs=40)


def corruption(family, kind):
    return import_module(f"oodbench.data.corruptions.{family}").KINDS[kind]


def suites_and_presets():
    for name in suites.suite_files():
        for preset in (None, *suites.load(name).contents.presets):
            yield pytest.param(name, preset, id=f"{name}-{preset}")


@pytest.mark.parametrize(("name", "preset"), list(suites_and_presets()))
def test_the_network_and_the_corruptions_of_every_preset_take_images_of_its_size(stand_ins, name, preset):
    suite = suites.load(name, preset)
    if "pretrained" in suite.contents.network.options:
        suite = suite.with_value("network", "pretrained", "false")  # which would be fetched
    id, family = suite.contents.id, suite.contents.corruptions
    side = views.side(suite) if id.embed is None else 1
    channels = len(lookup.normalization(suite)[0])
    image = np.random.default_rng(0).integers(0, 256, (1, channels, side, side), dtype=np.uint8)
    for setting in suite.settings:
        if setting.covariate not in suite.contents.covariate:
            corrupted = corruption(family, setting.covariate)(image, setting.severity, np.arange(1))
            assert corrupted.shape == image.shape and corrupted.dtype == np.uint8
    with torch.no_grad():
        logits = build_model(suite, seed=0).eval()(torch.from_numpy(image) / 255)
    assert logits.shape == (1, lookup.num_classes(suite))
