"""OpenOOD's checkpoints against its leaderboard, with results whose AUROC is stated here."""

import json
from dataclasses import asdict, replace

import pytest
from command_line import assert_refused, oodbench
from made_results import a_given_result, given_contents, given_run

from oodbench.config.contents import Source
from oodbench.data.openood import BENCHMARKS
from oodbench.errors import UserError
from oodbench.report.openood import leaderboard, with_leaderboard
from oodbench.results.ledger import Ledger
from oodbench.results.stored import write

CIFAR10, CIFAR100 = BENCHMARKS
BOARD = leaderboard()


def network(benchmark=CIFAR10, number=0, **changes):
    """One of the checkpoints, as `evaluate` records it."""
    prepared = asdict(replace(benchmark.preprocessing, **changes))
    return given_run(f"s{number}", model=BOARD.model, digest=f"{number:016x}", preprocessing=prepared)


def evaluated(given, auroc, scorer="msp", benchmark=CIFAR10, id="test_cifar10", id_acc=0.95, sets=None):
    """A result for every set, with that AUROC or those by group."""
    names = [f"test_{each}" for each in sets or (*benchmark.near, *benchmark.far)]
    contents = replace(given_contents(names), id=Source(id))
    rates = auroc if isinstance(auroc, dict) else {"near": auroc, "far": auroc}
    return [
        a_given_result(
            scorer, name, given=given, contents=contents,
            metrics={"auroc": rates[benchmark.group(name)], "id_acc": id_acc},
        )
        for name in names
    ]  # fmt: skip


def checked(results):
    return {(each.setting, each.row): each for each in with_leaderboard(Ledger(results))}


def test_networks_that_reach_the_leaderboard_agree_and_those_far_below_differ():
    good = [
        each for i in range(3) for each in evaluated(network(number=i), {"near": 0.8803, "far": 0.9073}, id_acc=0.95)
    ]
    verdicts = checked(good)
    assert [verdicts[place].status for place in (("near", "MSP"), ("far", "MSP"))] == ["agrees"] * 2
    assert verdicts["near", "MSP"].expected == 0.8803 and verdicts["ID test", "all scorers"].status == "agrees"
    bad = [each for i in range(3) for each in evaluated(network(number=i), 0.6, id_acc=0.5)]
    assert {verdict.status for verdict in checked(bad).values() if verdict.measured is not None} == {"differs"}


def test_near_and_far_are_means_over_sets_and_then_over_networks():
    first = evaluated(network(number=0), {"near": 0.8, "far": 0.6})
    first[0].metrics["auroc"] = 0.9  # CIFAR-100; Tiny ImageNet has 0.8
    second = evaluated(network(number=1), {"near": 0.95, "far": 0.7})
    verdicts = checked(first + second)
    assert verdicts["near", "MSP"].measured == pytest.approx(((0.9 + 0.8) / 2 + 0.95) / 2)
    assert verdicts["far", "MSP"].measured == pytest.approx(0.65)
    assert "2 networks" in verdicts["far", "MSP"].suite


def test_a_scorer_that_openood_tunes_on_ood_images_is_shown_and_never_judged():
    verdict = checked(evaluated(network(), 0.5, "knn"))["near", "KNN"]
    assert verdict.status == "tuned there" and verdict.p_value is None and verdict.difference == pytest.approx(-0.4064)


def test_a_set_that_is_not_evaluated_leaves_its_group_missing():
    verdicts = checked(evaluated(network(), 0.9, sets=("cifar100", "mnist", "svhn", "texture", "places365")))
    assert verdicts["near", "MSP"].status == "missing" and verdicts["near", "MSP"].note == "not scored on tin"
    assert verdicts["far", "MSP"].measured == pytest.approx(0.9)


def test_each_benchmark_is_told_by_how_images_were_prepared():
    results = evaluated(network(CIFAR100, 1), 0.8, benchmark=CIFAR100, id="test_cifar100", id_acc=0.77)
    assert checked(results)["near", "MSP"].expected == 0.8027


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([a_given_result(metrics={"auroc": 0.9})], "none of these results is of openood:resnet18_32x32"),
        (evaluated(network(mean=(0.5, 0.5, 0.5)), 0.9), "not prepared as OpenOOD does"),
        (evaluated(network(), 0.9, id="val_cifar10"), "the ID images are 'val_cifar10', and OpenOOD's are its list"),
    ],
)  # fmt: skip
def test_what_is_no_evaluation_of_openood_is_refused_in_words(results, message):
    with pytest.raises(UserError, match=message):
        with_leaderboard(Ledger(results))


def test_the_command_prints_the_cells_and_gives_them_as_json(tmp_path):
    results = [*evaluated(network(), 0.6, id_acc=0.5), *evaluated(network(), 0.6, "knn", id_acc=0.5)]
    for number, each in enumerate(results):
        write(each, tmp_path / each.setting / f"{number}.json", {}, [])
    outcome = oodbench("check", tmp_path, "--against", "openood")
    assert outcome.status == 1 and "tuned there: OpenOOD chose hyperparameters" in outcome.out
    found = json.loads(oodbench("check", tmp_path, "--against", "openood", "--json").out)
    assert found["counts"]["tuned there"] == 2 and found["counts"]["differs"] == 3
    assert_refused(oodbench("check", tmp_path, "--against", "openod"), "did you mean 'openood'?")


def test_every_row_is_of_a_scorer_and_every_number_a_percentage():
    for reported in BOARD.benchmarks.values():
        numbers = [pair for row in reported.rows for pair in (row.near, row.far)] + [reported.id_acc]
        assert all(len(pair) == 2 and 0 <= pair[1] < pair[0] <= 100 for pair in numbers)
        assert len({row.scorer for row in reported.rows}) == len(reported.rows) == 19
    assert {*BOARD.benchmarks} == {each.name for each in BENCHMARKS}
