"""Where the line is drawn, hand-worked; its interval against tables and simulation."""

from functools import cache

import numpy as np
import pytest
import torch

from oodbench.errors import UserError
from oodbench.learning.threshold import Share, Threshold, images_needed, keeping, thinned


def test_the_line_is_the_least_score_that_keeps_enough():
    line = keeping(0.8, [5.0, 1.0, 2.0, 4.0, 3.0])
    assert line.value == 4.0
    assert line.on_id == Share(flagged=1, count=5)


def test_a_share_between_two_images_keeps_the_one_more():
    assert keeping(0.7, [1.0, 2.0, 3.0, 4.0, 5.0]).value == 4.0  # 3.5 images are 4


def test_rounding_keeps_no_image_too_many():
    assert 0.07 * 100 > 7
    assert keeping(0.07, np.arange(1.0, 101.0)).value == 7.0


def test_equal_scores_are_kept_together():
    line = keeping(0.5, [1.0, 2.0, 2.0, 2.0])
    assert line.value == 2.0
    assert line.on_id == Share(flagged=0, count=4)


def test_the_score_of_the_line_is_id_and_what_is_no_number_is_ood():
    line = Threshold(2.0, 0.5, Share(1, 2))
    scores = torch.tensor([1.0, 2.0, 2.0000001, float("inf"), float("nan"), float("-inf")], dtype=torch.float64)
    assert line.is_ood(scores).tolist() == [False, False, True, True, True, False]
    assert line.share(scores.numpy()) == Share(3, 6)


@pytest.mark.parametrize("count", [20, 21, 99, 1000, 1001])
@pytest.mark.parametrize("keep", [0.5, 0.8, 0.9, 0.95])
def test_at_least_the_wanted_share_is_kept_and_one_image_less_would_be_too_few(keep, count):
    scores = np.random.default_rng(0).normal(size=count)
    line = keeping(keep, scores)
    kept = int((scores <= line.value).sum())
    assert kept / count >= keep
    assert (kept - 1) / count < keep


def test_the_interval_is_that_of_published_tables():
    low, high = Share(25, 500).interval
    assert (round(low, 4), round(high, 4)) == (0.0326, 0.0729)
    low, high = Share(1, 10).interval
    assert (round(low, 4), round(high, 4)) == (0.0025, 0.4450)


def test_none_and_all_have_the_rule_of_three_as_interval():
    low, high = Share(0, 100).interval
    assert low == 0.0 and high == pytest.approx(1 - 0.025 ** (1 / 100))
    low, high = Share(100, 100).interval
    assert low == pytest.approx(0.025 ** (1 / 100)) and high == 1.0


def test_the_words_name_share_images_and_interval():
    assert (
        Threshold(0.0, 0.95, Share(25, 500)).words()
        == "flags 5.0 % of 500 held-out ID images; 95 % interval 3.3 to 7.3 %"
    )


@pytest.mark.parametrize(("count", "keep"), [(40, 0.95), (100, 0.9), (300, 0.95)])
def test_the_interval_covers_the_share_of_future_images_in_95_of_100_draws(count, keep):
    rng, draws, covered = np.random.default_rng(0), 2000, 0
    interval = cache(lambda share: share.interval)
    for _ in range(draws):
        line = keeping(keep, rng.random(count))
        low, high = interval(line.on_id)
        covered += low <= 1 - line.value <= high  # the scores are uniform: the share above is known
    assert (line.low, line.high) == (low, high)
    assert covered / draws >= 0.95 - 0.01  # two standard errors


@pytest.mark.parametrize("keep", [0.0, 1.0, -0.5, 95.0, float("nan")])
def test_a_share_out_of_range_is_refused(keep):
    with pytest.raises(UserError, match=r"--keep .* is out of range; choose a share between 0 and 1, such as 0.95"):
        keeping(keep, [1.0, 2.0])


def test_too_few_images_are_refused_with_the_number_needed():
    with pytest.raises(UserError, match=r"^100 held-out ID images cannot show what keeps 0.999 .* at least 1,000, or"):
        keeping(0.999, np.arange(100))
    assert keeping(0.999, np.arange(1000)).on_id == Share(1, 1000)


@pytest.mark.parametrize(("keep", "needed"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000), (0.3, 2)])
def test_as_many_images_are_needed_as_may_have_one_flagged(keep, needed):
    assert images_needed(keep) == needed


def test_no_images_at_all_are_too_few():
    with pytest.raises(UserError, match="0 held-out ID images"):
        keeping(0.95, [])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_not_finite_are_refused(bad):
    with pytest.raises(UserError, match="1 of 4 scores of ID images are not finite; choose another scorer"):
        keeping(0.5, [1.0, bad, 2.0, 3.0])


def test_few_scores_are_kept_whole_and_many_at_equal_distances():
    assert thinned([3.0, 1.0, 2.0], 3).tolist() == [1.0, 2.0, 3.0]
    assert thinned(np.arange(10_001)[::-1], 5).tolist() == [0.0, 2500.0, 5000.0, 7500.0, 10000.0]
