"""Averages over semantic sets and their named groups, from a suite file of a user's to its tables."""

import json

import pytest
from command_line import assert_done, oodbench

SUITE = """\
title: Near and far.
id: {dataset: digits, classes: [0, 1, 2, 3, 4, 5]}
semantic:
  sixes: {dataset: digits, classes: [6]}
  sevens: {dataset: digits, classes: [7]}
  patches: {dataset: photo-patches}
  both: {dataset: digits, classes: [8, 9]}
groups:
  near: [sixes, sevens]
  far: [both, patches]
  alone: [sixes]
corruptions: digits_c
network: {name: small-cnn, options: {width: 8}}
recipes: {scratch: {epochs: 1, batch_size: 64, lr: 0.1}, finetune: {epochs: 1, batch_size: 64, lr: 0.01}}
defaults: {covariate: gaussian_noise, severity: 3}
settings: [{semantic: sixes}, {semantic: sevens}, {semantic: patches}, {semantic: both}]
methods: {msp: {}, knn: {}}
"""
SETTINGS = ["sixes", "sevens", "patches", "both"]
AVERAGES = {"Average (near)": SETTINGS[:2], "Average (far)": SETTINGS[2:], "Average": SETTINGS}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A suite file of a user's, and its results."""
    home = tmp_path_factory.mktemp("near-and-far")
    (home / "mine.yaml").write_text(SUITE, encoding="utf-8")
    assert_done(oodbench("run", "--suite", home / "mine.yaml", "--results", home / "grouped"))
    return home


def titles(out):
    """The settings of a table in text, each above its rows."""
    lines = out.splitlines()
    return [line for line in lines if line in (*SETTINGS, *AVERAGES)]


def test_a_run_on_a_suite_of_ones_own_shows_near_far_and_the_average_of_all(home):
    out = assert_done(oodbench("run", "--suite", home / "mine.yaml", "--results", home / "grouped"))
    assert titles(out) == [*SETTINGS, *AVERAGES]  # a group of one set is that set


def test_so_does_a_table_of_the_folder_which_does_not_know_the_file(home):
    assert titles(assert_done(oodbench("table", home / "grouped", "--format", "text"))) == [*SETTINGS, *AVERAGES]
    records = json.loads(assert_done(oodbench("table", home / "grouped", "--format", "json", "--metrics", "auroc")))
    means = {(record["method"], record["setting"]): record["mean"] for record in records}
    for method in ("msp", "knn"):
        for title, members in AVERAGES.items():
            expected = sum(means[method, each] for each in members) / len(members)
            assert means[method, title] == pytest.approx(expected, rel=1e-12)


def test_a_sorted_table_counts_the_average_of_all(home):
    given = ("table", home / "grouped", "--format", "json", "--metrics", "auroc", "--sort", "auroc")
    records = json.loads(assert_done(oodbench(*given)))
    means = [record["mean"] for record in records if record["setting"] == "Average"]
    assert len(means) == 2 and means == sorted(means, reverse=True)


def test_groups_that_a_file_names_later_are_in_the_next_table_of_a_run(home):
    plain = home / "later" / "mine.yaml"
    plain.parent.mkdir()
    start, end = SUITE.index("groups:"), SUITE.index("corruptions:")
    plain.write_text(SUITE[:start] + SUITE[end:], encoding="utf-8")
    run = ("run", "--suite", plain, "--results", home / "later" / "results")
    assert titles(assert_done(oodbench(*run))) == [*SETTINGS, "Average"]
    plain.write_text(SUITE, encoding="utf-8")
    out = assert_done(oodbench(*run))
    assert "nothing to do" in out and titles(out) == [*SETTINGS, *AVERAGES]
