"""What stands below a table: what the shift costs ERM, runs that did not converge, rows that print the same."""

from dataclasses import replace

import pytest
from made_results import a_result, method_run

from oodbench.report.labels import method_name, network_name
from oodbench.report.notes import seeds_in_words
from oodbench.report.render import render
from oodbench.report.tables import build
from oodbench.results.result import EpochAccuracies

ACCURACIES = ("covariate_acc", "id_acc")


def erm(setting="unseen-digits", covariate=0.75, id_=0.96, method="erm", **fields):
    metrics = {"covariate_acc": covariate, "id_acc": id_, "auroc": 0.5}
    return a_result(method=method, setting=setting, metrics=metrics, **fields)


def table(results, metrics=ACCURACIES, **options):
    (built,) = build(results, metrics, **options)
    return built


def test_what_the_covariate_shift_costs_erm_is_said():
    (line,) = table([erm(), erm(method="scone", covariate=0.9)]).remarks
    assert line == "ERM loses 21.0 points to the covariate shift (ID Acc. − OOD Acc.)."
    assert "ERM loses 21.0 points" in render([table([erm()])], "latex")


def test_settings_that_cost_erm_differently_are_named():
    (line,) = table([erm("a"), erm("b", covariate=0.97)]).remarks
    assert line == "Points that ERM loses to the covariate shift (ID Acc. − OOD Acc.): 21.0 in a, −1.0 in b."
    assert table([erm("a"), erm("b")]).remarks == ["ERM loses 21.0 points to the covariate shift (ID Acc. − OOD Acc.)."]


def test_without_erm_or_an_accuracy_nothing_is_said_of_it():
    assert table([erm(method="scone")]).remarks == []
    assert table([erm()], ("covariate_acc", "auroc")).remarks == []
    assert table([erm(status="failed", error="oh")]).remarks == []


def unfinished(seed, reason, **fields):
    return erm(method="scone", seed=seed, notes={"not_converged": reason}, **fields)


def test_a_run_that_did_not_converge_is_marked():
    reason = "the alarms constraint is violated, 0.08 where 0.05 is allowed"
    results = [unfinished(1, reason), erm(method="scone", seed=2), unfinished(3, reason)]
    built = table(results)
    assert [*built.marks] == [f"did not converge: {reason} (seeds 1, 3)"]
    assert f"- (a) did not converge: {reason} (seeds 1, 3)" in render([built], "markdown")
    assert table([unfinished(1, reason)]).rows[0].cells[0].note == f"did not converge: {reason} (seed 1)"


def test_reasons_that_differ_are_shortened_to_the_first():
    built = table(
        [unfinished(1, "the wild term still falls, by 0.1"), unfinished(3, "the wild term still falls, by 0.2")]
    )
    assert [*built.marks] == ["did not converge for seeds 1, 3 (seed 1: the wild term still falls, by 0.1)"]


def test_of_violated_constraints_the_one_furthest_over_its_limit_is_told():
    alarms, risk = "the alarms constraint is violated, {} where 0.05 is allowed", "the risk constraint is violated, {}"
    reasons = [
        alarms.format(0.056),
        f"{alarms.format(0.0555)}; {risk.format('0.03 where 0.02 is allowed')}",
        alarms.format(0.06),
        "the wild term still falls, by 0.9",
        "the gate constraint is violated, 1.2.3 where 0 is allowed",
    ]
    built = table([unfinished(seed, reason) for seed, reason in enumerate(reasons)])
    assert [*built.marks] == [f"did not converge for seeds 0–4 (at worst, seed 1: {reasons[1]})"]


def trained(method, accuracies, seed=0, **fields):
    """Ten steps for each pair of accuracies, on the training domain and on the one held out."""
    steps = [
        EpochAccuracies(i, 10 * (i + 1), {"a": seen, "b": 0.5}, {"b": unseen})
        for i, (seen, unseen) in enumerate(accuracies)
    ]
    return a_result(method=method, seed=seed, domain_accuracies=steps, training=f"{method}-{seed}", **fields)


def test_a_row_that_the_selection_stops_where_it_has_not_parted_from_another_says_so():
    results = [trained("erm", [(0.9, 0.1), (0.8, 0.2)]), trained("irm", [(0.9, 0.1), (0.7, 0.6)])]
    built = table(results)
    note = (
        "the same accuracies as ERM: model selection stops both after 10 of 20 steps, before the two trainings differ"
    )
    assert [row.cells[0].note for row in built.rows] == ["", note]
    assert [row.cells[0].percent for row in built.rows] == ["10.00", "10.00"]
    assert not table(results, selection="oracle").marks


def test_equal_numbers_of_trainings_that_parted_before_are_no_reason_to_say_so():
    results = [trained("erm", [(0.8, 0.2), (0.9, 0.1), (0.1, 0.1)]), trained("irm", [(0.8, 0.3), (0.9, 0.1), (0, 0)])]
    assert not table(results).marks


def test_seeds_that_stop_at_different_steps_give_a_range():
    early, late = [(0.9, 0.1), (0.8, 0.2), (0.7, 0.3)], [(0.8, 0.1), (0.9, 0.2), (0.7, 0.3)]
    results = [trained(method, path, seed) for method in ("erm", "irm") for seed, path in enumerate((early, late))]
    assert "stops both after 10 to 20 of 30 steps" in table(results).rows[1].cells[0].note
    results[-1] = trained("irm", [(0.8, 0.1), (0.9, 0.3), (0.7, 0.3)], 1)
    assert not table(results).marks


def test_a_failed_row_and_one_training_under_two_scorers_say_nothing():
    path = [(0.9, 0.1), (0.8, 0.2)]
    shared = [replace(trained(method, path), training="one") for method in ("erm", "msp")]
    failed = trained("irm", path, status="failed", error="oh")
    assert [*table([*shared, failed]).marks] == ["failed: oh (seed 0)"]


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([3], "seed 3"),
        ([0, 1], "seeds 0, 1"),
        ([0, 1, 2], "seeds 0–2"),
        ([0, 1, 2, 4, 5, 6, 7, 8, 9], "seeds 0–2, 4–9"),
        ([7, 4, 3, 1, 2], "seeds 1–4, 7"),
        ([1, 3, 4, 4], "seeds 1, 3, 4"),
    ],
)
def test_three_or_more_consecutive_seeds_are_folded_into_a_range(seeds, expected):
    assert seeds_in_words(seeds) == expected


def test_tables_and_figures_spell_a_method_alike():
    run = method_run("scone,margin=-2", changed={"margin": -2})
    assert method_name(run) == "SCONE (η = −2)"
    pair = replace(
        run, name="scone+knn", display="SCONE + KNN", scorer=replace(run.scorer, name="knn", changed={"k": 5})
    )
    assert method_name(pair) == "SCONE + KNN (η = −2, knn.k=5)"
    assert network_name(pair) == "SCONE (η = −2)"
