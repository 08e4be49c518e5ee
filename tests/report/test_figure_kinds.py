"""What ROC curves, training curves, heat maps and ranks show, against numbers worked by hand."""

import json

import numpy as np
import pytest
from made_results import a_result, with_scores

from oodbench.report import figures
from oodbench.report.figures.ranks import _tied
from oodbench.report.figures.studies import NotDrawn, by_network, studies
from oodbench.results import metrics, statistics
from oodbench.results.metrics import METRICS
from oodbench.results.samples import Sample
from oodbench.results.statistics import Column
from oodbench.results.stored import read_scores

DETECTION = "OOD detection"


def drawn(name, found, **given):
    return figures.draw(name, studies(found, [])[0], **given)


def lines(axes):
    """By the label of the legend."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def scored(tmp_path, method, seed=0, id_scores=(0, 1, 2, 3), semantic_scores=(2.5, 4, 5, 6), **fields):
    made = a_result(method=method, seed=seed, training=f"{method}-{seed}", **fields)
    return with_scores(made, tmp_path, [1, 1, 1, 0], id_scores=id_scores, semantic_scores=semantic_scores)


def test_a_roc_curve_is_what_thresholds_flag(tmp_path):
    one = scored(tmp_path, "scone")
    axes = drawn("roc", [one]).figure.axes[0]
    # Above 3 nothing of ID and three of four; at 3 a quarter of ID and no more; at 2.5 the last semantic row.
    (label,) = [name for name in lines(axes) if name.startswith("SCONE")]
    x, y = lines(axes)[label].get_data()
    assert np.allclose(np.interp([1, 20], x, y), [75, 75], atol=2) and y[-1] == 100 and np.all(np.diff(y) >= 0)
    scores = read_scores(one)
    auroc = metrics.auroc(scores["id"].scores, scores["semantic"].scores)
    assert auroc == 15 / 16 and label == f"SCONE ({100 * auroc:.2f})"
    assert axes.get_xscale() == "log"


def test_roc_curves_are_the_six_best_unless_methods_are_named(tmp_path):
    names = ["msp", "odin", "energy", "mahalanobis", "vim", "knn", "scone"]
    found = [scored(tmp_path, name, semantic_scores=(i, i, i, i + 0.5)) for i, name in enumerate(names)]
    drawing = drawn("roc", found)
    assert {r.method for r in drawing.sources} == set(names[1:])
    assert drawing.remarks == ["shows the 6 of 7 methods with the highest AUROC; choose others with --methods"]
    named = drawn("roc", found, methods=["msp", "scone"])
    assert {r.method for r in named.sources} == {"msp", "scone"} and not named.remarks


def logged(tmp_path, method, seed, values, **fields):
    """With a training log: a record for every epoch."""
    found = scored(tmp_path, method, seed, **fields)
    records = [{"epoch": i, "lr": 0.1, **{key: each[i] for key, each in values.items()}} for i in range(3)]
    found.path.with_suffix(".jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return found


def test_training_curves_are_means_over_seeds_by_epoch(tmp_path):
    keys = {"loss": [3, 2, 1], "alarms_constraint": [0.2, 0.1, -0.1], "alarms_multiplier": [0, 0.2, 0.3]}
    more = {**keys, "loss": [5, 4, 1]}
    found = [logged(tmp_path, "scone", 0, keys), logged(tmp_path, "scone", 1, more)]
    found.append(logged(tmp_path, "woods", 0, {"loss": [1, 1, 1], "wild_gradient": [1, 1, 1]}))
    drawing = drawn("training", found)
    loss, constraint, multiplier = drawing.figure.axes
    assert [axes.get_title() for axes in drawing.figure.axes] == [
        "loss",
        "false alarms over limit",
        "λ of false alarms",
    ]
    assert lines(loss)["SCONE"].get_xydata().tolist() == [[1, 4], [2, 3], [3, 1]]
    assert lines(loss)["WOODS"].get_ydata().tolist() == [1, 1, 1]
    assert lines(constraint)["SCONE"].get_ydata().tolist() == [0.2, 0.1, -0.1]
    assert len(lines(multiplier)["WOODS"].get_xdata()) == 0  # it has none
    assert "A constraint is met at or below its zero line" in drawing.caption
    looks = [(line.get_marker(), line.get_linestyle()) for line in lines(loss).values()]
    assert len({marker for marker, _ in looks}) == len({line for _, line in looks}) == 2


def test_a_training_log_that_is_missing_or_damaged_is_named(tmp_path):
    found = logged(tmp_path, "scone", 0, {"loss": [3, 2, 1]})
    log = found.path.with_suffix(".jsonl")
    for text in ("{", "[]\n[]\n", b"\xff"):
        log.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(NotDrawn, match=r"the training log '.+' (cannot be read|is not one of oodbench)"):
            drawn("training", [found])
    log.unlink()
    with pytest.raises(NotDrawn, match=r"the training log '.+' is missing; run again with --force"):
        drawn("training", [found])


def shifted(method, kind, severity, accuracy, seed=0):
    setting = f"unseen-digits,covariate={kind},severity={severity}"
    return a_result(
        method=method, setting=setting, seed=seed, training=f"{method}-{seed}", metrics={"covariate_acc": accuracy},
        made={"setting": {"covariate": kind, "severity": severity}},
    )  # fmt: skip


def cells(axes):
    """The numbers of a heat map by row and column."""
    heads = [label.get_text() for label in axes.get_yticklabels()]
    columns = [label.get_text() for label in axes.get_xticklabels()]
    return {(heads[round(t._y)], columns[round(t._x)]): t.get_text() for t in axes.texts}


def test_the_heat_map_has_kinds_by_methods_where_there_is_one_severity():
    found = [shifted("scone", "blur", 3, a, seed) for seed, a in enumerate((0.7, 0.8))]
    found += [shifted("scone", "gaussian_noise", 3, 0.5), shifted("woods", "blur", 3, 0.4)]
    drawing = drawn("heatmap", found)
    wanted = {("blur", "SCONE"): "75.0", ("Gaussian noise", "SCONE"): "50.0", ("blur", "WOODS"): "40.0",
              ("Gaussian noise", "WOODS"): "–"}  # fmt: skip
    assert cells(drawing.figure.axes[0]) == wanted
    later = studies(found, [])[1]
    with pytest.raises(NotDrawn, match=f"it is the same as that of {studies(found, [])[0].setting}"):
        figures.draw("heatmap", later)
    with pytest.raises(NotDrawn, match="needs two covariate sets or severities"):
        drawn("heatmap", found[:2])


def test_the_heat_map_has_a_panel_for_each_method_where_severities_differ():
    found = [shifted(method, "blur", s, s / 10) for method in ("woods", "scone") for s in (1, 3, 5)]
    axes = drawn("heatmap", found).figure.axes
    assert [each.get_title() for each in axes[:2]] == ["WOODS", "SCONE"]
    assert cells(axes[0]) == {("blur", "1"): "10.0", ("blur", "3"): "30.0", ("blur", "5"): "50.0"}


def test_methods_that_share_their_networks_are_one():
    runs = {
        name: [a_result(method=name, training="t", seed=seed, made={"group": DETECTION}) for seed in seeds]
        for name, seeds in (("msp", (0, 1)), ("knn", (0,)), ("erm", (0, 1)))
    }
    assert list(by_network(runs)) == ["erm"]
    assert list(by_network({**runs, "scone": [a_result(training="u")]})) == ["erm", "scone"]


def test_ranks_are_those_under_each_seed_and_a_bar_joins_what_does_not_differ():
    accuracies = {"scone": (0.90, 0.91, 0.92, 0.91), "woods": (0.91, 0.90, 0.925, 0.89), "erm": (0.5, 0.5, 0.51, 0.49)}
    found = [
        a_result(method=method, seed=seed, training=f"{method}-{seed}", metrics={"covariate_acc": value})
        for method, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    drawing = drawn("ranks", found)
    (axes,) = drawing.figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["SCONE", "WOODS", "ERM"]
    means = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in means] == [1.5, 1.5, 3]
    assert [line.get_markerfacecolor() != "white" for line in means] == [True, True, False]
    (bar,) = [line for line in axes.lines if line.get_color() == "black"]
    assert bar.get_ydata().tolist() == [-0.25, 1.25]  # ERM, at 2, differs from both
    assert "Holm's correction over all pairs" in drawing.caption and "Student's t over seeds only" in drawing.caption


def test_pairs_differ_after_holm_over_all_of_them():
    values = {"a": (0.1, 0.2, 0.3), "b": (0.5, 0.61, 0.7), "c": (0.52, 0.59, 0.71)}
    column = Column(METRICS["auroc"], {name: Sample(dict(enumerate(each))) for name, each in values.items()})
    # a - b: -0.4, -0.41, -0.4, standard error 1/300, t = -121, p = 6.8e-5; a - c the same within a factor of ten.
    assert statistics.different_pairs(column) == {frozenset("ab"), frozenset("ac")}
    alone = Column(METRICS["auroc"], {name: Sample({0: each[0]}) for name, each in values.items()})
    assert statistics.different_pairs(alone) is None


def test_bars_are_the_longest_runs_in_which_no_two_differ():
    assert _tied("abcd", {frozenset("ad")}) == [(0, 2), (1, 3)]
    assert _tied("abcd", {frozenset("ac"), frozenset("ad"), frozenset("bd")}) == [(0, 1), (1, 2), (2, 3)]
    assert _tied("abc", {frozenset(pair) for pair in ("ab", "ac", "bc")}) == []
    assert _tied("abc", set()) == [(0, 2)]


def test_one_seed_without_scores_has_ranks_and_no_test():
    found = [a_result(method=m, training=m, metrics={"covariate_acc": a}) for m, a in (("scone", 0.9), ("woods", 0.8))]
    drawing = drawn("ranks", found)
    assert "Differences cannot be tested with one seed and no raw scores." in drawing.caption
    assert [line for line in drawing.figure.axes[0].lines if line.get_color() == "black"] == []
    with pytest.raises(NotDrawn, match="needs two methods whose numbers differ"):
        drawn("ranks", found[:1])


def test_scorers_of_one_network_are_ranked_by_fpr_alone(tmp_path):
    found = [scored(tmp_path, name, semantic_scores=(4, 5, 6, s)) for name, s in (("msp", 0), ("knn", 9))]
    found = [a_result(**{**vars(r), "training": "one"}) for r in found]
    assert [axes.get_title() for axes in drawn("ranks", found).figure.axes] == ["FPR"]
