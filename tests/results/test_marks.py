"""Which methods are not shown to be worse than the best: two procedures, hand-worked, and what feeds them."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from oodbench.config.cards import folder
from oodbench.results import marks
from oodbench.results.metrics import METRICS
from oodbench.results.samples import Sample
from oodbench.results.statistics import Column

ROOT = Path(__file__).parents[2]


def column(metric="auroc", **seeds):
    return Column(METRICS[metric], {name: Sample(dict(enumerate(values))) for name, values in seeds.items()})


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / "marks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stored_seeds_are_pooled_by_their_degrees_of_freedom():
    # 2 and 8 degrees: (2 x 4 + 8 x 1) / 10 = 1.6.
    variance, degrees = marks.pooled(np.array(4.0), 3, np.array(1.0), 9)
    assert (variance, degrees) == (pytest.approx(1.6), 10)


def test_two_methods_are_told_apart_by_stored_seeds_and_not_without():
    # 5 points with a deviation of 1: three seeds alone have t = 8.66 on 2 degrees, p = .013, and B a level of .005.
    seeds = column(a=(0.90, 0.91, 0.92), b=(0.86, 0.86, 0.86))
    assert marks.tested(seeds, {}).not_shown_worse == {"b"}
    noise = 0.01 * np.random.default_rng(0).standard_normal(10)
    stored = {"a": {100 + i: 0.91 + each for i, each in enumerate(noise)}, "b": dict.fromkeys(range(100, 110), 0.86)}
    found = marks.tested(seeds, stored)
    assert found.not_shown_worse == set() and found.best == "a" and found.next is None
    variance = (2 * 0.01**2 + 9 * np.var(noise, ddof=1)) / 11
    p = 2 * stats.t.sf(0.05 / np.sqrt(variance / 3), 11) * 0.05 / marks.LEVEL_E
    assert found.adjusted["b"] == pytest.approx(p)


def test_stored_seeds_that_the_table_has_do_not_count_twice():
    seeds = column(a=(0.90, 0.91, 0.92), b=(0.86, 0.86, 0.86))
    same = {"a": {seed: 0.9 + seed / 100 for seed in range(9)}, "b": dict.fromkeys(range(9), 0.86)}
    assert marks.tested(seeds, same).not_shown_worse == {"b"}  # six others are too few


def test_the_trend_is_that_of_independent_least_squares_and_limmas_degrees():
    random = np.random.default_rng(1)
    x = np.linspace(-3, -1, 40)
    variances = np.exp(1 + 0.5 * x) * stats.chi2.rvs(4, size=40, random_state=random) / 4
    prior, weight = marks.trend(np.log(variances), x, 4)
    slope, *_ = stats.linregress(x, np.log(variances))
    assert weight == marks.MOST_PRIOR  # nothing scatters beyond what four degrees do
    ratio = np.diff(np.log(prior)) / np.diff(x)
    assert np.allclose(ratio, slope)


def test_trigamma_is_inverted():
    from scipy.special import polygamma

    for x in (0.3, 1.0, 2.5, 40.0):
        assert marks.inverse_trigamma(float(polygamma(1, x))) == pytest.approx(x, rel=1e-6)


def test_fewer_seeds_than_three_tell_nothing_apart_without_stored_ones():
    assert marks.tested(column(a=(0.9, 0.91), b=(0.1, 0.1)), {}).not_shown_worse == {"b"}
    assert marks.tested(column(a=(0.9, 0.91)), {}) is None


def test_a_lower_number_is_better_where_the_metric_says_so():
    assert marks.tested(column("fpr95", a=(0.9, 0.91, 0.9), b=(0.1, 0.11, 0.1)), {}).best == "b"


def test_rows_of_one_network_are_one_comparison():
    few = column(a=(0.90, 0.91, 0.92), b=(0.80, 0.812, 0.818))
    many = column(a=(0.90, 0.91, 0.92), **dict.fromkeys("bcdefg", (0.80, 0.812, 0.818)))
    assert marks.tested(many, {}).adjusted["g"] == pytest.approx(marks.tested(few, {}).adjusted["b"])


def test_how_many_seeds_would_tell_two_apart_grows_with_their_spread():
    near = marks.tested(column(a=(0.90, 0.91, 0.92), b=(0.91, 0.90, 0.90)), {})
    wide = marks.tested(column(a=(0.90, 0.95, 0.88), b=(0.91, 0.90, 0.90)), {})
    assert near.next == wide.next == "b" and 3 < near.seeds < wide.seeds
    assert marks.tested(column(a=(0.9, 0.91, 0.92), b=(0.9, 0.91, 0.92)), {}).next is None  # equal numbers never part


def test_what_is_stored_is_what_the_committed_results_say():
    stored = json.loads((folder("benchmarks") / "check" / "history.json").read_bytes())
    assert script("history").history(ROOT / "results" / "reference") == stored
    (variant, *_) = stored
    (metric, *_) = [name for name in stored[variant] if name != "seeds"]
    values = marks.stored_values([variant], metric)
    assert list(values) == stored[variant]["seeds"] and values[0] == stored[variant][metric][0] / 10_000
    assert marks.stored_values([variant, "unknown"], metric) == {}


def test_a_simulation_of_equal_methods_leaves_few_of_them_out():
    """A glance at what benchmarks/marks/simulate.py measures at length."""
    simulate = script("simulate")
    random = np.random.default_rng(0)
    residuals = random.standard_normal((10, 8)) * 0.02
    stored = random.standard_normal((10, 8)) * 0.02
    for name, most in (("E", 0.08), ("B", 0.08)):
        wrong = [
            simulate.left_out(seeds + 0.8, simulate.PROCEDURES[name], stored).any()
            for seeds in simulate.normal(random, residuals, (200, 5))
        ]
        assert np.mean(wrong) < most


def test_ranks_follow_the_means_and_equals_share_the_better_one():
    ranks = marks.ranks(column(a=(0.9, 0.91, 0.92), b=(0.5, 0.51, 0.5), c=(0.5, 0.51, 0.5), d=(0.1, 0.12, 0.11)))
    assert {name: each.value for name, each in ranks.items()} == {"a": 1, "b": 2, "c": 2, "d": 4}
    assert {name: (each.low, each.high) for name, each in ranks.items()} == {
        "a": (1, 1), "b": (2, 2), "c": (2, 2), "d": (4, 4)
    }  # fmt: skip
    lower = marks.ranks(column("fpr95", a=(0.9, 0.91, 0.92), b=(0.5, 0.51, 0.5)))
    assert (lower["a"].value, lower["b"].value) == (2, 1)


def test_methods_that_nothing_tells_apart_may_have_each_others_ranks():
    ranks = marks.ranks(column(a=(0.9, 0.8, 0.7), b=(0.7, 0.85, 0.8), c=(0.1, 0.12, 0.11)))
    assert [(ranks[name].low, ranks[name].high) for name in "abc"] == [(1, 2), (1, 2), (3, 3)]


def test_two_seeds_rank_nothing():
    assert marks.ranks(column(a=(0.9, 0.8), b=(0.7, 0.85))) == {}


def test_sets_of_ranks_hold_the_truth_about_as_often_as_they_say():
    """A glance at what benchmarks/marks/coverage.py measures at length."""
    random = np.random.default_rng(3)
    truth, held = np.linspace(0.6, 0.9, 10), 0
    for _ in range(100):
        seeds = truth + 0.03 * random.standard_normal((5, 10))
        held += sum(low <= 10 - j <= high for j in range(10) for low, high in [marks.rank_set(seeds, j)])
    assert 0.92 < held / 1000 < 1
