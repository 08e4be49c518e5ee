"""When the accuracy of a given network looks like a mistake, by cases that were worked out by hand."""

import numpy as np
import pytest

from oodbench.running.given.sanity import doubt

LABELS = np.arange(100) % 10  # ten images of each of ten classes
LOOK = "is the class order or the normalization right? see --classes, --mean, --std and --size"


def test_a_network_that_is_right_is_not_doubted():
    assert doubt(LABELS, LABELS, 10) is None


def test_classes_in_another_order_are_told_with_what_they_would_give():
    """Every output is off by one: none is right, and all would be."""
    assert doubt((LABELS + 1) % 10, LABELS, 10) == (
        "0.0 % of 10 classes on ID, and 100.0 % if the classes were in another order: is the class order right? "
        "see --classes"
    )


def test_two_classes_that_are_exchanged_are_told_too():
    """Of four classes the first two are exchanged: half is right, and all would be."""
    labels = np.arange(40) % 4
    predictions = np.array([1, 0, 2, 3])[labels]
    assert doubt(predictions, labels, 4).startswith("50.0 % of 4 classes on ID, and 100.0 % if the classes were")


def test_one_answer_for_all_images_is_chance_in_any_order():
    """As a wrong normalization does: a tenth is right, and no order of the classes makes it more."""
    assert doubt(np.full(100, 3), LABELS, 10) == f"10.0 % of 10 classes on ID: {LOOK}"


@pytest.mark.parametrize(("right", "is_doubted"), [(18, True), (19, False)])
def test_the_line_lies_a_tenth_of_the_way_from_chance_to_all(right, is_doubted):
    """0.1 + 0.1 x 0.9 = 0.19. The others are class 0, which no other order makes 20 points better."""
    labels = np.repeat(np.arange(10), 100)
    predictions = np.zeros(1000, dtype=int)
    predictions[100 : 100 + 10 * (right - 10)] = labels[100 : 100 + 10 * (right - 10)]
    said = doubt(predictions, labels, 10)
    assert said == (f"{right}.0 % of 10 classes on ID: {LOOK}" if is_doubted else None)


def test_few_images_say_nothing_of_the_order():
    """Four of each class, where five are asked for: they are told to be wrong, and not how."""
    labels = np.arange(8) % 2
    assert doubt(1 - labels, labels, 2).startswith("0.0 % of 2 classes on ID: is the class order or the normalization")
    enough = np.arange(10) % 2
    assert doubt(1 - enough, enough, 2).startswith("0.0 % of 2 classes on ID, and 100.0 % if the classes were")


def test_an_order_that_is_a_little_better_is_chance():
    """Of 100 images in two classes 45 are right, so that 55 would be in the other order: no 20 points more."""
    labels = np.arange(100) % 2
    predictions = np.where(np.arange(100) < 45, labels, 1 - labels)
    assert doubt(predictions, labels, 2) == f"45.0 % of 2 classes on ID: {LOOK}"
    predictions = np.where(np.arange(100) < 35, labels, 1 - labels)
    assert doubt(predictions, labels, 2).startswith("35.0 % of 2 classes on ID, and 65.0 % if")


def test_outputs_that_no_image_has_are_no_harm():
    """A network of a hundred outputs on images of the first ten."""
    assert doubt(LABELS, LABELS, 100) is None
