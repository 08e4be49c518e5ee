"""`oodbench compare`: differences to a baseline in every format, what holds, and what is said where something lacks."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result
from PIL import Image

import oodbench as package
from oodbench.report import differences
from oodbench.report.differences import RECORDS, compare
from oodbench.results.folder import read_folder
from oodbench.results.metrics import Scored, evaluate
from oodbench.results.stored import write

ROWS = 300
METHODS = {"erm": (0.80, 1.0), "msp": (0.80, 1.4), "woods": (0.60, 3.0)}  # accuracy, and how far OOD scores are off


def stored(folder, method, seed=0, setting="unseen-digits", scores=True, **fields):
    """A result with raw scores; ERM and MSP share their predictions, as they share a network."""
    right, shift = METHODS[method]
    random = np.random.default_rng([seed, len(setting)])
    labels = random.integers(0, 5, ROWS).astype(np.int16)
    drawn = random.random(ROWS)
    predictions = np.where(drawn < right + 0.01 * seed, labels, labels + 1)
    splits = {
        "id": Scored(random.normal(0, 1, ROWS), predictions, labels),
        "covariate": Scored(random.normal(0, 1, ROWS), np.where(drawn < right - 0.1, labels, labels + 1), labels),
        "semantic": Scored(random.normal(shift, 1, ROWS), predictions),
    }
    made = a_result(method=method, seed=seed, setting=setting, metrics=evaluate(**splits), **fields)
    path = folder / made.suite_label / setting / method / f"seed{seed}.json"
    write(made, path, splits if scores else {}, [])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three methods, two settings, three seeds."""
    home = tmp_path_factory.mktemp("compared") / "results"
    for setting in ("unseen-digits", "photo-patches"):
        for method in METHODS:
            for seed in range(3):
                stored(home, method, seed, setting)
    return home


def rows(text, method):
    """The lines of a method in a table of the terminal, and those below them."""
    lines = text.splitlines()
    return [(lines[i], lines[i + 1]) for i, line in enumerate(lines) if line.split()[:1] == [method]]


def test_a_method_is_shown_minus_the_baseline_with_interval_p_and_share(folder):
    out = assert_done(oodbench("compare", folder, "--setting", "unseen-digits"))
    results, _ = read_folder(folder)
    own = {(r.method, r.seed): r.metrics for r in results if r.setting == "unseen-digits"}
    difference = np.mean([own["woods", s]["id_acc"] - own["erm", s]["id_acc"] for s in range(3)])
    ((line, below),) = rows(out, "WOODS")
    assert f"{100 * difference:+.2f} [".replace("-", "−") in line and "*" in line
    assert below.split()[:2] == ["p,", "above"] and "100 %" in below and " 0 %" in below
    ((baseline, _),) = rows(out, "ERM")
    assert f"{100 * np.mean([own['erm', s]['auroc'] for s in range(3)]):.2f} [" in baseline and "*" not in baseline
    assert "minus ERM" in out and "after Holm" in out and "The 95 % intervals cover the seeds and test images" in out


def test_methods_that_share_a_network_differ_in_nothing_but_their_scores(folder):
    ((line, below), *_) = rows(
        assert_done(oodbench("compare", folder, "--metrics", "covariate_acc,id_acc,fpr95,auroc")), "MSP"
    )
    assert line.count("0.00 [0.00, 0.00]") == 2 and below.count("1.000, 50 %") == 2


def test_wins_ties_losses_and_ranks_are_summed_up_over_settings(folder):
    comparison, *none = compare(read_folder(folder)[0])
    assert not none
    assert comparison.tally("auroc", "woods") == (2, 0, 0)
    assert comparison.tally("id_acc", "woods") == (0, 0, 2)
    assert comparison.tally("id_acc", "msp") == (0, 2, 0)
    assert [comparison.mean_rank("auroc", name) for name in ("woods", "msp", "erm")] == [1, 2, 3]
    assert [comparison.mean_rank("id_acc", name) for name in ("woods", "msp", "erm")] == [3, 1.5, 1.5]
    out = assert_done(oodbench("compare", folder))
    assert "digits-c: over settings" in out and "2/0/0" in out and "0/0/2" in out
    assert "over settings" not in assert_done(oodbench("compare", folder, "--setting", "unseen-digits"))


def test_every_format_and_the_frame_say_the_same(folder):
    names = ["id_acc", "auroc", "covariate_acc"]
    frame = package.compare(folder, metrics=names)
    assert list(frame.columns) == list(RECORDS) and len(frame) == 2 * 3 * 2
    formats = {
        name: assert_done(oodbench("compare", folder, "--metrics", ",".join(names), "--format", name))
        for name in ("json", "csv", "markdown", "latex")
    }
    listed, read = json.loads(formats["json"]), list(csv.DictReader(io.StringIO(formats["csv"])))
    markdown, latex = formats["markdown"], formats["latex"]
    for record, row, line in zip(frame.to_dict("records"), listed, read, strict=True):
        assert record["difference"] == row["difference"] == float(line["difference"])
        assert row["low"] <= row["difference"] <= row["high"] and row["p"] <= row["p_holm"]
        text = f"{100 * row['difference']:+.2f} ["
        assert text.replace("-", "−").removeprefix("+0.00") in markdown or not row["difference"]
        assert text.replace("-", "$-$").replace("[", "{[}") in latex or not row["difference"]
        assert row["covers"] == "seeds and images" and row["seeds"] == 3
    assert latex.count(r"\begin{table*}") == 2  # a panel for each setting, since intervals are long; and the summary
    assert latex.count(r"\begin{tabular}") == 3
    assert len({line for line in latex.splitlines() if r"\label" in line}) == 2


def test_a_repetition_prints_the_same(folder):
    given = ["--setting", "photo-patches", "--format", "csv"]
    first, second = (assert_done(oodbench("compare", folder, *given)) for _ in range(2))
    assert first == second


def test_other_baselines_methods_metrics_and_settings_can_be_chosen(folder):
    given = ["--baseline", "woods", "--methods", "erm", "--metrics", "auroc", "--setting", "photo-patches"]
    (record,) = json.loads(assert_done(oodbench("compare", folder, *given, "--format", "json")))
    assert (record["baseline"], record["method"], record["metric"], record["setting"]) == (
        "woods", "erm", "auroc", "photo-patches"
    )  # fmt: skip
    assert record["difference"] < 0 and record["share_above"] == 0 and record["rank"] == 2


def test_one_seed_says_that_its_interval_leaves_out_training(tmp_path):
    for method in METHODS:
        stored(tmp_path, method)
    out = assert_done(oodbench("compare", tmp_path))
    assert "(a) one seed: the interval covers test images only and leaves out the variation between trainings" in out
    assert "p-values of accuracies from McNemar's test" in out and "Student" not in out
    (comparison,) = compare(read_folder(tmp_path)[0])
    assert comparison.differences["unseen-digits", "id_acc"]["woods"].interval.kind == "images"


def test_without_raw_scores_there_are_intervals_over_seeds_and_of_one_seed_the_bare_difference(tmp_path):
    for seed in range(2):
        stored(tmp_path, "erm", seed, scores=False)
        stored(tmp_path, "woods", seed, scores=False)
    stored(tmp_path, "msp", 0, scores=False)
    out = assert_done(oodbench("compare", tmp_path, "--metrics", "auroc"))
    assert "no raw scores for this number: the interval covers seeds only" in out
    assert "too few seeds to judge by, and no raw scores for this number" in out
    by_method = {r.method: r.metrics["auroc"] for r in read_folder(tmp_path)[0] if r.seed == 0}
    ((line, _),) = rows(out, "MSP")
    assert f"{100 * (by_method['msp'] - by_method['erm']):+.2f}◦  (b)" in line and "[" not in line


def test_methods_without_a_seed_in_common_are_not_compared(tmp_path):
    stored(tmp_path, "erm", 0)
    stored(tmp_path, "woods", 1)
    out = assert_done(oodbench("compare", tmp_path))
    assert "no seed in common with erm; run them with the same --seeds" in out


def test_a_suite_without_the_baseline_is_left_out_and_named(tmp_path):
    for method in ("erm", "msp"):
        stored(tmp_path, method)
    stored(tmp_path, "woods", preset="smoke")
    outcome = oodbench("compare", tmp_path)
    assert outcome.status == 0 and outcome.out.startswith("digits-c\n")
    assert outcome.err == "oodbench: nothing to compare with erm in digits-c-smoke; left out\n"


def test_the_figure_has_a_panel_for_each_setting_and_metric_and_a_caption(folder, tmp_path):
    assert_done(oodbench("compare", folder, "--metrics", "id_acc", "--figure", tmp_path / "d.pdf"))
    assert_done(oodbench("compare", folder, "--metrics", "id_acc,auroc", "--figure", tmp_path / "d.png"))
    with Image.open(tmp_path / "d.png") as picture:
        assert picture.width > 800
    assert (tmp_path / "d.pdf").read_bytes().startswith(b"%PDF")
    caption = (tmp_path / "d.txt").read_text()
    assert caption.startswith("Methods minus ERM on digits-c") and caption.count(".json") == 18

    from oodbench.report.figures.differences import drawing_of

    (comparison,) = compare(read_folder(folder)[0], metrics=["covariate_acc", "id_acc"])
    axes = drawing_of(comparison).figure.axes
    assert len(axes) == 4
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == ["MSP", "WOODS"]
    woods = comparison.differences["unseen-digits", "covariate_acc"]["woods"]
    (marker,) = [line for line in axes[0].lines if list(line.get_xdata()) == [100 * woods.interval.mean]]
    assert marker.get_markerfacecolor() == marker.get_color()  # filled: it holds


def test_a_part_without_a_semantic_set_shows_accuracies(folder):
    results = [replace(r, metrics={"id_acc": r.metrics["id_acc"]}) for r in read_folder(folder)[0]]
    (comparison,) = compare(results)
    assert [metric.name for metric in comparison.metrics] == ["id_acc"]
    assert differences.tables(comparison)[0].metrics == comparison.metrics


WRONG = [
    (["--baseline", "emr"], "unknown method of these results 'emr'; did you mean 'erm'?"),
    (["--methods", "wods"], "unknown method of these results 'wods'; did you mean 'woods'?"),
    (["--methods", "erm"], "erm is compared with itself; name other methods, or another baseline"),
    (["--metrics", "auroq"], "unknown metric 'auroq'; did you mean 'auroc'"),
    (["--metrics", ""], "no metrics to compare; choose from: "),
    (["--suite", "digits"], "unknown suite of these results 'digits'; did you mean 'digits-c'?"),
    (["--setting", "x"], "unknown setting of these results 'x'; known: "),
    (["--format", "latx"], "unknown format 'latx'; did you mean 'latex'?"),
    (["--figure", "a.gif"], "--figure a.gif is no PNG, PDF or SVG; give a name that ends in .png or .pdf or .svg"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda each: " ".join(each) if type(each) is list else "")
def test_what_is_typed_wrong_is_answered_in_one_line(arguments, message, folder):
    assert_refused(oodbench("compare", folder, *arguments), message)


def test_a_baseline_alone_has_nothing_to_be_compared_with(tmp_path):
    stored(tmp_path, "erm")
    assert_refused(
        oodbench("compare", tmp_path), "nothing to compare: no setting here has another method as well as erm"
    )


def test_a_figure_of_two_suites_is_refused(tmp_path):
    for preset in (None, "smoke"):
        for method in ("erm", "msp"):
            stored(tmp_path, method, preset=preset)
    refused = oodbench("compare", tmp_path, "--figure", tmp_path / "a.png")
    assert_refused(refused, "--figure shows one table, and these are 2; choose with --suite or --setting")
