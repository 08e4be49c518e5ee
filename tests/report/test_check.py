"""`oodbench check`: hand-worked tolerances, and the four verdicts against the paper and against other results."""

import pytest
from command_line import assert_done, assert_refused, oodbench
from reported_results import FOUR, everything, run, save

from oodbench.report import comparison
from oodbench.report.comparison import allowed, tolerances

STATED = tolerances()
WOODS = (88.10, 97.88, 0.194, 99.88)
SCONE = (96.51, 97.79, 0.017, 99.99)


def verdict(results, **place):
    """The only one of this place."""
    found = [v for v in results if all(getattr(v, key) == value for key, value in place.items())]
    (only,) = found
    return only


def row(text, name):
    """What a printed table says of it."""
    (found,) = [line.split()[1:] for line in text.splitlines() if line.startswith(f"  {name} ")]
    return found


def statuses(results):
    return [v.status for v in results]


def test_a_tolerance_is_stated_at_one_half_for_one_run_each():
    assert allowed(4.0, 50, 50, (1, 1)) == pytest.approx(4.0)


@pytest.mark.parametrize(("runs", "factor"), [((4, 4), 1 / 2), ((1, 3), (2 / 3) ** 0.5), ((3, 3), 3**-0.5)])
def test_a_tolerance_shrinks_with_the_number_of_runs(runs, factor):
    assert allowed(4.0, 50, 50, runs) == pytest.approx(4.0 * factor)


def test_a_tolerance_shrinks_towards_none_and_all_as_binomial_errors_do():
    # At 10 %: 2 sqrt(.1 * .9) = 0.6; the rate is half-way between the sides.
    assert allowed(4.0, 8, 12, (1, 1)) == pytest.approx(2.4)
    assert allowed(4.0, 88, 92, (1, 1)) == pytest.approx(2.4)
    assert allowed(4.0, 0, 0, (1, 1)) == allowed(4.0, 100, 100, (1, 1)) == STATED.least


def test_the_paper_passes_against_itself_but_for_what_is_suspect_or_not_recorded(tmp_path):
    found = comparison.with_paper(everything())
    counts = {status: statuses(found).count(status) for status in ("pass", "FAIL", "suspect", "missing")}
    assert counts == {"pass": 655 - 17 - 8, "FAIL": 0, "suspect": 17, "missing": 8}
    assert {v.metric for v in found if v.status == "missing"} == {"out_share"}
    shown = assert_done(oodbench("check", save(everything(), tmp_path), "--against", "paper"))
    assert shown.endswith("\n630 pass, 0 FAIL, 17 suspect, 8 missing\n")
    assert oodbench("check", tmp_path, "--against", "paper", "--complete").status == 1


def test_a_cell_fails_just_beyond_its_tolerance_with_the_rounding_added():
    points, half = STATED.paper["mnist"]["covariate_acc"], 0.005
    near = 88.10 - allowed(points, 88.10 - 1.36, 88.10, (1, 1)) - half
    for off, status in ((+0.01, "pass"), (-0.02, "FAIL")):
        found = comparison.with_paper([run("mnist-c", "woods", percent=(near + off, *WOODS[1:]))])
        assert verdict(found, row="WOODS", metric="covariate_acc").status == status


def test_suspect_numbers_are_held_against_nobody():
    results = [run(method="vim", semantic="places365", percent=(75.05, 94.84, 60, 60))]
    found = [v for v in comparison.with_paper(results) if v.table == "main" and v.row == "ViM"]
    assert [v.status for v in found if v.setting == "Places365"] == ["pass", "pass", "suspect", "suspect"]
    assert "same pair as ViM on SVHN" in str(found[-1])


def test_where_domainbed_reports_another_number_the_nearest_counts():
    for art, status in ((88.1, "pass"), (84.7, "pass"), (70, "FAIL")):
        found = comparison.with_paper([run("pacs", "erm", percent=(art, 50, 50, 50))])
        assert verdict(found, table="pacs", row="ERM", setting="Art painting").status == status


def test_more_seeds_are_held_to_more():
    one = comparison.with_paper([run("mnist-c", percent=(95.0, *SCONE[1:]))])
    many = comparison.with_paper([run("mnist-c", seed=s, percent=(95.0, *SCONE[1:])) for s in range(9)])
    wide, narrow = (verdict(v, row="SCONE", metric="covariate_acc").tolerance - 0.005 for v in (one, many))
    assert narrow == pytest.approx(wide * ((1 + 1 / 9) / 2) ** 0.5)


def test_smaller_presets_are_not_held_against_the_paper(tmp_path):
    folder = save([run("mnist-c", preset="smoke"), run("digits-c")], tmp_path)
    assert_refused(oodbench("check", folder, "--against", "paper"), "none of its suites was run at full size")
    assert comparison.with_paper([run("mnist-c", preset="paper", percent=SCONE)])


def test_a_failure_is_told_in_words_and_by_the_status(tmp_path):
    folder = save([run("mnist-c", percent=(90, *SCONE[1:])), run("mnist-c", "woods", percent=WOODS)], tmp_path)
    outcome = oodbench("check", folder, "--against", "paper")
    assert (outcome.status, outcome.err) == (1, "")
    assert (
        "\nfailed:\n  mnist-c / mnist / FashionMNIST / SCONE / OOD Acc.: 90.00, expected 96.51 within " in outcome.out
    )
    assert ", off by -6.51\n" in outcome.out and outcome.out.endswith("\n7 pass, 1 FAIL, 0 suspect, 0 missing\n")
    assert row(outcome.out, "SCONE") == ["FAIL", "-6.51", *["pass", "+0.00"] * 3]


def test_tables_without_any_cell_are_one_line_with_the_command(tmp_path):
    shown = assert_done(
        oodbench("check", save([run(percent=(84.69, 94.65, 10.86, 97.84))], tmp_path), "--against", "paper")
    )
    line = "cifar10-c additional: 112 cells missing; make them with: oodbench run --suite cifar10-c --setting textures "
    assert line in shown


def digits(values, methods=("msp",), **fields):
    return [
        run("digits-c", method, seed, (v, 50, 50, 50), **fields) for method in methods for seed, v in values.items()
    ]


def test_the_mean_is_over_the_seeds_that_both_sides_have():
    # Seeds 1 and 2 are shared: 60 and 61 here, 60 and 63 there.
    found = comparison.with_results(digits({0: 0, 1: 60, 2: 61}), digits({1: 60, 2: 63, 3: 99}))
    cell = verdict(found, metric="covariate_acc")
    assert (cell.measured, cell.expected) == (pytest.approx(60.5), pytest.approx(61.5))
    points = STATED.other_machine.suites["digits-c"]["covariate_acc"]
    assert cell.tolerance == pytest.approx(points * 2 * (0.61 * 0.39) ** 0.5 / 2**0.5)
    assert [v.metric for v in found] == list(FOUR)


def test_the_same_machine_is_held_to_what_a_table_prints():
    here, there = digits({0: 60.0}), digits({0: 60.01})
    assert statuses(comparison.with_results(here, there)) == ["pass"] * 4
    assert statuses(comparison.with_results(here, there, same_machine=True)) == ["FAIL", "pass", "pass", "pass"]
    assert statuses(comparison.with_results(here, here, same_machine=True)) == ["pass"] * 4


def test_what_is_not_there_is_missing_and_what_broke_fails():
    there = digits({0: 60}, ("msp", "knn", "vim", "oe"))
    broken = digits({0: 60}, ["vim"], status="failed", error="no memory", metrics={})
    found = comparison.with_results(digits({0: 60}) + digits({7: 60}, ["knn"]) + broken, there)
    by_row = {row: {(v.status, v.note) for v in found if v.row == row} for row in ("msp", "knn", "vim", "oe")}
    assert by_row == {
        "msp": {("pass", "")}, "knn": {("missing", "no seed in common")},
        "vim": {("FAIL", "failed: no memory (seed 0)")}, "oe": {("missing", "")},
    }  # fmt: skip


def test_what_failed_there_is_missing_and_no_fault_here():
    there = digits({0: 60}, status="failed", error="oh", metrics={})
    found = comparison.with_results(digits({0: 60}), there)
    assert {(v.status, v.note) for v in found} == {("missing", "no number there")}


def test_a_suite_is_compared_with_its_own_preset(tmp_path):
    here = save(digits({0: 60}, preset="smoke"), tmp_path / "here")
    there = save(digits({0: 60}), tmp_path / "there")
    outcome = oodbench("check", here, "--against", there)
    assert_refused(outcome, "nothing to compare: here is digits-c-smoke, there is digits-c; run one of these suites")


def test_missing_cells_fail_only_if_all_are_asked_for(tmp_path):
    here = save(digits({0: 60}), tmp_path / "here")
    there = save(digits({0: 60}, ("msp", "knn")), tmp_path / "there")
    shown = assert_done(oodbench("check", here, "--against", there))
    assert shown.endswith("\n4 pass, 0 FAIL, 0 suspect, 4 missing\n")
    assert row(shown, "knn") == ["missing"] * 4 and row(shown, "msp") == ["pass", "+0.00"] * 4
    assert oodbench("check", here, "--against", there, "--complete").status == 1
    shown = assert_done(oodbench("check", there, "--against", here, "--complete"))
    assert "with nothing to compare to in some setting: knn\n" in shown


def test_without_a_semantic_set_there_is_no_detection_to_miss(tmp_path):
    accuracies = {"covariate_acc": 0.6, "id_acc": 0.5}
    here = save(digits({0: 60}, ["knn"]) + digits({0: 60}, ["erm"], metrics=accuracies), tmp_path / "here")
    there = save(digits({0: 60}, ["knn"]) + digits({0: 60}, ["erm"], metrics=accuracies), tmp_path / "there")
    shown = assert_done(oodbench("check", here, "--against", there, "--complete"))
    assert shown.endswith("\n6 pass, 0 FAIL, 0 suspect, 0 missing\n")
    assert row(shown, "erm") == ["pass", "+0.00"] * 2


def test_a_folder_within_the_other_is_not_compared_with_itself(tmp_path):
    """results/demo lies in results/."""
    save(digits({0: 90}), tmp_path)
    inner = save(digits({0: 60}), tmp_path / "demo")
    for here, there, off in ((inner, tmp_path, "-30.00"), (tmp_path, inner, "+30.00")):
        outcome = oodbench("check", here, "--against", there)
        assert outcome.status == 1 and f"FAIL {off}" in outcome.out


def test_wrong_input_is_answered_in_one_line(tmp_path):
    folder, empty = save(digits({0: 60}), tmp_path / "digits"), tmp_path / "empty"
    empty.mkdir()
    assert_refused(oodbench("check", folder), "the following arguments are required: --against")
    assert_refused(oodbench("check", tmp_path / "no", "--against", folder), "there is no results folder")
    assert_refused(oodbench("check", folder, "--against", "papr"), "there is no results folder 'papr'")
    assert_refused(oodbench("check", folder, "--against", folder), "is compared with itself; name another folder after")
    assert_refused(oodbench("check", folder, "--against", tmp_path), "holds no results but those of", "name another")
    assert_refused(oodbench("check", empty, "--against", folder), "there are no results in", "oodbench run")
    refused = oodbench("check", folder, "--against", "paper", "--same-machine")
    assert_refused(refused, "--same-machine is for two results folders; leave it out with --against paper")


def test_unreadable_files_are_named_and_skipped(tmp_path):
    here, there = save(digits({0: 60}), tmp_path / "here"), save(digits({0: 60}), tmp_path / "there")
    (here / "broken.json").write_text("{")
    outcome = oodbench("check", here, "--against", there)
    assert outcome.status == 0 and f"skipped {here / 'broken.json'}: truncated, or not JSON\n" in outcome.err
