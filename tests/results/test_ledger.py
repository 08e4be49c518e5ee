"""The ledger: what counts of the results of a folder, in which order, and what failed."""

from dataclasses import replace

import pytest
from made_results import a_result

from oodbench.errors import UserError
from oodbench.results.ledger import Ledger, as_ledger


def at(minute, **fields):
    return a_result(written=f"2026-08-01T12:{minute:02}:00", key=f"k{minute}", **fields)


def keys(results):
    return [each.key for each in results]


def test_results_are_answered_by_suite_and_preset_method_setting_and_seed():
    results = [
        at(3, method="msp"),
        at(1, method="knn", seed=1),
        at(2, method="knn", preset="smoke"),
        at(0, suite="pacs"),
    ]
    ledger = Ledger(results)
    assert keys(ledger.results) == ["k0", "k1", "k2", "k3"]
    assert [(label, keys(suite.results)) for label, suite in ledger.suites.items()] == [
        ("digits-c", ["k1", "k3"]), ("digits-c-smoke", ["k2"]), ("pacs", ["k0"]),
    ]  # fmt: skip
    assert keys(ledger.where(method="knn").results) == ["k1", "k2"]
    assert keys(ledger.where(suite="digits-c", seed=1).results) == ["k1"]
    assert keys(ledger.where(setting="unseen-digits", method="msp").results) == ["k3"]
    assert as_ledger(ledger) is ledger


def test_of_a_method_and_setting_the_newest_run_of_every_seed_of_the_variant_run_last_counts():
    old = [at(0, seed=0, variant="old"), at(1, seed=5, variant="old")]
    new = [at(2, seed=1), at(3, seed=0), at(4, seed=0), at(5, seed=2, status="failed", error="no memory")]
    ledger = Ledger(old + new)
    runs = ledger.runs("scone", "unseen-digits")
    assert keys(each.result for each in runs.ok) == ["k4", "k2"] and runs.left_out == 2
    assert [(each.seed, each.problem) for each in runs.failed] == [(2, "no memory")]
    assert [each.seed for each in ledger.runs("scone", "unseen-digits", seeds=1).measurements] == [0]
    assert ledger.runs("scone", "photo-patches") is None
    assert keys(ledger.failed) == ["k5"]


def test_a_cell_that_failed_and_was_run_again_has_not_failed():
    assert Ledger([at(0, status="failed", error="oh"), at(1)]).failed == []


def test_settings_stand_as_the_suite_that_ran_last_lists_them_and_others_follow_by_name():
    results = [at(i, setting=name) for i, name in enumerate(("b", "photo-patches", "a", "unseen-digits"))]
    assert Ledger(results).settings == ["unseen-digits", "photo-patches", "a", "b"]


def test_a_method_is_the_one_that_ran_last():
    older, newer = at(0), at(1)
    renamed = replace(newer.config.method, display="SCONE, renamed")
    results = [replace(newer, config=replace(newer.config, method=renamed)), older]
    assert Ledger(results).methods["scone"].display == "SCONE, renamed"


def test_without_results_there_are_no_suites():
    with pytest.raises(UserError, match="^no results to show; run one with: oodbench run --suite digits-c"):
        _ = Ledger([]).suites
