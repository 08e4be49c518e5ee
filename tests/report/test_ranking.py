"""Tables sorted by one metric: hand-worked orders, in every format, and what is refused."""

import csv
import io
import json
import re

import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result
from reported_results import save

import oodbench as package
from oodbench.errors import UserError
from oodbench.report.render import render
from oodbench.report.tables import build

VALUES = {  # AUROC and FPR
    "msp": (0.7, 0.4), "knn": (0.9, 0.3), "erm": (0.8, 0.2), "scone": (0.8, 0.1), "mine": (None, None),
}  # fmt: skip
GROUPS = {"erm": "OOD generalization", "scone": "Learning with wild data"}


def result(method, auroc, fpr95, setting="unseen-digits", seed=0, **keys):
    metrics = {"covariate_acc": 0.5, "id_acc": 0.5, "auroc": auroc, "fpr95": fpr95, "aupr_in": auroc}
    made = {"group": GROUPS.get(method, "OOD detection"), "setting": {"semantic": setting.partition(",")[0], **keys}}
    ok = {"status": "failed", "error": "no memory", "metrics": {}} if auroc is None else {"metrics": metrics}
    return a_result(method=method, setting=setting, seed=seed, made=made, **ok)


@pytest.fixture
def results():
    return [result(method, *values) for method, values in VALUES.items()]


def order(table):
    return [row.method for row in table.rows]


def test_rows_stand_by_the_metric_best_first_whatever_their_group(results):
    assert order(*build(results, sort="auroc")) == ["knn", "erm", "scone", "msp", "mine"]  # equals by name


def test_where_less_is_better_the_least_is_first(results):
    assert order(*build(results, sort="fpr95")) == ["scone", "erm", "knn", "msp", "mine"]


def test_the_metric_need_not_be_shown(results):
    (table,) = build(results, ["id_acc"], sort="aupr_in")
    assert [metric.name for metric in table.metrics] == ["id_acc"]
    assert order(table) == order(*build(results, sort="auroc"))
    assert table.remarks[:1] == ["Sorted by AUPR-in, best first."]


def test_several_settings_count_by_their_average_and_rows_that_lack_one_stand_below():
    values = {
        "msp": {"unseen-digits": 0.9, "photo-patches": 0.5},  # 0.7 on average
        "knn": {"unseen-digits": 0.7, "photo-patches": 0.8},  # 0.75
        "vim": {"photo-patches": 0.99},
        "odin": {"unseen-digits": 0.1},
    }
    results = [result(method, each, 0.5, name) for method, own in values.items() for name, each in own.items()]
    results.append(result("mine", None, None))
    (table,) = build(results, sort="auroc")
    assert table.settings[-1] == "Average" and order(table) == ["knn", "msp", "vim", "odin", "mine"]
    assert "Sorted by AUROC over all settings, best first; rows that lack a setting come last." in table.remarks
    printed = [row.cells[-1].mean for row in table.rows[:2]]
    assert printed == [pytest.approx(0.75), pytest.approx(0.7)]


def test_settings_without_an_average_count_by_their_mean_too():
    severe = [result(method, auroc, 0.5, "photo-patches,severity=5", severity=5) for method, auroc in
              (("msp", 0.9), ("knn", 0.1))]  # fmt: skip
    (table,) = build([result("msp", 0.5, 0.5), result("knn", 0.8, 0.5), *severe], sort="auroc")
    assert "Average" not in table.settings and order(table) == ["msp", "knn"]


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_sorted_table_shows_no_groups(form, results):
    tables, plain = build(results, ["auroc"], sort="auroc"), build(results, ["auroc"])
    text = render(tables, form)
    assert "Learning with wild data" in render(plain, form) and "Learning with wild data" not in text
    order = ("KNN", "ERM", "SCONE", "MSP", "mine")
    places = [re.search(name + r"(\$\^\{[a-z,]+\}\$)? ", text).start() for name in order]
    assert places == sorted(places) and "Sorted by AUROC, best first." in text


def test_a_sorted_table_in_a_notebook_shows_no_groups(results):
    (table,) = build(results, ["auroc"], sort="auroc")
    html = table._repr_html_()
    assert re.findall("<th>(KNN|ERM|SCONE|MSP|mine)(?:<sup>[a-z,]+</sup>)?</th>", html) == [
        "KNN",
        "ERM",
        "SCONE",
        "MSP",
        "mine",
    ]
    assert "<em>" not in html


def test_records_are_sorted_and_keep_their_groups(results):
    tables = build(results, ["auroc"], sort="auroc")
    records = json.loads(render(tables, "json"))
    read = list(csv.DictReader(io.StringIO(render(tables, "csv"))))
    for rows in (records, read):
        assert [row["method"] for row in rows] == ["knn", "erm", "scone", "msp", "mine"]
        assert rows[0]["group"] == "OOD detection: distances" and rows[2]["group"] == "Learning with wild data"


def test_a_table_without_the_metric_keeps_its_order_beside_one_that_has_it(results):
    made = {"setting": {"covariate": "sketch"}, "group": "OOD generalization"}
    other = [
        a_result("pacs", name, "covariate=sketch", metrics={"id_acc": 0.5}, made=made) for name in ("erm", "coral")
    ]
    digits, domains = build([*results, *other], sort="auroc")
    assert not digits.has_groups and domains.has_groups and order(domains) == ["erm", "coral"]
    with pytest.raises(UserError, match="no result here has 'auroc' to sort by; choose another metric"):
        build(other, sort="auroc")


def test_the_command_and_python_sort_alike(results, tmp_path):
    save(results, tmp_path)
    out = assert_done(oodbench("table", tmp_path, "--sort", "auroc"))
    assert out == package.table(tmp_path, sort="auroc") and out.index("| KNN") < out.index("| ERM") < out.index("| MSP")
    assert out != package.table(tmp_path)
    assert_refused(oodbench("table", tmp_path, "--sort", "aurco"), "unknown metric 'aurco'; did you mean 'auroc'")
    refusal = "a layout has its rows in the order of its paper; leave out --sort or --layout"
    assert_refused(oodbench("table", tmp_path, "--sort", "auroc", "--layout", "auto"), refusal)
    assert "--sort METRIC" in assert_done(oodbench("table", "--help"))
