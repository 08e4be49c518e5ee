"""How a result shows itself: one line at a prompt, a small table in a notebook."""

from made_results import a_result

RATES = {"covariate_acc": 0.8012, "id_acc": 0.9, "fpr95": 0.25, "auroc": 0.5, "aupr_in": 0.5}
HOSTILE = "<script>alert('x')</script>&\x1b[31m\n"


def test_a_result_is_one_line_with_its_first_metrics_in_percent():
    line = "<Result digits-c / unseen-digits / scone / seed 0: OOD Acc. 80.1, ID Acc. 90.0, FPR 25.0, AUROC 50.0>"
    assert repr(a_result(metrics=RATES)) == line
    assert repr(a_result(preset="smoke", metrics={"id_acc": 0.5})) == (
        "<Result digits-c-smoke / unseen-digits / scone / seed 0: ID Acc. 50.0>"
    )


def test_a_failed_result_says_why_at_no_great_length():
    failed = a_result(status="failed", error="diverged at\nstep 3")
    assert repr(failed) == "<Result digits-c / unseen-digits / scone / seed 0: failed: diverged at step 3>"
    assert "<th>failed</th><td>diverged at step 3</td>" in failed._repr_html_()
    assert len(repr(a_result(status="failed", error="long " * 1000))) < 200


def test_a_notebook_shows_every_metric():
    html = a_result(metrics=RATES)._repr_html_()
    assert html.startswith("<table><caption>digits-c / unseen-digits / scone / seed 0</caption>")
    assert html.count("<tr>") == 5 and "<tr><th>AUPR-in</th><td>50.0</td></tr>" in html


def test_names_from_a_file_are_neither_markup_nor_commands_to_a_terminal():
    result = a_result(method=HOSTILE, setting=HOSTILE, status="failed", error=HOSTILE)
    html = result._repr_html_()
    assert "<script" not in html and html.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;[31m") == 3
    assert repr(result).isprintable() and html.isprintable()
