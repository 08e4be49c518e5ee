"""House numbers that are made from MNIST, to the pixel: results are kept under a version that stands for it."""

import hashlib

import numpy as np
import pytest
from stand_ins import data_in

from oodbench.config import identity
from oodbench.data import availability, store
from oodbench.data.lookup import dataset
from oodbench.data.sets import street_digits
from oodbench.data.sets.street_digits import CONTRAST, ROWS, StreetDigits

TRAIN, TEST = 300, 100


def boxes(train=TRAIN, test=TEST, train_ink=255, test_ink=255):
    """Instead of MNIST, boxes 20 pixels high and 14 wide; those of odd labels are hollow."""
    labels, in_test = np.arange(train + test) % 10, np.arange(train + test) >= train
    images = np.zeros((train + test, 1, 28, 28), dtype=np.uint8)
    images[:, 0, 4:24, 7:21] = np.where(in_test, test_ink, train_ink)[:, None, None]
    images[labels % 2 == 1, 0, 7:21, 10:18] = 0
    return images, labels, in_test


@pytest.fixture
def mnist(monkeypatch, tmp_path):
    def put(contents):
        monkeypatch.setattr(street_digits.MNIST, "load", lambda self: contents)
        monkeypatch.setattr(street_digits.MNIST, "fingerprint", street_digits.MNIST.official)

    put(boxes())
    with data_in(tmp_path):
        yield put


def digest_of(images):
    return hashlib.sha256(np.ascontiguousarray(images).tobytes()).hexdigest()[:16]


def test_other_images_need_another_version(mnist):
    """Another digest here means that results with the old images would pass for results with the new ones."""
    rows = np.arange(TRAIN + TEST)
    images = (7 * rows[:, None, None, None] + 3 * np.arange(28)[:, None] + 5 * np.arange(28)).astype(np.uint8)
    mnist((images, rows % 10, rows >= TRAIN))
    made, labels, _ = StreetDigits().load()
    version = identity.lock()["dataset/street-digits"].version
    assert (version, digest_of(made), digest_of(labels.astype("<i8"))) == (1, "f30f020f4d7fea1f", "2258a9fe91e1d85b")


def test_the_fingerprint_is_of_mnist_and_of_the_version(mnist):
    assert StreetDigits().fingerprint == "e8697c4511480f84-street-digits@1"


def test_the_parts_have_20000_and_5000_images_and_no_digit_is_twice_in_the_middle():
    in_test = np.arange(70000) >= 60000
    (train, middle, pool), (test, test_middle, test_pool) = street_digits._divided(in_test)
    assert (train, test) == ("train", "test") and ROWS == {"train": 20000, "test": 5000}
    assert len(np.unique(middle)) == 20000 and len(np.unique(test_middle)) == 5000
    assert not in_test[middle].any() and in_test[test_middle].all()
    assert not in_test[pool].any() and in_test[test_pool].all()


def test_images_are_colored_bytes_of_32_pixels_and_the_label_is_the_digit_in_the_middle(mnist):
    images, labels, in_test = StreetDigits().load()
    assert images.dtype == np.uint8 and images.shape == (TRAIN + TEST, 3, 32, 32)
    assert labels.dtype == np.int64 and (np.bincount(labels) == 40).all()
    assert (in_test == (np.arange(TRAIN + TEST) >= TRAIN)).all()
    middle, ground = images[:, :, 16, 16].astype(int), images[:, :, 0, 16].astype(int)
    is_hollow = np.abs(middle - ground).max(axis=1) < 30  # less than the contrast, more than the light changes
    assert (is_hollow == (labels % 2 == 1)).all()


@pytest.mark.parametrize("blank", ["train", "test"])
def test_each_part_shows_digits_of_the_same_part_of_mnist_only(mnist, blank):
    """Digits without ink leave nothing but ground, whose colors are evenly lit."""
    mnist(boxes(train_ink=0 if blank == "train" else 255, test_ink=0 if blank == "test" else 255))
    images, _, in_test = StreetDigits().load()
    is_blank = in_test == (blank == "test")
    steps = np.abs(np.diff(images.astype(int), axis=3)).max(axis=(1, 2, 3))
    assert steps[is_blank].max() <= 3 and steps[~is_blank].min() > 3


def test_a_digit_differs_from_its_ground_by_the_least_contrast():
    ground, color = street_digits._colors(np.random.default_rng(0), 5000)
    luma = [0.299 * each[:, 0] + 0.587 * each[:, 1] + 0.114 * each[:, 2] for each in (ground, color)]
    assert np.abs(luma[0] - luma[1]).min() > CONTRAST - 1  # which is of whole numbers
    assert min(ground.min(), color.min()) >= 0 and max(ground.max(), color.max()) <= 255
    assert np.unique(ground, axis=0).shape[0] > 4500


@pytest.mark.parametrize(("sides", "left", "right"), [(1, True, False), (2, False, True), (3, True, True)])
def test_neighbors_stand_beside_the_middle_digit_with_their_gap(sides, left, right):
    """Bars 4 wide at the size of MNIST: the middle one covers the columns 14 to 17, then gaps of 1 and 2 pixels."""
    bar = np.zeros((1, 28, 28), dtype=np.int32)
    bar[0, 4:24, 8:12] = 255
    places = np.array([256, 256, 0, 0, 1, 2, 0, 0])[:, None]
    ink = street_digits._written([bar] * 3, np.array([sides]), places)[0, 1:-1, 1:-1]
    columns = set(range(14, 18)) | (set(range(9, 13)) if left else set()) | (set(range(20, 24)) if right else set())
    assert set(np.flatnonzero(ink.max(axis=0))) == columns
    assert set(np.flatnonzero(ink.max(axis=1))) == set(range(6, 26))
    assert set(np.unique(ink)) == {0, 255}


def test_digits_are_enlarged_bilinearly():
    """Between pixels of 0 and 200 at a quarter of the way there is 50; outside there is nothing."""
    digit = np.zeros((1, 2, 2), dtype=np.int32)
    digit[0, :, 1] = 200
    x, y = np.array([[-512, 0, 64, 128, 256, 384, 512, 900]]), np.array([[0, 256]])
    assert street_digits._sampled(digit, x, y)[0].tolist() == [[0, 0, 50, 100, 200, 100, 0, 0]] * 2


def test_paint_is_mixed_by_ink_and_lit_along_the_slope():
    """Half of the way between 0 and 200 is 100; at the right end 31 times the slope of 4096 brighter."""
    ink = np.full((1, 32, 32), 255)
    ink[0, 16:] = 0
    slopes = np.array([8, 0]).reshape(2, 1, 1, 1)
    painted = street_digits._painted(ink, np.array([[100, 0, 255]]), np.array([[200, 0, 0]]), slopes)
    assert painted[0, 0, 0, [0, 31]].tolist() == [188, 212] and painted[0, 0, 31, [0, 31]].tolist() == [94, 106]
    assert not painted[0, 1].any() and painted[0, 2, 31, [0, 31]].tolist() == [240, 255]


def test_it_is_made_once_and_from_then_on_read(mnist, monkeypatch):
    first = StreetDigits().load()[0]
    assert store.cached_file("street-digits-images", StreetDigits().fingerprint).is_file()
    monkeypatch.setattr(street_digits, "_street", None)
    assert (StreetDigits().load()[0] == first).all()


def test_it_is_there_when_mnist_is_there_and_got_by_getting_mnist(tmp_path):
    with data_in(tmp_path):
        assert availability.stored_as("street-digits") == "mnist"
        word, details = availability.state("street-digits")
        assert word == "missing" and details.startswith("made from mnist: not in")
        assert dataset("street-digits").has_test_part
