"""A table in a notebook: the numbers of its other formats, and no markup but its own."""

import re
from html.parser import HTMLParser

from made_results import a_result

from oodbench.report import layouts, tables
from oodbench.report.render.html import to_html

HOSTILE = '<img src=x onerror="alert(1)">&'
METRICS = ["fpr95", "auroc"]


class Tags(HTMLParser):
    """The tags of a fragment, which must close as they opened, and the text of each cell by row."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.rows = [], set(), []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        assert {name for name, _ in attributes} <= {"colspan"}
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data


def built(*results):
    (table,) = tables.build(list(results), METRICS)
    return table


def test_a_table_at_a_prompt_is_one_line():
    table = built(a_result(metrics={"fpr95": 0.5, "auroc": 0.5}), a_result(method="msp", status="failed"))
    assert repr(table) == "<Table digits-c: rows 2, settings 1, metrics 2>"


def test_a_notebook_shows_means_errors_groups_and_the_best():
    seeds = [a_result(seed=s, metrics={"fpr95": f, "auroc": 0.5}) for s, f in enumerate([0.19, 0.21])]
    table = built(*seeds, a_result(method="msp", made={"group": "OOD detection"}, metrics={"fpr95": 0.5, "auroc": 0.5}))
    html = table._repr_html_()
    assert html == to_html(table)
    assert Tags(html).rows == [
        ["", "unseen-digits"],
        ["Method", "FPR ↓", "AUROC ↑"],
        ["OOD detection: logits"],
        ["MSP, 1 seed", "50.00", "50.00"],
        ["Learning with wild data"],
        ["SCONE", "20.00 ± 12.71", "50.00"],
    ]
    assert "<strong>20.00 ± 12.71</strong>" in html and "<strong>50.00</strong>" in html
    assert table.counts_line in html and "<caption>digits-c</caption>" in html


def test_a_failure_has_its_footnote():
    html = to_html(built(a_result(metrics={"fpr95": 0.5, "auroc": 0.5}), a_result(method="msp", status="failed")))
    assert "<th>MSP<sup>a</sup></th><td>–</td>" in html and "<sup>a</sup> failed: no message (seed 0)" in html


def test_reported_numbers_stand_below_what_was_measured():
    rates = {"covariate_acc": 0.9, "id_acc": 0.9, "fpr95": 0.1, "auroc": 0.9}
    made = {"setting": {"semantic": "svhn"}, "suite": "cifar10-c"}
    results = [a_result("cifar10-c", "scone", "svhn", made=made, metrics=rates)]
    (table,) = layouts.assemble(results, None, "all", "main", True, "training-domain")
    rows = Tags(to_html(table)).rows
    measured = next(i for i, row in enumerate(rows) if row[0] == "SCONE")
    assert [row[0] for row in rows[measured : measured + 3]] == ["SCONE", "reported", "difference"]
    assert len({sum(1 for _ in row) for row in rows[measured : measured + 3]}) == 1


def test_names_from_files_are_no_markup():
    made = {"display": HOSTILE, "group": HOSTILE}
    fine = a_result(HOSTILE, HOSTILE, HOSTILE, made={**made, "contents": a_result().config.suite},
                    metrics={"fpr95": 0.5, "auroc": 0.5})  # fmt: skip
    failed = a_result(HOSTILE, "other", HOSTILE, made={**made, "contents": a_result().config.suite}, status="failed",
                      error=HOSTILE)  # fmt: skip
    html = to_html(built(fine, failed))
    seen = Tags(html).seen
    assert seen <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "em", "strong", "sup", "p", "small", "br"}
    assert "<img" not in html and not re.search("&(?!amp;|lt;|gt;|quot;|#x27;)", html)
    assert html.count("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;") >= 5
