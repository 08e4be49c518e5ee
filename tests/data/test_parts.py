"""Which image plays which part, what a corruption does to it, and where it comes from."""

import io
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
from data_files import write
from PIL import Image
from stand_ins import arrays, data_in, files, picture

from oodbench.config import suite
from oodbench.config.families import corruption_kinds
from oodbench.config.suite import Source
from oodbench.data import lookup, store, views
from oodbench.data.corruptions.digits_c import KINDS
from oodbench.data.parts import build_parts, mixed_validation
from oodbench.data.sets.folders import PACS
from oodbench.data.sets.idx import MNIST
from oodbench.errors import UserError
from oodbench.learning.batches import WildMixture
from oodbench.running.trained import training_data

SUITE = suite.load("digits-c")
SEEDS = (0, 1, 2, 77)
COVARIATE = ("wild_covariate", "mixed_covariate", "covariate")
TEST = ("id", "covariate", "semantic")
every_case = pytest.mark.parametrize(
    ("setting", "seed"),
    [pytest.param(setting, seed, id=f"{setting.semantic}-{seed}") for setting in SUITE.settings for seed in SEEDS],
)


def parts_of(setting, seed, suite=SUITE):
    return build_parts(suite, setting, seed).items()


def with_splits(**shares):
    contents = SUITE.contents
    return replace(SUITE, contents=replace(contents, splits=replace(contents.splits, **shares)))


def originals(part):
    """Data set and row of each image, whatever was done to it."""
    return {(part.origin.split()[0], int(row)) for row in part.rows}


def images_of(name):
    return lookup.dataset(name).arrays(None)[0]


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
        clean = images_of(part.origin.split()[0])[part.rows]
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
    id_train = lookup.dataset("digits").part(False, SUITE.contents.id.classes)
    unlabelled = (1 - shares.labelled) * len(id_train.rows)
    expected = {"labelled": shares.labelled * len(id_train.rows)}
    for kind in ("id", "covariate"):  # each half of what shows no labels
        expected[f"mixed_{kind}"] = shares.mixed_validation * unlabelled / 2
        expected[f"wild_{kind}"] = (1 - shares.mixed_validation - shares.id_validation) * unlabelled / 2
    expected["id_validation"] = shares.id_validation * unlabelled / 2
    source = SUITE.contents.semantic[setting.semantic]
    data = lookup.dataset(source.dataset)
    if data.has_test_part:
        semantic_train = len(data.part(False, source.classes).rows)
        expected["semantic"] = len(data.part(True, source.classes).rows)
    else:
        everything = len(data.part(None).rows)
        expected["semantic"] = shares.semantic_test * everything
        semantic_train = (1 - shares.semantic_test) * everything
    expected["mixed_semantic"] = shares.mixed_validation * semantic_train
    expected["wild_semantic"] = (1 - shares.mixed_validation) * semantic_train
    expected["id"] = expected["covariate"] = len(lookup.dataset("digits").part(True, SUITE.contents.id.classes).rows)
    assert {name: len(part) for name, part in parts.items()} == {
        name: pytest.approx(size, abs=1) for name, size in expected.items()
    }


@every_case
def test_labels_count_the_classes_of_the_suite_and_semantic_images_are_of_none(setting, seed):
    parts = parts_of(setting, seed)
    digits = lookup.dataset("digits").part(None)
    for name, part in parts.items():
        if "semantic" not in name:
            assert np.array_equal(part.labels, digits.labels[part.rows]) and set(part.labels) == set(range(8)), name
        elif setting.semantic == "unseen-digits":
            assert set(digits.labels[part.rows]) == {8, 9}, name
        else:
            assert part.origin == "photo-patches"
    assert lookup.num_classes(SUITE) == 8


def test_labels_are_counted_within_the_chosen_classes_in_any_order():
    chosen = lookup.dataset("digits").part(None, [7, 2])
    everything = lookup.dataset("digits").part(None)
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
        build_parts(with_splits(id_validation=0.001), SUITE.settings[0], 0)


def test_the_digest_tells_parts_apart():
    part = parts_of(SUITE.settings[0], 0)["id"]
    assert part.take(slice(None)).digest == part.digest
    others = [part.take(slice(1, None)), part.take(slice(None, None, -1)), replace(part, origin="digits blurred")]
    assert len({part.digest, *(other.digest for other in others)}) == 4


MIXTURES = [(0.5, 0.1), (0.0, 0.0), (0.0, 1.0), (0.3, 0.3), (0.9, 0.1), (0.5, 0.05)]


@pytest.mark.parametrize(("pi_c", "pi_s"), MIXTURES)
def test_the_mixed_validation_set_has_the_proportions_of_the_mixture(pi_c, pi_s):
    setting = replace(SUITE.settings[0], pi_c=pi_c, pi_s=pi_s)
    parts = build_parts(SUITE, setting, 0)
    images = mixed_validation(parts, setting)
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
    parts = build_parts(SUITE, setting, seed)
    data = training_data(SUITE, parts, setting)
    given = [data.labelled.images, data.wild.id, data.wild.covariate, data.wild.semantic, data.id_validation]
    seen = {image.numpy().tobytes() for images in [*given, data.mixed_validation] for image in images}
    for name in TEST:
        assert not seen & pixels(getattr(parts, name))
    assert np.array_equal(data.id_test.numpy(), parts.id.images)
    alone = training_data(SUITE, parts, None)
    assert alone.wild is alone.id_validation is alone.mixed_validation is alone.id_test is None
    assert torch.equal(alone.labelled.images, data.labelled.images)


DIGITS, IMAGES = lookup.dataset("digits").part(None), images_of("digits")
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_the_corruptions_are_those_promised():
    assert set(KINDS) == {"gaussian_noise", "blur", "contrast", "rotation", "impulse_noise"}
    assert set(corruption_kinds("digits_c")) == set(KINDS)


@every_kind
def test_severity_moves_pixels_further(kind):
    distances = []
    for severity in range(1, 6):
        before = IMAGES.copy()
        corrupted = KINDS[kind](IMAGES, severity, DIGITS.rows)
        assert corrupted.dtype == np.uint8 and corrupted.shape == IMAGES.shape
        assert np.array_equal(IMAGES, before)
        assert (corrupted != IMAGES).any(axis=(1, 2, 3)).mean() > 0.85
        distances.append(np.abs(corrupted.astype(int) - IMAGES).mean())
    assert distances == sorted(set(distances)) and distances[0] > 0


@every_kind
@pytest.mark.parametrize("severity", range(1, 6))
def test_a_corrupted_subset_is_the_subset_of_the_corruption(kind, severity):
    whole = KINDS[kind](IMAGES[:200], severity, DIGITS.rows[:200])
    order = np.random.default_rng(0).permutation(200)
    for chosen in (order, order[:30], order[:1], order[:0], np.array([5, 5, 7])):
        assert np.array_equal(KINDS[kind](IMAGES[chosen], severity, DIGITS.rows[chosen]), whole[chosen])


@pytest.mark.parametrize("kind", ["gaussian_noise", "impulse_noise", "rotation"])
def test_each_image_gets_its_own_draws(kind):
    same = np.repeat(IMAGES[:1], 40, axis=0)
    assert len({image.tobytes() for image in KINDS[kind](same, 3, np.arange(40))}) == (2 if kind == "rotation" else 40)


PRINT_DIGESTS = """
import hashlib
from oodbench.data import lookup
from oodbench.data.corruptions.digits_c import KINDS
images, labels, _ = lookup.dataset("digits").arrays(None)
for kind, corrupt in KINDS.items():
    print(kind, hashlib.sha256(corrupt(images, 4, range(len(labels))).tobytes()).hexdigest())
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
    assert np.array_equal(IMAGES[:, 0], np.rint(bundled.images * 255 / 16).astype(np.uint8))
    assert np.array_equal(DIGITS.labels, bundled.target)
    assert IMAGES.dtype == np.uint8 and DIGITS.labels.dtype == np.int64
    test = lookup.dataset("digits").part(True)
    assert np.array_equal(test.rows, np.arange(1797 - 540, 1797))
    assert np.array_equal(np.sort(np.concatenate([test.rows, lookup.dataset("digits").part(False).rows])), DIGITS.rows)


def test_the_patches_are_cut_from_the_two_photographs():
    patches = images_of("photo-patches")
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
    data = lookup.dataset(name)
    images = images_of(name)[data.part(False).rows] / 255
    assert data.mean == (pytest.approx(images.mean(), abs=1e-4),) and data.std == (
        pytest.approx(images.std(), abs=1e-4),
    )


def test_a_fingerprint_is_of_the_content_and_not_of_the_place(tmp_path):
    Digits = type(lookup.dataset("digits"))
    (original,) = Digits().files()

    class Elsewhere(Digits):
        def files(self):
            return [tmp_path / "copy"]

    (tmp_path / "copy").write_bytes(original.read_bytes())
    assert Elsewhere().fingerprint == Digits().fingerprint == lookup.dataset("digits").fingerprint
    (tmp_path / "copy").write_bytes(original.read_bytes() + b" ")
    assert Elsewhere().fingerprint != Digits().fingerprint


def test_a_setting_carries_the_fingerprints_of_the_data_it_reads():
    unseen, photos = (lookup.fingerprints(SUITE, setting) for setting in SUITE.settings)
    assert unseen == {"digits": lookup.dataset("digits").fingerprint}
    assert photos == {**unseen, "photo-patches": lookup.dataset("photo-patches").fingerprint}
    assert all(len(mark) == 16 and int(mark, 16) >= 0 for mark in photos.values())


# Sets of the user's, encoded sets, domains


@pytest.fixture
def home(tmp_path):
    with data_in(tmp_path / "data") as home:
        yield home


def pictures(random, classes, each=12):
    return {f"{kind}/{i}.png": picture(random, side=8) for kind in classes for i in range(each)}


def test_colours_become_the_grey_of_the_id_images(home, tmp_path):
    folder = write(tmp_path / "odd", pictures(np.random.default_rng(0), "ab"))
    suite = SUITE.with_sets([f"folder:{folder}"], ())
    parts = build_parts(suite, suite.settings[0], 0)
    assert parts.semantic.images.shape == (8, 1, 8, 8) and len(parts.wild_semantic) + len(parts.mixed_semantic) == 16
    names = sorted(path for path in folder.rglob("*.png"))
    for image, row in zip(parts.semantic.images, parts.semantic.rows, strict=True):
        luma = np.asarray(Image.open(names[row]), dtype=int) @ [299, 587, 114] // 1000
        assert np.array_equal(image[0], luma)
    assert parts.semantic.origin == "folder:odd"


def test_grey_becomes_the_colour_of_the_id_images(home, tmp_path):
    """Digits beside a folder of color pictures."""
    folder = write(tmp_path / "known", pictures(np.random.default_rng(0), "ab", each=40))
    contents = replace(SUITE.contents, id=Source(f"folder:{folder}"), semantic={"digits": Source("digits")})
    suite = replace(SUITE, contents=contents)
    parts = build_parts(suite, suite.setting("digits,covariate=contrast"), 0)
    assert lookup.num_classes(suite) == 2 and views.side(suite) == 8
    assert parts.semantic.images.shape[1:] == (3, 8, 8)
    assert np.array_equal(parts.semantic.images, np.repeat(IMAGES[parts.semantic.rows], 3, axis=1))


def test_a_set_of_another_size_is_refused(home):
    suite = replace(SUITE, contents=replace(SUITE.contents, semantic={"mnist": Source("mnist")}))
    store.save("mnist", arrays(MNIST, np.random.default_rng(0), 20, 10), "a test")
    with pytest.raises(UserError, match="'mnist' has images of 28x28, the suite needs 8x8; choose another set"):
        build_parts(suite, suite.setting("mnist"), 0)


def test_a_folder_may_be_the_covariate_shift_if_it_has_the_same_classes(home, tmp_path):
    random = np.random.default_rng(0)
    folder = write(tmp_path / "shifted", pictures(random, "01234567"))
    suite = SUITE.with_sets(["unseen-digits"], [f"folder:{folder}"])
    parts, usual = build_parts(suite, suite.settings[0], 0), build_parts(SUITE, SUITE.settings[0], 0)
    assert parts.covariate.origin == parts.wild_covariate.origin == "folder:shifted"
    assert set(parts.covariate.labels) <= set(range(8)) and len(parts.covariate) == 96 - int(0.7 * 96)
    assert not {*parts.covariate.rows} & {*parts.wild_covariate.rows, *parts.mixed_covariate.rows}
    assert parts.labelled.digest == usual.labelled.digest and parts.id.digest == usual.id.digest
    assert len(parts.wild_id) > len(usual.wild_id)  # none of the unlabeled digits are corrupted
    more = write(tmp_path / "more", pictures(random, "012345678"))
    suite = SUITE.with_sets(["unseen-digits"], [f"folder:{more}"])
    with pytest.raises(UserError, match="the covariate set 'more' has more classes than the 8 of the ID data"):
        build_parts(suite, suite.settings[0], 0)


def test_encoded_id_images_are_what_a_jpeg_file_gives_back_in_every_part(home):
    suite = SUITE.with_value("id", "jpeg", "30")
    parts, usual = (build_parts(each, SUITE.settings[0], 0).items() for each in (suite, SUITE))
    for name in parts:
        assert np.array_equal(parts[name].rows, usual[name].rows)
        assert parts[name].origin == usual[name].origin.replace("digits", "digits jpeg-30", 1), name
    for name in ("labelled", "id", "wild_semantic"):  # the unseen digits are digits too
        file = io.BytesIO()
        Image.fromarray(usual[name].images[3, 0]).save(file, "JPEG", quality=30)
        assert np.array_equal(parts[name].images[3, 0], np.asarray(Image.open(file)))
        assert not np.array_equal(parts[name].images, usual[name].images)
    clean, corrupted = parts["id"], parts["covariate"]
    assert np.array_equal(KINDS["gaussian_noise"](clean.images, 3, clean.rows), corrupted.images)


STYLES = suite.load("pacs", "smoke")


@pytest.fixture
def styles(home, tmp_path):
    """PACS with six pictures of each class and domain, and a folder of other pictures as semantic set."""
    random = np.random.default_rng(0)
    PACS().add(write(tmp_path / "pacs", files(PACS(), random)))
    odd = write(tmp_path / "odd", {f"{i}.png": picture(random) for i in range(40)})
    return STYLES.with_sets([f"folder:{odd}"], ["sketch", "photo"])


@pytest.mark.parametrize("number", [0, 1])
def test_a_held_out_domain_is_seen_in_the_covariate_parts_and_nowhere_else(styles, number):
    setting = styles.settings[number]
    parts, names = build_parts(styles, setting, 0).items(), PACS.domains
    held_out = names.index(setting.covariate)
    for name, part in parts.items():
        if "semantic" in name:
            assert part.domains is None
        else:
            assert set(part.domains) <= ({held_out} if "covariate" in name else {0, 1, 2, 3} - {held_out}), name
            assert np.array_equal(part.domains, PACS().domain_of[part.rows])
    assert len(set(parts["labelled"].domains)) == 3
    for a, b in combinations(parts, 2):
        assert not originals(parts[a]) & originals(parts[b]), (a, b)


def test_the_other_domains_are_the_environments_of_the_labelled_images(styles):
    setting = styles.settings[1]  # photo, which is not the last, so that numbers of domains and environments differ
    parts = build_parts(styles, setting, 0)
    data = training_data(styles, parts, setting)
    assert set(data.labelled.env.tolist()) == {0, 1, 2}
    known = [i for i, name in enumerate(PACS.domains) if name != setting.covariate]
    assert [known[e] for e in data.labelled.env] == parts.labelled.domains.tolist()
    recipe = replace(styles.contents.recipes.scratch, batch_size=9)
    for batch in data.batches(recipe, 0, torch.device("cpu")):
        assert batch.env.bincount().tolist() == [3, 3, 3]
    assert data.with_environments("native", seed=0) is data
    alone = training_data(SUITE, build_parts(SUITE, SUITE.settings[0], 0), None)
    with pytest.raises(UserError, match="the suite has no native environments; choose environments=random:2 or aug"):
        alone.with_environments("native", seed=0)


def test_without_a_semantic_set_all_of_the_other_domains_train_or_test(styles):
    setting = STYLES.setting("covariate=photo")
    parts = build_parts(STYLES, setting, 0)
    train, test = len(parts.labelled), len(parts.id)
    assert train + test == 3 * 42 and train == int(0.8 * 126)
    assert len(parts.covariate) == int(0.8 * 42) and {*parts.covariate.domains} == {PACS.domains.index("photo")}
    empty = [name for name, part in parts.items().items() if len(part) == 0]
    assert set(empty) == set(parts.items()) - {"labelled", "id", "covariate", "covariate_validation"}


def test_a_held_out_domain_keeps_a_part_for_selection_that_is_tested_on_nowhere(styles):
    alone = build_parts(STYLES, STYLES.setting("covariate=photo"), 0)
    assert len(alone.covariate) + len(alone.covariate_validation) == 42  # all of the domain
    assert not {*alone.covariate.rows} & {*alone.covariate_validation.rows}
    # Beside a semantic set: of 42, 29 unlabeled (70 %) and 13 test; of the 29, 9 for the mixed validation set, then 3.
    parts = build_parts(styles, styles.settings[0], 0)
    assert (len(parts.covariate), len(parts.mixed_covariate), len(parts.covariate_validation)) == (13, 9, 3)
    assert len(parts.wild_covariate) == 42 - 13 - 9 - 3
    usual = build_parts(SUITE, SUITE.settings[0], 0)
    assert usual.covariate_validation is None and "covariate_validation" not in usual.items()


def test_the_share_of_domains_is_its_own_and_does_not_move_that_of_a_semantic_set(styles):
    fewer = STYLES.with_value("splits", "domain_out", "0.5")
    parts = build_parts(fewer, fewer.setting("covariate=photo"), 0)
    assert (len(parts.covariate), len(parts.labelled)) == (21, 63)
    changed, usual = (
        build_parts(each, styles.settings[0], 0) for each in (styles.with_value("splits", "domain_out", "0.5"), styles)
    )
    assert {n: p.digest for n, p in changed.items().items()} == {n: p.digest for n, p in usual.items().items()}


def test_an_unknown_domain_is_answered_with_those_there_are(styles):
    source = replace(STYLES.contents.covariate["photo"], domains=["foto"])
    wrong = replace(STYLES, contents=replace(STYLES.contents, covariate={"photo": source}))
    with pytest.raises(UserError, match="unknown domain of 'pacs' 'foto'; did you mean 'photo'?"):
        build_parts(wrong, wrong.setting("covariate=photo"), 0)
