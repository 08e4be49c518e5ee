"""Figures as files and in Python: formats, sizes, fonts, names in words, and what is said to wrong input."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench, plot
from made_results import a_result, config, with_scores
from PIL import Image

import oodbench as package
from oodbench.errors import UserError
from oodbench.report import figures, labels
from oodbench.report.figures.studies import NotDrawn, studies
from oodbench.results.folder import read_folder

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three methods under three seeds, with raw scores."""
    home = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    for method, shift in (("msp", 1.0), ("woods", 2.0), ("scone", 3.0)):
        for seed in SEEDS:
            made = a_result(method=method, seed=seed, training=f"{method}-{seed}")
            right = rng.random(60) < 0.5 + shift / 10
            scores = {"id_scores": rng.normal(size=60), "semantic_scores": rng.normal(shift, size=50)}
            with_scores(made, home, right, rng.random(60) < 0.3 + shift / 10, **scores)
    return home


def test_the_formats_that_are_asked_for_are_written_and_no_others(folder, tmp_path):
    out = assert_done(plot(folder, "--only", "tradeoff", "--out", tmp_path, "--format", "svg,pdf"))
    home = tmp_path / "digits-c" / "unseen-digits"
    assert out.splitlines()[0] == f"{home / 'tradeoff'}.svg, .pdf, .txt"
    assert sorted(path.name for path in home.iterdir()) == ["tradeoff.pdf", "tradeoff.svg", "tradeoff.txt"]


@pytest.mark.parametrize(("width", "inches"), [("column", 3.25), ("text", 6.75), ("4.5", 4.5)])
def test_a_figure_is_as_wide_as_asked_in_every_format(folder, tmp_path, width, inches):
    given = ("--only", "roc", "--out", tmp_path, "--format", "png,pdf,svg", "--width", width)
    assert_done(plot(folder, *given))
    home = tmp_path / "digits-c" / "unseen-digits"
    with Image.open(home / "roc.png") as picture:
        assert abs(picture.width - 300 * inches) <= 1
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", (home / "roc.pdf").read_bytes())
    assert float(box[1]) == pytest.approx(72 * inches)
    assert ElementTree.parse(home / "roc.svg").getroot().get("width") == f"{72 * inches:g}pt"


def test_fonts_are_embedded_as_outlines_that_journals_take(folder, tmp_path):
    given = ("--only", "tradeoff,roc,ranks,energies", "--out", tmp_path, "--format", "pdf,svg")
    assert_done(plot(folder, *given))
    files = sorted((tmp_path / "digits-c" / "unseen-digits").glob("*.pdf"))
    assert len(files) == 4
    for file in files:
        pdf = file.read_bytes()
        assert b"/FontFile2" in pdf and b"/Type3" not in pdf and b"/Type 3" not in pdf
        svg = file.with_suffix(".svg").read_text()
        assert "<text" not in svg and "<dc:date>" not in svg


def test_a_figure_has_a_title_only_if_asked(folder):
    (study,) = studies(read_folder(folder)[0], [])
    for name in ("tradeoff", "ranks", "roc", "energies"):
        assert figures.draw(name, study).figure.get_suptitle() == ""
        titled = figures.draw(name, study, is_titled=True).figure.get_suptitle()
        assert " ".join(titled.split()).startswith("Digits-C, unseen digits, Gaussian noise of severity 3: ")


def test_the_command_says_what_it_is_working_on(folder, tmp_path):
    outcome = oodbench("plot", folder, "--only", "roc,margin", "--out", tmp_path)
    place = "digits-c / unseen-digits"
    assert outcome.err.splitlines() == [f"drawing roc of {place}", f"drawing margin of {place}"]


def test_a_reason_that_many_settings_share_is_given_once(folder, tmp_path):
    for setting in ("unseen-digits", "photo-patches"):
        made = a_result(method="msp", setting=setting, made={"setting": {"semantic": setting}})
        with_scores(made, tmp_path / "two", [1, 1, 0])
    out = assert_done(plot(tmp_path / "two", "--only", "energies,ratio", "--out", tmp_path / "out"))
    (line,) = [line for line in out.splitlines() if "no ratio" in line]
    assert line.startswith("digits-c / unseen-digits and 1 more: no ratio: needs a method with two values of pi_c")


WRONG = [
    (["--format", "jpg"], "unknown format 'jpg'"),
    (["--format", ","], "--format names no format; choose from: png, pdf, svg"),
    (["--width", "page"], "a figure cannot be 'page' wide; choose column, text or inches from 2.5 to 20"),
    (["--width", "0.1"], "a figure cannot be '0.1' wide"),
    (["--width", "nan"], "a figure cannot be 'nan' wide"),
    (["--suite", "digits"], "unknown suite of these results 'digits'; did you mean 'digits-c'?"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=lambda each: " ".join(each) if type(each) is list else "")
def test_what_is_typed_wrong_is_answered_in_one_line_and_nothing_is_written(given, message, folder, tmp_path):
    assert_refused(plot(folder, "--out", tmp_path, *given), message)
    assert list(tmp_path.iterdir()) == []


def test_python_has_the_same_figures(folder):
    figure = package.figure(folder, "tradeoff")
    assert figure.get_figwidth() == 6.75 and figure.get_suptitle() == ""
    results = package.read_results(folder)
    again = package.figure(results, "tradeoff", methods=["msp", "scone"], width="column", title=True)
    assert again.get_figwidth() == 3.25 and again.get_suptitle()
    assert [text.get_text() for text in again.axes[0].texts] == ["SCONE", "MSP"]
    assert again._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="unknown figure 'trade'; did you mean 'tradeoff'"):
        package.figure(folder, "trade")
    with pytest.raises(UserError, match="there are no results to draw"):
        package.figure([], "tradeoff")
    with pytest.raises(UserError, match="unknown setting of these results 'x'"):
        package.figure(results, "tradeoff", setting="x")
    with pytest.raises(UserError, match="no ratio figure for digits-c / unseen-digits: needs a method with two values"):
        package.figure(results, "ratio")


def test_of_several_settings_python_shows_the_first_with_a_title(folder):
    results = package.read_results(folder)
    other = a_result(setting="photo-patches", made={"setting": {"semantic": "photo-patches"}})
    figure = package.figure([*results, other], "roc")
    assert figure.get_suptitle().startswith("Digits-C, unseen digits")
    with pytest.raises(UserError, match="these results were not read from files"):
        package.figure([*results, other], "roc", setting="photo-patches")


def test_results_that_were_read_from_no_file_have_no_scores_to_draw():
    found = [a_result(method=method, metrics={"auroc": 0.5}) for method in ("woods", "scone")]
    for name in ("energies", "roc", "training"):
        with pytest.raises(NotDrawn, match="these results were not read from files"):
            figures.draw(name, studies(found, [])[0])


def test_names_are_words():
    assert labels.in_words("jpeg_compression") == "JPEG compression"
    assert labels.in_words("art_painting") == "art painting" and labels.in_words("street-digits") == "street digits"

    made = a_result("pacs", "erm", "covariate=sketch", made={"suite": "pacs", "setting": {"covariate": "sketch"}})
    assert labels.setting_name(made) == "sketch"  # a domain has no severity
    ran = replace(a_result(config=config(setting={"pi_c": 0.1, "severity": 5})), preset="smoke")
    assert labels.setting_name(ran) == "unseen digits, Gaussian noise of severity 5, π_c = 0.1"
    assert labels.suite_in_words(ran) == "Digits-C (preset smoke)"
