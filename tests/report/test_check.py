"""`oodbench check`: what is lined up and how it is judged, against the paper and against other results."""

import math
import re
import shlex

import numpy as np
import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result, with_scores
from reported_results import FOUR, everything, run, save
from result_files import change, change_arrays
from spreads import even

from oodbench.report import comparison, spread
from oodbench.report.verdicts import STATUSES
from oodbench.results.folder import read_folder
from oodbench.results.result import read
from oodbench.results.stored import read_scores

WOODS = (88.10, 97.88, 0.194, 99.88)
SCONE = (96.51, 97.79, 0.017, 99.99)
ONE_POINT = even(1.0, 0.5)  # over seeds, and half of it between machines


@pytest.fixture
def one_point(monkeypatch):
    """The command reads this spread."""
    monkeypatch.setattr(spread, "measured", lambda: ONE_POINT)


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


def test_the_paper_differs_nowhere_from_itself(tmp_path, one_point):
    found = comparison.with_source(everything())
    counts = {status: statuses(found).count(status) for status in STATUSES}
    assert counts["differs"] == 0 and counts["suspect"] == 17 and counts["missing"] == 8
    assert counts["agrees"] + counts["cannot tell"] == 655 - 17 - 8
    assert {v.metric for v in found if v.status == "missing"} == {"out_share"}
    shown = assert_done(oodbench("check", save(everything(), tmp_path), "--against", "paper"))
    assert shown.endswith(f"{counts['agrees']} agree, 0 differ, {counts['cannot tell']} cannot tell, "
                          "17 suspect, 8 missing\n")  # fmt: skip
    assert oodbench("check", tmp_path, "--against", "paper", "--complete").status == 1


def test_against_a_paper_training_images_and_rounding_vary():
    found = comparison.with_source([run("mnist-c", "woods", percent=WOODS)], measured=ONE_POINT)
    error = verdict(found, row="WOODS", metric="covariate_acc").uncertainty.standard_error
    # One run each of one point, 10,000 images at 88.1 %, and a figure of two decimals.
    assert error**2 == pytest.approx(2 * 0.01**2 + 0.881 * 0.119 / 10_000 + 0.00005**2 / 3)


def test_a_printed_error_counts_if_it_is_larger_than_ours():
    found = comparison.with_source([run("pacs", "erm", percent=(84.7, 50, 50, 50))], "domainbed", ONE_POINT)
    cell = verdict(found, table="domainbed:pacs", row="ERM", setting="Art painting")
    images, rounding = 0.847 * 0.153 / 1670, 0.0005**2 / 3
    theirs = max(0.004**2, 0.01**2 / 3)  # 84.7 ± 0.4 of three
    assert cell.uncertainty.standard_error**2 == pytest.approx(0.01**2 + theirs + images + rounding)


def test_suspect_numbers_are_held_against_nobody():
    results = [run(method="vim", semantic="places365", percent=(75.05, 94.84, 60, 60))]
    found = [v for v in comparison.with_source(results, measured=ONE_POINT) if v.table == "main" and v.row == "ViM"]
    judged = [v.status for v in found if v.setting == "Places365"]
    assert judged[2:] == ["suspect", "suspect"] and not {"suspect", "missing"} & {*judged[:2]}
    assert "same pair as ViM on SVHN" in str(found[-1])


def test_where_domainbed_reports_another_number_the_nearest_counts():
    for art, status in ((88.1, "cannot tell"), (84.7, "cannot tell"), (70, "differs")):
        found = comparison.with_source([run("pacs", "erm", percent=(art, 50, 50, 50))], measured=ONE_POINT)
        assert verdict(found, table="pacs", row="ERM", setting="Art painting").status == status


def test_more_seeds_tell_more():
    calm = even(0.4)
    one = comparison.with_source([run("mnist-c", percent=SCONE)], measured=calm)
    many = comparison.with_source([run("mnist-c", seed=s, percent=SCONE) for s in range(9)], measured=calm)
    wide, narrow = (verdict(v, row="SCONE", metric="covariate_acc") for v in (one, many))
    assert (wide.status, narrow.status) == ("cannot tell", "agrees") and 1 < wide.seeds_needed <= 9


def test_smaller_presets_are_not_held_against_the_paper_and_what_works_is_named(tmp_path):
    folder = save([run("mnist-c", preset="smoke"), run("digits-c")], tmp_path)
    refused = oodbench("check", folder, "--against", "paper")
    assert_refused(refused, "none of its suites was run at full size")
    for command in re.findall(r"oodbench (check .*?|run .*?)(?:, or |$)", refused.err, flags=re.M):
        words = shlex.split(command)
        assert oodbench(*words, *(["--dry-run"] if words[0] == "run" else [])).status != 2, command
    assert comparison.with_source([run("mnist-c", preset="released", percent=SCONE)])


def test_a_difference_is_told_in_words_and_by_the_status(tmp_path, one_point):
    folder = save([run("mnist-c", percent=(80, *SCONE[1:])), run("mnist-c", "woods", percent=WOODS)], tmp_path)
    outcome = oodbench("check", folder, "--against", "paper")
    assert (outcome.status, outcome.err) == (1, "")
    assert (
        "\ndiffers:\n  mnist-c / mnist / FashionMNIST / SCONE / OOD Acc.: 80.00, expected 96.51, off by -16.51 ± "
        in outcome.out
    )
    assert outcome.out.endswith("\n2 agree, 1 differs, 5 cannot tell\n")
    assert row(outcome.out, "SCONE")[:2] == ["differs", "-16.51"]


def test_what_cannot_be_told_is_counted_and_says_how_many_seeds_would(tmp_path, one_point):
    here, there = save(digits({0: 60}), tmp_path / "here"), save(digits({0: 61}), tmp_path / "there")
    shown = assert_done(oodbench("check", here, "--against", there))
    # An error of 0.5 sqrt(2) points; 1 / 1.645 points would agree: 2 * 0.25 / 0.37.
    assert row(shown, "msp") == ["?", "-1.00", "(2)", *["agrees", "+0.00"] * 3]
    assert (
        "? marks cells where these seeds cannot tell; in brackets is how many seeds could, – if none could\n" in shown
    )
    assert "expected to differ by chance: at most 0.05 of 4 cells, by Holm's correction; without it 0.2\n" in shown
    assert shown.endswith("\n3 agree, 0 differ, 1 cannot tell\n")


def test_tables_without_any_cell_are_one_line_with_the_command(tmp_path):
    folder = save([run(percent=(84.69, 94.65, 10.86, 97.84))], tmp_path)
    shown = oodbench("check", folder, "--against", "paper").out
    line = "cifar10-c additional: 112 cells are missing; make them with: oodbench run --suite cifar10-c --setting "
    assert line in shown


def digits(values, methods=("msp",), **fields):
    return [
        run("digits-c", method, seed, (v, 50, 50, 50), **fields) for method in methods for seed, v in values.items()
    ]


def test_seeds_that_both_sides_have_are_compared_and_vary_as_machines_do():
    # Seeds 1 and 2 are shared: 60 and 61 here, 60 and 63 there.
    found = comparison.with_results(digits({0: 0, 1: 60, 2: 61}), digits({1: 60, 2: 63, 3: 99}), measured=ONE_POINT)
    cell = verdict(found, metric="covariate_acc")
    assert (cell.measured, cell.expected) == (pytest.approx(0.605), pytest.approx(0.615))
    assert cell.uncertainty.standard_error == pytest.approx(0.005 * (2 / 2) ** 0.5)
    assert [v.metric for v in found] == list(FOUR)


def test_other_seeds_vary_as_seeds_do():
    found = comparison.with_results(digits({0: 60, 1: 62}), digits({2: 61, 3: 62, 4: 63}), measured=ONE_POINT)
    cell = verdict(found, metric="covariate_acc")
    assert (cell.measured, cell.expected) == (pytest.approx(0.61), pytest.approx(0.62))
    assert cell.uncertainty.standard_error == pytest.approx(0.01 * (1 / 2 + 1 / 3) ** 0.5)
    assert cell.note == "no seed in common"


def scored(folder, *seeds, method="msp"):
    """Results with raw scores."""
    for seed in seeds:
        with_scores(a_result(method=method, seed=seed), folder, [1, 1, 0], [1, 0, 0], [0.1, 0.4, 0.2], [0.3, 0.9])
    return folder


def edited(folder, seed, **changes):
    """With other metrics in the file of a result."""
    (path,) = folder.rglob(f"seed{seed}-*.json")
    change(path, lambda values: values["metrics"].update(changes))


def on_the_same_machine(here, there, *more):
    return oodbench("check", here, "--against", there, "--same-machine", *more)


def test_the_same_machine_is_held_to_the_bit_in_every_metric_and_every_score(tmp_path):
    here, there = scored(tmp_path / "here", 0, 1, 2), scored(tmp_path / "there", 0, 1)
    (result,) = [each for each in read_folder(here)[0] if each.seed == 0]
    shown = assert_done(on_the_same_machine(here, there, "--complete"))
    assert shown.endswith(f"\n{len(result.metrics) + 1} agree, 0 differ, 0 cannot tell\n") and len(result.metrics) > 10

    for name, value in result.metrics.items():  # the last bit of any
        edited(there, 0, **{name: math.nextafter(value, 2)})
        outcome = on_the_same_machine(here, there)
        assert outcome.status == 1 and ", 1 differs, " in outcome.out, name
        assert "(not bit-identical for seed 0)\n" in outcome.out
        edited(there, 0, **{name: value})

    (path,) = there.rglob("seed1-*.json")
    before = read(path)
    for split, each in read_scores(before).items():
        for kind, array in vars(each).items():
            if array is None:
                continue
            last = np.nextafter(array, array.dtype.type(2)) if array.dtype.kind == "f" else array + array.dtype.type(1)
            change_arrays(path, **{f"{split}_{kind}": last})
            outcome = on_the_same_machine(here, there)
            assert outcome.status == 1 and f"/ Raw scores: not bit-identical: {split}_{kind} (seed 1)\n" in outcome.out
            change_arrays(path, **{f"{split}_{kind}": array})
    assert read(path) == before


def test_on_the_same_machine_missing_metrics_and_scores_are_named_and_fail_if_all_are_asked_for(tmp_path):
    here, there = scored(tmp_path / "here", 0), scored(tmp_path / "there", 0)
    (path,) = there.rglob("seed0-*.json")
    change(path, lambda values: values["metrics"].pop("aupr_out"))
    scores = path.with_suffix(".safetensors")
    scores.unlink()
    for one, other in ((here, there), (there, here)):
        outcome = on_the_same_machine(one, other)
        assert outcome.status == 0 and outcome.out.endswith(", 2 missing\n") and " / AUPR-out: " in outcome.out
        assert f"\n  digits-c / unseen-digits / msp / Raw scores: there is no '{scores}'\n" in outcome.out
        assert on_the_same_machine(one, other, "--complete").status == 1
    for folder in (here, there):
        scored(folder, 1)
    scores.write_bytes(b"no archive")
    outcome = on_the_same_machine(here, there)
    assert outcome.status == 1 and "Raw scores: not bit-identical: damaged: " in outcome.out
    assert "AUPR-out: recorded on one side alone for seed 0\n" in outcome.out  # though seed 1 has it on both


def test_on_the_same_machine_a_seed_that_only_the_other_side_has_is_missing(tmp_path):
    here, there = scored(tmp_path / "here", 0), scored(tmp_path / "there", 0, 1, 2)
    outcome = on_the_same_machine(here, there)
    assert outcome.status == 0 and "/ Raw scores: no result for seeds 1, 2\n" in outcome.out
    assert on_the_same_machine(here, there, "--complete").status == 1


def test_on_the_same_machine_without_a_seed_in_common_nothing_is_decided(tmp_path):
    outcome = on_the_same_machine(scored(tmp_path / "here", 0), scored(tmp_path / "there", 7))
    assert outcome.status == 3 and "no seed in common" in outcome.out


def test_what_is_not_there_is_missing_and_what_broke_differs():
    there = digits({0: 60}, ("msp", "vim", "oe"))
    broken = digits({0: 60}, ["vim"], status="failed", error="no memory", metrics={})
    found = comparison.with_results(digits({0: 60}) + broken, there, measured=ONE_POINT)
    by_row = {row: {(v.status, v.note) for v in found if v.row == row} for row in ("msp", "vim", "oe")}
    assert by_row == {
        "msp": {("agrees", "")}, "vim": {("differs", "failed: no memory (seed 0)")}, "oe": {("missing", "")}
    }  # fmt: skip


def test_what_failed_there_is_missing_and_no_fault_here():
    there = digits({0: 60}, status="failed", error="oh", metrics={})
    found = comparison.with_results(digits({0: 60}), there)
    assert {(v.status, v.note) for v in found} == {("missing", "no number to compare with")}


def test_a_suite_is_compared_with_its_own_preset(tmp_path):
    here = save(digits({0: 60}, preset="smoke"), tmp_path / "here")
    there = save(digits({0: 60}), tmp_path / "there")
    outcome = oodbench("check", here, "--against", there)
    assert_refused(
        outcome,
        "nothing to compare: these results are of digits-c-smoke, the others of digits-c; run a suite that the others",
    )


def test_missing_cells_fail_only_if_all_are_asked_for(tmp_path, one_point):
    here = save(digits({0: 60}), tmp_path / "here")
    there = save(digits({0: 60}, ("msp", "knn")), tmp_path / "there")
    shown = assert_done(oodbench("check", here, "--against", there))
    assert shown.endswith("\n4 agree, 0 differ, 0 cannot tell, 4 missing\n")
    assert row(shown, "knn") == ["missing"] * 4 and row(shown, "msp") == ["agrees", "+0.00"] * 4
    assert oodbench("check", here, "--against", there, "--complete").status == 1
    shown = assert_done(oodbench("check", there, "--against", here, "--complete"))
    assert "not compared in some setting, for lack of a counterpart: knn\n" in shown


def test_without_a_semantic_set_there_is_no_detection_to_miss(tmp_path, one_point):
    accuracies = {"covariate_acc": 0.6, "id_acc": 0.5}
    here = save(digits({0: 60}, ["knn"]) + digits({0: 60}, ["erm"], metrics=accuracies), tmp_path / "here")
    there = save(digits({0: 60}, ["knn"]) + digits({0: 60}, ["erm"], metrics=accuracies), tmp_path / "there")
    shown = assert_done(oodbench("check", here, "--against", there, "--complete"))
    assert shown.endswith("\n6 agree, 0 differ, 0 cannot tell\n")
    assert row(shown, "erm") == ["agrees", "+0.00"] * 2


def test_a_folder_within_the_other_is_not_compared_with_itself(tmp_path, one_point):
    """results/demo lies in results/."""
    save(digits({0: 90}), tmp_path)
    inner = save(digits({0: 60}), tmp_path / "demo")
    for here, there, off in ((inner, tmp_path, "-30.00"), (tmp_path, inner, "+30.00")):
        outcome = oodbench("check", here, "--against", there)
        assert outcome.status == 1 and f"differs {off}" in outcome.out


def test_wrong_input_is_answered_in_one_line(tmp_path):
    folder, empty = save(digits({0: 60}), tmp_path / "digits"), tmp_path / "empty"
    empty.mkdir()
    assert_refused(oodbench("check", folder), "the following arguments are required: --against")
    assert_refused(oodbench("check", tmp_path / "no", "--against", folder), "there is no results folder")
    assert_refused(
        oodbench("check", folder, "--against", "papr"), "unknown source or results folder 'papr'; did you mean 'paper'?"
    )
    assert_refused(oodbench("check", folder, "--against", "./papr"), "there is no results folder 'papr'")
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


def test_another_source_is_held_to_its_own_numbers_and_its_own_selection(tmp_path):
    """DomainBed reports 84.7 for ERM on art paintings, the SCONE paper an earlier 88.1."""
    for art, status in ((84.7, "cannot tell"), (70, "differs")):
        found = comparison.with_source([run("pacs", "erm", percent=(art, 50, 50, 50))], "domainbed", ONE_POINT)
        cell = verdict(found, table="domainbed:pacs", row="ERM", setting="Art painting")
        assert (cell.status, cell.expected) == (status, 0.847)
    folder = save([run("pacs", "erm", percent=(84.7, 50, 50, 50))], tmp_path)
    shown = oodbench("check", folder, "--against", "domainbed").out
    assert "pacs domainbed:pacs-oracle: 14 cells are missing; make them with: oodbench run --suite pacs\n" in shown
    assert oodbench("check", folder, "--against", "scone").out == oodbench("check", folder, "--against", "paper").out
    refused = oodbench("check", save([run("digits-c")], tmp_path / "digits"), "--against", "domainbed")
    assert_refused(refused, "none of these results is in DomainBed: none of its suites was run at full size")
