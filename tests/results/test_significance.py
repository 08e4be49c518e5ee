"""Intervals and p-values: hand-worked, and against scipy's own."""

import math

import pytest
from scipy import stats

from oodbench.results.significance import clopper_pearson, holm, mcnemar, t_quantile, t_test


def test_quantiles_are_those_of_student_and_of_the_normal_distribution_for_infinite_degrees():
    assert t_quantile(2) == pytest.approx(4.302653, abs=1e-6)
    assert t_quantile(7.3) == pytest.approx(stats.t.ppf(0.975, 7.3))
    assert t_quantile(math.inf) == pytest.approx(1.959964, abs=1e-6)


def test_a_t_test_of_three_differences_agrees_with_scipy():
    differences = [0.0514, 0.0278, 0.0133]
    error = stats.sem(differences)
    assert t_test(sum(differences) / 3, error, 2) == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert t_test(-0.02, 0.01, math.inf) == pytest.approx(2 * stats.norm.sf(2))


def test_without_any_error_only_zero_is_compatible_with_zero():
    assert (t_test(0.0, 0.0, 2), t_test(0.1, 0.0, 2)) == (1.0, 0.0)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (10, 10), (3, 10), (9884, 10000)])
def test_the_interval_of_a_share_is_the_exact_one(successes, trials):
    exact = stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(successes, trials) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_no_failure_in_ten_trials_leaves_the_upper_end_open_and_the_lower_by_hand():
    # The lower end p has p ** 10 = 0.025.
    low, high = clopper_pearson(10, 10)
    assert high == 1 and low**10 == pytest.approx(0.025)


def test_mcnemar_counts_heads_of_a_fair_coin():
    # One of six discordant images: 2 * (1 + 6) / 2 ** 6.
    assert mcnemar(1, 5) == mcnemar(5, 1) == pytest.approx(2 * 7 / 64)
    assert mcnemar(3, 3) == mcnemar(0, 0) == 1.0
    assert mcnemar(130, 210) == pytest.approx(stats.binomtest(130, 340).pvalue)


def test_holm_multiplies_by_what_is_left_and_never_falls():
    # Sorted: .01 * 4, .02 * 3, .04 * 2 and .9 * 1.
    adjusted = holm({"a": 0.04, "b": 0.01, "c": 0.9, "d": 0.02})
    assert list(adjusted) == ["a", "b", "c", "d"]
    assert adjusted == pytest.approx({"b": 0.04, "d": 0.06, "a": 0.08, "c": 0.9})
    # .03 * 2 = .06 may not be followed by .04 * 1.
    assert holm({"a": 0.03, "b": 0.04}) == pytest.approx({"a": 0.06, "b": 0.06})
    assert holm({"a": 0.7, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
