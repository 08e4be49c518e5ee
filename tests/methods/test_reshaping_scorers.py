"""Scorers that change features or head, against formulas written anew row by row, pytorch-ood and cases worked by hand.

Many hand-worked cases have a head of one class, whose energy is its negative logit, with weights of 1, 10, 100 and
1000: the digits of a score are then the changed features.
"""

import math
import sys
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scorer_problems import CLASSES, DIM, EVERY, NONNEGATIVE, ORDINARY, agree, linear, outputs, plain, problem, scores

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

NAMES = ("react", "ash", "scale", "lts", "vra", "ras", "dice")
ReAct, ASH, SCALE, LTS, VRA, RAS, DICE = (load_class(Registry().card(name)) for name in NAMES)
close = partial(assert_allclose, rtol=1e-6)


def largest(percentile):
    """How many of the features are above a percentile."""
    return max(1, DIM - int(np.round(DIM * percentile / 100)))


def react_by_numpy(train, test, percentile=90):
    return np.minimum(test.f, np.percentile(train.f, percentile)) @ test.weight.T + test.bias


def ash_by_numpy(train, test, variant="b", percentile=90):
    logits = []
    for f in test.f:
        k = largest(percentile)
        if variant == "b":
            k = min(k, (f > 0).sum())
        g = np.zeros(DIM)
        if k > 0:
            kept = f >= np.sort(f)[-k]
            g[kept] = {
                "b": lambda f=f, kept=kept: f.sum() / kept.sum(),
                "s": lambda f=f, kept=kept: f[kept] * np.exp(ratio(f, percentile)),
                "p": lambda f=f, kept=kept: f[kept],
            }[variant]()
        logits.append(test.weight @ g + test.bias)
    return np.stack(logits)


def ratio(f, percentile):
    return f.sum() / np.sort(f)[-largest(percentile) :].sum() if f.any() else 1.0


def scale_by_numpy(train, test, percentile=85):
    return np.stack([test.weight @ (f * np.exp(ratio(f, percentile))) + test.bias for f in test.f])


def lts_by_numpy(train, test, percentile=95):
    factors = [ratio(np.maximum(f, 0), percentile) ** 2 for f in test.f]
    return test.z * np.array(factors)[:, None]


def vra_by_numpy(train, test, low=60, high=90, plus=0.0):
    g = test.f.copy()
    for j in range(DIM):
        lowest, highest = np.quantile(train.f[:, j], [low / 100, high / 100])
        for i, value in enumerate(test.f[:, j]):
            g[i, j] = 0 if value < lowest else value + plus if value <= highest else highest
    return g @ test.weight.T + test.bias


def ras_by_numpy(train, test):
    profile = np.sort(train.f, axis=1).mean(axis=0)
    g = np.empty_like(test.f)
    for i, f in enumerate(test.f):
        for value in f:
            g[i, f == value] = profile[np.sort(f) == value].mean()
    return g @ test.weight.T + test.bias


def dice_by_numpy(train, test, percentile=90):
    contributions = test.weight * train.f.mean(axis=0)
    kept = contributions > np.percentile(contributions, percentile)
    return test.f @ np.where(kept, test.weight, 0).T + test.bias


def gen_by_numpy(z):
    """With 1 - p as what the other classes have: the scaled logits make p round to 1."""
    rest = np.stack([softmax(z, axis=1) @ (np.arange(CLASSES) != k) for k in range(CLASSES)], axis=1)
    return (softmax(z, axis=1) ** 0.1 * rest**0.1).sum(axis=1)


BASES = {
    "energy": lambda z: -logsumexp(z, axis=1),
    "max-logit": lambda z: -z.max(axis=1),
    "msp": lambda z: -softmax(z, axis=1).max(axis=1),
    "gen": gen_by_numpy,
}
CASES = [
    *((ReAct, react_by_numpy, {"percentile": p}) for p in (60.0, 90.0, 99.9, 100.0)),
    *((ASH, ash_by_numpy, {"variant": v, "percentile": p}) for v in "bsp" for p in (0.0, 65.0, 90.0, 100.0)),
    *((SCALE, scale_by_numpy, {"percentile": p}) for p in (0.0, 65.0, 85.0, 100.0)),
    *((LTS, lts_by_numpy, {"percentile": p}) for p in (0.0, 65.0, 95.0, 100.0)),
    (VRA, vra_by_numpy, {}),
    (VRA, vra_by_numpy, {"low": 60.0, "high": 95.0, "plus": 0.6}),
    (VRA, vra_by_numpy, {"low": 0.0, "high": 100.0}),
    (RAS, ras_by_numpy, {}),
    *((DICE, dice_by_numpy, {"percentile": p}) for p in (0.0, 30.0, 90.0)),
]
EACH = [(ReAct, react_by_numpy), (ASH, ash_by_numpy), (SCALE, scale_by_numpy), (LTS, lts_by_numpy)]
EACH += [(VRA, vra_by_numpy), (RAS, ras_by_numpy), (DICE, dice_by_numpy)]


def problems_of(scorer):
    return NONNEGATIVE if "nonnegative-features" in scorer.needs else EVERY


@pytest.mark.parametrize(("scorer", "formula"), EACH)
def test_it_is_the_energy_of_the_logits_that_its_formula_gives(scorer, formula):
    for values in (each for one, _, each in CASES if one is scorer):
        for name in problems_of(scorer):
            train, test = problem(name).train, problem(name).test
            expected = -logsumexp(formula(plain(train), plain(test), **values), axis=1)
            agree(scores(scorer(**values), train, test), expected)


@pytest.mark.parametrize(("scorer", "formula"), EACH)
def test_the_new_logits_are_scored_by_any_base(scorer, formula):
    train, test = problem("relu").train, problem("relu").test
    for base, expected in BASES.items():
        agree(scores(scorer(base=base), train, test), expected(formula(plain(train), plain(test))))


@pytest.mark.parametrize("scorer", [scorer for scorer, _ in EACH])
def test_scores_do_not_depend_on_the_order_of_the_features(scorer):
    """As they would if a sort chose among equal ones."""
    order = torch.randperm(DIM, generator=torch.Generator().manual_seed(0))
    train, test = problem("relu").train, problem("relu").test
    head = linear(test.model.head.weight[:, order], test.model.head.bias)
    others = (outputs(out.features[:, order], head, out.y) for out in (train, test))
    close(scores(scorer(), *others), scores(scorer(), train, test))


def ordinary(out):
    """The rows without ties among positive entries, in which pytorch-ood finds enough of these."""
    return outputs(out.features[:ORDINARY], out.model.head)


def as_maps(features):
    return features[:, :, None, None]


def by_pytorch_ood(scorer, train, test, values):
    """It takes shares for percentiles and feature maps for features."""
    head, share = test.model.head, values.get("percentile", 0) / 100
    bias = torch.zeros(CLASSES) if head.bias is None else head.bias

    def of_maps(maps):
        return head(maps.flatten(1))

    if scorer is DICE:
        fitted = detector.DICE(None, head.weight, bias, p=share).fit_features(train.features, train.y)
        return fitted.predict_features(test.features)
    if scorer is LTS:
        return detector.LTS(None, head, p=1 - share).predict_features(test.features)
    if scorer is ASH:
        found = detector.ASH(None, of_maps, f"ash-{values['variant']}", share)
    elif scorer is SCALE:
        found = detector.SCALE(None, of_maps, share)
    elif scorer is VRA:
        found = detector.VRA(None, of_maps, values["low"] / 100, values["high"] / 100)
        found.fit_feature_maps(as_maps(train.features), train.y)
    else:
        found = detector.ReAct(None, of_maps, percentile=share)
        found.fit_feature_maps(as_maps(train.features), train.y)
    return found.predict_feature_maps(as_maps(test.features))


@pytest.mark.parametrize("name", NONNEGATIVE)
@pytest.mark.parametrize(
    ("scorer", "values"),
    [
        (ReAct, {"percentile": 90.0}),
        *((ASH, {"variant": variant, "percentile": 90.0}) for variant in "bsp"),
        (SCALE, {"percentile": 85.0}),
        (LTS, {"percentile": 95.0}),
        (VRA, {"low": 0.0, "high": 90.0}),  # what is low becomes the quantile there, which is 0 as well at the lowest
        (DICE, {"percentile": 70.0}),
    ],
)
def test_it_is_that_of_pytorch_ood(scorer, values, name):
    train, test = problem(name).train, ordinary(problem(name).test)
    agree(scores(scorer(**values), train, test), by_pytorch_ood(scorer, train, test, values))


DIGITS = linear([[1.0, 10.0, 100.0, 1000.0]], [0.0])


def digits(scorer, *rows, train=((0.0, 0.0, 0.0, 0.0),)):
    """What the head of four digits makes of the changed features."""
    return -scores(scorer, outputs(train, DIGITS), outputs(rows, DIGITS))


def test_react_of_hand_worked_features():
    # Of the entries 0, 1 ... 11 the tenth of eleven steps is 10: the percentile 1000 / 11.
    train = np.arange(12.0).reshape(3, 4)
    close(digits(ReAct(1000 / 11), (12, 3, 10, 11), train=train), [10 + 30 + 1000 + 10000])


def test_ash_of_hand_worked_features():
    # Of (4, 3, 0, 1) the two largest are kept, k = 4 - round(4 * 50 / 100): (4, 3, 0, 0), or both 8/2.
    row = (4, 3, 0, 1)
    close(digits(ASH("p", 50.0), row), [34])
    close(digits(ASH("b", 50.0), row), [44])
    close(digits(ASH("s", 50.0), row), [34 * math.exp(8 / 7)])


def test_ash_keeps_all_entries_that_equal_the_last_one_kept():
    # Of (1, 2, 1, 0) the two largest are 2 and one 1: both ones are kept. In B they share the sum of 4 among 3.
    # For S, the two largest sum to 3 of 4 whichever of the ones is counted.
    row = (1, 2, 1, 0)
    close(digits(ASH("p", 50.0), row), [121])
    close(digits(ASH("b", 50.0), row), [4 / 3 * 111])
    close(digits(ASH("s", 50.0), row), [121 * math.exp(4 / 3)])


def test_ash_b_gives_zeros_no_share():
    # Three of (0, 5, 0, 0) would be kept; one is positive and keeps the sum. A negative entry is no exception.
    close(digits(ASH("b", 25.0), (0, 5, 0, 0), (0, 5, -1, 0)), [50, 40])


def test_scale_of_hand_worked_features():
    # One of (3, 1, 0, 0) is the largest quarter: r = 4/3. One of two equal ones: r = 2.
    close(digits(SCALE(75.0), (3, 1, 0, 0), (0, 2, 2, 0)), [13 * math.exp(4 / 3), 220 * math.exp(2)])


def test_lts_of_hand_worked_features():
    # As above, r = 4/3, and z = 13 is multiplied by 16/9. What is negative counts in z and not in r.
    close(digits(LTS(75.0), (3, 1, 0, 0), (3, 1, -5, 0)), [13 * 16 / 9, (13 - 500) * 16 / 9])


@pytest.mark.parametrize("scorer", [ASH("b"), ASH("s"), ASH("p"), SCALE(), LTS()])
def test_a_row_of_zeros_scores_as_it_does_unchanged(scorer):
    # Its logits are the biases: -ln(e^0 + e^(ln 3)) = -ln 4.
    head = linear(np.ones((2, 4)), [0.0, math.log(3)])
    close(scores(scorer, outputs(np.ones((1, 4)), head), outputs(np.zeros((1, 4)), head)), [-math.log(4)])


@pytest.mark.parametrize(
    ("size", "percentile", "k"),
    [(10, 85.0, 2), (30, 85.0, 4), (10, 95.0, 1), (10, 100.0, 1), (10, 0.0, 10), (100, 85.0, 15)],
)
def test_the_largest_are_d_minus_the_rounded_share_and_at_least_one(size, percentile, k):
    # A half rounds to even: 8.5 to 8 and 25.5 to 26. At 9.5, which rounds to 10, none would be left.
    # Equal features have r = d / k, so the only logit, which sums them, is r^2 d.
    head = linear(np.ones((1, size)), [0.0])
    rows = outputs(np.ones((1, size)), head)
    close(-scores(LTS(percentile), rows, rows), [(size / k) ** 2 * size])


def test_vra_of_hand_worked_features():
    # Every feature is 0, 1 ... 10 in training, with the percentiles 6 and 9. Both limits are between.
    train = np.repeat(np.arange(11.0)[:, None], 4, axis=1)
    rows = (5, 6, 8, 9), (10, 9.5, 0, 7)
    close(digits(VRA(), *rows, train=train), [60 + 800 + 9000, 9 + 90 + 7000])
    close(digits(VRA(plus=0.6), *rows, train=train), [66 + 860 + 9600, 9 + 90 + 7600])


def test_vra_silences_a_feature_that_never_fired():
    train = np.repeat(np.arange(11.0)[:, None], 4, axis=1)
    train[:, 3] = 0
    close(digits(VRA(), (0, 0, 7, 8), train=train), [700])


def test_ras_of_hand_worked_features():
    # Sorted, the training rows are (0, 0, 2, 4) and (0, 2, 4, 10): the profile is (0, 1, 3, 7).
    train = (4, 0, 2, 0), (0, 10, 2, 4)
    close(digits(RAS(), (-1, 8, 2, 3), train=train), [0 + 70 + 100 + 3000])
    # Two fives share 3 and 7, three zeros share 0, 1 and 3, four equal ones share all.
    close(digits(RAS(), (5, 5, 0, 1), (0, 0, 0, 9), train=train), [55 + 0 + 1000, 4 / 3 * 111 + 7000])
    close(digits(RAS(), (2, 2, 2, 2), (0.0, -0.0, 1, 2), train=train), [11 / 4 * 1111, 5.5 + 300 + 7000])


def test_ras_learns_the_same_profile_however_many_rows_it_sorts_at_a_time(monkeypatch):
    train, test = problem("relu").train, problem("relu").test
    expected = scores(RAS(), train, test)
    monkeypatch.setattr(sys.modules[RAS.__module__], "ROWS", 7)
    close(scores(RAS(), train, test), expected)


def test_dice_of_hand_worked_features():
    # The mean of the training rows is (2, 1) and the contributions are (2, 2) to class 0 and (6, 4) to class 1.
    # Half of them exceed the median of 3: class 1 keeps both weights, and class 0 has only its bias.
    head = linear([[1.0, 2.0], [3.0, 4.0]], [0.5, -1.0])
    train, test = outputs([[1.0, 2.0], [3.0, 0.0]], head), outputs([[1.0, 1.0]], head)
    close(scores(DICE(50.0), train, test), [-math.log(math.exp(0.5) + math.exp(7 - 1))])
    # At 80 the limit lies at 4 + .4 * (6 - 4) = 4.8, which only the 6 exceeds.
    close(scores(DICE(80.0), train, test), [-math.log(math.exp(0.5) + math.exp(3 - 1))])


def test_dice_keeps_nothing_where_all_contributions_are_equal():
    head = linear(np.ones((2, 4)), [0.0, math.log(3)])
    rows = outputs(np.ones((2, 4)), head)
    close(scores(DICE(), rows, rows), [-math.log(4)] * 2)


def test_the_energy_of_logits_below_zero_rises_with_the_factor_of_lts():
    # z = -13 becomes -13 * 16/9, so the score is 13 * 16/9: nothing is clipped.
    head = linear([[-1.0, -10.0, 0.0, 0.0]], [0.0])
    rows = outputs([[3.0, 1.0, 0.0, 0.0]], head)
    close(scores(LTS(75.0), rows, rows), [13 * 16 / 9])


@pytest.mark.parametrize("value", [-1.0, 100.5])
@pytest.mark.parametrize("scorer", [ReAct, ASH, SCALE, LTS])
def test_a_percentile_is_from_0_to_100(scorer, value):
    with pytest.raises(UserError) as error:
        scorer(percentile=value)
    name = scorer.__name__.lower()
    assert str(error.value) == f"{name}.percentile={value:g} is out of range; choose 0 to 100"


@pytest.mark.parametrize("value", [-1.0, 100.0])
def test_dice_refuses_to_keep_no_weight(value):
    with pytest.raises(UserError) as error:
        DICE(value)
    assert str(error.value) == f"dice.percentile={value:g} is out of range; choose 0 to less than 100"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"low": 95.0}, "vra.low=95 with vra.high=90 is out of range; choose 0 to 100, low up to high"),
        ({"low": -1.0}, "vra.low=-1 with vra.high=90 is out of range; choose 0 to 100, low up to high"),
        ({"high": 101.0}, "vra.low=60 with vra.high=101 is out of range; choose 0 to 100, low up to high"),
        ({"plus": -0.5}, "vra.plus=-0.5 is out of range; choose 0 or more"),
    ],
)
def test_vra_refuses_percentiles_that_are_none_or_cross(values, message):
    with pytest.raises(UserError) as error:
        VRA(**values)
    assert str(error.value) == message
