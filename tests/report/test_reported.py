"""The reported numbers: all of them, as the paper has them, and what is wrong with some."""

import shlex
from dataclasses import replace

import pytest

from oodbench.cli.command_line import parser_of
from oodbench.config.registry import Registry
from oodbench.config.suite import load, suite_files
from oodbench.errors import UserError
from oodbench.report import doubts, numbers, reported
from oodbench.report.comparison import bands

PAPER, DOMAINBED = reported.reference("paper"), reported.reference("domainbed")
# Counts, and sums in thousandths of a percent, taken from the LaTeX source by a script of its own.
COUNTED = {
    "mnist": (1, 8, 580_361), "margin": (2, 32, 2_135_990), "main": (3, 168, 12_038_070), "ratio": (4, 40, 2_720_700),
    "imagenet": (5, 8, 515_440), "validation": (6, 40, 2_473_780), "additional": (7, 112, 8_191_370),
    "pacs": (8, 75, 6_371_700), "pacs-ood": (9, 20, 1_451_330), "corruption": (10, 152, 10_815_950),
}  # fmt: skip


def find(table, label, metric, column=0, group=None, source=PAPER):
    specification = source.source.tables[table]
    rows = [
        numbers
        for (own, row), numbers in zip(specification.rows, source.numbers[table], strict=True)
        if row.label == label and group in (None, own.name)
    ]
    (numbers,) = rows
    return numbers[column * len(specification.metrics) + specification.metrics.index(metric)]


def number(metric, value, **fields):
    """`value` in percent."""
    plain = numbers.Number("us", "t", "Table 1", "s", ("a",), ("m",), metric, value / 100, None, 2, "p", 1, "")
    return replace(plain, **fields)


def marked(numbers, *kinds):
    return {(n.table, n.methods[0], n.settings[0], n.metric) for n in numbers if {m.kind for m in n.marks} & {*kinds}}


def test_there_are_655_numbers_in_ten_tables_and_they_sum_to_the_paper_s():
    found = {
        name: (table.number, sum(map(len, rows)), sum(round(100_000 * n.value) for row in rows for n in row))
        for (name, table), rows in zip(PAPER.source.tables.items(), PAPER.numbers.values(), strict=True)
    }
    assert found == COUNTED
    assert len(PAPER.all) == 655 and sum(n.error is not None for n in PAPER.all) == 12


@pytest.mark.parametrize(
    ("table", "group", "label", "column", "expected"),
    [
        ("mnist", None, "SCONE", 0, (96.51, 97.79, 0.017, 99.99)),
        ("margin", None, "η = −2", 0, (58.47, 95.00, 3.19, 99.35)),
        ("main", None, "Mahalanobis", 1, (75.05, 94.84, 39.22, 94.15)),
        ("main", None, "SCONE", 2, (85.21, 94.59, 37.56, 90.90)),
        ("ratio", "0.9", "WOODS", 0, (52.84, 94.81, 1.80, 99.57)),
        ("imagenet", None, "WOODS", 0, (44.46, 86.49, 10.50, 98.22)),
        ("additional", None, "OE", 1, (46.89, 94.07, 0.7, 99.78)),
        ("pacs-ood", None, "Sketch", 0, (77.25, 99.01, 17.80, 96.34)),
        ("corruption", "Frosted glass blur", "SCONE", 0, (69.32, 94.49, 12.80, 97.51)),
    ],
)
def test_rows_are_those_of_the_paper(table, group, label, column, expected):
    metrics = ("covariate_acc", "id_acc", "fpr95", "auroc")
    assert tuple(find(table, label, metric, column, group).percent for metric in metrics) == expected


def test_every_flag_has_a_reason_and_marks_something():
    flags = [(name, flag) for name, table in PAPER.source.tables.items() for flag in table.flags]
    assert len(flags) == 11
    for name, flag in flags:
        hit = [n for row in PAPER.numbers[name] for n in row if numbers.Mark(flag.kind, flag.reason) in n.marks]
        assert len(flag.reason) > 10 and hit


def test_copied_and_doubtful_numbers_are_suspect():
    places = {
        ("main", "msp", "places365"), ("main", "vim", "places365"), ("main", "mixup", "places365"),
        ("main", "mixup", "svhn"),
    }  # fmt: skip
    expected = {(*place, metric) for place in places for metric in ("fpr95", "auroc")}
    expected |= {("corruption", "scone", "svhn,covariate=spatter", m) for m in ("id_acc", "fpr95", "auroc")}
    expected |= {("ratio", "scone", "svhn,pi_c=0.0", m) for m in ("covariate_acc", "id_acc", "fpr95", "auroc")}
    assert marked(PAPER.all, "suspect") == expected
    copied = find("main", "ViM", "fpr95", 2)
    assert copied.is_doubtful and copied.value == find("main", "ViM", "fpr95", 0).value


def test_the_bounds_are_the_areas_of_two_rectangles():
    # FPR 20 %: the curve passes (5, 80). Least: 95 wide, 80 high. Most: 5 wide, 80 high, and 95 wide, 100 high.
    assert doubts.auroc_bounds(0.20) == (pytest.approx(0.76), pytest.approx(0.99))
    assert doubts.auroc_bounds(0.20, rounding=0.01) == (pytest.approx(0.95 * 0.79), pytest.approx(1 - 0.05 * 0.19))


def test_one_pair_of_the_paper_cannot_be():
    place = ("main", "energy-oe", "lsun-c")
    assert marked(PAPER.all, "impossible") == {(*place, "fpr95"), (*place, "auroc")}
    ((fpr, auroc, mark),) = doubts.impossible_pairs(PAPER.all)
    assert (fpr.value, auroc.value) == (0.0233, 0.9993) and fpr.is_doubtful and auroc.is_doubtful
    assert str(mark) == "impossible: AUROC 99.93 with FPR 2.33 cannot be, at most 99.88 can"


@pytest.mark.parametrize(
    ("fpr", "auroc", "possible"),
    [(20, 99.0, True), (20, 99.01, False), (20, 76.0, True), (20, 75.9, False), (0, 100, True), (100, 0, True)],
)
def test_impossible_pairs_are_found_among_any_numbers(fpr, auroc, possible):
    pair = [number("fpr95", fpr, decimals=6), number("auroc", auroc, decimals=6)]
    assert (doubts.impossible_pairs(pair) == []) is possible


def test_rounding_alone_makes_no_pair_impossible():
    # FPR of 19.995 would allow 99.00025, and 99.005 may have been 99.0001.
    pair = [number("fpr95", 20.0), number("auroc", 99.005)]
    assert doubts.impossible_pairs(pair) == []
    assert len(doubts.impossible_pairs([pair[0], number("auroc", 99.01)])) == 1


def test_numbers_of_different_rows_make_no_pair():
    assert doubts.impossible_pairs([number("fpr95", 50), number("auroc", 100, methods=("other",))]) == []
    assert doubts.impossible_pairs([number("fpr95", 50), number("auroc", 100, settings=("b",))]) == []


def test_tables_that_disagree_are_marked_wherever_the_cell_stands():
    found = marked([n for n in PAPER.all if n.table != "pacs"], "conflict")
    assert {(table, metric) for table, _, _, metric in found} == {
        (table, metric)
        for table in ("margin", "main", "ratio", "validation", "corruption")
        for metric in ("covariate_acc", "id_acc")
    }
    assert {setting for _, _, setting, _ in found} == {"svhn"}
    (mark,) = find("main", "WOODS", "covariate_acc").marks
    assert str(mark) == "conflict: Tables 2, 3, 4 and 10 print 52.76, Table 6 prints 52.77"
    assert not find("main", "WOODS", "covariate_acc").is_doubtful


def test_rounding_alone_is_no_conflict():
    fine, coarse = number("id_acc", 83.75), number("id_acc", 83.8, decimals=1, printed_in="Table 2")
    assert doubts.conflicts([fine, coarse]) == []
    ((numbers, mark),) = doubts.conflicts([fine, replace(coarse, value=0.839)])
    assert numbers == (fine, replace(coarse, value=0.839))
    assert mark.reason == "Table 1 prints 83.75, Table 2 prints 83.9"


def test_domainbed_has_fourteen_rows_with_errors_and_oracle_averages():
    assert [len(row) for row in DOMAINBED.numbers["pacs"]] == [5] * 14
    assert [len(row) for row in DOMAINBED.numbers["pacs-oracle"]] == [1] * 14
    assert sum(n.error is not None for n in DOMAINBED.all) == 56
    erm = find("pacs", "ERM", "covariate_acc", 0, source=DOMAINBED)
    assert (erm.value, erm.error, erm.runs) == (0.847, 0.004, 3)
    assert find("pacs-oracle", "RSC", "covariate_acc", source=DOMAINBED).percent == 86.2
    assert not marked(DOMAINBED.all, "conflict")  # selected on other images, so not the same numbers


@pytest.mark.parametrize("source", [PAPER, DOMAINBED], ids=lambda source: source.name)
def test_averages_of_pacs_are_those_of_their_columns(source):
    for *domains, average in source.numbers["pacs"]:
        mean = sum(n.value for n in domains) / 4
        assert abs(mean - average.value) <= 0.001 + 1e-11, average.methods  # printed and averaged before rounding


def test_the_rows_flagged_as_not_domainbed_s_are_those_that_differ():
    theirs = {row[0].methods[0]: [n.value for n in row] for row in DOMAINBED.numbers["pacs"]}
    differing = {
        row[0].methods[0]
        for row in PAPER.numbers["pacs"]
        if theirs.get(row[0].methods[0], [n.value for n in row]) != [n.value for n in row]
    }
    assert {
        method for _, method, _, _ in marked(PAPER.all, "conflict") if method not in ("woods", "scone,margin=0")
    } == (differing)
    assert len(differing) == 9


def test_methods_and_settings_are_names_that_the_command_line_knows():
    registry, suites = Registry(), {name: load(name) for name in suite_files()}
    for n in PAPER.all + DOMAINBED.all:
        for method in n.methods:
            registry.method(method.split(",")[0])
        for setting in n.settings if n.suite in suites else ():
            suites[n.suite].setting(setting)


@pytest.mark.parametrize("table", PAPER.source.tables)
def test_the_command_that_makes_the_results_of_a_table_is_understood(table):
    words = shlex.split(PAPER.source.tables[table].run)
    assert words[0] == "oodbench"
    given = parser_of().parse_args(words[1:])
    for suite in given.suite:
        if suite in suite_files():
            load(suite).sweep(given.sweep)


def test_every_number_has_a_band_and_images():
    for n in PAPER.all + DOMAINBED.all:
        assert bands().of(n.suite)[n.metric] > 0 and n.protocol in bands().images, n
    assert find("main", "ViM", "fpr95").protocol == "one-draw" and find("main", "KNN", "fpr95").protocol == "whole-set"
    assert find("main", "Energy", "fpr95").protocol == find("additional", "ERM", "auroc").protocol == "ten-draws"
    assert find("main", "WOODS", "fpr95").protocol == "held-out"
    assert (find("main", "SCONE", "fpr95").runs, find("main", "WOODS", "fpr95").runs) == (3, 1)


GOOD = """\
label: us
source: a paper
provenance: from memory
tables:
  t:
    suite: s
    caption: c
    run: oodbench run
    metrics: [fpr95, auroc]
    protocol: held-out
    columns: [{title: A, settings: [a]}]
    groups:
      - rows:
          - {label: M, methods: [m], numbers: [50, 60]}
    flags: [{kind: suspect, rows: [M], reason: odd}]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[50, 60]", "[50]", ":14: 'tables.t.groups.0.rows.0.numbers': expected 2, one per column and metric, got 1"),
        ("[50, 60]}", "[50, 60], errors: [1]}", ":14: 'tables.t.groups.0.rows.0.errors': expected 2, one per column"),
        ("reason: odd", "reason: ' '", ":15: 'tables.t.flags.0.reason': expected the reason in words"),
        ("rows: [M]", "rows: [N]", ":15: 'tables.t.flags.0.rows': 'N' names none, or more than one"),
        ("fpr95,", "fpr,", ":9: 'tables.t.metrics.0': unknown metric 'fpr'; known: covariate_acc, "),
        ("[50, 60]", "[50, 160]", ":14: 'tables.t.groups.0.rows.0.numbers': expected percentages from 0 to 100"),
        (
            "60]}",
            "60], errors: [1, -1]}",
            ":14: 'tables.t.groups.0.rows.0.errors': expected points of percent from 0 to",
        ),
        ("    protocol: held-out\n", "", ":5: 'tables.t': expected the key 'protocol' or the key 'other_setting'"),
        (
            "settings: [a]",
            "settings: [a], methods: {n: o}",
            ":11: 'tables.t.columns.0.methods': 'n' is the method of no",
        ),
        ("tables:", "quotes: [scoen]\ntables:", ":4: 'quotes.0': unknown source of reported numbers 'scoen'; did you"),
        (", settings: [a]", "", ":14: 'tables.t.groups.0.rows.0': expected a method, and settings here or in every"),
        (
            "kind: suspect",
            "kind: wrong",
            "'tables.t.flags.0.kind': expected 'suspect' or 'conflict' or 'note', got 'wro",
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_line(tmp_path, old, new, message):
    path = tmp_path / "reported.yaml"
    path.write_text(GOOD)
    assert len(reported.load(path).all) == 2
    assert old in GOOD
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        reported.load(wrong)
    assert message in str(error.value)


def test_every_yaml_file_of_the_folder_is_a_source_and_the_paper_is_scone():
    assert reported.source_names() == ["paper", "aha", "domainbed", "dul", "graph-spectral", "medix", "scone"]
    assert reported.reference("paper") is reported.reference("scone")
    with pytest.raises(UserError, match="unknown source of reported numbers 'scoen'; did you mean 'scone'?"):
        reported.reference("scoen")


def test_the_names_of_layouts_read_as_text_are_those_of_the_files():
    sources = ["scone", *(name for name in reported.source_files() if name != "scone")]
    names = [layout for name in sources for layout in reported.reference(name).layouts]
    assert reported.layout_names() == names
    assert names[:2] == ["mnist", "margin"] and names[10:13] == [
        "aha:cifar10",
        "domainbed:pacs",
        "domainbed:pacs-oracle",
    ]
