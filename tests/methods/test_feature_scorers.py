"""fDBD, NCI, CADRef and pNML against plain float64 readings of their formulas, pytorch-ood and cases worked by hand."""

import math
from functools import cache, partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax, logsumexp
from scorer_problems import linear, outputs

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

fDBD, NCI, CADRef, pNML = (load_class(Registry().card(name)) for name in ("fdbd", "nci", "cadref", "pnml"))
ROWS, DIM, CLASSES, DEAD = 400, 24, 6, 5
EVERY = ("relu", "rank k - 1", "no bias", "signed")
every_problem = pytest.mark.parametrize("name", EVERY)
close = partial(assert_allclose, rtol=1e-6, atol=1e-9)  # logits are rounded to float32


@cache
def problem(name):
    """Training and test outputs: correlated features around class means, the unknown rows fire where no other does."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    means, mixing = 1.2 * draw(CLASSES, DIM), torch.eye(DIM) + draw(DIM, DIM) / 8
    weight, bias = means / 3 + draw(CLASSES, DIM) / 8, draw(CLASSES)
    weight[:, 3] = 0  # of which no logit takes notice
    if name == "rank k - 1":
        weight = weight.double() - weight.double().mean(dim=0)
    head = linear(weight, None if name == "no bias" else bias)

    def rows(count, spread=1.0):
        features = spread * means[torch.arange(count) % CLASSES] + draw(count, DIM) @ mixing
        features = features if name == "signed" else features.relu()
        features[:, DEAD] = 0
        return features

    train, known, unknown = rows(ROWS), rows(100), rows(50, spread=-0.5)
    unknown[:, DEAD] = draw(50).abs()
    return outputs(train, head, torch.arange(ROWS) % CLASSES), outputs(torch.cat([known, unknown]), head)


def plain(out):
    """f, W, b and z = W f + b in NumPy's float64."""
    head = out.model.head
    features, weight = out.features.double().numpy(), head.weight.double().numpy()
    bias = np.zeros(len(weight)) if head.bias is None else head.bias.double().numpy()
    return features, weight, bias, features @ weight.T + bias


def scores(scorer, train, test):
    with torch.no_grad():
        scorer.fit(train)
        return scorer.score(test).numpy()


def agree(got, expected):
    """Within 1e-4 of a standard deviation, the unit in which a difference could matter."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert got.shape == expected.shape and np.isfinite(expected).all() and expected.std() > 0
    assert np.abs(got - expected).max() <= 1e-4 * expected.std()


def fdbd_by_numpy(train, test):
    mean = plain(train)[0].mean(axis=0)
    rows, weight, _, logits = plain(test)
    found = []
    for f, z in zip(rows, logits, strict=True):
        top = z.argmax()
        distances = [(z[top] - z[k]) / math.dist(weight[top], weight[k]) for k in range(CLASSES) if k != top]
        found.append(-sum(distances) / (CLASSES - 1) / math.dist(f, mean))
    return np.array(found)


@every_problem
def test_fdbd_is_the_mean_distance_to_boundaries_over_that_to_the_training_mean(name):
    train, test = problem(name)
    got = scores(fDBD(), train, test)
    agree(got, fdbd_by_numpy(train, test))
    theirs = detector.fDBD(None, train.model.head).fit_features(train.features)
    agree(got, theirs.predict_features(test.features))


# In the plane, with the training mean (1, 0); class 0 has the weights (3, 4), class 1 none.
PLANE = linear([[3, 4], [0, 0]], [0, 0])


def test_fdbd_in_the_plane_gives_the_hand_worked_distances():
    # (1, 3): logits 15 and 0, so 15 / 5 = 3 from the boundary and 3 from the mean. (-3, 3): 3 / 5, and 5 from the mean.
    # (0, 0): on the boundary.
    train = outputs([[0.0, 1.0], [2.0, -1.0]], PLANE)
    test = outputs([[1.0, 3.0], [-3.0, 3.0], [0.0, 0.0]], PLANE)
    close(scores(fDBD(), train, test), [-1, -3 / 5 / 5, 0])


def test_fdbd_leaves_out_classes_without_a_boundary():
    # Classes 0 and 1 have equal weights, whatever their biases: between them lies no boundary, and class 2 decides
    # alone. (4, 0): (3 * 4 + 2) / 3 of it, 4 from the mean. If class 2 is predicted, both others count.
    head = linear([[3, 0], [3, 0], [0, 0]], [0, 2, 0])
    train, test = outputs([[-1.0, 0.0], [1.0, 0.0]], head), outputs([[4.0, 0.0], [-2.0, 0.0]], head)
    close(scores(fDBD(), train, test), [-14 / 3 / 4, -(6 / 3 + 4 / 3) / 2 / 2])


def test_fdbd_of_a_head_without_any_boundary_and_of_the_training_mean_is_finite():
    blind = linear([[1, 1], [1, 1]], [0, 1])
    assert (scores(fDBD(), outputs([[0.0, 1.0]], blind), outputs([[2.0, 3.0]], blind)) == 0).all()
    train = outputs([[1.0, 1.0], [3.0, 1.0]], PLANE)
    at_mean, beside = scores(fDBD(), train, outputs([[2.0, 1.0], [2.1, 1.0]], PLANE))
    assert np.isfinite(at_mean) and at_mean < beside


@every_problem
@pytest.mark.parametrize("alpha", [1e-4, 0.1, 0.0])
def test_nci_is_the_projection_on_the_centered_feature_plus_the_l1_norm(name, alpha):
    train, test = problem(name)
    mean = plain(train)[0].mean(axis=0)
    expected = []
    for f, z in zip(*plain(test)[::3], strict=True):
        weight = plain(test)[1][z.argmax()]
        expected.append(-(weight @ (f - mean) / math.dist(f, mean) + alpha * sum(map(abs, f))))
    got = scores(NCI(alpha), train, test)
    agree(got, expected)
    theirs = detector.NCI(None, train.model.head, alpha=alpha).fit_features(train.features)
    agree(got, theirs.predict_features(test.features))


def test_nci_in_the_plane_gives_the_hand_worked_scores():
    # About the mean (1, 0), (4, 4) is (3, 4): class 0, (9 + 16) / 5 and an L1 norm of 8. (-2, -4) is (-3, -4): class 1,
    # whose weights are none, and an L1 norm of 6. The mean itself: class 0, projected on nothing, an L1 norm of 1.
    train = outputs([[0.0, 1.0], [2.0, -1.0]], PLANE)
    test = outputs([[4.0, 4.0], [-2.0, -4.0], [1.0, 0.0]], PLANE)
    close(scores(NCI(0.5), train, test), [-5 - 4, -3, -0.5])


def test_nci_refuses_a_negative_weight_of_the_norm():
    with pytest.raises(UserError) as error:
        NCI(-0.1)
    assert str(error.value) == "nci.alpha=-0.1 is out of range; choose 0 or more"


def cadref_by_numpy(train, test, variant):
    x, weight, _, train_logits = plain(train)
    means = [x[train_logits.argmax(axis=1) == k].mean(axis=0) for k in range(CLASSES)]
    found = []
    for f, z in zip(*plain(test)[::3], strict=True):
        top, length = z.argmax(), sum(map(abs, f))
        positive = negative = neither = 0.0
        for entry, w in zip(f - means[top], weight[top], strict=True):
            if entry * w > 0:
                positive += abs(entry)
            elif entry * w < 0:
                negative += abs(entry)
            else:
                neither += abs(entry)
        if variant == "caref":
            found.append((positive + negative + neither) / length)
        else:
            mean_energy = np.mean(logsumexp(train_logits, axis=1))
            found.append(positive / length / logsumexp(z) + negative / length / mean_energy)
    return np.array(found)


@every_problem
@pytest.mark.parametrize("variant", ["cadref", "caref"])
def test_cadref_splits_the_distance_to_rows_predicted_alike_by_what_it_does_to_the_logit(name, variant):
    train, test = problem(name)
    assert (train.logits.logsumexp(dim=-1) > 0).all()
    agree(scores(CADRef(variant), train, test), cadref_by_numpy(train, test, variant))


def test_cadref_of_hand_worked_rows_and_where_a_class_is_never_predicted_or_has_no_rows():
    # Predicted: 0, 0, 1, 1, so the means are (1, 2, 1) and (0, 2, 2). Class 2 is never predicted and takes the mean of
    # its own row, (0, 4, 4); class 3 has no rows and takes the mean of all, (1/2, 2, 3/2).
    logits = [[4, -99, -99, -99]] * 2 + [[-99, 4, -99, -99]] * 2
    features = [[2.0, 2.0, 2.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 4.0, 4.0]]
    head = linear([[1, -1, 0]] * 4)
    train = outputs(features, head, y=[0, 0, 1, 2], logits=logits)
    # (4, 3, 3) about them is (3, 1, 2), (4, 1, 1), (4, -1, -1) and (3.5, 1, 1.5), of an L1 norm of 10.
    test = outputs([[4.0, 3.0, 3.0]] * 4, head, logits=[[2 if j == k else -99 for j in range(4)] for k in range(4)])
    close(scores(CADRef("caref"), train, test), [0.6, 0.6, 0.6, 0.6])
    # The first feature raises the logit, the second lowers it, the third does neither. The row's energy is 2, that of
    # training rows 4: .3 / 2 + .1 / 4, .4 / 2 + .1 / 4, (.4 + .1) / 2 and .35 / 2 + .1 / 4.
    close(scores(CADRef(), train, test), [0.175, 0.225, 0.25, 0.2])


def test_cadref_changes_its_sign_with_the_energy_and_is_finite_where_that_is_zero():
    # One logit is its own energy: 1 of the training row, then -2, 0 and 1. About the mean (1, 1), (3, 1) is (2, 0).
    head = linear([[1, 1]])
    train = outputs([[1.0, 1.0]], head, y=[0], logits=[[1.0]])
    test = outputs([[3.0, 1.0]] * 3, head, logits=[[-2.0], [0.0], [1.0]])
    got = scores(CADRef(), train, test)
    close(got[[0, 2]], [-0.5 / 2, 0.5])
    assert np.isfinite(got).all() and got[1] > 1e6  # the limit of ever smaller energies
    without = outputs([[1.0, 1.0]], head, y=[0], logits=[[0.0]])
    assert np.isfinite(scores(CADRef(), without, outputs([[0.5, 1.0]], head, logits=[[1.0]]))).all()


@pytest.mark.parametrize("variant", ["cadref", "caref"])
def test_cadref_takes_a_row_of_zeros_for_as_far_as_can_be(variant):
    train, test = problem("relu")
    got = scores(CADRef(variant), train, outputs(torch.cat([torch.zeros(1, DIM), test.features]), train.model.head))
    assert np.isfinite(got).all() and got[0] > got[1:].max()


def pnml_by_numpy(train, test):
    x, weight, bias, _ = plain(train)
    kept = x.std(axis=0) > 0
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    inverse = np.linalg.inv(units[:, kept].T @ units[:, kept])
    found = []
    for f in plain(test)[0]:
        u = f / np.linalg.norm(f)
        energy = u[kept] @ inverse @ u[kept]
        g = energy / (1 + energy)
        p = np.exp(log_softmax(weight @ u + bias))
        found.append(math.log(sum(p / (p + (1 - p) * p**g))) / math.log(CLASSES))
    return np.array(found)


@every_problem
def test_pnml_is_the_logarithm_of_the_sum_of_the_told_learners_probabilities(name):
    train, test = problem(name)
    got = scores(pNML(), train, test)
    agree(got, pnml_by_numpy(train, test))
    theirs = detector.PNML(None, train.model.head).fit_features(train.features, train.y)
    assert_allclose(got, theirs.predict_features(test.features), rtol=1e-3)  # of float32 throughout
    assert (got > 0).all() and (got < 1).all()


def test_pnml_in_the_plane_gives_the_hand_worked_regrets():
    # Unit rows (1, 0) three times and (0, 1) once: energies 1/3 and 1, so g is 1/4 and 1/2. Equal logits: p = 1/2 each,
    # p / (p + (1 - p) p^g) = 1 / (1 + 2^-g).
    head = linear([[0, 0], [0, 0]])
    train = outputs([[2.0, 0.0], [1.0, 0.0], [9.0, 0.0], [0.0, 4.0]], head)
    got = scores(pNML(), train, outputs([[5.0, 0.0], [0.0, 3.0], [0.0, 0.0]], head))
    # A row of zeros has energy 0: both learners are at 1/2, and nothing is regretted.
    close(got, [math.log2(2 / (1 + 2**-0.25)), math.log2(2 / (1 + 2**-0.5)), 0])


def test_pnml_ignores_a_direction_that_no_training_row_has():
    head = linear([[0, 0], [0, 0]])
    train = outputs([[2.0, 0.0], [1.0, 0.0], [9.0, 0.0]], head)
    along, across = scores(pNML(), train, outputs([[1.0, 0.0], [0.0, 1.0]], head))
    close([along, across], [math.log2(2 / (1 + 2**-0.25)), 0])


def test_pnml_of_probabilities_that_are_exactly_zero_and_one_is_finite():
    # Logits 2000 apart: p is 1 and 0. The learner told of the sure class has 1, the others 0: nothing is regretted.
    head = linear([[1000, 0], [-1000, 0], [-1000, 0]])
    train = outputs([[1.0, 0.0], [0.0, 1.0]], head)
    got = scores(pNML(), train, outputs([[3.0, 0.0], [-3.0, 0.0]], head))
    # The other way two share 1/2 each: energy 1 / 1, so 2 / (1 + 2^-1/2) for the two.
    close(got, [0, math.log(2 / (1 + 2**-0.5)) / math.log(3)])
