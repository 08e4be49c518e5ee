"""Networks that users bring in tables, comparisons, figures and checks: beside trained ones, and alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench, plot
from made_results import DETECTION, a_given_result, a_result, given_contents, given_run, with_scores

from oodbench.api import network_of
from oodbench.config.shipped import YOUR_NETWORK
from oodbench.config.suite import NONE
from oodbench.errors import UserError
from oodbench.report import comparison, differences, figures, layouts, render
from oodbench.report.figures.studies import NotDrawn, studies
from oodbench.report.tables import build
from oodbench.results.folder import read_folder
from oodbench.results.stored import write

RATES = {"covariate_acc": 0.7, "id_acc": 0.9, "fpr95": 0.3, "auroc": 0.8}
DETECTED = {name: value for name, value in RATES.items() if name != "covariate_acc"}


def on_suite(scorer, network="resnet18", **fields):
    """On our digits-c."""
    return a_given_result(scorer, "unseen-digits", given=given_run(network), suite="digits-c", metrics=RATES, **fields)


def titles(table):
    return [metric.title for metric in table.metrics]


def headings(table):
    return [table.heading(i) for i in range(len(table.rows)) if table.heading(i)]


@pytest.mark.parametrize(
    "semantic, covariate, expected",
    [
        ("others", "snow", ["OOD Acc.", "ID Acc.", "FPR", "AUROC", "Cov. flagged"]),
        ("others", NONE, ["ID Acc.", "FPR", "AUROC"]),
        (NONE, "snow", ["OOD Acc.", "ID Acc."]),
        (NONE, NONE, ["ID Acc."]),
    ],
)
def test_metrics_that_no_result_has_are_no_columns(semantic, covariate, expected, tmp_path):
    made = with_scores(a_given_result(semantic=semantic, covariate=covariate), tmp_path, [1, 0, 1])
    (table,) = build([made])
    assert titles(table) == expected and all(cell.mean is not None for cell in table.rows[0].cells)


def test_metrics_that_are_asked_for_are_shown_as_missing_with_the_reason(tmp_path):
    made = with_scores(a_given_result(semantic=NONE), tmp_path, [1, 0, 1])
    (table,) = build([made], ["covariate_acc", "id_acc", "auroc", "auroc_full"])
    assert [cell.percent for cell in table.rows[0].cells] == ["–", "66.67", "–", "–"]
    assert list(table.marks) == [
        "OOD Acc. needs a covariate set, which this setting lacks",
        "AUROC needs a semantic set, which this setting lacks",
        "AUROC (full) needs a covariate and a semantic set, which this setting lacks",
    ]


def test_beside_trained_methods_given_networks_are_the_last_group_each_together():
    trained = [a_result(method=name, metrics=RATES) for name in ("scone", "erm")]
    trained.append(a_result(method="knn", metrics=RATES, made={"group": DETECTION}))
    given = [on_suite(scorer, network) for scorer in ("knn", "gen", "msp") for network in ("vit", "resnet18")]
    (table,) = build([*given, *trained])
    assert headings(table)[-1] == YOUR_NETWORK and headings(table)[0] == "OOD detection: distances"
    rows = [row.name for row in table.rows if row.network]
    assert rows == [f"{network} + {scorer}" for network in ("resnet18", "vit") for scorer in ("MSP", "KNN", "GEN")]
    assert [row.method for row in table.rows][-1] == "vit+gen"


def test_alone_they_are_divided_by_what_a_scorer_reads():
    (table,) = build([on_suite(scorer) for scorer in ("odin", "knn", "gen", "msp", "react")])
    parts = ("logits", "features and head", "distances", "gradients")
    assert headings(table) == [f"Your network: {part}" for part in parts]
    assert [row.name for row in table.rows] == [f"resnet18 + {s}" for s in ("MSP", "GEN", "ReAct", "KNN", "ODIN")]


def test_a_scorer_that_oodbench_does_not_ship_stands_under_the_plain_group():
    (table,) = build([on_suite("msp"), on_suite("mine")])
    assert headings(table) == ["Your network: logits", YOUR_NETWORK]


def test_the_caption_says_which_networks_these_are():
    one = build([on_suite("msp"), on_suite("knn")])[0]
    assert one.caption == "Your network: resnet18 (timm:resnet18, weights mine.safetensors)."
    vit = replace(on_suite("msp", "vit"))
    vit = replace(vit, config=replace(vit.config, given=replace(vit.config.given, weights=None)))
    both = build([on_suite("msp"), vit])[0]
    assert both.caption == "Your networks: resnet18 (timm:resnet18, weights mine.safetensors); vit (timm:vit)."
    assert build([a_result(metrics=RATES)])[0].caption == ""


@pytest.mark.parametrize("format", render.FORMATS)
def test_every_format_shows_them(format):
    text = render.render(build([on_suite("msp"), on_suite("knn")]), format)
    assert "resnet18" in text and ("80.00" in text or "0.8" in text)


def test_below_the_table_nothing_is_said_of_trainings(tmp_path):
    made = with_scores(a_given_result(covariate="snow"), tmp_path, [1, 1, 1, 0], [1, 0, 0, 0])
    (table,) = build([made])
    assert table.seeds_line == "The network as given, one seed. ±: half of the 95 % interval over images only."
    assert table.remarks == ["resnet18 loses 50.0 points to the covariate shift (ID Acc. − OOD Acc.)."]


def test_of_several_networks_each_loses_its_own():
    other = replace(on_suite("msp", "vit"), metrics={**RATES, "covariate_acc": 0.8})
    (table,) = build([on_suite("msp"), on_suite("knn"), other])
    assert table.seeds == "Networks as given, one seed"
    assert table.remarks == [
        "resnet18 loses 20.0 points to the covariate shift (ID Acc. − OOD Acc.).",
        "vit loses 10.0 points to the covariate shift (ID Acc. − OOD Acc.).",
        "Rows of the same given network share its accuracies.",
    ]


def test_beside_trained_methods_the_seeds_of_given_networks_are_counted_together():
    trained = [a_result(method="erm", seed=seed, metrics=RATES) for seed in range(3)]
    (table,) = build([*trained, on_suite("msp"), on_suite("knn")])
    assert table.seeds == "Mean over 3 seeds; the network as given: 1"
    assert table.remarks[0] == "ERM loses 20.0 points to the covariate shift (ID Acc. − OOD Acc.)."


def test_another_network_of_the_name_replaces_the_first_and_is_counted():
    again = replace(given_run(), digest="another")
    later = a_given_result("msp", given=again, metrics=DETECTED, written="2026-08-02T12:00:00")
    (table,) = build([a_given_result("msp", metrics=DETECTED), later])
    assert table.rows[0].cells[0].note == "1 result file with another configuration left out"


def test_semantic_sets_have_an_average_and_stand_in_the_order_they_were_given():
    contents = given_contents(("zebras", "apples"))
    results = [a_given_result("msp", each, contents=contents, metrics=DETECTED) for each in ("apples", "zebras")]
    assert build(results)[0].settings == ["zebras", "apples", "Average"]


def test_a_paper_s_numbers_are_never_set_beside_a_given_network():
    """Even where its name is that of a suite, and the scorer is a method of the paper's."""
    named = a_given_result("msp", given=given_run("cifar10-c"), semantic="svhn", metrics=DETECTED)
    assert (named.suite, named.method) == ("cifar10-c", "msp")
    (table,) = layouts.assemble([named], None, "all", None, True, None)
    assert not any(cell.reported for row in table.rows for cell in row.cells)
    assert table.reported_notes == ("Nothing is reported for these cells.",)
    with pytest.raises(UserError, match="no results for the layout 'main'"):
        layouts.build([named], "main")
    with pytest.raises(UserError, match="networks here were given, and the SCONE paper only reports trained"):
        comparison.with_source([named])


def test_beside_the_tables_of_the_paper_given_networks_have_one_of_their_own():
    contents = {"semantic": "svhn"}
    trained = a_result("cifar10-c", "scone", "svhn", metrics=RATES, made={"setting": contents})
    given = a_given_result("msp", "svhn", suite="cifar10-c", metrics=RATES)
    tables = layouts.build([trained, given], layouts.AUTO)
    assert [bool(table.layout) for table in tables][-1] is False and all(table.layout for table in tables[:-1])
    assert [row.method for row in tables[-1].rows] == ["resnet18+msp"]
    verdicts = comparison.with_source([trained, given])
    assert all("SCONE" in each.row or "η" in each.row for each in verdicts if each.status != "missing")
    assert {each.measured for each in verdicts} == {None, *RATES.values()}


def test_the_same_network_agrees_within_the_band_and_nothing_is_left_to_chance():
    def of(auroc, digest="digest-of-resnet18", seed=0):
        metrics = {**DETECTED, "auroc": auroc}
        return [a_given_result(given=given_run(digest=digest), metrics=metrics, seed=seed)]

    def verdict(ours, theirs):
        return next(each for each in comparison.with_results(ours, theirs) if each.metric == "auroc")

    same = verdict(of(0.8), of(0.8 + 1e-9))
    assert (same.status, same.uncertainty, same.note) == ("agrees", None, "")
    assert verdict(of(0.8), of(0.6)).status == "differs"
    assert verdict(of(0.8), of(0.6, "another")).note == "another network with this name"
    assert verdict(of(0.8), of(0.8, seed=3)).note == "no seed in common"


def scored_networks(folder, scorers=("knn", "msp"), **sets):
    rng = np.random.default_rng(0)
    correct, ids = rng.random(50) < 0.9, rng.normal(size=50)
    return [
        with_scores(
            a_given_result(scorer, **sets), folder, correct, rng.random(50) < 0.7, ids, rng.normal(1 + i, 1, size=50)
        )
        for i, scorer in enumerate(scorers)
    ]


def test_msp_is_the_baseline_where_there_is_no_erm(tmp_path):
    (compared,) = differences.compare(scored_networks(tmp_path))
    assert (compared.baseline, compared.others) == ("msp", ["knn"])
    assert [metric.name for metric in compared.metrics] == ["id_acc", "fpr95", "auroc"]
    assert compared.note("others", "auroc", "knn") == ""  # nothing was trained, and nothing is left out
    (table,) = differences.tables(compared)
    assert headings(table) == ["Baseline", "Your network: distances"] and not table.marks
    with pytest.raises(UserError, match="no result here has covariate_acc to compare; choose another metric"):
        differences.compare(scored_networks(tmp_path), metrics=["covariate_acc"])
    with pytest.raises(UserError, match="unknown method of these results 'erm'"):
        differences.compare(scored_networks(tmp_path, ("knn", "gen")))


def test_a_given_network_is_compared_with_erm_under_the_seed_that_both_have(tmp_path):
    erm = [with_scores(a_result(method="erm", seed=seed), tmp_path, [1, 0, 1, 1], [1, 0, 0, 1]) for seed in (0, 1)]
    given = with_scores(on_suite("msp"), tmp_path, [1, 1, 1, 1], [1, 1, 0, 1])
    (compared,) = differences.compare([*erm, given])
    assert compared.baseline == "erm"
    assert compared.note("unseen-digits", "id_acc", "resnet18+msp").startswith(
        "one seed: the interval covers test images only"
    )


@pytest.fixture
def folder(tmp_path):
    """Given networks of every kind: with both sets, with one of them, with neither."""
    for semantic, covariate in (("others", "snow"), ("others", NONE), (NONE, "snow"), (NONE, NONE)):
        name = f"net-{semantic}-{covariate}"
        scored_networks(tmp_path / "results", semantic=semantic, covariate=covariate, given=given_run(name))
    return tmp_path / "results"


def test_figures_are_drawn_as_far_as_the_sets_go_and_the_rest_is_said(folder):
    drawn, reasons = {}, []
    for study in studies(read_folder(folder)[0], ()):
        for name in figures.FIGURES:
            try:
                drawn[f"{study.suite}/{name}"] = figures.draw(name, study, (), ("woods", "scone"), networks=network_of)
            except NotDrawn as reason:
                reasons.append(f"{study.suite} / {study.setting}: no {name}: {reason}")
    energies = [f"net-{sets}/energies" for sets in ("others-snow", "others-none", "none-snow")]
    others = [f"net-others-{covariate}/{name}" for covariate in ("snow", "none") for name in ("ranks", "roc")]
    assert set(drawn) == {"net-others-snow/tradeoff", *energies, *others}
    for line in (
        "net-others-none / others: no tradeoff: needs a covariate set, which this setting lacks",
        "net-none-none / id: no energies: needs a covariate or a semantic set, and this setting has neither",
        "net-others-snow / others: no margin: it shows how a training went, and these networks were given",
        "net-others-snow / others: no ratio: it shows how a training went, and these networks were given",
    ):
        assert line in reasons
    assert any(line.startswith("net-others-snow / others: no features: the network 'net-") for line in reasons)
    assert [len(drawn[name].figure.axes[0].get_yticklabels()) for name in energies] == [3, 2, 2]
    assert [axes.get_title() for axes in drawn[energies[-1]].figure.axes] == ["MSP", "KNN"]
    assert drawn[energies[1]].caption.startswith("Scores of the 2 test splits on net-others-none, others, seed 0")


def test_the_command_draws_what_it_can_and_names_the_rest(folder, tmp_path):
    given = [folder / "net-others-none", "--out", tmp_path / "figures", "--only", "energies,margin"]
    out = assert_done(plot(*given)).splitlines()
    assert out[0].startswith(f"{tmp_path}/figures/net-others-none/others/energies.png") and len(out) == 2
    assert "no margin: it shows how a training went" in out[1]
    assert_refused(plot(folder / "net-none-none", "--only", "energies"), "this setting has neither")


def test_every_command_that_reads_results_reads_these(folder, tmp_path):
    assert "Your network: logits" in assert_done(oodbench("table", folder))
    assert "8 done, 0 failed" in assert_done(oodbench("status", folder))
    assert "8 rescored" in assert_done(oodbench("rescore", folder))
    assert "8 as before" in assert_done(oodbench("rescore", folder))
    assert "The first row is MSP itself; every other row is a method minus MSP" in assert_done(
        oodbench("compare", folder)
    )
    assert_refused(oodbench("check", folder, "--against", "scone"), "given", "--against DIR")
    copy = tmp_path / "copy"
    for result in read_folder(folder)[0]:
        write(result, copy / result.path.relative_to(folder), {}, [])
    checked = assert_done(oodbench("check", copy, "--against", folder))
    assert "0 differ, 0 cannot tell\n" in checked and "by chance" not in checked
    assert "1 cell removed" in assert_done(
        oodbench("remove", folder, "--suite", "net-none-none", "--method", "msp", "--yes")
    )
    assert "7 done" in assert_done(oodbench("status", folder))


def test_a_given_result_is_shown_with_its_network_in_place_of_a_training(folder):
    (path,) = folder.glob("net-others-snow/others/knn/*.json")
    out = assert_done(oodbench("show", path))
    for line in (
        "  network:     net-others-snow (timm:net-others-snow, weights mine.safetensors), given",
        "  head:        fc, W f + b",
        "  classes:     all outputs, in order",
        "  adapter:     adapter@1, digest of the network digest-of-net-others-snow",
        "  scorer:      knn@1",
    ):
        assert f"\n{line}\n" in out, line
    assert "mean [0.5, 0.5, 0.5]" in out and "stated_by timm" in out and "resize" not in out
    assert "recipe" not in out and "trainer" not in out
    assert "\nmake it again with:\n  oodbench evaluate --id folder:photos " in out


def test_the_outputs_that_counted_are_shown_a_few_of_them(tmp_path):
    made = a_given_result(given=given_run(classes=list(range(100)), head=None, form="logits alone"))
    write(made, tmp_path / "r.json", {}, [])
    out = assert_done(oodbench("show", tmp_path / "r.json"))
    assert "classes:     the outputs 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (100 in all)" in out
    assert "head:        none, logits alone" in out


def test_records_name_the_group_and_the_network():
    records = json.loads(render.render(build([on_suite("msp")]), "json"))
    assert {(each["group"], each["method"]) for each in records} == {("Your network: logits", "resnet18+msp")}
