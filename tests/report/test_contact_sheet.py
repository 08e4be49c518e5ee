"""`oodbench data show`: what is on a contact sheet, and where."""

import os

import numpy as np
import pytest
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench
from data_files import SmallCIFAR10, SmallMNIST, small
from PIL import Image

from oodbench.config import suite as suites
from oodbench.data import lookup, store
from oodbench.data.corruptions import cifar_c, digits_c, mnist_c
from oodbench.data.parts import build_parts
from oodbench.data.sets.cifar import CIFAR10
from oodbench.data.sets.digits import Digits
from oodbench.data.sets.idx import MNIST
from oodbench.report import contact_sheet
from oodbench.report.contact_sheet import Sheet


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A data folder of its own, and a folder to write to."""
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    lookup.dataset.cache_clear()  # which remembers what it has read
    yield tmp_path / "data"
    lookup.dataset.cache_clear()


@pytest.fixture
def digits():
    return suites.load("digits-c")


@pytest.fixture
def cifar(monkeypatch):
    """CIFAR-10 of 15 training and 3 test images, of classes 7, 2 and 7."""
    monkeypatch.setattr(CIFAR10, "rows", SmallCIFAR10.rows)
    monkeypatch.setattr(CIFAR10, "official", None)
    images, labels = small(SmallCIFAR10)
    labels[15:] = (7, 2, 7)
    store.save("cifar10", store.Decoded(images, labels, np.arange(18) >= 15), "a test")
    return images


def clean_rows(suite, count, seed=0):
    """The rows of the images on a sheet of digits, found again by their pixels."""
    images, _, in_test = lookup.dataset("digits").arrays(None)
    shown = contact_sheet.of_corruption(suite, "blur", count, seed).tiles[:, 0]
    found = [np.flatnonzero((images == tile).all(axis=(1, 2, 3))) for tile in shown]
    assert all(len(rows) == 1 and in_test[rows[0]] for rows in found)
    return np.concatenate(found)


# The picture


def test_every_image_is_on_the_sheet_at_its_row_and_column_enlarged_pixel_by_pixel():
    """8x8 images become 64x64; they stand 68 pixels apart, and the last ends a gap before the edge."""
    tiles = np.random.default_rng(0).integers(0, 256, (2, 3, 1, 8, 8), dtype=np.uint8)
    drawn = np.asarray(Sheet("title", ["a", "b"], ["x", "y", "z"], tiles).image())
    height, width = drawn.shape
    for j in range(2):
        for i in range(3):
            bottom, right = height - 4 - 68 * (1 - j), width - 4 - 68 * (2 - i)
            square = drawn[bottom - 64 : bottom, right - 64 : right]
            assert (square[::8, ::8] == tiles[j, i, 0]).all()
            assert (square == np.kron(tiles[j, i, 0], np.ones((8, 8), dtype=np.uint8))).all()


@pytest.mark.parametrize(("side", "times"), [(8, 8), (28, 2), (32, 2), (64, 1), (96, 1)])
def test_images_are_enlarged_to_about_64_pixels_and_never_shrunk(side, times):
    sheet = Sheet("", [""], [""], np.zeros((1, 1, 1, side, side), dtype=np.uint8))
    assert np.count_nonzero(np.asarray(sheet.image()) == 0) == (times * side) ** 2


def test_colour_stays_colour_and_grey_stays_grey():
    red = np.zeros((1, 1, 3, 32, 32), dtype=np.uint8)
    red[:, :, 0] = 255
    picture = Sheet("", ["row"], ["column"], red).image()
    assert picture.mode == "RGB" and (np.asarray(picture) == (255, 0, 0)).all(axis=2).sum() == 64 * 64
    assert Sheet("", ["row"], ["column"], red[:, :, :1]).image().mode == "L"
    two = Sheet("", ["row"], ["column"], red[:, :, :2]).image()  # colored MNIST has no blue
    assert (np.asarray(two) == np.asarray(picture)).all()


def test_labels_are_written_and_long_ones_get_their_space():
    tiles = np.full((1, 1, 1, 8, 8), 255, dtype=np.uint8)

    def ink(*labels):
        return np.count_nonzero(np.asarray(Sheet(labels[0], [labels[1]], [labels[2]], tiles).image()) < 100)

    assert ink("", "", "") == 0
    for place in range(3):
        labels = ["", "", ""]
        labels[place] = "M"
        one = ink(*labels)
        labels[place] = "M" * 40
        assert one > 0 and ink(*labels) >= 39 * one


# What is on it


def test_a_corruption_is_shown_clean_and_at_each_severity_one_image_per_class(digits):
    sheet = contact_sheet.of_corruption(digits, "gaussian_noise", 8, 0)
    assert sheet.title == "digits-c: gaussian_noise"
    assert sheet.rows == [f"class {k}" for k in range(8)]
    assert sheet.columns == ["clean", *(f"severity {k}" for k in (1, 2, 3, 4, 5))]
    rows = clean_rows(digits, 8)
    assert lookup.dataset("digits").labels()[rows].tolist() == list(range(8))
    images = lookup.dataset("digits").arrays(None)[0]
    for k in range(1, 6):
        assert (sheet.tiles[:, k] == digits_c.gaussian_noise(images[rows], k, rows)).all()


def test_the_corrupted_images_are_those_of_a_run(digits):
    parts = build_parts(digits, digits.settings[0], seed=3)
    sheet = contact_sheet.of_corruption(digits, "gaussian_noise", 8, 0)
    for row, tile in zip(clean_rows(digits, 8), sheet.tiles[:, 3], strict=True):
        assert (parts.covariate.images[parts.covariate.rows == row][0] == tile).all()


def test_all_corruptions_are_shown_a_row_each_at_the_severity_of_the_suite(digits):
    sheet = contact_sheet.of_all_corruptions(digits, None, 2, 0)
    assert sheet.title == "digits-c: severity 3"
    assert sheet.rows == ["clean", *digits_c.KINDS] and sheet.columns == ["class 0", "class 1"]
    rows = clean_rows(digits, 2)
    images = lookup.dataset("digits").arrays(None)[0][rows]
    for kind, tiles in zip(digits_c.KINDS, sheet.tiles[1:], strict=True):
        assert (tiles == digits_c.KINDS[kind](images, 3, rows)).all()
    other = contact_sheet.of_all_corruptions(digits, 5, 2, 0)
    assert other.title == "digits-c: severity 5" and (other.tiles[2] == digits_c.blur(images, 5, rows)).all()


def changed(tmp_path, *changes):
    """The suite of digits with some words replaced."""
    text = SUITE_FILE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_the_default_severity_is_that_of_the_suite_or_the_middle_one_if_its_covariate_set_is_no_corruption(tmp_path):
    def title(*changes):
        return contact_sheet.of_all_corruptions(suites.load(str(changed(tmp_path, *changes))), None, 1, 0).title

    assert title(("severity: 3", "severity: 2")) == "mine: severity 2"
    with_set = ("corruptions: digits_c", "corruptions: digits_c\ncovariate: {x: {dataset: photo-patches}}")
    assert (
        title(("covariate: gaussian_noise, severity: 3", "covariate: x, severity: 1"), with_set) == "mine: severity 3"
    )


def test_classes_bear_their_numbers_in_the_data_set_whatever_others_are_left_out(tmp_path):
    path = changed(tmp_path, ("classes: [0, 1, 2, 3, 4, 5, 6, 7]", "classes: [2, 4, 7]"))
    assert contact_sheet.of_corruption(suites.load(str(path)), "blur", 4, 0).rows == [
        *("class 2", "class 4", "class 7", "class 2")
    ]


def test_without_a_corruption_the_test_splits_of_all_settings_are_shown_once_each(digits):
    sheet = contact_sheet.of_parts(digits, digits.settings, 8, 0)
    assert sheet.rows == [
        "id",
        "covariate: gaussian_noise, severity 3",
        "semantic: unseen-digits",
        "semantic: photo-patches",
    ]
    rows = clean_rows(digits, 8)
    images, labels, _ = lookup.dataset("digits").arrays(None)
    assert (sheet.tiles[0] == images[rows]).all()
    assert (sheet.tiles[1] == digits_c.gaussian_noise(images[rows], 3, rows)).all()
    unseen = [labels[(images == tile).all(axis=(1, 2, 3))].tolist() for tile in sheet.tiles[2]]
    assert unseen == [[8], [9]] * 4  # of each class one, then of each another


def test_a_seed_always_shows_the_same_images_and_another_seed_others(digits):
    assert (clean_rows(digits, 8) == clean_rows(digits, 8)).all()
    assert (clean_rows(digits, 8) != clean_rows(digits, 8, seed=1)).any()


def test_more_images_begin_with_the_same_and_repeat_no_image(digits):
    few, many = clean_rows(digits, 3), clean_rows(digits, 20)
    assert (many[:3] == few).all() and len(set(many.tolist())) == 20
    labels = lookup.dataset("digits").labels()[many].tolist()
    assert labels == [*range(8), *range(8), *range(4)]


def test_published_files_are_shown_where_they_are_as_a_run_would_use_them(cifar):
    suite = suites.load("cifar10-c")
    made = contact_sheet.of_corruption(suite, "contrast", 3, 0).tiles
    published = np.random.default_rng(1).integers(0, 256, (15, 3, 32, 32), dtype=np.uint8)  # five severities of three
    labels = np.tile((7, 2, 7), 5)
    store.save("cifar10-c-files/contrast", store.Decoded(published, labels, np.ones(15, dtype=bool)), "a test")
    shown = contact_sheet.of_corruption(suite, "contrast", 3, 0).tiles
    assert (shown[:, 0] == made[:, 0]).all()
    order = [int(np.flatnonzero((cifar[15:] == tile).all(axis=(1, 2, 3)))[0]) for tile in shown[:, 0]]
    assert sorted(order) == [0, 1, 2] and order[0] == 1  # class 2 comes first
    for severity in range(1, 6):
        assert (shown[:, severity] == published[3 * (severity - 1) + np.array(order)]).all()
        rows = 15 + np.array(order)
        assert (made[:, severity] == cifar_c.KINDS["contrast"](cifar[rows], severity, rows)).all()


# The command


def opened(path):
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture)


@pytest.mark.parametrize(
    ("arguments", "name", "count"),
    [
        ((), "digits-c.png", "4 x 6"),
        (("--corruption", "blur"), "digits-c-blur.png", "6 x 6"),
        (("--corruption", "all", "--images", "2"), "digits-c-all.png", "6 x 2"),
        (("--corruption", "all", "--out", "new/folder/sheet.png"), "new/folder/sheet.png", "6 x 6"),
    ],
)
def test_the_sheet_is_written_and_the_command_says_where(arguments, name, count):
    assert assert_done(oodbench("data", "show", "digits-c", *arguments)) == f"{name}: {count} images of digits-c\n"
    assert opened(name).ndim == 2


def test_what_is_written_is_the_sheet(digits):
    assert_done(oodbench("data", "show", "digits-c", "--corruption", "blur", "--images", 3, "--seed", 7))
    expected = contact_sheet.of_corruption(digits, "blur", 3, 7).image()
    assert (opened("digits-c-blur.png") == np.asarray(expected)).all()
    assert_done(oodbench("data", "show", "digits-c", "--corruption", "all", "--severity", 4, "--out", "x.png"))
    assert (opened("x.png") == np.asarray(contact_sheet.of_all_corruptions(digits, 4, 6, 0).image())).all()


def test_a_corruption_of_a_suite_is_shown_though_its_semantic_data_is_missing_and_nothing_is_kept(cifar, home):
    out = assert_done(oodbench("data", "show", "cifar10-c", "--corruption", "fog", "--images", 2))
    assert out == "cifar10-c-fog.png: 2 x 6 images of cifar10-c\n" and opened("cifar10-c-fog.png").ndim == 3
    assert os.listdir(home) == ["cifar10"]


def test_all_corruptions_that_can_be_drawn_are_and_the_others_are_named(cifar, home, monkeypatch):
    monkeypatch.setattr("oodbench.data.corruptions._frost.find_spec", lambda name: None)
    out = assert_done(oodbench("data", "show", "cifar10-c", "--corruption", "all", "--images", 2))
    left_out, written = out.splitlines()
    message = f"frost needs six photographs, which are not in '{home / 'frost'}'; get them with: pip install"
    assert left_out.startswith(f"left out: the corruption 'frost': {message}")
    sheet = contact_sheet.of_all_corruptions(suites.load("cifar10-c"), None, 2, 0)
    assert [*sheet.missing] == ["frost"] and "frost" not in sheet.rows and {"clean", "fog", "snow"} < {*sheet.rows}
    assert written == f"cifar10-c-all.png: {len(sheet.rows)} x 2 images of cifar10-c"
    assert_refused(oodbench("data", "show", "cifar10-c", "--corruption", "frost", "--images", 2), message)


def test_grey_suites_of_one_strength_are_shown(monkeypatch):
    monkeypatch.setattr(MNIST, "rows", SmallMNIST.rows)
    monkeypatch.setattr(MNIST, "official", None)
    images, labels = small(SmallMNIST)
    store.save("mnist", store.Decoded(images, labels, np.arange(len(labels)) >= 12), "a test")
    sheet = contact_sheet.of_all_corruptions(suites.load("mnist-c"), None, 2, 0)
    assert sheet.rows == ["clean", *mnist_c.KINDS] and sheet.title == "mnist-c: severity 1"
    assert (sheet.tiles[0] == sheet.tiles[1 + list(mnist_c.KINDS).index("identity")]).all()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("digit-c",), ["unknown suite 'digit-c'", "did you mean 'digits-c'"]),
        (("digits-c", "--corruption", "blurr"), ["unknown corruption 'blurr'; did you mean 'blur'"]),
        (("digits-c", "--corruption", "fog"), ["unknown corruption 'fog'", "known: all, blur, contrast"]),
        (("digits-c", "--corruption", "all", "--severity", "6"), ["severity 6 does not exist; choose 1 to 5"]),
        (("digits-c", "--corruption", "blur", "--severity", "2"), ["--severity goes with --corruption all"]),
        (("digits-c", "--severity", "2"), ["--severity goes with --corruption all"]),
        (("digits-c", "--images", "0"), ["--images 0 leaves nothing to show; choose 1 or more"]),
        (("digits-c", "--images", "9999"), ["'id' has 433 images; choose --images 433 or fewer"]),
        (("digits-c", "--images", "many"), ["invalid int value: 'many'", "--help"]),
        (("digits-c", "--out", "sheet.jpg"), ["'sheet.jpg' is not the name of a PNG file; end it in .png"]),
        (("cifar10-c", "--corruption", "fog"), ["'cifar10' is", "oodbench data get cifar10"]),
        (("cifar10-c",), ["'cifar10' is missing; get it with: oodbench data get cifar10"]),
        ((), ["the following arguments are required: NAME"]),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_line_and_nothing_is_written(arguments, parts):
    assert_refused(oodbench("data", "show", *arguments), *parts)
    assert os.listdir() == []


def test_a_suite_without_corruptions_has_its_parts_to_show(tmp_path):
    path = changed(
        tmp_path,
        ("defaults: {covariate: gaussian_noise,", "defaults: {covariate: others,"),
        ("corruptions: digits_c", "covariate: {others: {dataset: photo-patches}}"),
    )
    assert_refused(
        oodbench("data", "show", path, "--corruption", "blur"),
        "mine has no corruptions; leave out --corruption to see its parts",
    )
    assert_done(oodbench("data", "show", path))
    suite = suites.load(str(path))
    assert "covariate: others" in contact_sheet.of_parts(suite, suite.settings, 2, 0).rows


def test_settings_whose_data_is_missing_are_left_out_and_named(tmp_path):
    path = changed(
        tmp_path,
        ("photo-patches: {dataset: photo-patches}", "svhn: {dataset: svhn}"),
        ("semantic: photo-patches", "semantic: svhn"),
    )
    lines = assert_done(oodbench("data", "show", path)).splitlines()
    assert lines[0].startswith("left out: the setting 'svhn': the data set 'svhn' is missing")
    assert lines[1:] == ["mine.png: 3 x 6 images of mine"]


def test_a_suite_of_domains_without_a_semantic_set_shows_each_domain_and_what_is_left_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(Digits, "domains", ("even", "odd"))
    monkeypatch.setattr(Digits, "domain_of", np.arange(1797) % 2, raising=False)
    path = changed(
        tmp_path,
        (
            "corruptions: digits_c",
            "covariate: {odd: {dataset: digits, classes: [0, 1, 2, 3, 4, 5, 6, 7], domains: [odd]}}",
        ),
        ("covariate: gaussian_noise", "covariate: odd"),
        ("  - semantic: unseen-digits\n  - semantic: photo-patches\n", "  - covariate: odd\n"),
    )
    suite = suites.load(str(path))
    sheet = contact_sheet.of_parts(suite, suite.settings, 8, 0)
    assert sheet.rows == ["id: without odd", "covariate: odd"]
    images = lookup.dataset("digits").arrays(None)[0]
    for parity, tiles in enumerate(sheet.tiles):
        assert all((images[parity::2] == tile).all(axis=(1, 2, 3)).any() for tile in tiles)


@pytest.mark.parametrize("out", ["file/sheet.png", "folder.png"])
def test_a_file_that_cannot_be_written_is_told_and_what_was_there_stays(out):
    with open("file", "w") as file:
        file.write("a file")
    os.mkdir("folder.png")
    assert_refused(oodbench("data", "show", "digits-c", "--out", out), f"cannot write '{out}'", "choose another folder")
    assert sorted(os.listdir()) == ["file", "folder.png"] and os.listdir("folder.png") == []
    with open("file") as file:
        assert file.read() == "a file"


def test_a_data_set_is_drawn_by_its_parts(tmp_path):
    sheet = contact_sheet.of_data_set("digits", 3, 0)
    data = lookup.dataset("digits")
    assert sheet.rows == ["train", "test"] and sheet.tiles.shape == (2, 3, 1, 8, 8)
    for row, test in zip(sheet.tiles, (False, True), strict=True):
        own = data.arrays(None)[0][data.part(test).rows]
        labels = [int(data.part(test).labels[(own == tile).all(axis=(1, 2, 3))][0]) for tile in row]
        assert labels == [0, 1, 2]  # one of each class
    out = tmp_path / "digits.png"
    assert_done(oodbench("data", "show", "digits", "--images", 3, "--out", out))
    assert Image.open(out).size == sheet.image().size
    assert_refused(oodbench("data", "show", "digits", "--corruption", "blur"), "'digits' is a data set")
