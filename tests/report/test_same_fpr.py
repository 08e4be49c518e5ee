"""Methods compared where their paths have the same FPR, worked by hand."""

import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result

from oodbench.errors import UserError
from oodbench.report.same_fpr import as_markdown, compare, value_at
from oodbench.results.ledger import Ledger
from oodbench.results.result import PathPoint
from oodbench.results.significance import t_quantile
from oodbench.results.stored import file_of, write


def path(*points):
    """Of FPR, accuracy and share flagged, in percent."""
    return [
        PathPoint(100 * i, {"fpr95": a / 100, "covariate_acc": b / 100, "covariate_flagged": c / 100})
        for i, (a, b, c) in enumerate(points)
    ]


FALLING = path((40, 75, 10), (30, 77, 20), (10, 71, 60))


@pytest.mark.parametrize(
    ("fpr", "accuracy", "flagged"),
    [(0.40, 0.75, 0.10), (0.35, 0.76, 0.15), (0.30, 0.77, 0.20), (0.20, 0.74, 0.40), (0.15, 0.725, 0.50)],
)
def test_a_path_is_read_on_the_line_between_its_points(fpr, accuracy, flagged):
    assert value_at(FALLING, fpr, "covariate_acc") == pytest.approx(accuracy)
    assert value_at(FALLING, fpr, "covariate_flagged") == pytest.approx(flagged)


@pytest.mark.parametrize("fpr", [0.41, 0.09])
def test_a_path_that_never_has_an_fpr_has_nothing_there(fpr):
    assert value_at(FALLING, fpr, "covariate_acc") is None
    assert value_at([], 0.2, "covariate_acc") is None


def test_the_first_time_counts_and_points_without_the_number_are_passed_over():
    wavering = path((40, 75, 10), (20, 70, 20), (40, 60, 30), (20, 50, 40))
    assert value_at(wavering, 0.30, "covariate_acc") == pytest.approx(0.725)
    wavering[1] = PathPoint(100, {})
    assert value_at(wavering, 0.30, "covariate_acc") == pytest.approx(0.55)
    level = path((20, 70, 0), (20, 60, 0))
    assert value_at(level, 0.20, "covariate_acc") == 0.70


def results(method, *paths):
    return [a_result(method=method, seed=seed, training_path=each) for seed, each in enumerate(paths)]


WOODS = results("woods", *[path((40, 75, 10), (10, 60 + seed, 60)) for seed in range(4)])
SCONE = [
    *results("scone", *[path((40, 75, 10), (10, 64 + 3 * seed, 30)) for seed in range(3)]),
    a_result(method="scone", seed=3, training_path=path((40, 75, 10), (35, 74, 12))),  # never comes down to 25 %
]


def test_differences_are_paired_over_the_seeds_that_both_methods_bring_there():
    """Half way between 40 and 10 %: SCONE is 2, 3 and 4 points more accurate and flags 15 points fewer."""
    accuracy, flagged = compare(Ledger([*WOODS, *SCONE]), "woods", [0.25])
    assert accuracy.method == flagged.method == "scone" and accuracy.seeds == flagged.seeds == (0, 1, 2)
    assert accuracy.mean == pytest.approx((0.695 + 0.71 + 0.725) / 3)
    assert accuracy.baseline_mean == pytest.approx((0.675 + 0.68 + 0.685) / 3)
    margin = t_quantile(2) * 0.01 / 3**0.5
    found = accuracy.difference
    assert (found.mean, found.low, found.high) == pytest.approx((0.03, 0.03 - margin, 0.03 + margin))
    assert flagged.mean - flagged.baseline_mean == pytest.approx(-0.15)


def test_a_method_that_no_seed_brings_there_has_a_row_of_dashes():
    table = as_markdown(compare(Ledger([*WOODS, *SCONE[3:]]), "woods", [0.38, 0.25]), "woods")
    first, second = [line for line in table.splitlines() if "| scone |" in line]
    assert first.startswith("| 38 | scone |") and first.endswith("| 1 |")
    assert second == "| 25 | scone | – | – | – | – | – | – | 0 |"


def test_results_without_paths_are_left_out_and_a_folder_without_any_is_refused():
    plain = a_result(method="bn-adapt")
    assert {each.method for each in compare(Ledger([*WOODS, *SCONE, plain]), "woods", [0.25])} == {"scone"}
    with pytest.raises(UserError, match="--path"):
        compare(Ledger([plain]), "bn-adapt", [0.25])
    with pytest.raises(UserError, match="'bn-adapt'"):
        compare(Ledger([*WOODS, plain]), "bn-adapt", [0.25])


def written(folder):
    for result in (*WOODS, *SCONE):
        write(result, file_of(folder, "digits-c", result.setting, result.method, result.seed, result.key), {}, [])
    return folder


def test_compare_prints_them(tmp_path):
    said = assert_done(oodbench("compare", written(tmp_path), "--baseline", "woods", "--at-fpr", "25,38"))
    assert "| 25 | scone | 71.00 | 68.00 | +3.00 [" in said and "| 38 | scone |" in said


@pytest.mark.parametrize("given", ["0", "100", "half"])
def test_an_fpr_lies_between_0_and_100(tmp_path, given):
    assert_refused(oodbench("compare", written(tmp_path), "--baseline", "woods", "--at-fpr", given), "--at-fpr")


def test_what_serves_other_tables_alone_is_refused(tmp_path):
    asked = ("compare", written(tmp_path), "--baseline", "woods", "--at-fpr", "25")
    assert_refused(oodbench(*asked, "--format", "csv"), "--format")
    assert_refused(oodbench(*asked, "--figure", tmp_path / "a.png"), "--figure")
