"""Intervals over seeds and images, paired comparisons, and what is said where something is missing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_results import a_result
from scipy import stats

from oodbench.errors import UserError
from oodbench.results import marks, statistics
from oodbench.results.draws import Split
from oodbench.results.measurement import Choice, Measurement, Runs, last_runs
from oodbench.results.metrics import METRICS, Scored, auroc, evaluate
from oodbench.results.resampling import resample
from oodbench.results.result import DataRead, PartRead, read
from oodbench.results.samples import Sample, interval, interval_of_rate, p_value, share_above_zero, standard_errors
from oodbench.results.statistics import (
    Column,
    DamagedScoresWarning,
    average,
    columns,
    compare,
    ranks,
)
from oodbench.results.stored import read_scores, write

ROWS, OOD_ROWS = 400, 150


def not_shown_worse(column):
    found = marks.tested(column, {})
    return {found.best} | found.not_shown_worse


def scored(random, rows, shift, right=None):
    labels = None if right is None else random.integers(0, 5, rows).astype(np.int16)
    predictions = np.zeros(rows) if labels is None else np.where(random.random(rows) < right, labels, labels + 1)
    return Scored(random.normal(shift, 1, rows).astype(np.float32), predictions.astype(np.int16), labels)


def stored(folder, method, seed, right=0.8, shift=1.0, by_lot=False, scores=True, setting="unseen-digits"):
    """A result in its file; a semantic split by lot has other images under every seed."""
    random = np.random.default_rng([seed, *method.encode()])
    splits = {
        "id": scored(random, ROWS, 0, right),
        "covariate": scored(random, ROWS, 0, right - 0.1),
        "semantic": scored(random, OOD_ROWS, shift),
    }
    parts = {name: PartRead(len(each.scores), f"{name} of all", "made") for name, each in splits.items()}
    if by_lot:
        parts["semantic"] = PartRead(OOD_ROWS, f"lot {seed}", "made")
        parts["wild_semantic"] = PartRead(3 * OOD_ROWS, f"rest {seed}", "made")
    made = a_result(method=method, seed=seed, setting=setting, metrics=evaluate(**splits), data=DataRead(parts=parts))
    path = folder / setting / method / f"seed{seed}.json"
    write(made, path, splits if scores else {}, [])
    return read(path)


def runs(*results):
    by_method = {}
    for result in results:
        by_method.setdefault(result.method, []).append(result)
    return {method: last_runs(own) for method, own in by_method.items()}


def one_column(metric, *results, draws=400):
    return columns(runs(*results), [metric], draws)[metric]


def sample(*values, draws=None, **more):
    return Sample(dict(enumerate(values)), draws, **more)


def test_without_raw_scores_the_interval_is_student_s_over_seeds():
    found = interval(sample(0.84, 0.85, 0.86))
    # A standard error of .01 / sqrt(3), times the quantile 4.3027 of two degrees of freedom.
    assert (found.kind, found.seeds, found.mean) == ("seeds", 3, pytest.approx(0.85))
    assert found.margin == pytest.approx(4.302653 * 0.01 / math.sqrt(3))


def test_what_shared_images_do_to_all_seeds_alike_is_added_to_the_spread_over_seeds():
    # Two seeds that move together by ±2 % and apart by ±1 %: a covariance of .0004, whatever they do apart.
    together, apart = np.array([1, 1, -1, -1]) * 0.02, np.array([1, -1, 1, -1]) * 0.01
    draws = np.tile(np.stack([together + apart, together - apart], axis=1), (1000, 1))
    errors = standard_errors(sample(0.8, 0.82, draws=draws))
    common = 0.0004 * 4000 / 3999 - 0.0001 * 4000 / 3999
    assert errors[0] == pytest.approx((0.01, 1))
    assert errors[1][0] == pytest.approx(math.sqrt(0.01**2 + common))
    assert errors[1][1] == pytest.approx(((0.0001 + common) / 0.0001) ** 2)  # Satterthwaite's degrees of freedom


def test_images_that_seeds_do_not_share_add_nothing_but_what_lots_have_in_common():
    random = np.random.default_rng(0)
    draws = random.normal(0, 0.02, (20_000, 3))
    own = sample(0.80, 0.81, 0.82, draws=draws)
    assert standard_errors(own)[1][0] == pytest.approx(0.01 / math.sqrt(3), rel=0.02)
    lots = sample(0.80, 0.81, 0.82, draws=draws, overlap=0.3)
    assert standard_errors(lots)[1][0] == pytest.approx(math.sqrt(0.01**2 / 3 + 0.3 * 0.02**2), rel=0.02)


def test_no_interval_is_narrower_than_that_of_seeds_alone():
    """Images add degrees of freedom, which would outweigh the little variance that they add."""
    random = np.random.default_rng(0)
    draws = np.repeat(random.normal(0, 0.004, (5000, 1)), 3, axis=1)
    values = (0.84, 0.85, 0.86)
    assert interval(sample(*values, draws=draws)).margin == interval(sample(*values)).margin
    assert p_value(sample(*values, draws=draws), sample(0.83, 0.83, 0.83, draws=0 * draws)) == pytest.approx(
        stats.ttest_1samp([0.01, 0.02, 0.03], 0).pvalue
    )


@pytest.mark.parametrize(("seeds", "training", "images"), [(2, 1, 1), (3, 1, 0), (3, 1, 3), (5, 0, 1), (5, 1, 1)])
def test_an_interval_covers_the_truth_in_nearly_95_of_100_cases(seeds, training, images):
    random = np.random.default_rng(seeds)
    covered = 0
    for _ in range(400):
        values = random.normal(0, training, seeds) + random.normal(0, images)
        draws = values + random.normal(0, images, (200, 1)) + np.zeros((200, seeds))
        found = interval(sample(*values, draws=draws))
        covered += found.low <= 0 <= found.high
    assert 0.92 <= covered / 400 <= 0.995


def test_the_interval_of_an_auroc_covers_the_truth_in_nearly_95_of_100_samples_of_images():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(150):
        splits = {"id": scored(random, ROWS, 0), "semantic": scored(random, OOD_ROWS, 1)}
        cell = {name: Split(name, each) for name, each in splits.items()}
        value = auroc(splits["id"].scores, splits["semantic"].scores)
        found = interval(sample(value).varying(resample({"auroc": [cell]}, 200)["auroc"]))
        covered += found.low <= stats.norm.cdf(1 / math.sqrt(2)) <= found.high
    assert 0.89 <= covered / 150 <= 0.99


def test_one_seed_has_the_interval_over_images_exact_for_accuracies(tmp_path):
    made = stored(tmp_path, "msp", 0)
    found = columns(runs(made), ["id_acc", "auroc", "fpr95"])
    successes = round(made.metrics["id_acc"] * ROWS)
    exact = stats.binomtest(successes, ROWS).proportion_ci(method="exact")
    accuracy = statistics.interval(found["id_acc"], "msp")
    assert (accuracy.low, accuracy.high) == pytest.approx((exact.low, exact.high))
    assert (accuracy.kind, accuracy.seeds, accuracy.mean) == ("images", 1, made.metrics["id_acc"])
    for metric in ("auroc", "fpr95"):
        covered = statistics.interval(found[metric], "msp")
        assert covered.low < made.metrics[metric] < covered.high and covered.kind == "images"


def test_one_seed_without_raw_scores_has_no_interval_and_no_comparison(tmp_path):
    column = one_column("auroc", *(stored(tmp_path, method, 0, scores=False) for method in ("msp", "knn")))
    assert statistics.interval(column, "msp") is None and statistics.interval(column, "vim") is None
    assert compare(column, "msp") == {}
    assert not_shown_worse(column) == {"msp", "knn"}


def test_raw_scores_of_some_seeds_are_as_good_as_none(tmp_path):
    column = one_column("auroc", stored(tmp_path, "msp", 0), stored(tmp_path, "msp", 1, scores=False))
    assert statistics.interval(column, "msp").kind == "seeds"
    both = runs(stored(tmp_path, "msp", 0), stored(tmp_path, "msp", 1))
    for images, kind in ((True, "seeds and images"), (False, "seeds")):
        column = columns(both, ["auroc"], 100, images)["auroc"]
        assert statistics.interval(column, "msp").kind == kind


def test_raw_scores_that_are_damaged_or_of_other_images_or_give_another_number_do_not_count(tmp_path):
    damaged = stored(tmp_path, "msp", 0)
    damaged.path.with_suffix(".safetensors").write_bytes(b"no")
    other_images = stored(tmp_path, "knn", 0)
    parts = {**other_images.data.parts, "id": PartRead(ROWS + 1, "id of all", "made")}
    other_images = replace(other_images, data=DataRead(parts=parts))
    other_number = stored(tmp_path, "vim", 0)
    other_number.metrics["auroc"] += 0.001
    with pytest.warns(DamagedScoresWarning, match="ignored the raw scores '.*msp/seed0.safetensors': damaged") as heard:
        column = one_column("auroc", damaged, other_images, other_number)
    assert len(heard) == 1
    assert [each.draws for each in column.samples.values()] == [None] * 3


def test_what_was_selected_before_the_last_epoch_has_no_raw_scores(tmp_path):
    result = stored(tmp_path, "erm", 0)
    early = Measurement(result, result.metrics, choice=Choice(0, 1, 10, is_last=False, passed_over=0))
    found = columns({"erm": Runs(result, [early])}, ["id_acc"])["id_acc"]
    assert found.samples["erm"].draws is None


def test_two_methods_are_compared_over_the_seeds_that_both_have(tmp_path):
    made = [stored(tmp_path, "msp", seed) for seed in (0, 1, 2)] + [stored(tmp_path, "knn", seed) for seed in (1, 2, 3)]
    difference = compare(one_column("auroc", *made), "msp")["knn"]
    by_seed = {(each.method, each.seed): each.metrics["auroc"] for each in made}
    expected = [by_seed["knn", seed] - by_seed["msp", seed] for seed in (1, 2)]
    assert difference.interval.seeds == 2 and difference.interval.mean == pytest.approx(np.mean(expected))
    assert compare(one_column("auroc", made[0], made[-1]), "msp") == {}


def test_accuracies_under_one_seed_are_compared_by_mcnemar(tmp_path):
    first, second = stored(tmp_path, "msp", 0, right=0.8), stored(tmp_path, "knn", 0, right=0.8)
    column = one_column("id_acc", first, second)
    correct = {name: each.correct[0] for name, each in column.samples.items()}
    discordant = [int(np.sum(correct["knn"] & ~correct["msp"])), int(np.sum(correct["msp"] & ~correct["knn"]))]
    difference = compare(column, "msp")["knn"]
    assert difference.p == pytest.approx(stats.binomtest(discordant[0], sum(discordant)).pvalue)
    assert difference.interval.kind == "images"
    assert difference.interval.mean == pytest.approx((discordant[0] - discordant[1]) / ROWS)


def test_a_better_detector_is_better_under_one_seed_and_under_three(tmp_path):
    for seeds in ((0,), (0, 1, 2)):
        made = [stored(tmp_path, method, s, shift=shift) for s in seeds for method, shift in (("a", 1), ("b", 2.5))]
        for metric in ("auroc", "fpr95"):
            difference = compare(one_column(metric, *made), "a")["b"]
            assert difference.is_better and difference.is_significant and difference.share_above == 1
            assert (difference.interval.mean > 0) == (metric == "auroc")
            assert not difference.interval.low <= 0 <= difference.interval.high
            assert not_shown_worse(one_column(metric, *made)) == {"b"}


def test_the_worst_of_forty_scorers_is_told_from_the_best_under_one_seed(tmp_path):
    """With 1,000 draws the least p that they can count is .002, and forty times that is .08."""
    made = [stored(tmp_path, f"s{i}", 0, shift=3.0 if i == 0 else 0.1) for i in range(40)]
    column = columns(runs(*made), ["auroc"], 1_000)["auroc"]
    assert not_shown_worse(column) == {"s0"}
    best, other = column.samples["s0"], column.samples["s1"]
    deviation = np.std(best.draws[:, 0] - other.draws[:, 0], ddof=1)
    z = (made[0].metrics["auroc"] - made[1].metrics["auroc"]) / deviation
    assert p_value(best, other) == pytest.approx(2 * stats.norm.sf(z), rel=0.2)


def test_rows_that_share_a_network_are_one_comparison_and_none_with_each_other():
    def accuracy(*values):
        draws = np.random.default_rng(0).normal(0, 0.001, (500, 1)) + np.array(values)
        return sample(*values, draws=draws)

    better, worse = accuracy(0.90, 0.91, 0.92), accuracy(0.60, 0.63, 0.61)
    alone = compare(Column(METRICS["id_acc"], {"erm": better, "irm": worse}), "erm")["irm"]
    shared = {"erm": better, "msp": better, "irm": worse, "irm+msp": worse}
    found = compare(Column(METRICS["id_acc"], shared), "erm")
    assert (found["msp"].p, found["msp"].adjusted, found["msp"].share_above) == (1, 1, 0.5)
    assert found["irm"].adjusted == found["irm+msp"].adjusted == alone.p
    assert not_shown_worse(Column(METRICS["id_acc"], shared)) == {"erm", "msp"}


def test_rounding_errors_of_draws_above_one_make_no_interval_of_negative_width():
    found = interval_of_rate(Sample({0: 1.0}, draws=np.full((10, 1), 1 + 1e-15)))
    assert (found.low, found.high, found.margin) == (1, 1, 0)


def test_seeds_that_agree_to_the_last_digit_are_no_proof_without_images():
    assert interval(sample(0.5, 0.5)) is None and p_value(sample(0.5, 0.5), sample(0.4, 0.4)) is None


def test_a_lot_counts_with_its_share_of_the_pool(tmp_path):
    shared = one_column("auroc", *(stored(tmp_path / "a", "msp", seed) for seed in range(3))).samples["msp"]
    lots = one_column("auroc", *(stored(tmp_path / "b", "msp", s, by_lot=True) for s in range(3))).samples["msp"]
    assert (shared.overlap, lots.overlap) == (0.0, 0.25)


def test_draws_are_moved_to_the_value_and_those_without_a_number_count_as_it():
    moved = sample(0.5).varying(np.array([[0.7], [0.9], [np.nan]])).draws
    assert moved == pytest.approx(np.array([[0.4], [0.6], [0.5]]))


def test_covariate_images_with_the_labels_of_the_id_images_are_drawn_with_them(tmp_path):
    result = stored(tmp_path, "msp", 0)
    scores = read_scores(result)
    for labels, shared in ((scores["covariate"].labels, False), (scores["id"].labels, True)):
        splits = {**scores, "covariate": replace(scores["covariate"], labels=labels)}
        write(replace(result, metrics=evaluate(**splits)), result.path, splits, [])
        column = one_column("covariate_acc", read(result.path))
        assert (column.samples["msp"].images == ("id of all",)) == shared


def test_an_average_is_over_settings_that_all_have_and_keeps_what_their_images_share(tmp_path):
    def column(setting):
        made = [stored(tmp_path, "msp", seed, setting=setting) for seed in (0, 1, 2)]
        rest = [stored(tmp_path, "knn", 0, setting=setting)] if setting == "near" else []
        return one_column("id_acc", *made, *rest)

    near, far = column("near"), column("far")
    mean = average([near, far])
    assert list(mean.samples) == ["msp"] and list(mean.samples["msp"].values) == [0, 1, 2]
    assert mean.samples["msp"].values == pytest.approx(near.samples["msp"].values)
    # The same ID images, and here the same predictions: two settings know no more than one.
    assert statistics.interval(mean, "msp").margin == pytest.approx(statistics.interval(near, "msp").margin)


def test_ranks_begin_with_the_best_and_are_shared_by_equals():
    values = {"a": 0.2, "b": 0.1, "c": 0.2, "d": 0.4}
    of = {name: sample(value) for name, value in values.items()}
    assert ranks(Column(METRICS["fpr95"], of)) == {"a": 2.5, "b": 1, "c": 2.5, "d": 4}
    assert ranks(Column(METRICS["auroc"], of)) == {"a": 2.5, "b": 4, "c": 2.5, "d": 1}


def test_the_share_of_draws_ranked_above_draws_seeds_and_images():
    # Two seeds, +1 and -1: both drawn the first is above, both the second below, one of each a tie.
    assert share_above_zero(sample(1.0, -1.0)) == pytest.approx(0.5, abs=0.02)
    assert share_above_zero(sample(1.0, 0.5)) == 1
    # One seed, half of the draws of images above.
    assert share_above_zero(sample(0.0, draws=np.array([[1.0], [-1.0], [1.0], [0.0]]))) == (2 + 0.5) / 4


def test_a_repetition_gives_the_same_numbers(tmp_path):
    made = [stored(tmp_path, method, seed) for method in ("a", "b", "c") for seed in range(3)]
    first, second = ({m: compare(one_column(m, *made), "a") for m in ("auroc", "fpr95", "id_acc")} for _ in range(2))
    assert first == second


def test_a_baseline_that_is_not_there_is_answered_with_what_is(tmp_path):
    with pytest.raises(UserError, match="unknown method of these results 'erm'; known: knn, msp"):
        compare(one_column("auroc", stored(tmp_path, "msp", 0), stored(tmp_path, "knn", 0)), "erm")
