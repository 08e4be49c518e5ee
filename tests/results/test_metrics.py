"""Metrics against scikit-learn, hand-worked cases and properties that hold for any scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, det_curve, roc_auc_score, roc_curve

from oodbench.results import metrics
from oodbench.results.metrics import METRICS, Scored, accuracy, calibration_error, curve, detection, evaluate

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(0, 1, 997), RNG.normal(1.5, 1, 1003)
PAIRS = {
    "distinct": NORMAL,
    "float32": tuple(s.astype(np.float32) for s in NORMAL),
    "mixed dtypes": (NORMAL[0].astype(np.float32), NORMAL[1]),
    "many ties": tuple(np.round(s, 1) for s in NORMAL),
    "integers": (RNG.integers(0, 6, 300), RNG.integers(2, 8, 200)),
    "constant": (np.full(30, 2.0), np.full(10, 2.0)),
    "constant ID": (np.full(30, 2.0), np.arange(10)),
    "constant OOD": (np.arange(30), np.full(10, 2.0)),
    "one each, tied": ([0.0], [0.0]),
    "one each, reversed": ([1.0], [0.0]),
    "signed zeros": ([0.0, -0.0, 1.0], [-0.0, 0.0]),
    "separated": (np.arange(50), np.arange(100, 150)),
    "exactly 95 % of OOD flagged": (np.arange(20) + 0.5, np.arange(20)),
    "top tie flags 7 % of ID": (np.r_[np.full(7, 9.0), np.arange(93) / 93], np.r_[9.0, 9.0, 0.5]),
    "top tie flags 10 % of ID": (np.r_[np.full(10, 9.0), np.arange(90) / 90], np.r_[9.0, 9.0, 0.5]),
    "top tie flags 11 % of ID": (np.r_[np.full(11, 9.0), np.arange(89) / 89], np.r_[9.0, 9.0, 0.5]),
}  # fmt: skip
SCORES = st.lists(st.integers(-1000, 1000), min_size=1, max_size=60)  # ties are common, floats are exact
PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


def joined(id_scores, ood_scores):
    return np.r_[np.zeros(len(id_scores)), np.ones(len(ood_scores))], np.concatenate([id_scores, ood_scores])


def released_fpr95(id_scores, ood_scores, infinite_threshold=True):
    """The released code's figure; before scikit-learn 1.7 its curve had no infinite threshold."""
    fpr, fnr, thresholds = det_curve(*joined(id_scores, ood_scores))
    if not infinite_threshold:
        fpr, fnr = fpr[np.isfinite(thresholds)], fnr[np.isfinite(thresholds)]
    nearest = np.argmin(np.abs(fpr - 0.05))
    return 1.0 if fpr[nearest] > 0.10 else fnr[nearest]


def scikit_learn_threshold(id_scores, ood_scores):
    """Where the released code reads its figure.

    `det_curve` leaves out thresholds below the one that misses no OOD, where 5 % of ID may lie: `roc_curve` has them.
    """
    fpr, _, thresholds = roc_curve(*joined(id_scores, ood_scores), drop_intermediate=False)
    of_all = thresholds[::-1][np.argmin(np.abs(fpr[::-1] - 0.05))]
    fpr, fnr, thresholds = det_curve(*joined(id_scores, ood_scores))
    nearest = np.argmin(np.abs(fpr - 0.05))
    assert of_all == thresholds[nearest] or fnr[nearest] == 0 or fpr[nearest] > 0.10
    return of_all


def openood_fpr95(id_scores, ood_scores):
    # OpenOOD lets roc_curve drop collinear points, which under ties can skip the first threshold that serves.
    fpr, tpr, _ = roc_curve(*joined(id_scores, ood_scores), drop_intermediate=False)
    return fpr[np.argmax(tpr >= 0.95)]


def check_against_scikit_learn(id_scores, ood_scores):
    y, s = joined(id_scores, ood_scores)
    got = detection(id_scores, ood_scores)
    assert got["fpr95"] == released_fpr95(id_scores, ood_scores)
    assert got["fpr95"] == released_fpr95(id_scores, ood_scores, infinite_threshold=False)
    assert curve(id_scores, ood_scores).fpr95_threshold() == scikit_learn_threshold(id_scores, ood_scores)
    assert got["fpr95_ood_positive"] == openood_fpr95(id_scores, ood_scores)
    assert got["auroc"] == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    assert got["aupr_out"] == pytest.approx(average_precision_score(y, s), abs=1e-12)
    assert got["aupr_in"] == pytest.approx(average_precision_score(1 - y, -s), abs=1e-12)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_every_detection_metric_agrees_with_scikit_learn(pair):
    check_against_scikit_learn(*pair)


@PROPERTY
@given(SCORES, SCORES, st.integers(1, 400))
def test_every_detection_metric_agrees_with_scikit_learn_on_any_scores(id_scores, ood_scores, step):
    # Dividing by a large step leaves few distinct values, hence big ties across and within the sets.
    check_against_scikit_learn(np.array(id_scores) // step, np.array(ood_scores) // step)


@pytest.mark.parametrize("n_id", [*range(10, 200, 20), 20, 100])
def test_fpr95_takes_the_released_codes_side_when_two_ranks_are_equally_near(n_id):
    # For n = 10, 30, 50, ... k/n is as near to .05 below as above, and rounding may break the tie.
    id_scores, ood_scores = np.arange(n_id), np.arange(n_id) + 0.5
    assert metrics.fpr95(id_scores, ood_scores) == released_fpr95(id_scores, ood_scores)


def test_detection_gives_the_hand_worked_values():
    got = detection([1, 2, 3, 4], [3, 5, 6, 7])
    # Share of ID flagged can be 0, 1/4, ...; 0 is nearest .05, reached down to 5: only the 3 is missed.
    assert got["fpr95"] == 1 / 4
    # 95 % of four OOD rows is all four: threshold 3, which flags ID 3 and 4.
    assert got["fpr95_ood_positive"] == 2 / 4
    # 5, 6, 7 each beat four ID rows; 3 beats two and ties one: (12 + 2.5) / 16.
    assert got["auroc"] == 14.5 / 16
    # Recall 3/4 at precision 1, then the last quarter at threshold 3, precision 4 of 6.
    assert got["aupr_out"] == pytest.approx(3 / 4 + 1 / 4 * 4 / 6)
    # From the low end: 1 and 2 at precision 1; 3 (with OOD 3) at 3 of 4; 4 at 4 of 5; a quarter each.
    assert got["aupr_in"] == pytest.approx((1 + 1 + 3 / 4 + 4 / 5) / 4)


def test_scores_that_say_nothing_give_the_hand_worked_values():
    # One threshold flags all: 3/4 of rows are ID, and flagging none is nearer 5 % than flagging all.
    expected = {"fpr95": 1, "auroc": 1 / 2, "aupr_in": 3 / 4, "aupr_out": 1 / 4, "fpr95_ood_positive": 1}
    assert detection([2, 2, 2], [2]) == expected


def test_the_curve_counts_each_distinct_threshold_once():
    # Thresholds inf, 5, 3, 1: the 3s of both sets are flagged together.
    c = curve([1, 3, 3], [3, 5])
    assert c.fps.tolist() == [0, 0, 2, 3]
    assert c.tps.tolist() == [0, 1, 2, 2]
    assert c.thresholds.tolist() == [np.inf, 5, 3, 1]


def test_fpr95_of_ten_thousand_distinct_id_scores_is_the_share_of_ood_up_to_the_501st_largest():
    id_scores = RNG.normal(0, 1, 10_000)
    limit = np.sort(id_scores)[-501]
    ood_scores = np.r_[RNG.normal(2, 1, 3_000), limit, np.nextafter(limit, 9)]
    assert metrics.fpr95(id_scores, ood_scores) == np.mean(ood_scores <= limit)


def test_the_two_fpr_conventions_differ_and_each_equals_its_oracle():
    id_scores, ood_scores = NORMAL
    ours, theirs = metrics.fpr95(id_scores, ood_scores), metrics.fpr95_ood_positive(id_scores, ood_scores)
    assert abs(ours - theirs) > 0.01
    assert ours == released_fpr95(id_scores, ood_scores)
    # Without ties OpenOOD's own call, which drops collinear points, gives the same.
    fpr, tpr, _ = roc_curve(*joined(id_scores, ood_scores))
    assert theirs == openood_fpr95(id_scores, ood_scores) == fpr[np.argmax(tpr >= 0.95)]


@PROPERTY
@given(SCORES, SCORES, st.sampled_from([lambda x: x**3, lambda x: np.exp(x / 100), lambda x: 0.1 * x - 7]))
def test_strictly_increasing_transforms_change_nothing(id_scores, ood_scores, transform):
    # Each keeps integers within 1000 of zero apart by far more than a rounding error.
    id_scores, ood_scores = np.array(id_scores, float), np.array(ood_scores, float)
    assert detection(transform(id_scores), transform(ood_scores)) == detection(id_scores, ood_scores)


@PROPERTY
@given(SCORES, SCORES, st.randoms(use_true_random=False))
def test_row_order_changes_nothing(id_scores, ood_scores, random):
    shuffled = random.sample(id_scores, len(id_scores)), random.sample(ood_scores, len(ood_scores))
    assert detection(*shuffled) == detection(id_scores, ood_scores)


@PROPERTY
@given(SCORES, SCORES)
def test_rates_are_bounded_and_swapping_the_sets_mirrors_auroc_and_aupr(a, b):
    assert all(0 <= value <= 1 for value in detection(a, b).values())
    assert metrics.auroc(a, b) + metrics.auroc(b, a) == pytest.approx(1, abs=1e-15)
    assert metrics.aupr_in(a, b) == metrics.aupr_out(np.negative(b), np.negative(a))


@PROPERTY
@given(st.sets(st.integers(-1000, 1000), min_size=1, max_size=200), SCORES)
def test_fpr95_bounds_auroc_from_both_sides_when_id_scores_are_distinct(id_scores, ood_scores):
    # Every share k/n of ID is then reachable, so the chosen share f is within 1/(2n) of .05. The ROC curve
    # rises and passes (f, 1 - missed): at most 1 - missed left of f, at least 1 - missed right of it.
    # Hence (1 - f)(1 - missed) <= AUROC <= 1 - f * missed.
    missed, auroc = metrics.fpr95(list(id_scores), ood_scores), metrics.auroc(list(id_scores), ood_scores)
    slack = 1 / (2 * len(id_scores))
    assert (1 - 0.05 - slack) * (1 - missed) - 1e-12 <= auroc <= 1 - (0.05 - slack) * missed + 1e-12


# Confidence 0.2 is the upper edge of the third bin, (2/15, 3/15], and 1 that of the last.
CONFIDENCE, CORRECT = [0.15, 0.2, 0.9, 1.0, 1.0], [1, 0, 1, 1, 0]


def calibration_error_bin_by_bin(confidence, predictions, labels, bins=15):
    """As Guo et al. write it, one row and one bin at a time."""
    total = 0.0
    for b in range(1, bins + 1):
        rows = [i for i, c in enumerate(confidence) if (b - 1) / bins < c <= b / bins]
        if rows:
            share_correct = sum(predictions[i] == labels[i] for i in rows) / len(rows)
            mean_confidence = sum(float(confidence[i]) for i in rows) / len(rows)
            total += len(rows) / len(confidence) * abs(share_correct - mean_confidence)
    return total


def test_calibration_error_gives_the_hand_worked_value():
    # The third bin: 2 of 5 rows, half of them right, mean confidence .175. (13/15, 14/15]: one row, right, at .9. The
    # last: 2 rows, half of them right, at 1.
    expected = 2 / 5 * (0.5 - 0.175) + 1 / 5 * (1 - 0.9) + 2 / 5 * (1 - 0.5)
    assert calibration_error(CONFIDENCE, CORRECT, np.ones(5)) == pytest.approx(expected, abs=1e-15)


def test_calibration_error_equals_a_loop_over_rows_and_bins():
    for confidence in (RNG.uniform(0.1, 1, 500), RNG.beta(9, 1, 500).astype(np.float32), np.arange(1, 16) / 15):
        predictions, labels = RNG.integers(0, 3, len(confidence)), RNG.integers(0, 3, len(confidence))
        expected = calibration_error_bin_by_bin(confidence, predictions, labels)
        assert calibration_error(confidence, predictions, labels) == pytest.approx(expected, abs=1e-14)


def test_calibration_error_is_0_where_confidence_is_the_share_of_correct_rows_and_1_where_it_is_certain_and_wrong():
    assert calibration_error([0.75] * 4, [1, 1, 1, 0], [1, 1, 1, 1]) == 0
    assert calibration_error([1, 1], [0, 0], [1, 1]) == 1


def scored(scores, labels=None):
    return Scored(np.asarray(scores), np.zeros(len(scores), int), labels)


def test_evaluate_gives_the_hand_worked_values_in_table_order():
    id_rows = Scored(np.array([1, 2]), np.array([0, 1]), np.array([0, 1]), np.array([1, 0.5]))
    covariate = Scored(np.array([3, 5]), np.array([0, 1]), np.array([0, 0]), np.array([0.5, 1]))
    got = evaluate(id_rows, covariate, scored([4, 6]))
    assert list(got) == list(METRICS)
    # The lowest threshold that flags no ID row is 4: of the covariate rows it flags the 5 and accepts the 3.
    assert (got["covariate_flagged"], got["accepted_acc"]) == (1 / 2, 1)
    assert (got["id_ece"], got["covariate_ece"]) == ((0 + 0.5) / 2, (0.5 + 1) / 2)
    assert (got["id_acc"], got["covariate_acc"]) == (2 / 2, 1 / 2)
    assert (got["auroc"], got["fpr95"]) == (1, 0)  # 4 and 6 are above both ID rows
    # Against 1, 2, 3, 5 the 4 beats three and the 6 four: 7 of 8; with no ID row flagged the 4 is missed.
    assert (got["auroc_full"], got["fpr95_full"]) == (7 / 8, 1 / 2)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_covariate_rows_are_flagged_at_or_above_the_threshold_that_scikit_learn_gives_for_fpr95(pair):
    id_scores, ood_scores = map(np.asarray, pair)
    covariate = np.concatenate([id_scores, ood_scores])  # many of them on the threshold itself
    labels = RNG.integers(0, 2, len(covariate))
    got = evaluate(scored(id_scores, np.zeros(len(id_scores))), scored(covariate, labels), scored(ood_scores))
    accepted = covariate < scikit_learn_threshold(id_scores, ood_scores)
    assert got["covariate_flagged"] == np.mean(~accepted)
    assert got.get("accepted_acc") == (np.mean(labels[accepted] == 0) if accepted.any() else None)


def test_where_every_covariate_row_is_flagged_there_is_no_accuracy_of_the_accepted():
    got = evaluate(scored([1, 2], [0, 0]), scored([3, 3], [0, 0]), scored([3]))
    assert got["covariate_flagged"] == 1 and "accepted_acc" not in got


def test_the_ties_of_covariate_rows_with_the_threshold_are_flagged():
    # Of 20 ID rows exactly one is flagged at 19, and at no semantic score below.
    got = evaluate(scored(range(20), [0] * 20), scored([18, 18.5, 19, 20], [0] * 4), scored([30, 1]))
    assert got["covariate_flagged"] == 2 / 4


def test_without_semantic_rows_accuracies_and_calibration_remain_and_without_confidences_no_calibration():
    with_confidence = Scored(np.arange(5), np.array(CORRECT), np.ones(5), np.float32(CONFIDENCE))
    without, odd = scored([1, 2], [0, 1]), Scored(np.arange(2), np.zeros(2), np.zeros(2), np.array([0.5, np.nan]))
    assert list(evaluate(with_confidence, with_confidence)) == ["covariate_acc", "id_acc", "id_ece", "covariate_ece"]
    assert list(evaluate(without, with_confidence)) == ["covariate_acc", "id_acc", "covariate_ece"]
    assert list(evaluate(with_confidence, odd)) == ["covariate_acc", "id_acc", "id_ece"]
    known = evaluate(without, without, scored([3]))
    assert set(METRICS) - set(known) == {"id_ece", "covariate_ece"}


@PROPERTY
@given(SCORES, SCORES)
def test_covariate_rows_scored_like_id_leave_the_full_spectrum_metrics_unchanged(id_scores, ood_scores):
    rows = scored(id_scores, np.zeros(len(id_scores), int))
    got = evaluate(rows, rows, scored(ood_scores))
    assert (got["auroc_full"], got["fpr95_full"]) == (got["auroc"], got["fpr95"])


def test_metrics_are_listed_under_their_own_names_with_titles_and_direction():
    assert all(name == metric.name and metric.summary for name, metric in METRICS.items())
    assert [metric.title for metric in METRICS.values()][:4] == ["OOD Acc.", "ID Acc.", "FPR", "AUROC"]
    lower = {name for name, metric in METRICS.items() if not metric.higher_is_better}
    assert lower == {"fpr95", "fpr95_ood_positive", "fpr95_full", "covariate_flagged", "id_ece", "covariate_ece"}


@pytest.mark.parametrize(("call", "message"), [
    (lambda: detection([], [1]), "ID scores are empty; a metric needs at least one row"),
    (lambda: detection([1], [2, np.nan]), "1 of 2 OOD scores are NaN or infinite; give finite ones"),
    (lambda: detection([np.inf, -np.inf], [2]),
     "2 of 2 ID scores are NaN or infinite; give finite ones"),
    (lambda: detection([[1], [2]], [2]), "ID scores have shape (2, 1); give one number per row"),
    (lambda: accuracy([], []), "there are no predictions; give at least one"),
    (lambda: accuracy([1, 2], [1]), "predictions have shape (2,) and labels (1,); give one label for each prediction"),
    (lambda: calibration_error([0.5], [1, 2], [1, 2]), "confidences have shape (1,); give one for each of 2 rows"),
    (lambda: evaluate(scored([1]), scored([1], [0]), scored([1])),
     "ID and covariate images need labels; only semantic images may have none"),
    (lambda: evaluate(scored([1], [0]), scored([], []), scored([1])),
     "covariate scores are empty; a metric needs at least one row"),
    (lambda: evaluate(scored([1], [0]), scored([1], [0]), scored([np.nan])),
     "1 of 1 semantic scores are NaN or infinite; give finite ones"),
])  # fmt: skip
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message
