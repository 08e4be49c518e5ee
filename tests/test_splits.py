"""Which image plays which part, what a corruption does to it, and where it comes from."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import sklearn.datasets
import torch
from PIL import Image

from oodbench import splits, suite
from oodbench.corruptions.digits_c import KINDS
from oodbench.data import WildMixture
from oodbench.errors import UserError
from oodbench.runner import training_data

SUITE = suite.load("digits-c")
SEEDS = (0, 1, 2, 77)
COVARIATE = ("wild_covariate", "mixed_covariate", "covariate")
TEST = ("id", "covariate", "semantic")
every_case = pytest.mark.parametrize(
    ("setting", "seed"),
    [pytest.param(setting, seed, id=f"{setting.semantic}-{seed}") for setting in SUITE.settings for seed in SEEDS],
)


def parts_of(setting, seed, suite=SUITE):
    return splits.build(suite, setting, seed).items()


def with_splits(**shares):
    contents = SUITE.contents
    return replace(SUITE, contents=replace(contents, splits=replace(contents.splits, **shares)))


def originals(part):
    """Data set and row of each image, whatever was done to it."""
    return {(part.origin.split()[0], int(row)) for row in part.rows}


def pixels(part):
    return {image.tobytes() for image in part.images}


@every_case
def test_no_image_is_in_two_parts(setting, seed):
    """A corrupted copy counts as its original, except in the covariate test split."""
    parts = parts_of(setting, seed)
    assert all(len(originals(part)) == len(part) > 0 for part in parts.values())
    for a, b in combinations(parts, 2):
        if {a, b} != {"id", "covariate"}:
            assert not originals(parts[a]) & originals(parts[b]), (a, b)
        assert not pixels(parts[a]) & pixels(parts[b]), (a, b)


@every_case
def test_every_image_used_is_the_row_it_claims_to_be(setting, seed):
    for name, part in parts_of(setting, seed).items():
        data = splits.dataset(part.origin.split()[0]).part(None)
        clean = data.images[part.rows]
        if name in COVARIATE:
            clean = KINDS[setting.covariate](clean, setting.severity, part.rows)
        assert np.array_equal(part.images, clean), name


@every_case
def test_the_covariate_test_split_is_the_id_test_split_corrupted_in_the_same_order(setting, seed):
    parts = parts_of(setting, seed)
    clean, corrupted = parts["id"], parts["covariate"]
    assert np.array_equal(clean.rows, corrupted.rows) and np.array_equal(clean.labels, corrupted.labels)
    assert np.array_equal(KINDS["gaussian_noise"](clean.images, 3, clean.rows), corrupted.images)
    assert (clean.images != corrupted.images).any(axis=(1, 2, 3)).all()


@every_case
def test_the_shares_are_those_of_the_suite_file(setting, seed):
    parts, shares = parts_of(setting, seed), SUITE.contents.splits
    id_train = splits.dataset("digits").part(False, SUITE.contents.id.classes)
    unlabelled = (1 - shares.labelled) * len(id_train.rows)
    expected = {"labelled": shares.labelled * len(id_train.rows)}
    for kind in ("id", "covariate"):  # each half of what shows no labels
        expected[f"mixed_{kind}"] = shares.mixed_validation * unlabelled / 2
        expected[f"wild_{kind}"] = (1 - shares.mixed_validation - shares.id_validation) * unlabelled / 2
    expected["id_validation"] = shares.id_validation * unlabelled / 2
    source = SUITE.contents.semantic[setting.semantic]
    data = splits.dataset(source.dataset)
    if data.has_test_part:
        semantic_train = len(data.part(False, source.classes).rows)
        expected["semantic"] = len(data.part(True, source.classes).rows)
    else:
        everything = len(data.part(None).rows)
        expected["semantic"] = shares.semantic_test * everything
        semantic_train = (1 - shares.semantic_test) * everything
    expected["mixed_semantic"] = shares.mixed_validation * semantic_train
    expected["wild_semantic"] = (1 - shares.mixed_validation) * semantic_train
    expected["id"] = expected["covariate"] = len(splits.dataset("digits").part(True, SUITE.contents.id.classes).rows)
    assert {name: len(part) for name, part in parts.items()} == {
        name: pytest.approx(size, abs=1) for name, size in expected.items()
    }


@every_case
def test_labels_count_the_classes_of_the_suite_and_semantic_images_are_of_none(setting, seed):
    parts = parts_of(setting, seed)
    digits = splits.dataset("digits").part(None)
    for name, part in parts.items():
        if "semantic" not in name:
            assert np.array_equal(part.labels, digits.labels[part.rows]) and set(part.labels) == set(range(8)), name
        elif setting.semantic == "unseen-digits":
            assert set(digits.labels[part.rows]) == {8, 9}, name
        else:
            assert part.origin == "photo-patches"
    assert splits.num_classes(SUITE) == 8


def test_labels_are_counted_within_the_chosen_classes_in_any_order():
    chosen = splits.dataset("digits").part(None, [7, 2])
    everything = splits.dataset("digits").part(None)
    counted = dict(zip(everything.labels[chosen.rows].tolist(), chosen.labels.tolist(), strict=True))
    assert counted == {2: 0, 7: 1}


@every_case
def test_the_same_suite_setting_and_seed_always_give_the_same_parts(setting, seed):
    first, second = parts_of(setting, seed), parts_of(setting, seed)
    for name in first:
        assert first[name].digest == second[name].digest
        assert first[name].images.tobytes() == second[name].images.tobytes()


@pytest.mark.parametrize("setting", SUITE.settings, ids=lambda s: s.semantic)
def test_other_seeds_share_the_images_out_differently_but_test_on_the_same(setting):
    """The test part of a semantic set that has none of its own is cut anew under each seed, as in the SCONE code."""
    drawn = [parts_of(setting, seed) for seed in SEEDS]
    fixed = {"id", "covariate"} | ({"semantic"} if setting.semantic == "unseen-digits" else set())
    for name in drawn[0]:
        assert len({parts[name].digest for parts in drawn}) == (1 if name in fixed else len(SEEDS)), name


def test_the_settings_of_a_suite_label_the_same_images():
    drawn = [parts_of(setting, 0) for setting in SUITE.settings]
    for name in ("labelled", "wild_id", "wild_covariate", "id", "covariate"):
        assert len({parts[name].digest for parts in drawn}) == 1, name


def test_covariate_images_may_come_from_all_originals_if_the_suite_says_so():
    parts = parts_of(SUITE.settings[0], 0, with_splits(covariate_from="all"))
    usual = parts_of(SUITE.settings[0], 0)
    assert parts["labelled"].digest == usual["labelled"].digest
    assert originals(parts["wild_covariate"]) & originals(parts["labelled"])
    assert len(parts["wild_covariate"]) > 2 * len(usual["wild_covariate"])
    for a, b in combinations(parts, 2):
        if (a in COVARIATE) == (b in COVARIATE):  # clean with clean, corrupted with corrupted
            assert not originals(parts[a]) & originals(parts[b]), (a, b)
    training = {n: p for n, p in parts.items() if n not in TEST}
    assert not set().union(*map(originals, training.values())) & originals(parts["id"])


def test_a_part_without_images_is_told_before_anything_trains():
    with pytest.raises(
        UserError, match="the part 'id_validation' of digits-c is empty; change its classes or shares in "
    ):
        splits.build(with_splits(id_validation=0.001), SUITE.settings[0], 0)


def test_the_digest_tells_parts_apart():
    part = parts_of(SUITE.settings[0], 0)["id"]
    assert part.take(slice(None)).digest == part.digest
    others = [part.take(slice(1, None)), part.take(slice(None, None, -1)), replace(part, origin="digits blurred")]
    assert len({part.digest, *(other.digest for other in others)}) == 4


MIXTURES = [(0.5, 0.1), (0.0, 0.0), (0.0, 1.0), (0.3, 0.3), (0.9, 0.1), (0.5, 0.05)]


@pytest.mark.parametrize(("pi_c", "pi_s"), MIXTURES)
def test_the_mixed_validation_set_has_the_proportions_of_the_mixture(pi_c, pi_s):
    setting = replace(SUITE.settings[0], pi_c=pi_c, pi_s=pi_s)
    parts = splits.build(SUITE, setting, 0)
    images = splits.mixed_validation(parts, setting)
    origin = {
        image.tobytes(): n for n in ("id", "covariate", "semantic") for image in getattr(parts, f"mixed_{n}").images
    }
    counts = Counter(origin[image.tobytes()] for image in images)
    assert len({image.tobytes() for image in images}) == len(images)
    shares = {"id": 1 - pi_c - pi_s, "covariate": pi_c, "semantic": pi_s}
    size = min(len(getattr(parts, f"mixed_{n}")) / share for n, share in shares.items() if share > 1e-9)
    for name, share in shares.items():
        assert share * size - 1 < counts[name] <= share * size + 1e-6, name


@pytest.mark.parametrize(("pi_c", "pi_s"), MIXTURES)
def test_wild_batches_follow_the_mixture_and_show_each_image_once_a_pass(pi_c, pi_s):
    sizes, batches = (90, 70, 50), 400
    kinds = [torch.full((n, 1, 1, 2), k, dtype=torch.uint8) for k, n in enumerate(sizes)]
    for images in kinds:
        images[:, 0, 0, 1] = torch.arange(len(images))
    stream = WildMixture(*kinds, pi_c, pi_s).stream(64, torch.Generator().manual_seed(0))
    drawn = [next(stream) for _ in range(batches)]
    assert all(batch.shape == (64, 1, 1, 2) and batch.dtype == torch.uint8 for batch in drawn)
    seen = torch.cat(drawn)[:, 0, 0]
    shares = (1 - pi_c - pi_s, pi_c, pi_s)
    total = batches * 64
    chi_square = 0.0
    for kind, (n, share) in enumerate(zip(sizes, shares, strict=True)):
        rows = seen[seen[:, 0] == kind, 1].tolist()
        if share < 1e-9:
            assert not rows
            continue
        chi_square += (len(rows) - share * total) ** 2 / (share * total)
        for start in range(0, len(rows) - n, n):
            assert sorted(rows[start : start + n]) == list(range(n))
        if share > 0.04:
            assert rows[:n] != rows[n : 2 * n]
    assert chi_square < 13.8  # of two degrees of freedom: once in a thousand seeds


def test_counts_vary_from_batch_to_batch():
    kinds = [torch.full((100, 1, 1, 1), k, dtype=torch.uint8) for k in range(3)]
    stream = WildMixture(*kinds, 0.5, 0.1).stream(64, torch.Generator().manual_seed(0))
    counts = [int((next(stream) == 1).sum()) for _ in range(300)]
    assert np.std(counts) == pytest.approx(4, rel=0.2)  # sqrt(64 * .5 * .5)


@every_case
def test_a_trainer_reads_nothing_of_the_test_splits_but_unlabelled_id_images(setting, seed):
    parts = splits.build(SUITE, setting, seed)
    data = training_data(SUITE, parts, setting)
    given = [data.labelled.images, data.wild.id, data.wild.covariate, data.wild.semantic, data.id_validation]
    seen = {image.numpy().tobytes() for images in [*given, data.mixed_validation] for image in images}
    for name in TEST:
        assert not seen & pixels(getattr(parts, name))
    assert np.array_equal(data.id_test.numpy(), parts.id.images)
    alone = training_data(SUITE, parts, None)
    assert alone.wild is alone.id_validation is alone.mixed_validation is alone.id_test is None
    assert torch.equal(alone.labelled.images, data.labelled.images)


DIGITS = splits.dataset("digits").part(None)
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_the_corruptions_are_those_promised():
    assert set(KINDS) == {"gaussian_noise", "blur", "contrast", "rotation", "impulse_noise"}
    assert set(suite.corruption_kinds("digits_c")) == set(KINDS)


@every_kind
def test_severity_moves_pixels_further(kind):
    distances = []
    for severity in range(1, 6):
        before = DIGITS.images.copy()
        corrupted = KINDS[kind](DIGITS.images, severity, DIGITS.rows)
        assert corrupted.dtype == np.uint8 and corrupted.shape == DIGITS.images.shape
        assert np.array_equal(DIGITS.images, before)
        assert (corrupted != DIGITS.images).any(axis=(1, 2, 3)).mean() > 0.85
        distances.append(np.abs(corrupted.astype(int) - DIGITS.images).mean())
    assert distances == sorted(set(distances)) and distances[0] > 0


@every_kind
@pytest.mark.parametrize("severity", range(1, 6))
def test_a_corrupted_subset_is_the_subset_of_the_corruption(kind, severity):
    whole = KINDS[kind](DIGITS.images[:200], severity, DIGITS.rows[:200])
    order = np.random.default_rng(0).permutation(200)
    for chosen in (order, order[:30], order[:1], order[:0], np.array([5, 5, 7])):
        assert np.array_equal(KINDS[kind](DIGITS.images[chosen], severity, DIGITS.rows[chosen]), whole[chosen])


@pytest.mark.parametrize("kind", ["gaussian_noise", "impulse_noise", "rotation"])
def test_each_image_gets_its_own_draws(kind):
    same = np.repeat(DIGITS.images[:1], 40, axis=0)
    assert len({image.tobytes() for image in KINDS[kind](same, 3, np.arange(40))}) == (2 if kind == "rotation" else 40)


PRINT_DIGESTS = """
import hashlib
from oodbench import splits
from oodbench.corruptions.digits_c import KINDS
digits = splits.dataset("digits").part(None)
for kind, corrupt in KINDS.items():
    print(kind, hashlib.sha256(corrupt(digits.images, 4, digits.rows).tobytes()).hexdigest())
"""


def test_corruptions_are_the_same_in_every_process():
    def told(seed):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS], capture_output=True, text=True, check=True, env=environment
        ).stdout

    first = told("1")
    assert len(first.splitlines()) == len(KINDS) and first == told("2")


def test_the_digits_are_scikit_learns():
    bundled = sklearn.datasets.load_digits()
    assert np.array_equal(DIGITS.images[:, 0], np.rint(bundled.images * 255 / 16).astype(np.uint8))
    assert np.array_equal(DIGITS.labels, bundled.target)
    assert DIGITS.images.dtype == np.uint8 and DIGITS.labels.dtype == np.int64
    test = splits.dataset("digits").part(True)
    assert np.array_equal(test.rows, np.arange(1797 - 540, 1797))
    assert np.array_equal(np.sort(np.concatenate([test.rows, splits.dataset("digits").part(False).rows])), DIGITS.rows)


def test_the_patches_are_cut_from_the_two_photographs():
    patches = splits.dataset("photo-patches").part(None).images
    assert patches.shape == (1040, 1, 8, 8) and len({patch.tobytes() for patch in patches}) == 1040
    found = []
    for photograph in sklearn.datasets.load_sample_images().images:
        grey = np.asarray(Image.fromarray(photograph).convert("L").reduce(2))
        windows = np.lib.stride_tricks.sliding_window_view(grey, (8, 8))[::8, ::8]
        found.append({np.ascontiguousarray(window).tobytes() for row in windows for window in row})
    counts = [sum(patch.tobytes() in windows for patch in patches) for windows in found]
    assert sum(counts) == 1040 and min(counts) > 500


@pytest.mark.parametrize("name", ["digits", "photo-patches"])
def test_the_normalisation_is_that_of_the_training_images(name):
    data = splits.dataset(name)
    images = data.part(False).images / 255
    assert data.mean == (pytest.approx(images.mean(), abs=1e-4),) and data.std == (
        pytest.approx(images.std(), abs=1e-4),
    )


def test_a_fingerprint_is_of_the_content_and_not_of_the_place(tmp_path):
    Digits = type(splits.dataset("digits"))
    (original,) = Digits().files()

    class Elsewhere(Digits):
        def files(self):
            return [tmp_path / "copy"]

    (tmp_path / "copy").write_bytes(original.read_bytes())
    assert Elsewhere().fingerprint == Digits().fingerprint == splits.dataset("digits").fingerprint
    (tmp_path / "copy").write_bytes(original.read_bytes() + b" ")
    assert Elsewhere().fingerprint != Digits().fingerprint


def test_a_setting_carries_the_fingerprints_of_the_data_it_reads():
    unseen, photos = (splits.fingerprints(SUITE, setting) for setting in SUITE.settings)
    assert unseen == {"digits": splits.dataset("digits").fingerprint}
    assert photos == {**unseen, "photo-patches": splits.dataset("photo-patches").fingerprint}
    assert all(len(mark) == 16 and int(mark, 16) >= 0 for mark in photos.values())
