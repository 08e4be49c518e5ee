"""RankFeat, Gram and AdaSCALE against formulas written anew in float64, pytorch-ood and cases worked by hand.

pytorch-ood has RankFeat and Gram. Its Gram groups training rows by their labels and divides by the mean deviation of
rows that it holds out at random; given predictions for labels and nothing held out, its sum over orders is ours before
the division.
"""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.method import Outputs
from oodbench.learning.networks import Classifier, Pooled
from oodbench.learning.scoring import fit, forward_for
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

RankFeat, Gram, AdaSCALE = (load_class(Registry().card(name)) for name in ("rankfeat", "gram", "adascale"))
CHANNELS, CLASSES, SIDE = 40, 5, 8
STD = (0.2, 0.5)


def network(kind):
    """Of images of two channels: maps of 40 channels and 4 x 4 pixels, `kind` says of which sort, under a head."""
    torch.manual_seed(3)
    convolution = nn.Conv2d(2, CHANNELS, 3, 2, 1)
    layers = [convolution, nn.Tanh() if kind == "signed" else nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = Classifier(Pooled(*layers), CHANNELS, CLASSES, (0.4, 0.6), STD)
    with torch.no_grad():
        convolution.bias -= 0.2
        convolution.weight[7], convolution.bias[7] = 0.0, -1.0  # after ReLU a channel that never fires
        features, y = model.features(images(80, 4)[0] / 255), torch.arange(80) % CLASSES
        mean, means = features.mean(dim=0), torch.stack([features[y == k].mean(dim=0) for k in range(CLASSES)])
        means = means - means.mean(dim=0)
        means -= (
            torch.outer(means @ mean, mean) / mean.square().sum()
        )  # so that every class is predicted without a bias
        model.head.weight.copy_(200 * means)  # of rank K - 1
        model.head.bias.copy_(torch.arange(CLASSES) / 10)
        if kind != "rank K-1":
            model.head.weight += torch.randn(CLASSES, CHANNELS) / 10
        if kind == "no bias":
            model.head.bias = None
    return model.eval().requires_grad_(False)


def images(count, seed):
    """Of five classes, smooth patterns under noise; of the last fifth, noise alone."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.rand(CLASSES, 2, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    noise = torch.rand(count, 2, SIDE, SIDE, generator=generator)
    y = torch.arange(count) % CLASSES
    share = torch.where(torch.arange(count) < 4 * count // 5, 0.4, 1.0).view(-1, 1, 1, 1)
    return ((1 - share) * patterns[y] + share * noise).mul(255).to(torch.uint8), y


KINDS = ["zeros", "rank K-1", "no bias", "signed"]


@pytest.fixture(params=KINDS)
def problem(request):
    model = network(request.param)
    train, validation, test = images(150, 1), images(60, 2), images(100, 3)
    if request.param != "signed":
        features = model.features(test[0] / 255)
        maps = model.maps(test[0] / 255)
        assert (maps == 0).float().mean() > 0.4 and (features[:, 7] == 0).all()
    return model, train, validation, test[0]


def scored(scorer, model, train, validation, test):
    """As a run does it."""
    outs = [forward_for(scorer, model, *some) for some in (train, validation, (test,))]
    with torch.no_grad():
        fit(scorer, outs[0], outs[1] if "validation" in scorer.needs else None)
        return scorer.score(outs[2]).double().numpy()


def head(model):
    weight = model.head.weight.double().numpy()
    return weight, np.zeros(len(weight)) if model.head.bias is None else model.head.bias.double().numpy()


def read(model, rows):
    """Maps N x C x HW and predicted classes, as float64."""
    maps = model.maps(rows / 255)
    return maps.flatten(2).double().numpy(), model.head(model.pooled(maps)).argmax(dim=1).numpy()


def same(got, expected):
    """Within 1e-4 of the standard deviation of the scores."""
    assert got.shape == expected.shape and np.isfinite(got).all() and expected.std() > 0
    assert np.abs(got - expected).max() <= 1e-4 * expected.std()


# RankFeat


def rankfeat(model, test):
    weight, bias = head(model)
    values = []
    for x in read(model, test)[0]:
        u, s, v = np.linalg.svd(x)
        values.append(-logsumexp(weight @ (x - s[0] * np.outer(u[:, 0], v[0])).mean(axis=1) + bias))
    return np.array(values)


def test_rankfeat_is_the_energy_without_the_leading_singular_component(problem):
    model, train, validation, test = problem
    got = scored(RankFeat(), model, train, validation, test)
    same(got, rankfeat(model, test))
    theirs = detector.RankFeat(model.maps, lambda maps: model.head(model.pooled(maps)))
    maps = model.maps(test / 255).contiguous()
    same(got, theirs.predict_feature_maps(maps).double().numpy())


@pytest.mark.parametrize("shape", [(5, 4, 4), (16, 4, 4), (40, 2, 3)])
def test_rankfeat_takes_the_smaller_side_of_a_map_to_the_same_end(shape):
    # Wide, square and tall maps; pooled, what is left of them has the mean of every channel.
    maps = torch.randn(7, *shape, generator=torch.Generator().manual_seed(0))
    pool = Classifier(Pooled(nn.AdaptiveAvgPool2d(1), nn.Flatten()), shape[0], 2, (0.0,), (1.0,))
    for row, x in zip(RankFeat().read_maps(maps, pool), maps.flatten(2).double().numpy(), strict=True):
        u, s, v = np.linalg.svd(x, full_matrices=False)
        assert_allclose(row, (u[:, 1:] * s[1:] @ v[1:]).mean(axis=1), atol=1e-6)


def read_by_hand(scorer, *maps):
    """What a scorer keeps of maps under a mean over space."""
    maps = torch.tensor(maps, dtype=torch.float32)
    return scorer.read_maps(maps, Classifier(Pooled(nn.AdaptiveAvgPool2d(1), nn.Flatten()), 2, 2, (0.0,), (1.0,)))


def test_rankfeat_of_hand_worked_maps():
    # Two channels of two pixels. Rows (3, 0) and (0, 1): singular values 3 and 1; left is (0, 0), (0, 1), means 0, 1/2.
    # Both rows (1, 2): rank 1, nothing is left. All zeros: nothing there, nothing left.
    maps = [[[[3, 0]], [[0, 1]]], [[[1, 2]], [[1, 2]]], [[[0, 0]], [[0, 0]]]]
    assert_allclose(read_by_hand(RankFeat(), *maps), [[0, 0.5], [0, 0], [0, 0]], atol=1e-7)


def by_hand(features, weight, bias, maps, predicted=None):
    """Outputs with these features, head, and what was read of maps; a predicted class has the largest logit."""
    features = torch.tensor(features, dtype=torch.float32)
    model = Classifier(nn.Flatten(), features.shape[1], len(weight), (0.0,), (1.0,))
    model.head.weight.data, model.head.bias.data = torch.tensor(weight), torch.tensor(bias)
    model.requires_grad_(False)
    logits = model.head(features) if predicted is None else torch.eye(len(weight))[predicted]
    return Outputs(model, torch.zeros(len(features), 1, 1, 1, dtype=torch.uint8), features, logits, maps=maps)


def test_rankfeat_scores_what_is_left_and_not_the_features():
    # Left (0, 1/2) under the identity and a bias (0, ln 3 - 1/2): logits 0 and ln 3, -ln(1 + 3); the largest, -ln 3.
    maps = torch.tensor([[0.0, 0.5]])
    out = by_hand([[9.0, 9.0]], [[1.0, 0.0], [0.0, 1.0]], [0.0, math.log(3) - 0.5], maps)
    assert_allclose(RankFeat().score(out), [-math.log(4)], rtol=1e-6)
    assert_allclose(RankFeat(base="max-logit").score(out), [-math.log(3)], rtol=1e-6)
    assert_allclose(RankFeat(base="msp").score(out), [-3 / 4], rtol=1e-6)


@pytest.mark.parametrize("base", ["energy", "max-logit", "msp", "gen"])
def test_rankfeat_and_adascale_score_their_logits_as_asked(base, problem):
    model, train, validation, test = problem
    values = [scored(kind(base=base), model, train, validation, test) for kind in (RankFeat, AdaSCALE)]
    assert all(np.isfinite(each).all() and each.std() > 0 for each in values)


# Gram


def gram_rows(x, powers):
    """For each order, the root of each row sum of the Gram matrix, in a loop over its entries' rows."""
    found = []
    for p in range(1, powers + 1):
        gram = np.float_power(np.abs(x), p) * np.sign(x) ** p
        gram = (gram @ gram.T).sum(axis=1)
        found.append(np.sign(gram) * np.abs(gram) ** (1 / p))
    return np.array(found)


def gram(model, train, validation, test, powers, divided=True):
    (maps, predicted), others = read(model, train), [read(model, rows) for rows in (validation, test)]
    known = np.array([gram_rows(x, powers) for x in maps])

    def deviations(maps, classes):
        rows = []
        for x, k in zip(maps, classes, strict=True):
            g, own = gram_rows(x, powers), known[predicted == k] if (predicted == k).any() else known
            low, high = own.min(axis=0), own.max(axis=0)
            below, above = np.maximum(low - g, 0) / (abs(low) + 1e-6), np.maximum(g - high, 0) / (abs(high) + 1e-6)
            rows.append((below + above).sum(axis=1))
        return np.array(rows)

    expected = deviations(*others[0]).mean(axis=0) if divided else np.ones(powers)
    return (deviations(*others[1]) / expected).sum(axis=1)


@pytest.mark.parametrize("powers", [1, 5])
def test_gram_sums_how_far_row_sums_of_gram_matrices_leave_their_range(powers, problem):
    model, train, validation, test = problem
    got = scored(Gram(powers), model, train, validation, test)
    same(got, gram(model, train[0], validation[0], test, powers))


def test_gram_before_its_division_is_that_of_pytorch_ood(problem):
    model, train, validation, test = problem
    maps, predicted = model.maps(train[0] / 255), torch.from_numpy(read(model, train[0])[1])
    theirs = detector.Gram(lambda maps: model.head(model.pooled(maps)), [nn.Identity()], CLASSES, range(1, 6)).to("cpu")
    theirs.validation_fraction = 0.0
    assert len(predicted.unique()) == CLASSES, "it refuses a class that is never predicted, and we do not"
    theirs.fit([(maps, predicted)])
    theirs = theirs.predict(model.maps(test / 255)).double().numpy()
    same(gram(model, train[0], validation[0], test, 5, divided=False), theirs)
    scorer = Gram()
    got = scored(scorer, model, train, validation, test)
    scorer.expected = torch.ones(5)
    assert_allclose(scorer.score(forward_for(scorer, model, test)), theirs, rtol=1e-3)
    assert (got > 0).any()


def test_gram_of_hand_worked_maps():
    # Rows (1, 2) and (0, 3). Order 1: F F' = (5, 6; 6, 9), row sums 11 and 15.
    # Order 2: squares (1, 4) and (0, 9): (17, 36; 36, 81), row sums 53 and 117, and their roots.
    # Signed: (1, -2) and (0, 1): (5, -2; -2, 1), row sums 3 and -1; squares (1, 4), (0, 1): (17, 4; 4, 1), 21 and 5.
    maps = [[[[1, 2]], [[0, 3]]], [[[1, -2]], [[0, 1]]], [[[0, 0]], [[0, 0]]]]
    expected = [[11, 15, 53**0.5, 117**0.5], [3, -1, 21**0.5, 5**0.5], [0, 0, 0, 0]]
    assert_allclose(read_by_hand(Gram(2), *maps), expected, rtol=1e-6)
    # Order 3 of (1, -2) and (0, 1) has cubes (1, -8) and (0, 1): (65, -8; -8, 1), row sums 57 and -7.
    assert_allclose(read_by_hand(Gram(3), maps[1])[0, 4:], [57 ** (1 / 3), -(7 ** (1 / 3))], rtol=1e-6)


def gram_outputs(numbers, predicted):
    return by_hand(np.zeros((len(numbers), 2)), np.zeros((3, 2)), np.zeros(3), torch.tensor(numbers), predicted)


def test_gram_deviations_by_hand():
    # Two orders of one number each. Class 0 has ranges [2, 4] and [1, 1]; class 1 was seen once, at 10 and 0; class 2
    # never: it has the range of all, [2, 10] and [0, 1].
    train = gram_outputs([[2.0, 1.0], [4.0, 1.0], [10.0, 0.0]], [0, 0, 1])
    # Validation, of class 0: (1, 3) is 1/2 below 2 and 2 above 1; (8, 1) is 1 above 4. Means: 3/4 and 1.
    validation = gram_outputs([[1.0, 3.0], [8.0, 1.0]], [0, 0])
    scorer = Gram(2)
    scorer.fit(train, validation)
    # Class 0 within its range: 0. Class 0 at (1, 3): 1/2 / (3/4) + 2 / 1. Class 1 at (5, 0): 1/2 / (3/4).
    # Class 2 at (12, 2): 2/10 / (3/4) + 1. Class 1 at (10, 1): above a bound of 0, 1 / 1e-6.
    test = gram_outputs([[3.0, 1.0], [1.0, 3.0], [5.0, 0.0], [12.0, 2.0], [10.0, 1.0]], [0, 0, 1, 2, 1])
    assert_allclose(scorer.score(test), [0, 2 / 3 + 2, 2 / 3, 4 / 15 + 1, 1e6], rtol=1e-5)


def test_gram_without_deviations_to_divide_by_divides_by_one():
    # Fitted to training rows alone no number leaves its range; 3 is 1/2 above 2.
    scorer = Gram(1)
    scorer.fit(gram_outputs([[1.0], [2.0]], [0, 0]))
    assert_allclose(scorer.score(gram_outputs([[1.5], [3.0]], [0, 0])), [0, 0.5], rtol=1e-5)


@pytest.mark.parametrize("powers", [0, 11])
def test_gram_refuses_orders_that_it_does_not_have(powers):
    with pytest.raises(UserError) as error:
        Gram(powers)
    assert str(error.value) == f"gram.powers={powers} is out of range; choose 1 to 10"


# AdaSCALE


def with_gradient(model, x):
    """Features, and the gradient of the largest logit by the normalized image."""
    normal = ((x - model.mean) / model.std).requires_grad_()
    features = model.body(normal)
    (gradient,) = torch.autograd.grad(model.head(features).max(dim=1).values.sum(), normal)
    return normal.detach(), features.detach(), gradient


def shifts(model, rows, scorer):
    """Features and Q', image by image, in units of the normalized image as the paper has it."""
    normal, features, gradient = with_gradient(model, rows / 255)
    found = []
    for image, grad in zip(normal.numpy(), gradient.numpy(), strict=True):
        limit = np.sort(np.abs(grad), axis=None)[int(scorer.pixels * grad.size) - 1] * (1 + 1e-4)
        found.append(image + scorer.magnitude * np.sign(grad) * (np.abs(grad) <= limit))
    moved = model.body(torch.from_numpy(np.array(found))).double().numpy()
    a = features.double().numpy()
    values = []
    for before, after in zip(a, moved, strict=True):
        order = np.argsort(-before, kind="stable")
        q = sum(abs(after[j] - before[j]) for j in order[: max(1, int(0.01 * len(order)))])
        c = sum(max(after[j], 0) for j in order[: max(1, int(0.05 * len(order)))])
        values.append(scorer.weight * q + c)
    return a, np.array(values)


def adascale(model, validation, test, scorer):
    weight, bias = head(model)
    known = shifts(model, validation, scorer)[1]
    scores = []
    for a, q in zip(*shifts(model, test, scorer), strict=True):
        share = np.mean(known <= q * (1 + 1e-4))
        p = scorer.min_percentile + (1 - share) * (scorer.max_percentile - scorer.min_percentile)
        k = max(1, len(a) - round(len(a) * p / 100))
        positive = np.sort(np.maximum(a, 0))[::-1]
        r = positive.sum() / positive[:k].sum() if positive[0] > 0 else 1.0
        logits = weight @ (a * np.exp(r)) + bias if scorer.variant == "a" else (weight @ a + bias) * r**2
        scores.append(-logsumexp(logits))
    return np.array(scores)


@pytest.mark.parametrize("values", [{}, {"variant": "l"}, {"weight": 1.0, "pixels": 0.2, "magnitude": 1.0}])
def test_adascale_scales_by_a_percentile_that_follows_the_shift_of_its_largest_features(values, problem):
    model, train, validation, test = problem
    scorer = AdaSCALE(**values)
    same(scored(scorer, model, train, validation, test), adascale(model, validation[0], test, scorer))


def linear(weight, std=1.0):
    """Images of one row of pixels; features are the pixels times a diagonal weight, normalized by `std`; one class."""
    size = len(weight)
    body = nn.Sequential(nn.Flatten(), nn.Linear(size, size, bias=False))
    model = Classifier(body, size, 1, (0.0,), (std,))
    model.body[1].weight.data = torch.diag(torch.tensor(weight)) * std
    model.head.weight.data, model.head.bias.data = torch.ones(1, size), torch.zeros(1)
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("std", [1.0, 0.25])
def test_the_shift_of_adascale_by_hand(std):
    # Features (4, 3, 1, .2) are pixels (1, 1, 1, 1) times the gradients (4, 3, 1, .2) of their sum. The least important
    # half of the pixels, the last two, go up by 1/2 of the pixels' standard deviation s: features (4, 3, 1 + s/2,
    # .2 + s/10). The largest does not move: Q = 0 and C_o = 4. If all pixels go up it becomes 4 + 2 s, so Q' is
    # 10 * 2 s + 4 + 2 s.
    model, x = linear([4.0, 3.0, 1.0, 0.2], std), torch.ones(1, 1, 1, 4)
    features, shift = AdaSCALE(pixels=0.5)._features_and_shift(model, x.clone())
    assert_allclose(features, [[4, 3, 1, 0.2]], rtol=1e-6)
    assert_allclose(shift, [4], rtol=1e-6)
    assert_allclose(AdaSCALE(pixels=1.0)._features_and_shift(model, x.clone())[1], [4 + 22 * std], rtol=1e-6)


def outputs(model, *pixels):
    rows = torch.tensor(pixels, dtype=torch.uint8).view(len(pixels), 1, 1, -1)
    return forward_for(AdaSCALE(), model, rows)


def test_the_percentile_of_adascale_by_hand():
    # Features are 255 / 255 and less; the sum of all four by that of the k largest. No pixel moves the largest feature,
    # so Q' is that feature: .2, .4, .6, .8 of 255 in validation.
    model = linear([1.0, 1.0, 1.0, 0.001])
    known = outputs(model, *[(c, 51, 0, 0) for c in (51, 102, 153, 204)])
    scorer = AdaSCALE(min_percentile=25.0, max_percentile=75.0, pixels=0.25)
    scorer.fit(known, known)
    assert_allclose(scorer.known, [0.2, 0.4, 0.6, 0.8], rtol=1e-6)
    # Q' = 1 is larger than all: p = 25, k = 4 - 1 = 3, r = 1 with features (1, .4, .4, 0). Q' = .1: p = 75, k = 1;
    # (.1, .1, .1, 0) have r = 3. Q' = .4, like the second: F = 1/2, p = 50, k = 2; (.4, .2, .2, 0) have r = .8 / .6.
    out = outputs(model, (255, 102, 102, 0), (26, 26, 26, 0), (102, 51, 51, 0))
    sums = out.features.sum(dim=1)
    ratios = torch.tensor([1.0, 3.0, 4 / 3])
    assert_allclose(scorer.new_logits(out)[:, 0], sums * ratios.exp(), rtol=1e-5)
    scorer.known = scorer.known * (1 + 1e-6)  # of which .4 is the second but for rounding
    assert_allclose(scorer.new_logits(out)[:, 0], sums * ratios.exp(), rtol=1e-5)
    scorer.variant = "l"
    assert_allclose(scorer.new_logits(out)[:, 0], sums * ratios.square(), rtol=1e-5)


def test_adascale_keeps_a_feature_however_high_the_percentile():
    # 99 % of four features rounds to four of them; the largest stays: r = (1 + .4 + .4) / 1.
    model, scorer = linear([1.0, 1.0, 1.0, 0.001]), AdaSCALE("l", min_percentile=99.0, max_percentile=99.0)
    out = outputs(model, (255, 102, 102, 0))
    scorer.fit(out, out)
    assert_allclose(scorer.new_logits(out)[:, 0], [1.8 * 1.8**2], rtol=1e-5)


def test_adascale_of_features_that_are_not_positive_scales_by_one():
    # No positive feature: r = 1, so the features (-1, -.2, 0, 0) become e times themselves. All zeros stay zeros.
    model = linear([-1.0, -1.0, -1.0, -1.0])
    scorer = AdaSCALE()
    out = outputs(model, (255, 51, 0, 0), (0, 0, 0, 0))
    scorer.fit(out, out)
    assert_allclose(scorer.new_logits(out)[:, 0], [-1.2 * math.e, 0], rtol=1e-6)


def test_features_and_pixels_that_tie_do_so_in_any_order():
    # Two features tie for the largest: each counts half, whatever the order. Pixels that matter alike move together.
    model, other = linear([1.0, 1.0, 0.5, 0.5]), linear([0.5, 1.0, 0.5, 1.0])
    x, y = torch.tensor([0.8, 0.8, 0.2, 0.4]), torch.tensor([0.2, 0.8, 0.4, 0.8])
    scorer = AdaSCALE(pixels=0.25)
    (one,) = scorer._features_and_shift(model, x.view(1, 1, 1, 4).clone())[1]
    (two,) = scorer._features_and_shift(other, y.view(1, 1, 1, 4).clone())[1]
    assert one == two and abs(one - 0.8) < 1e-6
    # All four tie: every pixel is least important and moves by 1/2, every feature is a quarter of the largest.
    even = linear([1.0] * 4)
    assert_allclose(scorer._features_and_shift(even, torch.full((1, 1, 1, 4), 0.5))[1], [10 * 0.5 + 1.0], rtol=1e-6)


def test_adascale_passes_as_many_validation_rows_as_it_is_allowed(problem):
    model, train, validation, test = problem
    for rows, expected in ((1, 1), (7, 7), (30, 30), (59, 30), (60, 60), (5000, 60)):  # every 60th, 9th, 2nd, ... row
        scorer = AdaSCALE(rows=rows)
        scored(scorer, model, train, validation, test[:2])
        assert len(scorer.known) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"min_percentile": 90.0},
            "adascale.min_percentile=90 and max_percentile=85 are out of range; choose 0 to below",
        ),
        (
            {"max_percentile": 100.0},
            "adascale.min_percentile=60 and max_percentile=100 are out of range; choose 0 to be",
        ),
        (
            {"min_percentile": -1.0},
            "adascale.min_percentile=-1 and max_percentile=85 are out of range; choose 0 to below",
        ),
        ({"weight": -1.0}, "adascale.weight and adascale.magnitude must be 0 or more; change --set"),
        ({"magnitude": -1.0}, "adascale.weight and adascale.magnitude must be 0 or more; change --set"),
        ({"pixels": 0.0}, "adascale.pixels=0 is out of range; choose more than 0 and at most 1"),
        ({"rows": 0}, "adascale.rows=0 is out of range; choose 1 or more"),
    ],
)
def test_adascale_refuses_values_out_of_range(values, message):
    with pytest.raises(UserError) as error:
        AdaSCALE(**values)
    assert str(error.value).startswith(message)
