"""`oodbench predict`: every image gets a line, whatever its name and whatever else is in the folder."""

import contextlib
import csv
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command_line import assert_refused, oodbench
from detectors import CLASS_NAMES, PIXELS, known, part, toy_detector, toy_model, unseen
from PIL import Image

from oodbench.cli import main
from oodbench.data.preprocessing import ALREADY
from oodbench.learning import given_models
from oodbench.running.given import predicting
from oodbench.running.given.detector import Detector
from oodbench.running.given.fitting import network_card
from oodbench.running.given.predicting import Extremes, Prediction, image_paths, predict
from oodbench.testing.toy_problem import toy, toy_classifier

HEADER = "verdict         score  ID quantile  label  image"


@pytest.fixture(scope="module")
def detector():
    train = part(toy().data.labelled.images, toy().data.labelled.y, "train")
    return toy_detector("vim", network=network_card(toy_model(), "oodbench:toy", {"name": "toy"}, train))


@pytest.fixture(scope="module")
def images():
    return torch.cat([known(10, 30), unseen(10, 31)])


@pytest.fixture
def place(tmp_path, detector, images, monkeypatch):
    """A folder with a detector and, in two folders, the images."""
    monkeypatch.setattr(given_models, "rebuild", lambda spec: toy_classifier())
    monkeypatch.chdir(tmp_path)
    detector.save("det")
    for i, pixels in enumerate(images):
        save(Path("images") / ("b" if i % 2 else "a") / f"{i:02}.png", pixels)
    return tmp_path


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[0].numpy()).save(path, "PNG")


def read_csv(outcome):
    return list(csv.DictReader(io.StringIO(outcome.out)))


def given_on_stdin(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def expected(detector, images):
    """What the detector says of the images in the order of their files."""
    order = [*range(0, len(images), 2), *range(1, len(images), 2)]
    said = detector(images[order])
    names = [f"images/{'b' if i % 2 else 'a'}/{i:02}.png" for i in order]
    return [
        {
            "image": name,
            "label": CLASS_NAMES[label],
            "score": score,
            "verdict": "OOD" if is_ood else "ID",
            "id_quantile": quantile,
        }
        for name, score, is_ood, label, quantile in zip(names, *(each.tolist() for each in said), strict=True)
    ]


def test_a_folder_is_predicted_to_the_bit(place, detector, images):
    outcome = oodbench("predict", "det", "images", "--format", "jsonl")
    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert found == expected(detector, images)
    flagged = sum(each["verdict"] == "OOD" for each in found)
    assert 0 < flagged < 20
    assert outcome.err == f"{flagged} of 20 flagged as OOD ({5 * flagged}.0 %)\n" and outcome.status == 0


def test_csv_has_the_same_numbers(place, detector, images):
    rows = read_csv(oodbench("predict", "det", "images", "--format", "csv"))
    numbers = [{**row, "score": float(row["score"]), "id_quantile": float(row["id_quantile"])} for row in rows]
    assert numbers == [{**row, "error": ""} for row in expected(detector, images)]


def test_a_table_has_a_line_for_each_image_under_its_heads(place, detector, images):
    lines = oodbench("predict", "det", "images").out.splitlines()
    assert lines[0] == HEADER and len(lines) == 21
    first = expected(detector, images)[0]
    assert lines[1].split() == [
        first["verdict"], f"{first['score']:.6g}", f"{100 * first['id_quantile']:.1f}", "%", first["label"],
        first["image"],
    ]  # fmt: skip
    assert {line.index("images/") for line in lines[1:]} == {HEADER.index("image")}


@pytest.mark.parametrize("batch", [1, 3, 20, 100])
def test_the_batch_changes_no_verdict_and_no_order(place, batch):
    whole = read_csv(oodbench("predict", "det", "images", "--format", "csv"))
    some = read_csv(oodbench("predict", "det", "images", "--format", "csv", "--batch", batch))
    assert [(row["image"], row["label"], row["verdict"]) for row in some] == [
        (row["image"], row["label"], row["verdict"]) for row in whole
    ]


def test_files_folders_and_a_list_may_be_mixed(place, monkeypatch):
    given_on_stdin(monkeypatch, b"images/a/04.png\r\n\nimages/b\n")
    rows = read_csv(oodbench("predict", "det", "images/b/03.png", "-", "images/a/02.png", "--format", "csv"))
    inside = [f"images/b/{i:02}.png" for i in range(1, 20, 2)]
    assert [row["image"] for row in rows] == ["images/b/03.png", "images/a/04.png", *inside, "images/a/02.png"]


def test_names_of_any_letters_come_back(place, images):
    odd = [b'comma,quote"and\nline.png', b"caf\xff.png", "é λ.png".encode(), b"\x1b[31mred.png", b"re\rturn.png"]
    for name in odd:
        save(Path("odd") / os.fsdecode(name), images[0])
    found = [json.loads(line) for line in oodbench("predict", "det", "odd", "--format", "jsonl").out.splitlines()]
    assert {os.fsencode(each["image"]) for each in found} == {b"odd/" + name for name in odd}
    outcome = oodbench("predict", "det", "odd", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(outcome.out, newline="")))
    assert {row["image"] for row in rows} == {
        'odd/comma,quote"and\nline.png', "odd/caf\\xff.png", "odd/é λ.png", "odd/\x1b[31mred.png", "odd/re\rturn.png",
    }  # fmt: skip
    assert '"odd/re\rturn.png"' in outcome.out and "\r\n" not in outcome.out
    table = oodbench("predict", "det", "odd").out
    assert len(table.splitlines()) == 6 and "\x1b" not in table
    assert 'odd/comma,quote"and\\nline.png' in table and "\\x1b[31mred.png" in table


def test_csv_on_a_terminal_is_escaped(place, images):
    save(Path("odd") / "\x1b[31mred.png", images[0])
    screen = io.StringIO()
    screen.isatty = lambda: True
    with contextlib.redirect_stdout(screen):
        assert main(["predict", "det", "odd", "--format", "csv"]) == 0
    assert "odd/\\x1b[31mred.png," in screen.getvalue()


def test_bad_images_are_named_and_the_rest_goes_on(place, images):
    Path("images/a/01.png").write_bytes(b"not an image")
    whole = Path("images/a/02.png").read_bytes()
    Path("images/a/02.png").write_bytes(whole[: len(whole) // 2])
    outcome = oodbench("predict", "det", "images", "missing.png", "--format", "csv")
    rows = read_csv(outcome)
    bad = {row["image"]: row["error"] for row in rows if row["error"]}
    assert list(bad) == ["images/a/01.png", "images/a/02.png", "missing.png"]
    assert bad["images/a/01.png"] == (
        "'images/a/01.png' is not an image that can be read (unknown format); fix or remove it"
    )
    assert "No such file or directory" in bad["missing.png"]
    assert all(row["score"] == "" and row["verdict"] == "" for row in rows if row["error"])
    assert len(rows) == 22 and all(row["score"] for row in rows if not row["error"])
    *named, summary = outcome.err.splitlines()
    assert named == [f"oodbench: {error}" for error in bad.values()]
    assert summary.endswith("; 3 could not be read") and " of 19 flagged as OOD (" in summary
    assert outcome.status == 1


def test_bad_images_are_rows_of_jsonl_and_no_lines_of_a_table(place):
    Path("images/a/01.png").write_bytes(b"")
    rows = [json.loads(line) for line in oodbench("predict", "det", "images", "--format", "jsonl").out.splitlines()]
    assert [row for row in rows if "error" in row][0].keys() == {"image", "error"} and len(rows) == 21
    outcome = oodbench("predict", "det", "images")
    assert len(outcome.out.splitlines()) == 21 and outcome.err.startswith("oodbench: 'images/a/01.png' is not an image")


def test_a_folder_without_images_is_named_like_a_bad_image(place):
    Path("empty").mkdir()
    outcome = oodbench("predict", "det", "empty", "images/a")
    assert outcome.err.startswith("oodbench: 'empty' holds no images") and outcome.status == 1
    assert len(outcome.out.splitlines()) == 11


def test_nothing_that_can_be_read_is_wrong_usage(place, monkeypatch):
    Path("images/a/01.png").write_bytes(b"")
    outcome = oodbench("predict", "det", "images/a/01.png", "missing")
    assert outcome.status == 2 and outcome.err.splitlines()[-1] == (
        "oodbench: none of 2 images could be read; give folders or files of images"
    )
    given_on_stdin(monkeypatch, b"\n")
    assert_refused(oodbench("predict", "det", "-"), "no images were given; give folders or files")


def test_a_sheet_is_drawn_and_other_names_are_refused_first(place):
    outcome = oodbench("predict", "det", "images", "--sheet", "new/sheet.png")
    assert outcome.status == 0
    with Image.open("new/sheet.png") as sheet:
        assert sheet.format == "PNG" and sheet.size[0] > 800
    assert_refused(oodbench("predict", "none", "images", "--sheet", "x.jpg"), "'x.jpg' is not the name of a PNG file")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("none", "images"), "'none' is not a detector: it has no detector.json; make one with: oodbench fit"),
        (("det", "images", "--format", "jsn"), "unknown format 'jsn'; did you mean 'jsonl'?"),
        (("det", "images", "--batch", "0"), "--batch 0 holds no images; choose 1 or more"),
        (("det", "images", "--device", "abacus"), "the device 'abacus' cannot be used"),
        (("det",), "the following arguments are required: IMAGES"),
    ],
)
def test_wrong_usage_is_one_line(place, arguments, says):
    outcome = oodbench("predict", *arguments)
    assert outcome.status == 2 and says in outcome.err and outcome.err.count("\n") == 1


def test_a_network_that_is_missing_is_asked_for(place):
    toy_detector().save("own")
    assert_refused(
        oodbench("predict", "own", "images"), "is not stored as code; give it again: predict --model toy_net.py"
    )


def test_a_detector_of_prepared_images_takes_no_files(place, detector):
    toy_detector(preprocessing=ALREADY, network=detector.card.network).save("prepared")
    assert_refused(
        oodbench("predict", "prepared", "images"),
        "fitted on preprocessed images, and how to preprocess files is unknown",
    )


def test_the_lines_of_a_batch_appear_before_the_next_is_scored(place, detector, images):
    read = []

    def watched():
        for path in image_paths(["images"] * 50, ()):
            read.append(path)
            yield path

    batches = predict(detector, watched(), batch=4)
    assert len(next(batches)) == 4
    assert len(read) <= 4 * 6  # the batch, those decoded ahead, and not the thousand that were given
    batches.close()


def test_numbers_stand_for_classes_without_names(place, detector):
    toy_detector(classes=(), network=detector.card.network).save("unnamed")
    rows = [json.loads(line) for line in oodbench("predict", "unnamed", "images", "--format", "jsonl").out.splitlines()]
    assert {type(row["label"]) for row in rows} == {int}


def test_the_help_says_what_it_takes():
    outcome = oodbench("predict", "--help")
    assert outcome.status == 0 and "DETECTOR" in outcome.out and "code to run" in outcome.out


def test_what_is_not_a_number_has_no_score_in_json(place, detector, monkeypatch):
    broken = toy_detector("energy", network=detector.card.network)
    broken.model.head.weight.data.fill_(float("nan"))
    monkeypatch.setattr(Detector, "load", lambda *_: broken)
    rows = [json.loads(line) for line in oodbench("predict", "det", "images", "--format", "jsonl").out.splitlines()]
    assert {(row["score"], row["verdict"], row["id_quantile"]) for row in rows} == {(None, "OOD", 1.0)}


def test_color_becomes_grey_as_in_suites(tmp_path):
    Image.new("RGB", (8, 8), (200, 100, 50)).save(tmp_path / "a.png")
    pixels = predicting.decode_prepared(tmp_path / "a.png", PIXELS, (1, 8, 8))
    assert pixels.shape == (1, 8, 8) and set(pixels.flat) == {124}  # 59.8 + 58.7 + 5.7 = 124.2


def test_images_of_another_size_are_resized_where_the_network_says_how_and_named_where_not(place, detector):
    Image.new("L", (16, 12)).save("images/a/large.png")
    rows = read_csv(oodbench("predict", "det", "images/a/large.png", "--format", "csv"))
    assert rows[0]["error"] == "" and rows[0]["verdict"]
    toy_detector(preprocessing=replace(PIXELS, size=None), network=detector.card.network).save("any")
    outcome = oodbench("predict", "any", "images/a")
    assert outcome.status == 1 and len(outcome.out.splitlines()) == 11
    assert outcome.err.startswith(
        "oodbench: 'images/a/large.png' is 16x12, the detector was fitted on images of 8x8; resize it, or fit with"
    )


def test_the_extremes_are_those_of_all_that_passed_by():
    scores = [3.0, float("nan"), 1.0, 2.0, 1.0, 5.0]
    extremes = Extremes(2)
    for i, score in enumerate(scores):
        extremes.add([Prediction(str(i), score=score), Prediction("bad", error="bad")])
    assert [each.image for each in extremes.highest] == ["1", "5"]
    assert [each.image for each in extremes.lowest] == ["2", "4"]


def test_a_few_images_are_halved_and_none_is_shown_twice():
    extremes = Extremes(4)
    extremes.add([Prediction(str(i), score=float(i)) for i in range(5)])
    assert [each.image for each in extremes.highest] == ["4", "3", "2"]
    assert [each.image for each in extremes.lowest] == ["0", "1"]
