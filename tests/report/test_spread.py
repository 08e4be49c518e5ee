"""The spread of results: measured by hand and by the script, and looked up for a cell."""

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from reported_results import run, save
from spreads import method

from oodbench.config.schema import Document
from oodbench.errors import UserError
from oodbench.report import spread
from oodbench.report.comparison import bands
from oodbench.report.spread import FROM_GROUP, POST_HOC, Spread, SuiteSpread, Where
from oodbench.results.ledger import Ledger

WILD, OTHER = "Learning with wild data", "OOD generalization"
HERE = Where("digits-c", "digits-c", "unseen-digits", WILD, "scone")


@pytest.fixture
def script(monkeypatch):
    """benchmarks/check/measure_spread.py"""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks" / "check")
    yield import_module("measure_spread")
    del sys.modules["measure_spread"]


def spread_of(label="digits-c", setting="unseen-digits", group=WILD, suite=None, **methods):
    return Spread({label: SuiteSpread(suite or label, {setting: {group: methods}})})


def points(variance):
    return 100 * variance.value**0.5


def test_a_method_of_many_runs_has_its_own_spread():
    measured = spread_of(scone=method(3.0, 1.0, seeds=10_001))
    assert points(measured.of(HERE, "auroc", "seeds")) == pytest.approx(3.0)
    assert points(measured.of(HERE, "auroc", "machines")) == pytest.approx(1.0)
    assert measured.of(HERE, "auroc", "seeds").freedom == 10_000
    assert measured.of(HERE, "auroc", "machines").freedom == 20_002  # two for each seed


def test_between_machines_a_method_varies_by_the_share_usual_in_its_group_or_more():
    measured = spread_of(scone=method(4.0, 0.1), woods=method(4.0, 3.0), oe=method(1.0, 0.0))
    # The variances are 0.01, 9 and 0 of 16, 16 and 1: a share of 9.01 / 33, which of 16 is 4.37 and of 1 is 0.27.
    expected = {"scone": 16 * 9.01 / 33, "woods": 9.0, "oe": 9.01 / 33}
    for name, value in expected.items():
        found = measured.of(replace(HERE, method=name), "auroc", "machines")
        assert (found.value * 1e4, found.freedom) == (pytest.approx(value), 22)
    assert points(measured.of(HERE, "auroc", "seeds")) == pytest.approx(4.0)


def test_a_method_that_was_not_measured_varies_as_its_group_does():
    measured = spread_of(woods=method(1.0, seeds=4), oe=method(7.0, seeds=4))
    found = measured.of(HERE, "auroc", "seeds")
    assert (points(found), found.freedom) == (pytest.approx(5.0), FROM_GROUP)  # the root of (1 + 49) / 2


@pytest.mark.parametrize(
    "elsewhere",
    [
        spread_of(setting="photo-patches", scone=method(2.0)),
        spread_of("digits-c-other", suite="digits-c", scone=method(2.0)),
        spread_of("mnist-c", scone=method(2.0)),
        spread_of("mnist-c", group=OTHER, mixup=method(2.0)),
    ],
    ids=["another setting", "another preset", "another suite", "another group"],
)
def test_what_lies_nearest_stands_in_for_what_was_not_measured(elsewhere):
    assert points(elsewhere.of(HERE, "auroc", "seeds")) == pytest.approx(2.0)


def test_where_one_machine_ran_the_spread_over_seeds_stands_for_that_between_machines():
    measured = spread_of(scone=method(3.0, None, seeds=10_001, machines=1))
    assert points(measured.of(HERE, "auroc", "machines")) == pytest.approx(3.0)


def test_without_any_measurement_it_says_what_to_run():
    with pytest.raises(UserError, match="no spread was measured of any method; run benchmarks/check/measure_spread.py"):
        Spread().of(HERE, "auroc", "seeds")


def test_rows_that_share_the_network_of_erm_are_a_group():
    result = run("digits-c", "erm")
    assert spread.group_of(result) == POST_HOC
    assert spread.group_of(run("digits-c", "scone")) == WILD


def test_standard_deviations_are_pooled_over_machines_and_over_seeds(script):
    # Over seeds the variances are 2 and 8, between machines 0.5 and 4.5.
    assert script.of_values([[1, 3], [2, 6]]) == [pytest.approx(5**0.5), pytest.approx(2.5**0.5)]
    assert script.of_values([[1, 3]]) == [pytest.approx(2**0.5), None]


def ledger(values, **fields):
    """The same method, its OOD accuracy by seed."""
    return Ledger([run("digits-c", "scone", seed, (v, 50, 50, 50), **fields) for seed, v in values.items()])


def test_the_script_measures_seeds_that_all_machines_ran(script):
    measured = script.measure([ledger({0: 1, 1: 3, 2: 99}), ledger({0: 2, 1: 6})])
    found = measured.suites["digits-c"].settings["unseen-digits"][WILD]["scone"]
    assert (found.seeds, found.machines) == (2, 2)
    assert found.points["covariate_acc"] == [pytest.approx(5**0.5), pytest.approx(2.5**0.5)]
    assert found.points["id_acc"] == [0, 0]


def test_one_seed_or_a_failure_is_no_spread(script):
    failed = [replace(each, status="failed", error="oh", metrics={}) for each in ledger({1: 3}).results]
    assert script.measure([ledger({0: 1})]).suites == {}
    assert script.measure([Ledger(ledger({0: 1}).results + failed)]).suites == {}


def test_what_the_script_writes_is_what_the_check_reads(script, tmp_path, monkeypatch, capsys):
    first = save(ledger({0: 50, 1: 52}).results, tmp_path / "first")
    second = save(ledger({0: 51, 1: 53}).results, tmp_path / "second")
    written = tmp_path / "spread.yaml"
    monkeypatch.setattr(sys, "argv", ["measure_spread.py", str(first), str(second), "--output", str(written)])
    assert script.main() == 0
    found = Document(written).conform(Spread).suites["digits-c"].settings["unseen-digits"][WILD]["scone"]
    assert found.points["covariate_acc"] == [1.414, 0.707]
    shown = capsys.readouterr().out
    assert "digits-c, Learning with wild data: OOD Acc. 1.41 / 0.71, ID Acc. 0.00 / 0.00" in shown
    assert "whole checks" not in shown
    assert "digits-c: a run under the same seed on another machine varies in OOD Acc. by 0.71 points" in shown


def test_the_script_tries_the_check_on_machines_that_the_spread_was_measured_without(script):
    alike = [ledger({0: 50 + i, 1: 60 - i, 2: 70 + i}) for i in (0, 1, 2)]
    assert script.trials(alike) == (6, 0)
    other = ledger({0: 10, 1: 20, 2: 30})
    assert script.trials([*alike[:2], other]) == (6, 2)  # tried by the spread of the two that are alike


def test_the_file_has_every_metric_that_digits_c_is_compared_by():
    groups = spread.measured().suites["digits-c"].settings["unseen-digits"]
    for methods in groups.values():
        for each in methods.values():
            assert set(each.points) == set(bands().of("digits-c")) and each.machines > 1
