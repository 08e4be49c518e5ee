"""Differences to verdicts: hand-worked intervals, numbers of seeds and image errors, with scipy as oracle."""

import math
from dataclasses import replace

import pytest
from scipy import stats

from oodbench.report import image_error
from oodbench.report.image_error import Images
from oodbench.report.spread import Variance
from oodbench.report.verdicts import Uncertainty, Verdict, cells_judged, in_words, judged

# Two points of standard deviation, four seeds on both sides: the standard error is 0.02 * sqrt(2 / 4).
FOUR_EACH = Uncertainty(Variance(0.0004, 20), 4, sides=2)


def verdict(off, band=0.03, uncertainty=FOUR_EACH, status="cannot tell"):
    return Verdict("suite", "", "setting", "row", "auroc", status, 0.5 + off, 0.5, band, uncertainty)


def only(*verdicts):
    return judged(verdicts)[0]


def test_the_interval_of_a_difference_is_students():
    assert FOUR_EACH.standard_error == pytest.approx(0.0141421, rel=1e-5)
    assert FOUR_EACH.margin == pytest.approx(1.724718 * 0.0141421, rel=1e-5)
    assert FOUR_EACH.p_value(-0.05) == pytest.approx(2 * stats.t.sf(0.05 / 0.0141421, 20), rel=1e-4)


def test_what_is_known_without_training_adds_degrees_of_freedom():
    # 0.0004 (1/4 + 1) of training and 0.0001 besides: 20 (6/5)^2.
    mixed = Uncertainty(Variance(0.0004, 20), 4, other_runs=1, fixed=0.0001)
    assert mixed.standard_error**2 == pytest.approx(0.0006)
    assert mixed.freedom == pytest.approx(28.8)
    normal = Uncertainty(Variance(0, 20), 4, fixed=0.0001)
    assert normal.freedom == math.inf and normal.margin == pytest.approx(0.01 * 1.644854)
    assert normal.p_value(0.0196) == pytest.approx(0.05, abs=1e-4)


def test_a_cell_agrees_if_its_whole_interval_lies_inside_the_band():
    # The margin is 0.0244: 0.0056 is the largest difference that is shown to lie inside 0.03.
    assert [only(verdict(off)).status for off in (0.0, 0.0055, -0.0055)] == ["agrees"] * 3
    assert [only(verdict(off)).status for off in (0.0057, -0.0057)] == ["cannot tell"] * 2


def test_a_cell_differs_if_chance_does_not_explain_it():
    # t is 2.086 at 5 % in two directions: 0.0295.
    assert only(verdict(0.0290)).status == "cannot tell"
    assert only(verdict(0.0300)).status == "differs"


def test_a_difference_beyond_chance_and_inside_the_band_agrees():
    sure = Uncertainty(Variance(1e-8, 20), 4, sides=2)
    found = only(verdict(0.01, uncertainty=sure))
    assert found.p_value < 1e-9 and found.status == "agrees"


def test_where_nothing_varies_the_band_alone_decides():
    sure = Uncertainty(Variance(0, 20), 4, sides=2)
    offs = (0.0, 0.029, 0.031)
    assert [only(verdict(off, uncertainty=sure)).status for off in offs] == ["agrees", "agrees", "differs"]


def test_each_cell_is_judged_with_all_others_of_the_check():
    assert only(verdict(0.030)).status == "differs"
    beside_another = judged([verdict(0.030), verdict(0.0)])
    assert [each.status for each in beside_another] == ["cannot tell", "agrees"]
    assert beside_another[0].p_value == pytest.approx(2 * FOUR_EACH.p_value(0.03))
    assert cells_judged(beside_another) == 2


def test_where_only_what_is_worse_counts_the_test_has_one_side():
    # In one direction t is 1.7247 at 5 %: a loss above 0.0244 differs, one of at most 0.03 - 0.0244 agrees.
    losses = {0.0055: "agrees", 0.0057: "cannot tell", 0.0243: "cannot tell", 0.0245: "differs", -0.5: "agrees"}
    for loss, status in losses.items():
        assert judged([verdict(-loss)], no_worse=True)[0].status == status, loss
        less_is_better = replace(verdict(loss), metric="fpr95")
        assert judged([less_is_better], no_worse=True)[0].status == status, loss
    (found,) = judged([verdict(-0.0245)], no_worse=True)
    assert found.p_value == pytest.approx(stats.t.sf(0.0245 / 0.0141421, 20), rel=1e-4)
    (gain,) = judged([verdict(0.0245)], no_worse=True)
    assert gain.p_value == pytest.approx(1 - found.p_value)


def test_the_seeds_that_would_tell_a_loss_are_those_of_one_side():
    # At 0.02 an error of 0.02 / 1.645 would differ: 0.0008 / 0.01216^2 = 5.4, where two sides take 8.
    assert judged([verdict(-0.02)], no_worse=True)[0].seeds_needed == 6


def test_counts_are_told_in_words():
    assert in_words({"agrees": 5, "differs": 2, "cannot tell": 1}) == "5 agree, 2 differ, 1 cannot tell"
    assert in_words({"agrees": 1, "differs": 1}) == "1 agrees, 1 differs, 0 cannot tell"
    assert in_words({"missing": 3, "suspect": 2}) == "0 agree, 0 differ, 0 cannot tell, 2 suspect, 3 missing"
    assert in_words({"agrees": 5, "differs": 1}, no_worse=True) == "5 no worse, 1 worse, 0 cannot tell"


def test_what_is_suspect_or_missing_is_not_judged_and_not_counted():
    missing = Verdict("suite", "", "setting", "row", "auroc", "missing")
    found = judged([verdict(0.03), verdict(0.5, status="suspect"), missing])
    assert [each.status for each in found] == ["differs", "suspect", "missing"] and cells_judged(found) == 1


def test_cannot_tell_says_how_many_seeds_would():
    # At 0.02 an error of 0.01 / 1.645 would agree and one of 0.02 / 1.96 = 0.0102 differ: 0.0008 / 0.0102^2 = 7.7.
    assert only(verdict(0.02)).seeds_needed == 8
    # To agree at 0.01: 0.02 / 1.645 = 0.01216, and 0.0008 / 0.01216^2 = 5.4.
    assert only(verdict(0.01)).seeds_needed == 6
    # The normal distribution would be content with the four that there are.
    assert only(verdict(0.006)).seeds_needed == 5
    assert only(verdict(0.0)).seeds_needed is None  # agrees


def test_no_number_of_seeds_of_ours_makes_up_for_one_run_of_theirs():
    against_one = Uncertainty(Variance(0.0004, 20), 4, other_runs=1)
    assert only(verdict(0.0, uncertainty=against_one)).seeds_needed is None
    # An error of 0.06 / 1.96 = 0.0306, of which 0.02 are theirs: 0.0004 / (0.000937 - 0.0004).
    narrow = Uncertainty(Variance(0.0004, 3), 1, other_runs=1)
    assert only(verdict(0.06, uncertainty=narrow)).seeds_needed == 2


def test_a_verdict_is_told_in_words():
    assert str(only(verdict(-0.06))) == (
        "suite / setting / row / AUROC: 44.00, expected 50.00, off by -6.00 ± 2.44 with a tolerance of 3.00, p = 0.0004"
    )


def test_the_error_of_an_auroc_is_hanleys_and_mcneils():
    # Q1 = 9/11, Q2 = 1.62/1.9: (.09 + 9 (Q1 - .81) + 19 (Q2 - .81)) / 200.
    assert image_error.hanley_mcneil(0.9, 10, 20) == pytest.approx(0.00486818, rel=1e-5)
    # At one half it is that of the rank statistic.
    assert image_error.hanley_mcneil(0.5, 30, 40) == pytest.approx((30 + 40 + 1) / (12 * 30 * 40), rel=1e-9)


def test_the_error_of_fpr_has_a_part_of_the_threshold():
    slope = stats.norm.pdf(0) / stats.norm.pdf(stats.norm.ppf(0.05))  # 3.87
    assert image_error.missed(0.5, 100, 1000) == pytest.approx(0.0025 + slope**2 * 0.05 * 0.95 / 1000)
    assert image_error.missed(0.0, 100, 1000) == image_error.missed(1.0, 100, 1000) == 0


def test_every_metric_is_measured_on_its_own_images():
    images = Images(id=100, covariate=200, semantic=400, mixed=800)
    errors = {name: image_error.variance(name, 0.5, images) for name in ("id_acc", "covariate_acc", "out_share")}
    assert errors == {"id_acc": 0.0025, "covariate_acc": 0.00125, "out_share": 0.0003125}
    assert image_error.variance("auroc", 0.9, images) == image_error.hanley_mcneil(0.9, 400, 100)
    assert image_error.variance("fpr95", 0.2, images) == image_error.missed(0.2, 400, 100)
