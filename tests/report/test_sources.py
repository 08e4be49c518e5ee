"""Sources beside the SCONE paper: their numbers and errata, what they copied, and what compares with nothing."""

import csv
import io
import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench
from page_data import chunks_of
from reported_results import everything, run, save
from spreads import even

import oodbench as package
from oodbench.cli.command_line import parser_of
from oodbench.cli.reading import split_names
from oodbench.config.registry import Registry
from oodbench.config.suite import load, suite_files
from oodbench.errors import UserError
from oodbench.report import beside, comparison, doubts, layouts, reported
from oodbench.report.comparison import bands
from oodbench.report.numbers import Mark, Number
from oodbench.report.render import render
from oodbench.report.tables import build

PARSER = parser_of()
PAGE = Path(__file__).parent.parent.parent / "docs" / "reported.md"
SOURCES = {name: reported.reference(name) for name in reported.source_files()}
GRAPH, DUL = SOURCES["graph-spectral"], SOURCES["dul"]
EVERY_TABLE = [(name, table) for name, source in SOURCES.items() for table in source.source.tables]
FIVE_SETS = ("svhn", "lsun-c", "textures", "places365", "lsun-r")
# Counts, and sums in thousandths of a percent, by a script of its own from the transcript that the files were made of.
COUNTED = {
    "graph-spectral:main": (216, 15_613_690), "graph-spectral:additional": (144, 10_494_350),
    "graph-spectral:variants": (40, 2_894_520), "graph-spectral:imagenet": (12, 792_220),
    "graph-spectral:weights": (32, 2_285_440), "dul:cifar10": (100, 7_569_650), "dul:cifar100": (90, 5_988_120),
    "aha:cifar10": (2, 180_010), "medix:cifar10": (2, 4_200), "medix:cifar100": (3, 26_420),
}  # fmt: skip
# Rows of papers whose method oodbench does not have, or may not have yet.
NOT_HERE = {
    "graph-spectral", "scl", "nscl", "eqrm", "sharpdro", "dul", "dul-thompson", "poem", "dpn", "aha", "medix",
}  # fmt: skip


def percents(source, table, row, column=0):
    """A row in one column group, as printed; `row` are its heads."""
    stated = source.source.tables[table]
    lines = zip(stated.rows, source.numbers[table], strict=True)
    (own,) = [line for (group, each), line in lines if row in (each.label, group.key(each))]
    width = len(stated.metrics)
    return [number.percent for number in own[column * width : (column + 1) * width]]


suite = cache(load)


def one(results, layout):
    (built,) = layouts.build(results, layout)
    return built


def row_of(built, *heads):
    (row,) = [row for row in built.rows if row.heads == heads]
    return row


def in_five_sets(method="oe", percent=(80, 95, 10, 97), **fields):
    return [run(method=method, percent=percent, semantic=each, **fields) for each in FIVE_SETS]


def test_641_numbers_are_there_and_sum_to_the_transcript_s():
    found = {
        name: (len(numbers), sum(round(100_000 * number.value) for number in numbers))
        for name in COUNTED
        if (numbers := [number for row in reported.layout(name).numbers for number in row])
    }
    assert found == COUNTED and sum(count for count, _ in found.values()) == 641
    assert sum(number.error is not None for number in GRAPH.all) == 20


@pytest.mark.parametrize(
    ("source", "table", "row", "column", "expected"),
    [
        ("graph-spectral", "main", "Graph-spectral", 0, [86.62, 93.10, 0.13, 99.98]),
        ("graph-spectral", "main", "Graph-spectral", 2, [81.40, 92.50, 12.05, 98.25]),
        ("graph-spectral", "main", "ASH", 0, [75.05, 94.84, 40.76, 90.16]),
        ("graph-spectral", "additional", "Graph-spectral", 1, [79.38, 92.44, 0.06, 99.99]),
        ("graph-spectral", "additional", "SharpDRO", 0, [79.03, 94.91, 34.64, 91.96]),
        ("graph-spectral", "variants", "SCL", 1, [65.48, 85.14, 81.30, 83.34]),
        ("graph-spectral", "variants", "NSCL", 3, [86.79, 91.56, 54.27, 87.07]),
        ("graph-spectral", "imagenet", "Graph-spectral", 0, [72.58, 86.68, 21.00, 96.52]),
        ("graph-spectral", "weights", "η_l = 1, η_u = 2", 0, [81.92, 90.91, 24.99, 94.82]),
        ("dul", "cifar10", "MSP", 0, [96.11, 87.35, 41.96, 89.28, 68.00]),
        ("dul", "cifar10", "ImageNet-RC DUL", 0, [96.02, 88.01, 5.89, 98.47, 92.44]),
        ("dul", "cifar10", "TIN-597 SCONE", 0, [95.19, 84.68, 8.02, 98.22, 93.08]),
        ("dul", "cifar100", "TIN-597 Energy (w. outlier)", 0, [79.94, 50.00, 26.87, 91.68, 80.08]),
        ("aha", "cifar10", "AHA", 0, [91.08]),
        ("medix", "cifar100", "OE", 0, [14.26]),
    ],
)
def test_rows_are_those_of_the_papers(source, table, row, column, expected):
    assert percents(SOURCES[source], table, row, column) == expected


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_cites_itself_and_its_numbers_are_rates(name):
    source = SOURCES[name].source
    assert len(source.source) > 40 and len(source.provenance) > 40 and source.tables
    assert all(0 <= number.value <= 1 and (number.error or 0) >= 0 for number in SOURCES[name].all)
    if name not in ("scone", "domainbed"):
        assert re.search(r"arXiv \d{4}\.\d{5}$", source.source)


@pytest.mark.parametrize(("name", "table"), EVERY_TABLE)
def test_every_flag_marks_a_cell_that_exists(name, table):
    numbers = [number for row in SOURCES[name].numbers[table] for number in row]
    for flag in SOURCES[name].source.tables[table].flags:
        assert any(Mark(flag.kind, flag.reason) in number.marks for number in numbers), flag.reason


@pytest.mark.parametrize(("name", "table"), EVERY_TABLE)
def test_what_a_table_of_a_suite_names_can_be_run_and_checked(name, table):
    stated = SOURCES[name].source.tables[table]
    if stated.run:
        given = PARSER.parse_args(shlex.split(stated.run)[1:])
        assert given.suite == [stated.suite] and stated.suite in suite_files()
        named = split_names(given.methods) if given.methods else []
        assert {*named} <= NOT_HERE | {*Registry().cards}
    else:
        methods = {method for _, row in stated.rows for method in row.methods}
        assert stated.suite not in suite_files() or methods <= NOT_HERE
    numbers = [number for row in SOURCES[name].numbers[table] for number in row]
    for setting in {setting for number in numbers for setting in number.settings}:
        if stated.suite in suite_files():
            suite(stated.suite).setting(setting)
    for number in filter(lambda each: each.is_of_suite, numbers):
        assert number.metric in bands().of(stated.suite) and number.protocol in bands().images


def test_rows_are_methods_of_oodbench_or_named_as_not_here():
    """Values after a comma are hyperparameters of the method, once it is here."""
    registry = Registry()
    others = [source for name, source in SOURCES.items() if name not in ("scone", "domainbed")]
    for method in {method for source in others for number in source.all for method in number.methods}:
        name, *values = method.split(",")
        if name in NOT_HERE and name not in registry.cards:
            continue
        registry.method(name)
        unknown = {value.partition("=")[0] for value in values} - {*registry.cards[name].parameters}
        assert not unknown, f"benchmarks/reported has '{method}', and {name} has no {', '.join(unknown)}"


def test_cells_that_equal_another_paper_s_are_counted_from_the_files():
    scone = SOURCES["scone"].all
    counts = {table: len(doubts.equal_cells(sum(rows, []), scone)) for table, rows in GRAPH.numbers.items()}
    assert counts == {"main": 168, "additional": 112, "variants": 0, "imagenet": 8, "weights": 0}
    line = "168 cells of this table equal the SCONE paper's digit for digit."
    assert line in reported.layout("graph-spectral:main").reported_notes
    # Fourteen rows of SCONE's in five settings with four metrics, and two rows of ImageNet-100.
    assert sum(counts.values()) == 14 * 5 * 4 + 2 * 4
    for name in ("dul", "aha", "medix"):
        assert not doubts.equal_cells(SOURCES[name].all, scone)


def a_number(value=50.0, metric="fpr95", label="us", **fields):
    plain = Number(label, "t", "Table 1", "s", ("a",), ("m",), metric, value / 100, None, 2, "p", 1, "")
    return replace(plain, **fields)


def test_a_cell_is_equal_in_every_digit_and_in_its_place():
    theirs = a_number(label="them", methods=("other", "m"))
    ours = a_number()
    assert doubts.equal_cells([ours], [theirs]) == {ours: theirs}
    for other in (
        replace(theirs, value=0.5001),
        replace(theirs, settings=("b",)),
        replace(theirs, metric="auroc"),
        replace(theirs, methods=("other",)),
        replace(theirs, suite="another"),
        replace(theirs, is_of_suite=False),
    ):
        assert doubts.equal_cells([ours], [other]) == {}
    assert doubts.equal_cells([replace(ours, is_of_suite=False)], [theirs]) == {}


def test_what_was_suspect_is_suspect_where_it_was_taken_over():
    odd = Mark("suspect", "odd")
    theirs = a_number(label="them", marks=(odd, Mark("note", "fine")))
    ((mark,),) = doubts.taken_over([a_number()], [theirs]).values()
    assert str(mark) == "suspect: equal to Table 1 of them, where it is suspect: odd"
    assert doubts.taken_over([a_number(51)], [theirs]) == {}
    found = {
        (number.methods[0], number.settings[0])
        for number in GRAPH.all
        if any(mark.kind == "suspect" for mark in number.marks)
    }
    assert found == {("msp", "places365"), ("vim", "places365"), ("mixup", "places365"), ("mixup", "svhn")}


def test_printed_twice_and_differently_is_a_conflict():
    (lsun,) = [n for n in GRAPH.all if n.row.endswith("Graph-spectral") and n.percent == 79.38]
    assert str(lsun.marks[0]) == "conflict: Table 3 prints 79.38, Table 6 of the same paper prints 79.68"
    conflicts = {number.row: number.note for number in DUL.all if number.marks and number.marks[0].kind == "conflict"}
    assert set(conflicts) == {"ImageNet-RC WOODS", "TIN-597 WOODS"}
    assert conflicts["TIN-597 WOODS"] == "conflict: Table 1 prints 93.08, which is SCONE's"


def test_rows_of_one_method_in_settings_that_no_suite_has_do_not_contradict_each_other():
    here, there = a_number(is_of_suite=False), a_number(60, is_of_suite=False)
    assert doubts.conflicts([here, there]) == [] and len(doubts.conflicts([a_number(), a_number(60)])) == 1
    pairs = [(replace(n, row=row), a_number(100, "auroc", row=row)) for row, n in (("one", here), ("two", a_number(0)))]
    ((fpr, auroc, _),) = doubts.impossible_pairs([number for pair in pairs for number in pair])
    assert fpr.row == auroc.row == "one"


def test_the_tables_of_graph_spectral_come_out_as_reported():
    results = everything(source="graph-spectral")
    for layout in GRAPH.layouts:
        built = one(results, layout)
        assert all(abs(cell.difference) < 1e-11 for row in built.rows for cell in row.cells)
        lines = {line.heads[-1] for row in built.rows for line in row.lines if not line.is_measured}
        assert lines == {"reported", "difference"}  # no number of the SCONE paper differs


def test_hyperparameters_that_a_paper_chose_by_column_are_those_of_the_cell():
    """Textures has η_u = 1, where the default of 2 is another cell, that of Table 9."""
    results = [
        run(method="graph-spectral", percent=(86, 93, 1, 99)),
        run(method="graph-spectral", semantic="textures", percent=(70, 93, 1, 99)),
    ]
    row = row_of(one(results, "graph-spectral:main"), "Graph-spectral")
    assert [row.cells[i].percent for i in (0, 4, 8)] == ["86.00", "–", "–"]
    chosen = run(method="graph-spectral,eta_u=1", semantic="textures", percent=(81, 93, 1, 99))
    row = row_of(one([*results, chosen], "graph-spectral:main"), "Graph-spectral")
    assert [row.cells[i].percent for i in (0, 4, 8)] == ["86.00", "–", "81.00"]
    assert row_of(one(results, "graph-spectral:weights"), "η_l = 0.5, η_u = 2").cells[0].percent == "70.00"
    alone = comparison.with_source([chosen], "graph-spectral", even(1.0))
    found = {(v.table, v.setting, v.row) for v in alone if v.status != "missing"}
    assert found == {
        ("graph-spectral:main", "Textures", "Graph-spectral"),
        ("graph-spectral:weights", "Textures", "η_l = 0.5, η_u = 1"),
    }


def test_the_name_of_a_source_is_the_fewest_of_its_tables_that_show_everything(tmp_path):
    results = [run(method="graph-spectral"), run("imagenet100-c"), run("digits-c")]
    assert [each.layout for each in layouts.build(results, "graph-spectral")] == [
        "graph-spectral:main", "graph-spectral:imagenet",
    ]  # fmt: skip
    assert [each.layout for each in layouts.build([run()], "paper")] == ["main"]
    folder = save([run("digits-c")], tmp_path)
    refused = oodbench("table", folder, "--layout", "graph-spectral")
    assert_refused(
        refused, "no results for any table of the graph-spectral paper; make them with: oodbench run --suite"
    )
    refused = oodbench("table", folder, "--layout", "dul:cifar100")
    expected = "no results for the layout 'dul:cifar100', and no command of oodbench makes them; its numbers are in "
    assert_refused(refused, f"{expected}benchmarks/reported/dul.yaml")
    assert_refused(oodbench("table", folder, "--layout", "graph"), "unknown layout 'graph'; ")


def test_numbers_of_a_setting_that_no_suite_has_are_shown_and_not_compared(tmp_path):
    built = one(in_five_sets(), "dul:cifar10")
    oe = row_of(built, "ImageNet-RC", "OE")
    assert [line.heads[-1] for line in oe.lines] == ["OE", "reported (another setting)"]
    assert [entry.text for entry in oe.lines[1].entries] == ["96.04", "72.57", "6.63", "98.72", "94.00"]
    assert all(cell.difference is None for row in built.rows for cell in row.cells)
    folder = save(in_five_sets(), tmp_path)
    for more in ([], ["--with", "reported"]):
        shown = assert_done(oodbench("table", folder, "--layout", "dul", *more))
        assert "Numbers of the DUL paper are of a setting that oodbench cannot run as published" in shown
        assert "ImageNet-RC or TIN-597, and sees no wild mixture" in shown and "Gaussian noise N(0, 5)" in shown
    records = csv.DictReader(io.StringIO(render([built], "csv")))
    assert {record["difference"] for record in records} == {""}


@pytest.mark.parametrize(
    ("results", "layout", "said"),
    [
        ([run(method="aha", semantic="lsun-c")], "aha", "as many as a budget allows"),
        (in_five_sets("woods", changed={"pi_c": 0.0}), "medix", "The wild mixture has no covariate-shifted images"),
    ],
)
def test_secondary_numbers_say_so_and_compare_with_nothing(results, layout, said):
    built = one(results, layout)
    text = render([built], "markdown")
    assert said.lower() in text.lower() and "The reported numbers are secondary: " in text
    assert all(cell.difference is None for row in built.rows for cell in row.cells)


def test_errata_are_printed_with_the_reported_numbers_alone(tmp_path):
    folder = save([run(method="graph-spectral")], tmp_path)
    show = ("table", folder, "--layout", "graph-spectral:main")
    plain, whole = assert_done(oodbench(*show)), assert_done(oodbench(*show, "--with", "reported"))
    for words in ("Erratum: equation 6 of the paper swaps the coefficients", "equal the SCONE paper's digit for digit"):
        assert words in whole and words not in plain


def test_the_latex_of_every_layout_is_ascii():
    results = [
        *everything(source="graph-spectral"), *in_five_sets(), *in_five_sets("woods", changed={"pi_c": 0.0}),
        run(method="aha", semantic="lsun-c"),
    ]  # fmt: skip
    for name in ("graph-spectral", "dul", "aha", "medix"):
        text = render(layouts.build(results, name), "latex")
        assert text.isascii() and "?" not in text
    assert r"$\eta_u$" in render(layouts.build(results, "graph-spectral"), "latex")


def test_graph_spectral_differs_nowhere_from_itself():
    found = comparison.with_source(everything(source="graph-spectral"), "graph-spectral", even(1.0))
    assert len(found) == 444 and sum(verdict.status == "suspect" for verdict in found) == 10
    assert not {verdict.status for verdict in found} & {"differs", "missing"}


def test_a_source_with_errors_of_its_own_is_judged_by_them():
    """86.62 ± 0.3 of three runs: its runs do not vary as ours do, and 0.3 may have been 0.35."""
    found = comparison.with_source([run(method="graph-spectral")], "graph-spectral", even(1.0))
    cell = next(v for v in found if (v.setting, v.row, v.metric) == ("SVHN", "Graph-spectral", "covariate_acc"))
    images, rounding = 0.8662 * 0.1338 / 10_000, 0.00005**2 / 3
    assert cell.expected == 0.8662
    assert cell.uncertainty.standard_error**2 == pytest.approx(0.01**2 + 0.0035**2 + images + rounding)
    assert cell.uncertainty.seeds_for(0.001) is None  # no number of ours makes up for the paper's error
    woods = comparison.with_source([run(method="woods")], "graph-spectral", even(1.0))
    cell = next(v for v in woods if (v.setting, v.row, v.metric) == ("SVHN", "WOODS", "covariate_acc"))
    images = 0.5276 * 0.4724 / 10_000
    assert cell.uncertainty.standard_error**2 == pytest.approx(2 * 0.01**2 + images + rounding)


def test_check_knows_the_sources_and_refuses_what_cannot_be_checked(tmp_path):
    folder = save([run(method="graph-spectral", percent=(60, 93, 0.13, 99.98)), *in_five_sets()], tmp_path)
    outcome = oodbench("check", folder, "--against", "graph-spectral")
    assert outcome.status == 1 and "/ SVHN / Graph-spectral / OOD Acc.: 60.00, expected 86.62" in outcome.out
    assert "cifar10-c graph-spectral:variants: 40 cells are missing\n" in outcome.out  # no method of ours makes them
    for source in ("dul", "aha", "medix"):
        refused = oodbench("check", folder, "--against", source)
        label = SOURCES[source].source.label
        assert_refused(
            refused, f"the numbers of {label} are of a setting that oodbench cannot run as published, so nothing"
        )
        assert_refused(refused, f"oodbench table DIR --layout {source} --with reported")
    refused = oodbench("check", folder, "--against", "graph-spectrl")
    known = "known: aha, community, demo, domainbed, dul, graph-spectral, medix, openood, paper, reference, scone"
    assert_refused(refused, f"unknown source or results folder 'graph-spectrl'; did you mean 'graph-spectral'? {known}")
    assert_refused(oodbench("check", folder, "--against", "xyz"), f"unknown source or results folder 'xyz'; {known}")
    refused = oodbench("check", save([run("digits-c")], tmp_path / "digits"), "--against", "graph-spectral")
    assert_refused(
        refused, "none of these results is in the graph-spectral paper: none of its suites was run at full size"
    )


def test_our_own_layout_names_the_source_of_what_the_paper_does_not_report():
    results = [run(), run(method="ash", percent=(75.05, 94.84, 41.76, 90.16))]
    (table,) = beside.with_reported(build(results), results)
    ash = next(row for row in table.rows if row.method == "ash")
    assert [entry.text for entry in ash.lines[2].entries] == ["0.00", "0.00", "+1.00", "0.00"]
    assert table.reported_notes == ("Numbers of the graph-spectral paper are reported for: ASH.",)
    (table,) = beside.with_reported(build(results[:1]), results[:1])
    assert table.reported_notes == ()
    dul = in_five_sets("dul")
    (table,) = beside.with_reported(build(dul), dul)
    assert table.reported_notes == (beside.NOTHING_REPORTED,)


def test_a_stand_in_has_the_paper_s_numbers_alone():
    options = {"semantic": "street-digits", "first": "street-digits", "preset": "cpu-effect"}
    results = [run(method="ash", **options), run(**options)]
    (table,) = beside.with_reported(build(results), results)
    assert [bool(row.cells[0].reported) for row in table.rows] == [row.method == "scone" for row in table.rows]


def test_the_page_shows_numbers_of_another_setting_without_a_verdict(tmp_path):
    save([run(method="graph-spectral"), *in_five_sets()], tmp_path / "r")
    tables = chunks_of(package.report(tmp_path / "r", tmp_path / "site"))["papers"]["tables"]
    by_layout = {each["title"].partition(": ")[2]: each for each in tables}
    assert "verdict" not in by_layout["dul:cifar10"] and "verdicts" not in by_layout["dul:cifar10"]["rows"][0]
    assert by_layout["graph-spectral:main"]["verdict"].startswith("Compared with the graph-spectral paper: ")
    assert any("cannot run as published" in each for each in by_layout["dul:cifar10"]["sentences"])


def test_a_source_quotes_others_and_not_itself(tmp_path, monkeypatch):
    path = tmp_path / "scone.yaml"
    path.write_text(reported.source_files()["scone"].read_text().replace("quotes: [domainbed]", "quotes: [scone]"))
    with pytest.raises(UserError, match="'quotes.0': unknown source of reported numbers 'scone'"):
        reported.load(path)


def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save([run(method="graph-spectral", percent=(86, 93, 1, 99)), *in_five_sets()], tmp_path / "results")
    commands = re.findall(r"^oodbench .*$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    assert len(commands) >= 4
    for command in commands:
        assert oodbench(*shlex.split(command)[1:]).status in ((0, 1) if " check " in command else (0,)), command


def test_the_page_names_every_source_and_its_tables_and_counts_its_numbers():
    text = PAGE.read_text(encoding="utf-8")
    for name, source in SOURCES.items():
        assert f"`{name}`" in text
        count = re.search(rf"^\| `{name}` .*\| (\d+) \|", text, flags=re.M)
        assert count and int(count[1]) == len(source.all), name
    for name in COUNTED:
        assert f"`{name}`" in text
