"""The paper's tables filled with results: its order, the right cell in the right place, dashes, reported numbers."""

import csv
import io
import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from command_line import assert_done, assert_refused, oodbench
from reported_results import everything, run, save

from oodbench.errors import UserError
from oodbench.report import layouts, reported
from oodbench.report.render import render

PAPER_LAYOUTS = reported.reference("scone").layouts
LAYOUTS = [*PAPER_LAYOUTS, *reported.reference("domainbed").layouts]


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """A folder with all of the paper, measured exactly as reported."""
    return save(everything(), tmp_path_factory.mktemp("paper"))


def table(results, layout, **options):
    (built,) = layouts.build(results, layout, **options)
    return built


def percents(built, *heads):
    """The row with these heads, as printed."""
    (row,) = [row for row in built.rows if row.heads == heads]
    return [cell.percent for cell in row.cells]


def words(text):
    return text.split()


def lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


@pytest.mark.parametrize("layout", PAPER_LAYOUTS)
def test_the_whole_paper_comes_out_as_reported(layout):
    """Each number finds its place: with all results there, measured and reported are equal in every cell."""
    built = table(everything(), layout)
    assert built.heads == tuple(reported.layout(layout).table.heads)
    for row in built.rows:
        for cell, metric in zip(row.cells, built.metrics * len(built.settings), strict=True):
            if metric.name == "out_share":
                assert cell.mean is None
            elif layout == "pacs-ood" or cell.reported[0].printed_in == "Table 8":
                assert abs(cell.difference) <= 0.001  # Tables 8 and 9 share cells and print them with one digit or two
            else:
                assert abs(cell.difference) <= 0.0001 + 1e-11  # Table 6 differs from Table 2 in the last digit


def test_the_main_table_has_the_paper_s_rows_and_columns():
    built = table(everything(), "main")
    assert built.settings == ["SVHN", "LSUN-C", "Places365"]
    assert [metric.name for metric in built.metrics] == ["covariate_acc", "id_acc", "fpr95", "auroc"]
    assert [" ".join(row.heads) for row in built.rows] == [
        "MSP", "ODIN", "Energy", "Mahalanobis", "ViM", "KNN", "ERM", "Mixup", "IRM", "VREx", "OE",
        "Energy (w. outlier)", "WOODS", "SCONE",
    ]  # fmt: skip
    groups = [row.group for i, row in enumerate(built.rows) if built.opens_group(i)]
    assert groups == ["OOD detection", "OOD generalization", "Learning with wild data"]


def test_ablations_have_two_columns_of_heads_and_the_paper_s_order():
    ratio, corruption = table(everything(), "ratio"), table(everything(), "corruption")
    assert [row.heads for row in ratio.rows[:3]] == [("0.0", "WOODS"), ("0.0", "SCONE"), ("0.1", "WOODS")]
    first = [row.heads[0] for row in corruption.rows[::2]]
    assert first[:4] == ["Gaussian noise", "Defocus blur", "Frosted glass blur", "Impulse noise"] and len(first) == 19
    margins = [row.heads[0] for row in table(everything(), "margin").rows]
    assert margins == ["no margin", *(f"η = −{eta}" for eta in ("0.1", "0.5", "1", "2", "10", "20", "50"))]


def test_a_cell_that_was_not_run_is_a_dash_and_never_a_neighbour():
    near = [
        run(changed={"severity": 2}, percent=[1] * 4), run(changed={"pi_s": 0.2}, percent=[2] * 4),
        run(method="scone,margin=-5", percent=[3] * 4), run(semantic="lsun-c", percent=[4] * 4),
        run(changed={"covariate": "fog"}, percent=[5] * 4),
    ]  # fmt: skip
    assert percents(table(near, "main"), "SCONE") == ["–"] * 4 + ["4.00"] * 4 + ["–"] * 4
    assert percents(table(near, "corruption"), "Fog", "SCONE") == ["5.00"] * 4
    assert percents(table(near, "corruption"), "Gaussian noise", "SCONE") == ["–"] * 4
    text = render(layouts.without_reported(layouts.build(near, "main")), "markdown")
    assert "\n–: not run, or not recorded.\n" in text


def test_a_number_may_be_spelt_in_another_way():
    assert percents(table([run(changed={"pi_c": 0})], "ratio"), "0.0", "SCONE") == ["50.00"] * 4


def test_without_a_margin_scone_is_woods_unless_it_was_run_itself():
    woods, none = run(method="woods", percent=[10] * 4), run(method="scone,margin=0", percent=[20] * 4)
    assert percents(table([woods], "margin"), "no margin") == ["10.00"] * 4
    assert percents(table([woods, none], "margin"), "no margin") == ["20.00"] * 4
    with pytest.raises(UserError, match="no results for the layout 'ratio'"):
        layouts.build([none], "ratio")


def test_out_percent_comes_from_the_notes_of_the_run_or_of_the_selection():
    shares = [{"margin": 0.0, "share": 0.6}, {"margin": -0.1, "share": 0.5}]
    chosen = run(method="scone,margin=auto", notes={"out_share": shares})
    own = run(method="scone,margin=-0.1", notes={"out_share": [{"margin": -0.1, "share": 0.25}]})
    built = table([chosen, own, run(method="scone,margin=-1")], "validation")
    assert [row.cells[-1].percent for row in built.rows] == ["60.00", "25.00", *["–"] * 6]
    for odd in (0.3, [0.3], [{"share": 0.3}], [{"margin": -1, "share": "much"}], None):
        built = table([run(method="scone,margin=-1", notes={"out_share": odd})], "validation")
        assert [row.cells[-1].percent for row in built.rows] == ["–"] * 8
    assert "out% |" in render([built], "markdown").replace("**", "")


DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


def pacs(method="erm", seed=0, accuracies=(80, 70, 90, 60), **fields):
    return [
        run("pacs", method, seed, (accuracy, 50, 50, 50), changed={"covariate": domain}, **fields)
        for domain, accuracy in zip(DOMAINS, accuracies, strict=True)
    ]


def test_an_average_is_taken_per_seed_and_then_over_seeds():
    # Seed 0: 300 / 4 = 75. Seed 1: 308 / 4 = 77. Mean 76, standard error sqrt(2) / sqrt(2) = 1, t(1) = 12.706.
    built = table(pacs() + pacs(seed=1, accuracies=(84, 74, 88, 62)), "pacs")
    assert built.settings == ["Art painting", "Cartoon", "Photo", "Sketch", "Average"]
    assert percents(built, "ERM") == ["82.00", "72.00", "89.00", "61.00", "76.00"]
    assert built.rows[0].cells[-1].margin_percent == "12.71"


def test_an_average_lacks_what_one_domain_lacks():
    results = pacs() + pacs(seed=1)[:3]
    assert table(results, "pacs").rows[0].cells[-1].seeds == 1
    assert percents(table(pacs()[:3], "pacs"), "ERM") == ["80.00", "70.00", "90.00", "–", "–"]


def test_of_several_semantic_sets_one_is_shown_throughout():
    """Table 9 leaves the semantic set open."""
    other = [run("pacs", changed={"covariate": d}, semantic="svhn", percent=[9] * 4, first="svhn") for d in DOMAINS]
    built = table(pacs("scone") + other, "pacs-ood")
    assert {cell.percent for row in built.rows for cell in row.cells} == {"9.00"}


def test_domain_methods_count_only_with_the_domains_as_environments():
    random = pacs("irm", accuracies=[50] * 4, values={"environments": "random:2"})
    with pytest.raises(UserError, match="no results for the layout 'pacs'"):
        layouts.build(random, "pacs")
    native = random + pacs("irm,environments=native")
    assert percents(table(native, "pacs"), "IRM")[0] == "80.00"
    auto = pacs("irm", accuracies=[50] * 4, values={"environments": "auto"})
    told = [replace(r, notes={"environments": "native"}) for r in auto]
    assert percents(table(told, "pacs"), "IRM")[0] == "50.00"
    with pytest.raises(UserError, match="no results for the layout 'pacs'"):
        layouts.build([replace(r, notes={"environments": "random:2"}) for r in auto], "pacs")


def test_every_suite_and_preset_has_a_table_of_its_own():
    results = [run(preset="cpu"), run(), run("mnist-c")]
    assert [built.suite for built in layouts.build(results, "main")] == ["cifar10-c", "cifar10-c-cpu"]


def test_failed_runs_say_so():
    built = table([run(status="failed", error="no memory", metrics={})], "main")
    assert built.rows[-1].cells[0].note == "failed: no memory (seed 0)"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_without_results_names_the_command_that_makes_them(layout):
    with pytest.raises(UserError) as error:
        layouts.build([run("digits-c")], layout)
    expected = reported.layout(layout).table.run
    assert str(error.value) == f"no results for the layout '{layout}'; make them with: {expected}"


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([run("digits-c")], [""]),
        ([run(), run(method="woods")], ["main"]),
        ([run(semantic="textures")], ["additional"]),
        ([run(), run(method="scone,margin=-1")], ["margin"]),
        ([run(), run(semantic="lsun-c"), run(method="scone,margin=-1")], ["margin", "main"]),
        ([run(), run(changed={"pi_c": 0.1})], ["ratio"]),
        ([run(changed={"covariate": "fog"})], ["corruption"]),
        ([run(method="scone,margin=auto", notes={"out_share": [{"margin": -1.0, "share": 0.3}]})], ["validation"]),
        ([run("mnist-c"), run("digits-c"), run("imagenet100-c")], ["", "imagenet", "mnist"]),
        (pacs("scone"), ["pacs-ood"]),
        (pacs("scone") + pacs(), ["pacs", "pacs-ood"]),
        ([run(method="bn-adapt")], [""]),
    ],
)
def test_auto_picks_the_fewest_layouts_that_show_everything(results, expected):
    assert [built.layout for built in layouts.build(results, "auto")] == expected


def test_a_layout_of_another_source_selects_as_that_source_did_and_names_it():
    built = table(pacs(), "domainbed:pacs-oracle")
    assert built.title == "pacs: domainbed:pacs-oracle" and "As in a table of DomainBed." in built.caption
    assert percents(built, "ERM") == ["75.00"]
    erm = built.rows[0]
    assert [line.heads for line in erm.lines] == [("ERM",), ("reported",), ("difference",)]
    assert [number.percent for number in erm.cells[0].reported] == [86.7]


def test_reported_numbers_stand_below_the_measured_with_the_difference(tmp_path):
    folder = save([run(seed=s, percent=(85 + s / 50, 94, 12, 97)) for s in (0, 1)], tmp_path)
    shown = assert_done(oodbench("table", folder, "--layout", "main", "--with", "reported", "--format", "text"))
    block = shown[shown.index("SVHN\n") : shown.index("LSUN-C\n")]
    scone = block[block.index("  SCONE ") :].splitlines()
    assert [line.split() for line in scone[:3]] == [
        ["SCONE", *words("85.01 ± 0.13 94.00 12.00 97.00")],
        ["reported", *words("84.69 ± 0.1 94.65 ± 0.0 10.86 ± 0.7 97.84 ± 0.1")],
        ["difference", "+0.32", "−0.65", "+1.14", "−0.84"],
    ]
    plain = assert_done(oodbench("table", folder, "--layout", "main", "--format", "text"))
    assert "reported" not in plain and "impossible" not in plain


def test_doubtful_numbers_are_marked_and_explained_in_every_format(paper):
    reasons = (
        "impossible: AUROC 99.93 with FPR 2.33 cannot be, at most 99.88 can",
        "suspect: the same pair as ViM on SVHN, probably copied",
        "conflict: Tables 2, 3, 4 and 10 print 52.76, Table 6 prints 52.77",
    )
    show = ("table", paper, "--layout", "main", "--with", "reported", "--format")
    for format, mark in (("text", "({})"), ("markdown", "- ({})"), ("latex", "$^{{{}}}$")):
        text = assert_done(oodbench(*show, format))
        for reason in reasons:
            (line,) = [line.rpartition("raggedright ")[2] for line in text.splitlines() if reason in line]
            letter = line.removeprefix("- ").strip("($^{")[0]
            assert line.startswith(mark.format(letter))
            assert text.count(f"({letter})" if format != "latex" else f"$^{{{letter}}}$") > 1
    records = json.loads(assert_done(oodbench(*show, "json")))
    (record,) = [r for r in records if (r["method"], r["setting"], r["metric"]) == ("energy-oe", "lsun-c", "auroc")]
    assert record["reported"] == 0.9993 and record["reported_marks"] == "impossible"
    assert record["reported_note"] == reasons[0] and record["layout"] == "main"
    rows = list(csv.DictReader(io.StringIO(assert_done(oodbench(*show, "csv")))))
    assert len(rows) == len(records) == 168
    assert [row["reported_marks"] or None for row in rows] == [record["reported_marks"] for record in records]
    assert float(rows[0]["difference"]) == pytest.approx(0, abs=1e-12)


def test_domainbed_s_row_stands_beside_the_paper_s_where_they_differ(paper):
    shown = assert_done(oodbench("table", paper, "--layout", "pacs", "--with", "reported", "--format", "text"))
    body = [line.split() for line in shown.splitlines()]
    erm, vrex = ([line[0] for line in body if line].index(name) for name in ("ERM", "VREx"))
    names = [line[0] for line in body if line]
    assert names[erm : erm + 4] == ["ERM", "reported", "difference", "DomainBed"]
    assert names[vrex : vrex + 4] == ["VREx", "reported", "difference", "MLDG"]
    assert names.count("DomainBed") == 9
    assert ["DomainBed", *words("84.7 ± 0.4 80.8 ± 0.6 97.2 ± 0.3 79.3 ± 1.0 85.5")] in body


def test_our_own_layout_shows_reported_numbers_too(tmp_path):
    folder = save([run("mnist-c", percent=(96.61, 97.79, 0.017, 99.99)), run("mnist-c", "bn-adapt")], tmp_path)
    shown = assert_done(oodbench("table", folder, "--with", "reported"))
    assert [line.split("|")[2].strip() for line in lines(shown, "| *")][1:] == ["96.51", "+0.10"]
    folder = save([run("digits-c")], tmp_path / "digits")
    shown = assert_done(oodbench("table", folder, "--with", "reported"))
    assert "\nNothing is reported for these cells.\n" in shown


def test_small_rates_keep_the_digits_of_the_paper():
    built = table([run("mnist-c", percent=(96, 97, 0.0173, 99.99))], "mnist")
    assert percents(built, "SCONE") == ["96.00", "97.00", "0.017", "99.99"]


def test_wrong_words_are_answered_in_one_line(paper, tmp_path):
    assert_refused(
        oodbench("table", paper, "--layout", "man"), "unknown layout 'man'; did you mean 'main' or 'margin'?"
    )
    known = "known: community, demo, reference, reported"
    assert_refused(oodbench("table", paper, "--with", "paper"), f"unknown choice of --with 'paper'; {known}")
    refused = oodbench("table", paper, "--with", "reported", "--with", "refrence")
    assert_refused(refused, "unknown choice of --with 'refrence'; did you mean 'reference'?")
    refused = oodbench("table", paper, "--layout", "main", "--metrics", "auroc")
    assert_refused(refused, "a layout has its own metrics; leave out --metrics or --layout")
    assert_refused(
        oodbench("table", paper, "--layout", "main", "--seeds", "0"), "--seeds 0 is neither 'all' nor a number"
    )
    assert_refused(
        oodbench("table", save([run("digits-c")], tmp_path), "--layout", "pacs"), "oodbench run --suite pacs"
    )


def test_seeds_are_kept_as_in_other_tables():
    results = [run(seed=s, percent=[10 * s] * 4) for s in (1, 2, 3)]
    assert percents(table(results, "main", seeds=2), "SCONE")[0] == "15.00"


def compile_latex(text, folder):
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("needs pdflatex or tectonic")
    whole = f"\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{text}\\end{{document}}\n"
    (folder / "table.tex").write_text(whole, encoding="ascii")
    flags = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in compiler else []
    done = subprocess.run([compiler, *flags, "table.tex"], cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.parametrize("more", [[], ["--with", "reported"]], ids=["measured", "reported"])
def test_the_latex_of_every_layout_compiles_and_fits_its_pages(paper, tmp_path, more):
    texts = [assert_done(oodbench("table", paper, "--layout", name, "--format", "latex", *more)) for name in LAYOUTS]
    log = compile_latex("\\clearpage\n".join(texts), tmp_path)
    assert "Float too large" not in log and (tmp_path / "table.pdf").stat().st_size > 0


def test_shares_are_set_as_symbols_in_latex(paper):
    text = assert_done(oodbench("table", paper, "--layout", "ratio", "--format", "latex"))
    assert r"$\pi_c$" in text and r"$\pi$\_c" not in text
    assert r"\textbf{$\pi_c$} & \textbf{Method} & " in text
