"""Tables: hand-worked numbers, the paper's order, footnotes, and text that other programs read back."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from made_results import a_result, config

from oodbench.config import suite as suites
from oodbench.config.cards import READS
from oodbench.config.registry import Registry
from oodbench.config.shipped import DETECTION_BY, DETECTION_OTHER
from oodbench.errors import UserError
from oodbench.report.render import render
from oodbench.report.tables import build
from oodbench.results.folder import read_folder
from oodbench.results.metrics import METRICS

DETECTION, GENERALIZATION, WILD = "OOD detection", "OOD generalization", "Learning with wild data"
LOGITS, DISTANCES = "OOD detection: logits", "OOD detection: distances"
CONTENTS = suites.load("digits-c").contents
SEEDS_ALONE = "±: half of the 95 % interval over seeds only, because the numbers have no raw scores."
NASTY = r"""[a]*b & 100% $x$ #1 _y_ {z} ~t ^u \input{v} <w> | `q` "r" --s é – ± ↑ 字 &lt; ＆％"""


def result(method="msp", seed=0, setting="svhn", group=DETECTION, status="ok", error=None, **fields):
    values = {"covariate_acc": 0.5, "id_acc": 0.5, "fpr95": 0.5, "auroc": 0.5}
    values |= {name: fields.pop(name) for name in list(fields) if name in METRICS}
    metrics = values if status == "ok" else {}
    made = {"group": group, "contents": CONTENTS}
    told = {"suite": "digits-c", "status": status, "error": error, "metrics": metrics, **fields}
    return a_result(method=method, setting=setting, seed=seed, made=made, **told)


def markdown(results, metrics=("auroc",), **options):
    return render(build(results, metrics, **options), "markdown")


def cells(text, method):
    """The cells of the row of a method in a Markdown table; its name may have footnotes."""
    rows = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("|")]
    named = re.compile(rf"\| {re.escape(method)}( \([a-z,]+\))?")
    return next(row[1:-1] + [row[-1].removesuffix("|").strip()] for row in rows if named.fullmatch(row[0]))


def names(text):
    """The first column of a Markdown table below its two header rows."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line.split(" | ")[0].strip("| ") for line in lines[3:]]


def notes(text):
    return [line for line in text.splitlines() if line.startswith("- (")]


def latex(text):
    """Only what a table needs to be set on its own."""
    return "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + text + "\\end{document}\n"


def test_a_cell_is_the_mean_over_seeds_and_half_of_its_interval_in_percent():
    # Deviations of -1, 0 and 1 %: sample variance (1 + 0 + 1) / 2 = 1, error 1 / sqrt(3) = 0.577, t(2) = 4.303.
    text = markdown([result(seed=s, auroc=v) for s, v in enumerate([0.84, 0.85, 0.86])])
    assert cells(text, "MSP") == ["85.00 ± 2.48"]
    assert f"Mean over 3 seeds. {SEEDS_ALONE}" in text


def test_one_seed_has_no_error():
    text = markdown([result(auroc=0.8469)])
    assert cells(text, "MSP") == ["84.69"]
    assert "\nOne seed.\n" in text and "±" not in text


def test_the_best_of_a_column_is_bold_in_the_direction_of_its_arrow():
    results = [result("msp", auroc=0.9, fpr95=0.3), result("knn", auroc=0.8, fpr95=0.2)]
    text = markdown(results, ["auroc", "fpr95"])
    assert "**AUROC ↑**" in text and "**FPR ↓**" in text
    assert cells(text, "MSP") == ["**90.00**", "30.00"]
    assert cells(text, "KNN") == ["80.00", "**20.00**"]


def test_means_that_print_alike_are_bold_alike_and_no_others():
    # 75.601 and 75.60 are one number in print; 75.59 is another, however near.
    text = markdown([result("msp", auroc=0.75601), result("knn", auroc=0.756), result("vim", auroc=0.7559)])
    assert [cells(text, name) for name in ("MSP", "KNN", "ViM")] == [["**75.60**"], ["**75.60**"], ["75.59"]]


def test_a_lower_mean_is_never_bold_however_much_its_seeds_vary():
    seeds = {"msp": (0.90, 0.94, 0.92), "knn": (0.91, 0.91, 0.92), "vim": (0.20, 0.90, 0.80)}
    results = [result(name, s, auroc=v, fpr95=v) for name, own in seeds.items() for s, v in enumerate(own)]
    (table,) = build(results, ["auroc", "fpr95"])
    best = {row.method: [cell.best for cell in row.cells] for row in table.rows}
    assert best == {"msp": [True, False], "knn": [False, False], "vim": [False, True]}


def test_a_single_value_is_not_bold():
    text = markdown([result("msp"), result("knn", status="failed", error="no memory")])
    assert cells(text, "MSP") == ["50.00"]


def test_rows_stand_in_the_order_of_the_paper():
    methods = {
        "Another group": ["zzz"],
        WILD: ["bn-adapt", "scone,margin=-5", "scone", "woods", "energy-oe", "oe"],
        GENERALIZATION: ["vrex", "alpha", "irm", "mixup+knn", "mixup", "erm"],
        DETECTION: ["beta", "alpha-x", "knn", "vim", "mahalanobis", "energy", "odin", "msp", "knn,k=5"],
    }
    text = markdown([result(method, group=group) for group, members in methods.items() for method in members])
    assert names(text) == [
        "*OOD detection: logits*", "MSP", "Energy", "*OOD detection: features and head*", "ViM",
        "*OOD detection: distances*", "Mahalanobis", "KNN", "KNN (k=5)", "*OOD detection: gradients*", "ODIN",
        "*OOD detection: other*", "alpha-x", "beta",
        "*OOD generalization*", "ERM", "Mixup", "Mixup + KNN", "IRM", "VREx", "alpha",
        "*Learning with wild data*", "OE (a)", "Energy (w. outlier) (a)", "WOODS", "SCONE", "SCONE (η = −5)",
        "BN-adapt",
        "*Another group*", "zzz",
    ]  # fmt: skip


def test_detection_is_divided_by_what_a_scorer_reads_in_every_format():
    results = [result(name) for name in ("knn", "msp", "mine", "mahalanobis,k=3")]
    (table,) = build(results, ["auroc"])
    rows = [(LOGITS, "msp"), (DISTANCES, "mahalanobis,k=3"), (DISTANCES, "knn"), (DETECTION_OTHER, "mine")]
    assert [(row.group, row.method) for row in table.rows] == rows
    records = json.loads(render([table], "json"))
    assert [(record["group"], record["method"]) for record in records] == rows
    assert render([table], "csv").count(f",{DISTANCES},") == 2
    for form, heading in (("text", "\n{}\n"), ("markdown", "| *{}* "), ("latex", "\\emph{{{}}}")):
        text = "\n".join(line.rstrip() for line in render([table], form).splitlines())
        places = [text.index(heading.format(group)) for group in (LOGITS, DISTANCES, DETECTION_OTHER)]
        assert places == sorted(places) and text.count(DISTANCES) == 1
    assert table._repr_html_().count(f"<em>{DISTANCES}</em>") == 1


def test_every_scorer_of_ours_says_what_it_reads_and_results_stay_as_they_were():
    scorers = [card for card in Registry().cards.values() if card.kind == "Scorer"]
    assert {card.reads for card in scorers} <= {*READS} and len(scorers) >= 6
    assert {Registry().method(card.name).group for card in scorers} == {DETECTION}


def test_committed_results_are_grouped_too():
    results, _ = read_folder(Path(__file__).parents[2] / "results" / "reference" / "digits-c")
    assert {each.group for each in results} == {DETECTION, GENERALIZATION, WILD}
    (table,) = build(results, images=False)
    groups = [row.group for i, row in enumerate(table.rows) if table.opens_group(i)]
    assert groups == [*DETECTION_BY.values(), GENERALIZATION, WILD]


def test_settings_are_alphabetical_unless_the_suite_orders_them():
    results = [result(setting=s) for s in ("b", "c", "a")]
    assert build(results)[0].settings == ["a", "b", "c"]
    ordered = replace(CONTENTS, settings=[suites.Column(name) for name in ("c", "unseen", "b")])
    results.append(result(setting="d", config=config(contents=ordered, method="msp", group=DETECTION)))
    assert build(results)[0].settings == ["c", "b", "a", "d"]


def test_a_single_setting_is_named():
    assert "| Method " in markdown([result()]) and " svhn |" in markdown([result()])


def test_every_suite_and_preset_has_its_table():
    results = [result(suite="b"), result(suite="a"), result(suite="a", preset="smoke")]
    assert [table.suite for table in build(results)] == ["a", "a-smoke", "b"]
    headings = [line for line in markdown(results).splitlines() if line.startswith("#")]
    assert headings == ["### a", "### a-smoke", "### b"]


def test_what_was_not_run_says_so():
    text = markdown([result("msp", setting="a"), result("msp", setting="b"), result("knn", setting="a")])
    assert cells(text, "KNN") == ["**50.00**", "– (a)"]
    assert notes(text) == ["- (a) not run in this setting"]


def test_what_failed_says_why_and_for_which_seeds():
    errors = ["no memory", "no\n  memory", "x" * 500]
    text = markdown([result(seed=s, status="failed", error=error) for s, error in enumerate(errors)])
    assert cells(text, "MSP") == ["–"] and names(text)[1:] == ["MSP (a)"]
    assert notes(text) == [f"- (a) failed: no memory (seeds 0, 1); failed: {'x' * 199}… (seed 2)"]
    assert "No run succeeded." in text


def test_what_failed_in_part_shows_the_rest_and_says_so():
    results = [result(seed=0, auroc=0.74), result(seed=1, auroc=0.76), result(seed=2, status="failed", error="oh")]
    text = markdown(results)
    assert cells(text, "MSP") == ["75.00 ± 12.71"] and names(text)[1:] == ["MSP (a)"]  # t(1) = 12.706
    assert notes(text) == ["- (a) only seeds 0, 1; failed: oh (seed 2)"]


def test_rows_with_one_reason_share_a_footnote_and_letters_go_on_after_z():
    results = [result(f"m{i:02}", status="failed", error=f"e{i:02}") for i in range(28)]
    text = markdown(results, ["auroc", "fpr95"])
    assert [line.split()[1] for line in notes(text)][-3:] == ["(z)", "(aa)", "(ab)"]
    assert cells(text, "m27") == ["–", "–"] and names(text)[-1] == "m27 (ab)"


def test_a_metric_that_a_result_lacks_is_named():
    with_both, without = result(seed=0, auroc_full=0.9), result(seed=1)
    text = markdown([with_both, without, result("knn", auroc_full=math.nan)], ["auroc_full"])
    assert cells(text, "MSP") == ["90.00 (a)"] and cells(text, "KNN") == ["– (b)"]
    assert notes(text)[0] == "- (a) AUROC (full) was not recorded (seed 1)"


def test_calibration_is_shown_beside_a_dash_for_results_without_confidences():
    shown = ("covariate_flagged", "accepted_acc", "id_ece", "covariate_ece")
    known = result("knn", covariate_flagged=0.125, accepted_acc=0.75, id_ece=0.03, covariate_ece=0.25)
    text = markdown([known, result("msp", covariate_flagged=0.5, accepted_acc=0.5)], shown)
    for title in ("Cov. flagged ↓", "Acc. accepted ↑", "ID ECE ↓", "Cov. ECE ↓"):
        assert f"**{title}**" in text
    assert cells(text, "KNN") == ["**12.50**", "**75.00**", "3.00", "25.00"]
    assert cells(text, "MSP") == ["50.00", "50.00", "– (a)", "– (b)"]
    assert notes(text) == ["- (a) ID ECE was not recorded (seed 0)", "- (b) Cov. ECE was not recorded (seed 0)"]
    for form, name in (("latex", "ID ECE"), ("csv", "id_ece"), ("json", "id_ece")):
        assert name in render(build([known], shown), form)
    assert "ID ECE" in build([known], shown)[0]._repr_html_()


def test_rows_with_other_numbers_of_seeds_than_most_say_so_themselves():
    results = [result(m, seed) for m in ("msp", "odin") for seed in range(3)] + [result("knn", s) for s in range(2)]
    text = markdown(results)
    assert "Mean over 3 seeds unless a row says otherwise." in text and "KNN:" not in text
    assert [name for name in names(text) if "*" not in name] == ["MSP", "KNN, 2 seeds", "ODIN"]
    results += [result("knn", 0, setting="lsun"), result("odin", setting="lsun")]
    text = markdown(results)
    assert [name for name in names(text) if "*" not in name] == ["MSP", "KNN, 1 or 2 seeds", "ODIN, 1 or 3 seeds"]
    for format in ("text", "latex", "html"):
        assert "KNN, 1 or 2 seeds" in render(build(results), format)
    assert "seeds" not in json.loads(render(build(results), "json"))[0]["method"]


def test_captions_of_figures_which_have_no_rows_name_the_methods_with_other_seeds():
    results = [result(m, seed) for m in ("msp", "odin") for seed in range(3)] + [result("knn", s) for s in range(2)]
    assert build(results)[0].seeds == "Mean over 3 seeds; KNN: 2"


def test_the_error_is_explained_where_most_methods_have_one_seed():
    results = [result("msp"), result("odin"), result("knn", 0, auroc=0.5), result("knn", 1, auroc=0.6)]
    assert f"One seed unless a row says otherwise. {SEEDS_ALONE}" in markdown(results)


def test_seeds_that_agree_to_the_last_digit_are_no_proof_of_precision():
    text = markdown([result(seed=s) for s in range(3)])
    assert cells(text, "MSP") == ["50.00"] and "±" not in text


def test_the_lowest_seeds_are_kept_whether_they_failed_or_not():
    results = [result(seed=s, auroc=s / 100) for s in (83, 81, 79)] + [result(seed=0, status="failed", error="oh")]
    assert cells(markdown(results, seeds=3), "MSP") == ["80.00 ± 12.71"]
    assert cells(markdown(results, seeds=9), "MSP") == cells(markdown(results), "MSP")
    with pytest.raises(UserError, match="a table of 0 seeds is empty; give a number from 1, or 'all'"):
        build(results, seeds=0)


def test_of_several_configurations_the_one_run_last_is_shown_and_the_rest_counted():
    old = [result(seed=s, variant="old", auroc=0.6, written=f"2026-08-02T00:00:0{s}") for s in range(3)]
    new = [result(seed=0, variant="new", auroc=0.7, written="2026-08-03"), result(seed=1, variant="new", auroc=0.7)]
    for results in (old + new, new + old):
        text = markdown(results)
        assert cells(text, "MSP") == ["70.00"] and names(text)[1:] == ["MSP (a)"]
        assert notes(text) == ["- (a) 3 result files with another configuration left out"]


def test_of_one_seed_written_twice_the_newest_counts():
    results = [result(auroc=0.7, written="2026-08-03"), result(auroc=0.6, written="2026-08-02")]
    assert cells(markdown(results), "MSP") == ["70.00"]


def test_markdown_lines_up_on_a_terminal():
    results = [result("msp", s, auroc=0.05 + s / 100, group=DETECTION) for s in range(2)]
    results += [result("scone", s, auroc=0.9 + s / 7, group=WILD) for s in range(2)]
    results += [result("scone", 2, status="failed", error="oh"), result("odin", setting="lsun")]
    lines = [line for line in markdown(results).splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert len({tuple(i for i, c in enumerate(line) if c == "|") for line in lines}) == 1


def test_text_lines_up_figures_errors_and_marks():
    results = [result("msp", s, id_acc=v) for s, v in enumerate((0.059, 0.061))]  # an error of 0.1 points
    results += [result("knn", s, id_acc=v) for s, v in enumerate((0.49, 0.51))]  # ten times as much
    results += [result("vim", 0, id_acc=0.5), result("vim", 1, status="failed", error="oh")]
    results += [result("odin", s, id_acc=0.99) for s in range(2)]
    text = render(build(results, ["id_acc"]), "text")
    rows = [line.rstrip() for line in text.splitlines() if line.startswith("  ") and "." in line]
    assert rows == [
        "  MSP               6.00 ±  1.27",
        "  ViM, 1 seed (a)  50.00",
        "  KNN              50.00 ± 12.71",
        "  ODIN             99.00        •",
    ]


def test_markdown_names_cannot_break_the_table():
    text = markdown([result("a|b"), result("_c_"), result("d_e"), result("<img>\x1b[31m")])
    assert names(text)[1:] == [r"\<img>\[31m", r"\_c\_", r"a\|b", "d_e"]


def test_the_shown_metrics_are_defined_below():
    assert f"FPR: {METRICS['fpr95'].summary}." in markdown([result()], ["fpr95"])
    assert "FPR:" not in markdown([result()], ["auroc"])


def test_csv_and_json_give_the_same_records_at_full_precision():
    third, rest = 2 / 3, 0.66 + 0.001
    results = [result(seed=0, auroc=third), result(seed=1, auroc=rest), result("knn", setting="b", group="G, \"'")]
    tables = build(results, ["auroc"])
    records = json.loads(render(tables, "json"))
    assert records[0] == {
        "suite": "digits-c", "setting": "b", "group": LOGITS, "method": "msp", "name": "MSP", "metric": "auroc",
        "mean": None, "low": None, "high": None, "interval": None, "seeds": 0, "mark": None,
        "note": "not run in this setting",
    }  # fmt: skip
    assert records[1]["mean"] == (third + rest) / 2 and records[1]["seeds"] == 2
    assert records[1]["interval"] == "seeds" and records[1]["note"] is None
    for end, sign in (("low", -1), ("high", 1)):
        ends = (third + rest) / 2 + sign * 12.706204736 * (third - rest) / 2
        assert records[1][end] == pytest.approx(ends, rel=1e-9)
    assert [(r["setting"], r["method"], r["low"]) for r in records[2:]] == [("b", "knn", None), ("svhn", "knn", None)]
    read = list(csv.DictReader(io.StringIO(render(tables, "csv"))))
    for row, record in zip(read, records, strict=True):
        for name in ("mean", "low", "high"):
            row[name] = float(row[name]) if row[name] else None
        texts = {name: record[name] or "" for name in ("note", "interval", "mark")}
        assert row == record | texts | {"seeds": str(record["seeds"])}


def test_latex_has_the_look_of_the_paper():
    results = [result("msp", s, auroc=0.84 + s / 100) for s in range(3)] + [result("knn", s) for s in range(3)]
    results.append(result("scone", setting="lsun", group=WILD))
    text = render(build(results, ["auroc", "fpr95"]), "latex")
    assert r" & \multicolumn{2}{c}{lsun} & \multicolumn{2}{c}{SVHN} \\" in text
    assert r"\cmidrule(lr){2-3}\cmidrule(lr){4-5}" in text
    assert r"\textbf{AUROC}$\uparrow$ & \scriptsize\textbf{FPR}$\downarrow$" in text
    assert r"\multicolumn{5}{l}{\emph{Learning with wild data}} \\" in text
    assert r"MSP & --$^{a}$ & --$^{a}$ & \textbf{85.00}\raisebox{-.3ex}{\tiny$\pm$2.48} & \textbf{50.00} \\" in text
    assert "$^{a}$ not run in this setting" in text
    assert (
        r"Mean over 3 seeds unless a row says otherwise. $\pm$: half of the 95 \% interval over seeds only" in text
        and r"closest to 5 \%" in text
    )


def widest(text):
    """How many columns of numbers stand beside each other in the parts of a LaTeX table."""
    return [len(columns) for columns in re.findall(r"\\begin\{tabular\}\{l+(c+)\}", text)]


def test_latex_puts_what_does_not_fit_into_panels_of_the_same_float():
    results = [result(setting=s, seed=seed, auroc=0.6 + seed / 10) for s in "abcdefghijk" for seed in (0, 1)]
    text = render(build(results), "latex")
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 1 and r"\label{tab:digits-c}" in text
    assert len(widest(text)) > 1 and sum(widest(text)) == 4 * 11
    assert max(widest(text)) <= 19  # of 21 points each, and 3 between them


def test_latex_parts_metrics_where_that_makes_fewer_panels_and_keeps_the_average_beside_its_settings():
    results = [
        result(name, seed, setting, covariate_flagged=0.3 + seed / 1000, auroc=0.6 + seed / 1000,
               fpr95=0.2 + seed / 1000, covariate_acc=0.5 + seed / 1000, id_acc=0.5 + seed / 1000,
               config=config(method=name, setting={"semantic": setting}, contents=CONTENTS))
        for name in ("msp", "energy-oe") for setting in ("unseen-digits", "photo-patches") for seed in (0, 1)
    ]  # fmt: skip
    text = render(build(results), "latex")
    assert text.count(r"\begin{table*}") == 1 and text.count("{Average}") == len(widest(text)) == 2
    assert widest(text) == [6, 9]


def test_latex_puts_rows_that_do_not_fit_into_further_tables_with_the_same_letters():
    results = [result(f"m{i:02}", status="failed", error=f"e{i // 50}") for i in range(100)]
    text = render(build(results, ["auroc"]), "latex")
    assert text.count(r"\begin{table*}") > 1 and r"\label{tab:digits-c-2}" in text
    first, *_, last = text.split(r"\end{table*}")[:-1]
    assert "(1 of " in first and "$^{a}$ failed: e0" in first and "$^{b}$" not in first
    assert "m99$^{b}$ & -- " in last and "$^{b}$ failed: e1" in last and "$^{a}$" not in last


def test_latex_escapes_every_special_character_and_stays_ascii():
    text = render(build([result(NASTY)]), "latex")
    assert text.isascii()
    assert (
        r"{[}a{]}{*}b \& 100\% \$x\$ \#1 \_y\_ \{z\} \textasciitilde{}t \textasciicircum{}u "
        r"\textbackslash{}input\{v\} \textless{}w\textgreater{} \textbar{} {`}q{`} ''r'' -{}-s e \textendash{} $\pm$ "
        r"$\uparrow$ ? \&lt; \&\% & 50.00"
    ) in text


def test_latex_compiles_with_booktabs_alone(tmp_path):
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("needs pdflatex or tectonic")
    results = [
        result(m, s, setting, g) for m, g in (("msp", DETECTION), (NASTY, NASTY)) for s in (0, 1) for setting in "abc"
    ]
    results += [result("knn", setting=NASTY, status="failed", error=NASTY), result(suite=NASTY)]
    (tmp_path / "table.tex").write_text(latex(render(build(results), "latex")), encoding="ascii")
    flags = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in compiler else []
    run = subprocess.run(
        [compiler, *flags, "table.tex"], cwd=tmp_path, capture_output=True, text=True, errors="replace"
    )
    assert run.returncode == 0, run.stdout[-3000:]
    assert (tmp_path / "table.pdf").stat().st_size > 0


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(UserError) as error:
        build([result()], ["aurocc"])
    assert str(error.value).startswith("unknown metric 'aurocc'; did you mean 'auroc'")
    with pytest.raises(UserError, match="unknown format 'markdwon'; did you mean 'markdown'?"):
        render(build([result()]), "markdwon")
    with pytest.raises(UserError, match="no metrics to show; choose from: covariate_acc, "):
        build([result()], [])


def test_no_results_say_how_to_get_one():
    with pytest.raises(UserError, match="^no results to show; run one with: oodbench run --suite "):
        build([])


def test_the_time_of_a_table_grows_with_its_results_and_no_faster():
    results = [result(f"m{i % 40}", i // 1000, f"s{i // 40 % 25}", auroc=i / 4_000) for i in range(4_000)]

    def seconds(some):
        start = time.process_time()
        for format in ("markdown", "latex", "csv", "json"):
            render(build(some), format)
        return time.process_time() - start

    assert seconds(results) < 40 * seconds(results[:400])


def test_a_suite_without_a_semantic_set_has_no_columns_of_detection():
    (table,) = build([replace(result("erm", 0, "covariate=sketch"), metrics={"covariate_acc": 0.5, "id_acc": 0.9})])
    assert [metric.name for metric in table.metrics] == ["covariate_acc", "id_acc"]


def test_tables_need_no_torch():
    code = "import sys, oodbench.report.tables; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
