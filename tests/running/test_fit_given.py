"""A detector for a given network: what its notes say of the images that drew its line."""

import pytest
from command_line import assert_done, oodbench
from own_digits import digits, trained, write_folder, write_network

import oodbench as api
from oodbench.running.given.fit import SEEN_IN_TRAINING


@pytest.fixture
def pairs():
    data = digits()
    return {"train": (data.train, data.train_labels), "id": (data.test, data.test_labels)}


def test_a_line_by_a_lot_of_the_id_images_may_be_too_tight_and_the_detector_says_so(pairs):
    notes = api.fit(trained(), id=pairs["train"], scorer="msp").card.notes
    assert (
        notes[0].startswith("no training images given, so 70 % of 'id', drawn at random")
        and notes[1] == SEEN_IN_TRAINING
    )


def test_a_line_by_images_that_the_user_keeps_from_training_is_not_doubted(pairs):
    notes = api.fit(trained(), **pairs, scorer="msp").card.notes
    assert notes[0].startswith("training images are those of 'train'") and SEEN_IN_TRAINING not in notes


def test_the_note_is_printed(tmp_path):
    write_network(tmp_path)
    photos = write_folder(tmp_path / "photos", digits().train, digits().train_labels)
    command = ["fit", "--model", f"{tmp_path}/my_net.py:build", "--weights", tmp_path / "mine.pt"]
    command += ["--id", f"folder:{photos}", "--scorer", "msp", "--mean", "0", "--std", "1", "--size", "8"]
    assert f"note: {SEEN_IN_TRAINING}\n" in assert_done(oodbench(*command, "--out", tmp_path / "detector"))
