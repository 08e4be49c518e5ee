"""Which outputs of a network the ID classes are."""

import re

import pytest

from oodbench.data.class_names import match, read_names
from oodbench.errors import UserError

IMAGENET = [
    ("n02123045", "tabby, tabby cat"),
    ("n02012849", "crane"),
    ("n03126707", "crane"),
    ("n02085620", "Chihuahua"),
]


def test_names_in_the_order_of_the_outputs_need_no_choice():
    assert match([("cat",), ("dog",)], ("cat", "dog"), 2).outputs is None
    assert match([], ("cat", "dog"), 2).outputs is None
    assert match([("cat",), ("dog",)], (), 2).outputs is None


def test_outputs_are_found_by_any_of_their_names_however_they_are_written():
    for names, expected in (
        (("n03126707", "n02123045"), [2, 0]),
        (("chihuahua", "tabby_cat"), [3, 0]),
        (("Tabby, tabby-cat", "CHIHUAHUA"), [0, 3]),
    ):
        found = match(IMAGENET, names, 4)
        assert (found.outputs, found.note) == (expected, "")
    assert match([("dog",), ("cat",)], ("cat", "dog"), 2).outputs == [1, 0]


def test_as_many_names_that_differ_are_taken_in_order_and_that_is_said():
    found = match([("LABEL_0",), ("LABEL_1",)], ("cat", "dog"), 2)
    assert found.outputs is None and found.note.startswith(
        "none of the ID classes bear a name of the network's outputs"
    )
    partly = match([("cat",), ("hound",)], ("cat", "dog"), 2)
    assert partly.outputs is None and partly.note.startswith("1 of the 2 ID classes bear a name")


@pytest.mark.parametrize(
    "outputs,classes,message",
    [
        (IMAGENET, ("n02123045", "dog"), "the network has 4 classes, the ID images 2, and 'dog' is none of its "
         "names; give --classes FILE, a line for each output of the network in its order"),
        (IMAGENET, ("crane", "tabby"), "and 'crane' is the name of 2 of its outputs; give --classes FILE"),
        (IMAGENET, ("tabby", "tabby cat"), "and two of these are one of its outputs; give"),
        ([], ("a", "b"), "4 classes, the ID images 2, and its outputs have no names; give"),
    ],
)  # fmt: skip
def test_another_number_of_classes_needs_names_that_are_clear(outputs, classes, message):
    with pytest.raises(UserError, match=re.escape(message)):
        match(outputs, classes, 4)


def test_a_file_names_the_outputs_in_their_order(tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text("# of my network\n\ndog\n  guinea pig  \ncat\n")
    assert match(IMAGENET, ("cat", "guinea_pig"), 3, path).outputs == [2, 1]
    assert match([], ("dog", "guinea-pig", "Cat"), 3, path).outputs is None


def test_a_file_may_number_the_outputs(tmp_path):
    path = tmp_path / "classes.txt"
    for text in ("1 cat\n0 great dane\n2 horse", "0: great dane\n1: cat\n2: horse", "0,great dane\n1,cat\n2,horse"):
        path.write_text(text)
        assert read_names(path) == ["great dane", "cat", "horse"]
    path.write_text("7 up\n3 musketeers")
    assert read_names(path) == ["7 up", "3 musketeers"], "these are no numbers of two outputs"


@pytest.mark.parametrize(
    "text,classes,message",
    [
        ("dog\ncat", ("dog",), "names 2 outputs, and the network has 3; write a line for each, in its order"),
        ("\n# nothing\n", ("dog",), "is empty; write a line for each output"),
        ("dog\ncat\nDog", ("dog",), "names 'Dog' twice; give every output a name of its own"),
        ("dog\ncat\nhorse", ("hrose",), "the ID class 'hrose' is not in '{path}'; did you mean 'horse'?"),
        ("dog\ncat\nhorse", ("zebra",), "the ID class 'zebra' is not in '{path}'; write it there"),
        ("dog\ncat\nhorse", ("dog", "Dog"), "two ID classes are one of the names in"),
        ("dog\ncat\nhorse", (), "the ID images have no class names that --classes could tell apart; leave it out"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_words(tmp_path, text, classes, message):
    path = tmp_path / "classes.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(message.format(path=path))):
        match(IMAGENET, classes, 3, path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UserError, match=re.escape(f"cannot read '{tmp_path / 'nowhere'}'")):
        match([], ("a",), 3, tmp_path / "nowhere")
