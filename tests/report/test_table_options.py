"""What `oodbench table` shows of results: some of them, folded into a width, in words, with marks in the rows."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench, terminal
from made_results import a_result, method_run

import oodbench as package
from oodbench.report.labels import by_paper, row_names, setting_in_words
from oodbench.report.layouts import assemble
from oodbench.report.render import ENDINGS, render
from oodbench.report.tables import build
from oodbench.results.folder import read_folder
from oodbench.results.stored import LOCK, write

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
DETECTION = "OOD detection"


def result(method="msp", seed=0, setting="svhn", made=None, group=DETECTION, **fields):
    metrics = {"covariate_acc": 0.5, "id_acc": 0.5, "fpr95": 0.5, "auroc": 0.5}
    metrics |= {name: fields.pop(name) for name in list(fields) if name in metrics}
    return a_result(
        method=method, seed=seed, setting=setting, metrics=metrics, made={"group": group, **(made or {})}, **fields
    )


def margin(value=None):
    """SCONE as it ran under a margin; None is its default, -10."""
    changed = {} if value is None else {"margin": value}
    label = "scone" if value is None else f"scone,margin={value}"
    return label, method_run("scone", values={"margin": -10.0, **changed}, changed=changed)


@pytest.fixture
def folder(tmp_path):
    """Two methods in two settings, of which one has three seeds."""
    for setting in ("unseen-digits", "photo-patches"):
        for method, seeds in (("msp", 3), ("knn", 2)):
            for seed in range(seeds):
                made = {"setting": {"semantic": setting}}
                path = tmp_path / "results" / setting / method / f"{seed}.json"
                auroc = 0.6 + seed / 10 + (setting == "photo-patches") / 10
                write(result(method, seed, setting, made, auroc=auroc, key=f"{setting}-{method}-{seed}"), path, {}, [])
    return tmp_path / "results"


def records(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_margins_stand_in_numeric_order_and_the_default_says_its_own():
    methods = dict(margin(value) for value in (-2.0, None, "auto", 0.0, -50.0, -0.5))
    names = row_names(methods)
    assert [names[label] for label in by_paper(methods)] == [
        "SCONE (η = 0)", "SCONE (η = −0.5)", "SCONE (η = −2)", "SCONE (η = −10)", "SCONE (η = −50)", "SCONE (η = auto)",
    ]  # fmt: skip


def test_values_above_0_rise_and_a_method_with_one_row_says_none():
    methods = {f"knn,k={k}": method_run("knn", group=DETECTION, changed={"k": k}) for k in (200, 50, 7)}
    methods["msp"] = method_run("msp", group=DETECTION)
    names = row_names(methods)
    assert [names[label] for label in by_paper(methods)] == ["MSP", "KNN (k=7)", "KNN (k=50)", "KNN (k=200)"]
    assert row_names(dict([margin()])) == {"scone": "SCONE"}


def test_an_eta_is_as_wide_in_ascii():
    from oodbench.cli.output import encodable

    assert encodable("SCONE (η = −10)  1", "ascii") == "SCONE (eta=-10)  1"


def test_an_auroc_below_50_is_flagged_in_every_format_and_49_995_which_prints_as_50_is_not():
    results = [result("msp", auroc=0.3), result("knn", auroc=0.49996, fpr95=0.9), result("vim", auroc=0.9)]
    (table,) = build(results)
    note = "below 50 is worse than chance: ID images tend to score higher than semantic OOD images"
    assert [row.cells[3].flag for row in table.rows] == [note, "", ""]
    assert [*table.marks] == [note]
    for format in ("text", "markdown", "latex", "html"):
        assert note in render([table], format)
    assert [row["note"] for row in records(render([table], "csv")) if row["metric"] == "auroc"] == [note, "", ""]


def test_a_note_of_all_figures_of_a_row_stands_behind_its_name_in_text():
    (table,) = build([result("msp", auroc=0.3, notes={"not_converged": "x"}), result("knn")])
    text = render([table], "text")
    assert re.search(r"^  MSP \(a\) +50\.00•? +50\.00•? +50\.00•? +30\.00 +\(b\)$", text, re.MULTILINE)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("suite", ["digits-c", "pacs-cpu", "colored-mnist-irm"])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_lost(width, suite):
    results = package.read_results(REFERENCE / suite)
    tables = build(results, images=False)
    text = render(tables, "text", width)
    assert max(map(len, text.splitlines())) <= width
    figures = [cell.percent for table in tables for row in table.rows for cell in row.cells if cell.mean is not None]
    assert len(re.findall(r"\d+\.\d\d ± ", text)) == sum(
        bool(cell.margin_percent) for table in tables for row in table.rows for cell in row.cells
    )
    assert {*figures} <= {*re.findall(r"\d+\.\d\d", text)}


def test_settings_stand_beside_each_other_where_there_is_room():
    tables = build([result(setting=setting) for setting in ("a", "b")])
    assert re.search(r"- a -+  -+ b -", render(tables, "text", 200))
    assert "\na\n" in render(tables, "text", 80) and "\nb\n" in render(tables, "text", 80)


def test_where_one_figure_has_no_room_its_error_is_left_out_and_that_is_said():
    tables = build([result("mahalanobis", seed, auroc=0.7 + seed / 10) for seed in range(2)], ["auroc"])
    text = render(tables, "text", 24)
    assert max(map(len, text.splitlines())) <= 24
    assert "± values do not fit" in " ".join(text.split()) and "75.00 ±" not in text


def test_long_names_are_folded():
    name = "irm,penalty=91257.2,warmup=190"
    text = render(build([result(name, group="OOD generalization"), result("erm")]), "text", 60)
    assert "  IRM" in text and max(map(len, text.splitlines())) <= 60
    assert "IRM (penalty=91257.2, warmup=190)" in " ".join(text.replace("50.00", "").replace("•", "").split())


def test_a_terminal_is_shown_text_that_fits_and_a_pipe_markdown(folder):
    for columns in (60, 80):
        status, shown = terminal("table", folder, COLUMNS=str(columns))
        assert status == 0 and "| MSP" not in shown and "AUROC ↑" in shown
        plain = re.sub("\x1b\\[[0-9]+m", "", shown)
        assert max(map(len, plain.splitlines())) <= columns and "•" not in shown
    assert assert_done(oodbench("table", folder)).startswith("### digits-c\n")


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_name_of_a_file_says_its_format(folder, tmp_path, ending):
    out = tmp_path / f"table{ending.upper() if ending == '.tex' else ending}"
    assert assert_done(oodbench("table", folder, "--out", out)) == f"{out}: 1 table\n"
    assert out.read_text(encoding="utf-8") == package.table(folder, ENDINGS[ending])


def test_a_page_of_html_is_whole_and_escapes_names():
    page = render(build([result("<b>&")]), "html")
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n") and 'charset="utf-8"' in page
    assert "&lt;b&gt;&amp;" in page and "<b>" not in page


def test_what_cannot_be_written_is_refused_before_anything_is(folder, tmp_path):
    (tmp_path / "a.md").mkdir()
    endings = "end it in .tex, .md, .csv, .html, .json, .txt"
    for name in ("x.docx", "x", "x.tex.gz", ".tex"):
        assert_refused(oodbench("table", folder, "--out", tmp_path / name), "names no format", endings)
    refused = oodbench("table", folder, "--out", tmp_path / "x.md", "--format", "csv")
    assert_refused(refused, "x.md is markdown, and --format says csv; leave one of them out")
    assert oodbench("table", folder, "--out", tmp_path / "a.md").status != 0
    assert {path.name for path in tmp_path.iterdir()} == {"results", "a.md", LOCK}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--columns", "auroq"], "unknown metric 'auroq'; did you mean 'auroc'"),
        (["--methods", "mspp"], "unknown method of these results 'mspp'; did you mean 'msp'?"),
        (["--setting", "svhn"], "unknown setting of these results 'svhn'; known: photo-patches, unseen-digits"),
        (["--suite", "digits"], "unknown suite of these results 'digits'; did you mean 'digits-c'?"),
        (["--seeds", "0,9"], "unknown seed of these results '9'; known: 0, 1, 2"),
        (["--seeds", "2-1"], "'2-1' holds no seeds"),
        (["--methods", "knn", "--seeds", "2-2"], "unknown method of these results 'knn'; known: msp"),
        (["--layout", "mnist", "--methods", "msp"], "a layout has its own rows; leave out --methods or --layout"),
        (["--layout", "mnist", "--average"], "a layout has its own columns; leave out --average or --layout"),
        (["--layout", "mnist", "--setting", "a"], "a layout has its own columns; leave out --setting or --layout"),
    ],
)
def test_what_no_result_has_is_refused_in_one_line(folder, options, said):
    assert_refused(oodbench("table", folder, *options), said)


def test_methods_settings_and_seeds_are_chosen_alike_on_the_command_line_and_in_python(folder):
    options = ["--methods", "msp", "--setting", "unseen-digits", "--seeds", "0,2", "--columns", "auroc,fpr95"]
    text = assert_done(oodbench("table", folder, "--format", "csv", *options))
    assert [(row["method"], row["setting"], row["metric"], row["seeds"]) for row in records(text)] == [
        ("msp", "unseen-digits", "auroc", "2"), ("msp", "unseen-digits", "fpr95", "2"),
    ]  # fmt: skip
    assert float(records(text)[0]["mean"]) == pytest.approx((0.6 + 0.8) / 2)
    chosen = {"methods": "msp", "setting": "unseen-digits", "seeds": [0, 2], "columns": ["auroc", "fpr95"]}
    assert package.table(folder, "csv", **chosen) == text
    with pytest.raises(package.UserError, match="columns and metrics are one thing"):
        package.table(folder, metrics=["auroc"], columns=["auroc"])


def test_averages_stand_in_place_of_the_settings(folder):
    text = assert_done(oodbench("table", folder, "--average", "--columns", "auroc", "--format", "csv"))
    assert [(row["setting"], row["method"]) for row in records(text)] == [("Average", "msp"), ("Average", "knn")]
    assert float(records(text)[0]["mean"]) == pytest.approx(0.75)
    assert package.table(folder, "csv", average=True, columns=["auroc"]) == text
    one = oodbench("table", folder, "--average", "--setting", "unseen-digits")
    assert one.status == 0 and one.err == "oodbench: no table here has several settings; --average changes nothing\n"


def test_an_average_that_is_asked_for_is_over_whatever_the_settings_differ_in():
    results = [
        result(setting=f"covariate={kind}", made={"setting": {"semantic": "none", "covariate": kind}}, auroc=auroc)
        for kind, auroc in (("blur", 0.6), ("inverted", 0.8))
    ]
    assert build(results)[0].settings == ["covariate=blur", "covariate=inverted"]
    (table,) = build(results, ["auroc"], average=True)
    assert table.settings == ["Average"] and table.rows[0].cells[0].percent == "70.00"


def test_a_preset_that_is_not_the_papers_says_so_beside_the_reported_numbers():
    def shown(preset):
        made = {"suite": "mnist-c"}
        own = a_result("mnist-c", "scone", "fashion-mnist", preset=preset, made=made, metrics={"auroc": 0.9})
        (table,) = assemble([own], ["auroc"], reported=True)
        (layout,) = assemble([own], layout="mnist", reported=True)
        return table, layout

    for table in shown("smoke"):
        labels = [line.heads[-1] for row in table.rows for line in row.lines]
        assert "reported (not this preset)" in labels and "reported" not in labels
        assert any(
            note.startswith("These numbers were measured with the preset 'smoke', which") for note in table.remarks
        )
    for preset in (None, "released"):
        for table in shown(preset):
            assert "reported" in [line.heads[-1] for row in table.rows for line in row.lines]
            assert not any("preset" in note for note in table.remarks)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("svhn", "SVHN"),
        ("unseen-digits", "unseen digits"),
        ("covariate=art_painting", "art painting"),
        ("covariate=photo+sketch", "photo and sketch"),
        ("svhn,covariate=gaussian_blur,severity=5,pi_c=0.1", "SVHN, Gaussian blur, severity 5, π_c = 0.1"),
        ("Average (near-ood)", "Average (near-ood)"),
    ],
)
def test_settings_are_words_in_latex(name, words):
    assert setting_in_words(name) == words


def test_latex_has_words_and_is_set_small():
    results = [
        result(setting=name, suite="mnist-c", preset="smoke") for name in ("fashion-mnist", "covariate=my_noise")
    ]
    results += [result(setting=name, suite="digits-c") for name in "abc"]
    text = render(build(results), "latex")
    assert r"\multicolumn{4}{c}{FashionMNIST}" in text and r"\multicolumn{4}{c}{my noise}" in text
    assert r"\caption{MNIST-C (preset smoke). " in text and r"\label{tab:mnist-c-smoke}" in text
    tables = text.split(r"\begin{table*}")[1:]
    assert tables and all(re.search(r"\\(tiny|[a-z]*size|small)\b", table)[1] == "small" for table in tables)


def test_tests_mark_what_is_not_shown_to_be_worse_and_say_how_many_seeds_would_show_it():
    results, _ = read_folder(REFERENCE / "digits-c")
    shown = [r for r in results if r.seed < 3 and r.setting == "unseen-digits"]
    (plain,), (tested,) = build(shown, ["fpr95"]), build(shown, ["fpr95"], tests=True)
    assert not any(cell.near for row in plain.rows for cell in row.cells)
    near = {row.method for row in tested.rows if row.cells[0].near}
    (best,) = [row.method for row in tested.rows if row.cells[0].best]
    assert best == "energy-oe" and {"scone", "woods"} <= near and "knn" not in near
    assert "Seeds that would tell the best from the next" in " ".join(tested.remarks)
    assert "◦" in tested.legend("bold")
    for form, mark in (("text", "◦"), ("markdown", " ◦ "), ("latex", r"$^{\circ}$"), ("html", " ◦</td>")):
        assert mark in render([tested], form) and "◦" not in render([plain], form)
    marks = {r["method"]: r["mark"] for r in json.loads(render([tested], "json"))}
    assert marks["scone"] == "not shown worse" and marks["knn"] is None


def test_ranks_stand_below_the_means_with_the_ranks_that_a_method_may_have():
    results, _ = read_folder(REFERENCE / "digits-c")
    shown = [r for r in results if r.seed < 5 and r.method in ("scone", "knn", "energy-oe", "erm", "energy")]
    (table,) = build(shown, ["fpr95"], average=True, ranks=True)
    lines = {row.method: row.lines[1] for row in table.rows}
    assert all(line.heads == ("rank",) and not line.is_measured for line in lines.values())
    assert [lines[name].entries[0].text for name in ("energy-oe", "erm", "energy")] == ["1 [1–2]", "4 [4]", "4 [4]"]
    (record,) = [r for r in json.loads(render([table], "json")) if r["method"] == "energy-oe"]
    assert (record["rank"], record["rank_low"], record["rank_high"]) == (1, 1, 2)
    refused = oodbench("table", REFERENCE / "digits-c", "--layout", "main", "--ranks")
    assert_refused(refused, "leave out --ranks or --layout")
