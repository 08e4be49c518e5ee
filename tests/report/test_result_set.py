"""What `oodbench.evaluate` gives back: a sequence of results with a frame, a table and a choice."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from made_results import a_given_result, given_contents, given_run, with_scores

import oodbench
from oodbench.config.suite import NONE
from oodbench.errors import UserError
from oodbench.report.result_set import ResultSet, best_line
from oodbench.results.metrics import METRICS

SCORERS = ("msp", "knn", "odin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evaluated") / "results"


@pytest.fixture(scope="module")
def found(folder):
    """Three scorers on two semantic sets; KNN is by far the best."""
    contents, ids = given_contents(("near", "far")), np.arange(40.0)
    return ResultSet(
        with_scores(
            a_given_result(scorer, each, contents=contents), folder, np.arange(40) < 36, id_scores=ids,
            semantic_scores=ids + {"msp": 5, "knn": 30, "odin": 4}[scorer],
        )
        for scorer in SCORERS
        for each in ("near", "far")
    )  # fmt: skip


def test_it_is_a_sequence_of_results(found):
    assert len(found) == 6 and [each.method for each in found][::2] == list(SCORERS)
    assert found[-1].method == "odin" and isinstance(found[:2], ResultSet) and len(found[:2]) == 2
    assert found[0] in found and found.index(found[3]) == 3


def test_its_frame_is_that_of_the_folder_they_lie_in(found, folder):
    frame, stored = found.frame(), oodbench.frame(folder)
    assert list(frame.columns) == list(stored.columns)
    assert set(METRICS) < set(frame.columns) and frame["auroc"].between(0, 1).all()
    in_order = ["method", "setting"]
    assert frame.sort_values(in_order)["auroc"].tolist() == stored.sort_values(in_order)["auroc"].tolist()
    assert frame["covariate_acc"].isna().all() and set(frame["group"]) == {"Your network"}


def test_a_result_that_no_file_holds_has_no_path_in_the_frame():
    assert ResultSet([a_given_result(metrics={"id_acc": 0.5})]).frame()["path"].tolist() == [None]


def test_the_accuracies_that_all_its_rows_share_are_said_once_above_the_table(found, folder):
    shown = oodbench.table(folder, "text")
    accuracy = re.search(r"90\.00 ± +([\d.]+)", shown)[1]
    told = f"Every row: ID Acc. 90.00 ± {accuracy}."
    assert "ID Acc. ↑" in shown and told not in shown
    for text in (found.table(format="text"), found.table(), found._repr_html_(), found.table(format="latex")):
        assert "Every row: ID Acc. 90.00 " in text and "ID Acc. ↑" not in text and "AUROC" in text
    assert found.table(format="text").splitlines()[2] == told


def test_accuracies_that_differ_or_stand_alone_stay_columns():
    first, other = (a_given_result(m, metrics={"id_acc": 0.5, "auroc": 0.7}) for m in ("msp", "knn"))
    for results in ([first], [first, replace(other, metrics={"id_acc": 0.6, "auroc": 0.7})]):
        assert "ID Acc. ↑" in ResultSet(results).table() and "Every row" not in ResultSet(results).table()


def test_its_table_is_that_of_the_folder(found, folder):
    asked = {"metrics": ["id_acc", "fpr95", "auroc"]}
    for arguments in (asked, {**asked, "format": "latex"}, {**asked, "sort": "auroc"}, {"format": "csv"}):
        assert found.table(**arguments) == oodbench.table(folder, **arguments)
    assert "Your network: resnet18 (timm:resnet18, weights mine.safetensors)." in found.table()
    with pytest.raises(UserError, match="unknown metric"):
        found.table(metrics=["aurok"])


def test_its_best_is_the_choice_of_the_rule(found):
    best = found.best()
    assert (best.scorer, best.method, best.sets) == ("knn", "knn", ("near", "far"))
    assert best.mean == pytest.approx(1 - (40 - 30) ** 2 / 2 / 40**2)
    assert found.best("fpr95").scorer == "knn"


def test_the_line_names_scorer_mean_error_rule_and_warning(found):
    best = found.best()
    line = best_line(best)
    assert line.startswith(
        f"Best: KNN, mean AUROC 96.88 ± {100 * best.standard_error:.2f} (one standard error). Among 3 "
    )
    assert best.rule in line and line.endswith(best.warning) and "\n" not in line


def test_the_line_says_what_is_higher_and_why_it_was_not_taken(tmp_path):
    rng = np.random.default_rng(0)
    one, other = (np.arange(40.0) + 20 + rng.normal(0, 30, 40) for _ in range(2))
    results = [
        with_scores(a_given_result(scorer), tmp_path, np.ones(40), id_scores=np.arange(40.0), semantic_scores=scores)
        for scorer, scores in (("knn", max(one, other, key=np.mean) + 1), ("gen", min(one, other, key=np.mean)))
    ]
    best = ResultSet(results).best()
    assert best.scorer == "gen" and best.highest == "KNN"
    higher = f"; KNN has {100 * best.highest_mean:.2f}, which is within one standard error of the difference, "
    assert higher in best_line(best)


def test_without_raw_scores_the_line_has_no_error():
    best = ResultSet([a_given_result(metrics={"auroc": 0.75})]).best()
    assert math.isnan(best.standard_error)
    assert best_line(best).startswith("Best: MSP, mean AUROC 75.00. Among 1 scorer, ")


def test_without_semantic_sets_there_is_no_best():
    assert ResultSet([a_given_result(semantic=NONE, metrics={"id_acc": 0.5})]).best() is None


def test_it_prints_as_one_line_and_shows_its_tables_in_a_notebook(found):
    assert repr(found) == "<ResultSet resnet18: 3 methods, 2 settings, 6 results>"
    failed = a_given_result(given=given_run("vi\nt"), status="failed", error="no")
    assert repr(ResultSet([failed])) == "<ResultSet vi t: 1 method, 1 setting, 1 result, 1 failed>"
    assert found._repr_html_().count("<table") == 1 and "KNN" in found._repr_html_()
    assert repr(ResultSet([])) == "<ResultSet: no results>" and ResultSet([])._repr_html_() == "no results"
