"""Scorers against formulas written anew, scikit-learn, pytorch-ood and cases worked by hand.

pytorch-ood differs in units, and the tests convert them: its Mahalanobis covariance is not divided by the number of
rows. Its ODIN takes a model of normalized images and the standard deviations that normalized them.
"""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scorer_problems import outputs
from sklearn.covariance import EmpiricalCovariance
from sklearn.neighbors import NearestNeighbors
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.method import Classifier
from oodbench.learning.outputs import forward
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

NAMES = ("energy", "knn", "mahalanobis", "msp", "odin", "vim")
Energy, KNN, Mahalanobis, MSP, ODIN, ViM = (load_class(Registry().card(name)) for name in NAMES)
ROWS, DIM, CLASSES = 400, 24, 6
close = partial(assert_allclose, rtol=1e-4)


@pytest.fixture(scope="module")
def random_outputs():
    """Training and test outputs: correlated features around class means far from the origin, a random head."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator)
    y = torch.arange(ROWS) % CLASSES
    means, mixing = 2 * draw(CLASSES, DIM) + 3, torch.eye(DIM) + draw(DIM, DIM) / 8
    head = nn.Linear(DIM, CLASSES)
    with torch.no_grad():
        head.weight.copy_(draw(CLASSES, DIM) / 2)
        head.bias.copy_(draw(CLASSES))
    train = means[y] + draw(ROWS, DIM) @ mixing
    test = torch.cat([means[y[:100]] + draw(100, DIM) @ mixing, 3 + 2 * draw(50, DIM)])
    return outputs(train, head, y), outputs(test, head)


def fitted(scorer, train):
    scorer.fit(train)
    return scorer


def scores(scorer, train, test):
    with torch.no_grad():
        return fitted(scorer, train).score(test).numpy()


def score_logits(scorer, *logits):
    return scorer.score(outputs(np.zeros((len(logits), 1)), logits=logits)).numpy()


def doubles(*tensors):
    return [t.double().numpy() for t in tensors]


def test_msp_is_minus_the_largest_softmax_probability(random_outputs):
    train, test = random_outputs
    got = scores(MSP(), train, test)
    close(got, -softmax(*doubles(test.logits), axis=1).max(axis=1))
    close(got, detector.MaxSoftmax(None).predict_logits(test.logits))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0, 1000.0])
def test_energy_is_the_scaled_negative_logsumexp(temperature, random_outputs):
    train, test = random_outputs
    got = scores(Energy(temperature), train, test)
    close(got, -temperature * logsumexp(doubles(test.logits)[0] / temperature, axis=1))
    close(got, detector.EnergyBased(None, t=temperature).predict_logits(test.logits))


def test_msp_of_hand_worked_logits():
    # Equal logits share the probability: 1/2. For (ln 3, 0) the odds are 3 to 1: 3/4; adding 5 to both changes nothing.
    ln3 = math.log(3)
    close(score_logits(MSP(), (0, 0), (ln3, 0), (5 + ln3, 5)), [-1 / 2, -3 / 4, -3 / 4])


def test_energy_of_hand_worked_logits():
    # -ln(e^0 + e^0) = -ln 2; -ln(3 + 1) = -ln 4; adding 5 to both lowers it by 5.
    ln3 = math.log(3)
    close(score_logits(Energy(), (0, 0), (ln3, 0), (5 + ln3, 5)), [-math.log(2), -math.log(4), -math.log(4) - 5])
    # At T = 2: -2 ln 2; and -2 ln(e^(2 ln 3 / 2) + 1) = -2 ln 4.
    close(score_logits(Energy(2.0), (0, 0), (2 * ln3, 0)), [-2 * math.log(2), -2 * math.log(4)])


def test_huge_logits_neither_overflow_nor_vanish():
    # The largest logit decides: the energy is -1e4 or +1e4 - ln 2, the probability 1 or 1/2.
    close(score_logits(Energy(), (1e4, 0), (-1e4, -1e4)), [-1e4, 1e4 - math.log(2)])
    close(score_logits(MSP(), (1e4, 0), (-1e4, -1e4)), [-1, -1 / 2])


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_energy_refuses_a_temperature_that_is_not_positive(temperature):
    with pytest.raises(UserError) as error:
        Energy(temperature)
    assert str(error.value) == f"energy.temperature={temperature:g} is out of range; choose more than 0"


@pytest.mark.parametrize("k", [1, 7, 50, ROWS])
def test_knn_is_the_distance_to_the_kth_nearest_normalised_training_row(k, random_outputs):
    train, test = random_outputs
    bank, rows = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in doubles(train.features, test.features))
    distances, _ = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(bank).kneighbors(rows)
    got = scores(KNN(k), train, test)
    close(got, distances[:, -1])
    close(got, detector.KNN(None, k=k).fit_features(train.features, train.y).predict_features(test.features))


def test_knn_tells_rows_apart_that_lie_close_together():
    # As the features of one class do in a well-trained network; here the distances are about 0.013.
    generator = torch.Generator().manual_seed(0)
    cluster = 1 + 0.01 * torch.randn(700, 64, generator=generator)
    bank, rows = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in doubles(cluster[:500], cluster[500:]))
    distances, _ = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(bank).kneighbors(rows)
    got = scores(KNN(), outputs(cluster[:500]), outputs(cluster[500:]))
    close(got, distances[:, -1])
    assert len(np.unique(got)) == len(rows)


def test_knn_on_a_line_sees_only_the_side_of_the_origin():
    # Normalized, 3 and 5 become +1 and -2 becomes -1. From 7 (+1) they are 0, 0 and 2 away; from -4 (-1) 0, 2 and 2.
    train, test = outputs([[3.0], [5.0], [-2.0]]), outputs([[7.0], [-4.0]])
    for k, expected in [(1, [0, 0]), (2, [0, 2]), (3, [2, 2])]:
        close(scores(KNN(k), train, test), expected)


def test_knn_on_a_circle_gives_the_hand_worked_distances():
    # The bank lies at 0, 90 and 180 degrees whatever the lengths; from 0 degrees the chords are 0, sqrt 2 and 2.
    train, test = outputs([[3.0, 0.0], [0.0, 0.5], [-1.0, 0.0]]), outputs([[2.0, 0.0]])
    close([scores(KNN(k), train, test)[0] for k in (1, 2, 3)], [0, math.sqrt(2), 2])


def test_knn_gives_a_feature_of_zeros_a_finite_score():
    # It has no direction and stays at the origin, at distance 1 from every normalized row.
    close(scores(KNN(1), outputs([[3.0, 0.0], [0.0, 2.0]]), outputs([[0.0, 0.0]])), [1])


def test_knn_refuses_a_k_beyond_the_training_rows(random_outputs):
    with pytest.raises(UserError) as error:
        KNN(ROWS + 1).fit(random_outputs[0])
    assert str(error.value) == f"knn.k={ROWS + 1} is out of range; choose 1 to {ROWS}, the number of training rows"


@pytest.mark.parametrize("value", [0, -1])
def test_knn_and_vim_refuse_numbers_below_one_before_anything_trains(value):
    with pytest.raises(UserError, match=f"knn.k={value} is out of range; choose 1 or more"):
        KNN(value)
    with pytest.raises(UserError, match=f"vim.dim={value} is out of range; choose 1 or more, or auto"):
        ViM(value)


def mahalanobis_by_scikit_learn(train, test):
    """Half the squared distance to the nearest mean of a class present, with the covariance about the class means."""
    x, y, rows = *doubles(train.features), train.y.numpy(), *doubles(test.features)
    present = np.unique(y)
    means = np.stack([x[y == k].mean(axis=0) for k in present])
    residuals = x - means[np.searchsorted(present, y)]
    gaussian = EmpiricalCovariance(assume_centered=True).fit(residuals)
    return np.min([gaussian.mahalanobis(rows - mean) for mean in means], axis=0) / 2


def test_mahalanobis_is_half_the_squared_distance_to_the_nearest_class(random_outputs):
    train, test = random_outputs
    got = scores(Mahalanobis(), train, test)
    close(got, mahalanobis_by_scikit_learn(train, test))
    theirs = detector.Mahalanobis(None).fit_features(train.features, train.y).predict_features(test.features)
    close(got, theirs.double() * ROWS)  # it sums over rows where the covariance is a mean
    assert (np.argsort(got) == np.argsort(theirs.numpy())).all()


def test_mahalanobis_in_one_dimension_gives_the_hand_worked_distances():
    # Class 0 holds 0 and 4, class 1 holds 10 and 14: means 2 and 12, residuals +-2, variance (4 * 4) / 4 = 4.
    train = outputs([[0.0], [4.0], [10.0], [14.0]], y=[0, 0, 1, 1])
    # 8: min(6^2, 4^2) / 4 / 2 = 2; 2: 0; 7: 5^2 / 8; -2: 4^2 / 8.
    close(scores(Mahalanobis(), train, outputs([[8.0], [2.0], [7.0], [-2.0]])), [2, 0, 25 / 8, 2], atol=1e-12)


def test_mahalanobis_ignores_a_feature_that_never_fires(random_outputs):
    train, test = random_outputs
    dead = (outputs(F.pad(out.features, (0, 1)), y=out.y) for out in (train, test))
    close(scores(Mahalanobis(), *dead), mahalanobis_by_scikit_learn(train, test))


def test_mahalanobis_counts_only_the_classes_that_occur(random_outputs):
    train, test = random_outputs
    kept = train.y != 2
    some = outputs(train.features[kept], y=train.y[kept])
    got = scores(Mahalanobis(), some, test)
    assert np.isfinite(got).all()
    close(got, mahalanobis_by_scikit_learn(some, test))


def vim_by_numpy(train, test, dim):
    """The authors' steps by another road: singular vectors of the rows about the origin, least squares for W^+ b."""
    weight, bias = doubles(train.model.head.weight, train.model.head.bias)
    x, rows = doubles(train.features, test.features)
    origin = -np.linalg.lstsq(weight, bias, rcond=None)[0]  # the shortest solution, as the pseudo-inverse gives
    principal = np.linalg.svd(x - origin, full_matrices=False)[2][:dim]

    def residual(h):
        """By Pythagoras: what the principal space leaves of the length."""
        return np.sqrt(((h - origin) ** 2).sum(axis=1) - (((h - origin) @ principal.T) ** 2).sum(axis=1))

    alpha = (x @ weight.T + bias).max(axis=1).mean() / residual(x).mean()
    return alpha * residual(rows) - logsumexp(rows @ weight.T + bias, axis=1)


@pytest.mark.parametrize("dim", [1, 10, DIM - 1])
def test_vim_is_the_virtual_logit_minus_the_logsumexp(dim, random_outputs):
    train, test = random_outputs
    got = scores(ViM(dim), train, test)
    close(got, vim_by_numpy(train, test, dim))
    head = train.model.head
    theirs = detector.ViM(None, d=dim, w=head.weight, b=head.bias).fit_features(train.features, train.y)
    # It works in single precision; where its sum nearly cancels, only digits of the terms can agree.
    close(got, theirs.predict_features(test.features), atol=1e-4 * got.std())


def test_vim_takes_a_head_whose_rows_sum_to_zero_for_one_of_rank_k_minus_1(random_outputs):
    """As a multinomial regression with L2 gives: of the sum, its float32 weights leave nothing but rounding."""
    train, _ = random_outputs
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, DIM, generator=generator, dtype=torch.double)
    bias = torch.randn(CLASSES, generator=generator, dtype=torch.double)
    head = nn.Linear(DIM, CLASSES)
    with torch.no_grad():
        head.weight.copy_(weight - weight.mean(dim=0))
        head.bias.copy_(bias)
    values = np.linalg.svd(doubles(head.weight.detach())[0], compute_uv=False)
    assert 0 < values[-1] < 1e-6 * values[0]  # not zero, so that a pseudo-inverse might take it for a direction
    left, singular, right = np.linalg.svd(doubles(head.weight.detach())[0], full_matrices=False)
    expected = -right[:-1].T @ ((left[:, :-1].T @ doubles(head.bias.detach())[0]) / singular[:-1])
    close(fitted(ViM(), outputs(train.features, head)).origin.numpy(), expected)


@pytest.mark.parametrize(("size", "dim"), [(2, 1), (128, 64), (767, 383), (768, 512), (2048, 1000)])
def test_vim_chooses_the_principal_dimension_by_its_authors_rule(size, dim):
    # 1000 from 2048 features on, 512 from 768 on, else half of them; the residual space is the rest.
    draws = torch.randn(8, size, generator=torch.Generator().manual_seed(0))
    assert fitted(ViM(), outputs(draws)).residual_space.shape == (size, size - dim)


def test_vim_in_two_dimensions_gives_the_hand_worked_scores():
    # Logits (h1 + 2, h1 + 2) for features (h1, h2): W = [[1, 0], [1, 0]], b = (2, 2), so the origin is (-2, 0).
    head = nn.Linear(2, 2)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        head.bias.copy_(torch.tensor([2.0, 2.0]))
    # About it the rows are (8, 1) and (8, -1): principal axis h1, residual |h2| = 1, largest logit 8, alpha = 8 / 1.
    train = outputs([[6.0, 1.0], [6.0, -1.0]], head)
    # (0, 0) has residual 0 and logits (2, 2): -(2 + ln 2). (1, -3) has residual 3 and logits (3, 3): 24 - (3 + ln 2).
    got = scores(ViM(1), train, outputs([[0.0, 0.0], [1.0, -3.0]], head))
    close(got, [-2 - math.log(2), 21 - math.log(2)])


@pytest.mark.parametrize("dim", [DIM, DIM + 1])
def test_vim_refuses_a_dimension_that_leaves_no_residual_space(dim, random_outputs):
    with pytest.raises(UserError) as error:
        ViM(dim).fit(random_outputs[0])
    assert str(error.value) == (
        f"vim.dim={dim} is out of range; choose 1 to {DIM - 1} for the {DIM} features of the network"
    )


@pytest.fixture(scope="module")
def image_outputs():
    """Training and test outputs of a network on color images whose channels have different standard deviations.

    In double precision, so that at a temperature of 1000 the scores keep the digits that are compared.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 12, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        model = Classifier(body, 12, CLASSES, mean=(0.5, 0.4, 0.3), std=(0.125, 0.25, 0.5))
        model.body[1].running_var.uniform_(0.5, 2)
        model.head.weight.data.mul_(20)
        model.double().eval().requires_grad_(False)
        images = torch.randint(0, 256, (140, 3, 8, 8), dtype=torch.uint8)
        images //= torch.randint(1, 4, (140, 1, 1, 1), dtype=torch.uint8)  # bright and dark ones
    train, test = images[:100], images[100:]
    return forward(model, train, torch.arange(100) % CLASSES), forward(model, test)


def normalised(out):
    return (out.images.double() / 255 - out.model.mean) / out.model.std


def network_of_normalised_images(model):
    return nn.Sequential(model.body, model.head)


def odin_image_by_image(out, temperature, magnitude):
    """The paper's steps where it takes them, on the normalized image: x' = x - epsilon sign(g) / std."""
    network, found = network_of_normalised_images(out.model), []
    for x in normalised(out):
        x = x[None].requires_grad_()
        logits = network(x) / temperature
        F.cross_entropy(logits, logits.argmax(dim=1)).backward()
        sign = torch.where(x.grad >= 0, 1.0, -1.0)
        perturbed = x.detach() - magnitude * sign / out.model.std
        found.append(-softmax((network(perturbed) / temperature).detach().numpy()).max())
    return np.array(found)


def confidence(scores, temperature):
    """ODIN's scores in the unit of logits: at T = 1000 all are near -1/K, and only what is beyond that tells."""
    return temperature * np.log(-np.asarray(scores) * CLASSES)


@pytest.mark.parametrize(("temperature", "magnitude"), [(1000.0, 0.0014), (1.0, 0.0038), (10.0, 0.0)])
def test_odin_is_the_softmax_after_a_step_in_pixel_units(temperature, magnitude, image_outputs):
    train, test = image_outputs
    got = confidence(scores(ODIN(temperature, magnitude), train, test), temperature)
    close(got, confidence(odin_image_by_image(test, temperature, magnitude), temperature))
    network, std = network_of_normalised_images(test.model), test.model.std.flatten().tolist()
    theirs = detector.ODIN(network, F.cross_entropy, eps=magnitude, temperature=temperature, norm_std=std)
    close(got, confidence(theirs.predict(normalised(test)), temperature))


def test_odin_without_a_step_is_msp_at_its_temperature(image_outputs):
    train, test = image_outputs
    close(scores(ODIN(temperature=1.0, magnitude=0.0), train, test), scores(MSP(), train, test))


@pytest.mark.parametrize(("temperature", "magnitude"), [(0.0, 0.1), (-1.0, 0.1), (1.0, -0.1)])
def test_odin_refuses_what_is_no_temperature_or_no_step(temperature, magnitude):
    with pytest.raises(UserError) as error:
        ODIN(temperature, magnitude)
    message = "odin.temperature must be more than 0 and odin.magnitude 0 or more; change --set"
    assert str(error.value) == message


def test_mahalanobis_with_a_step_takes_it_in_pixel_units_towards_the_nearest_class(image_outputs):
    train, test = image_outputs
    magnitude, std, body = 0.005, test.model.std, test.model.body
    got = scores(Mahalanobis(magnitude), train, test)

    base = detector.Mahalanobis(None).fit_features(train.features, train.y)
    means, precision = base.mu.double(), base.precision.double() * len(train.features)
    perturbed = []
    for x in normalised(test):
        x = x[None].requires_grad_()
        centred = body(x) - means
        ((centred @ precision) * centred).sum(dim=1).min().backward()
        perturbed.append(x.detach() - magnitude * x.grad.sign() / std)
    moved = outputs(body(torch.cat(perturbed)))
    close(got, mahalanobis_by_scikit_learn(train, moved))
    assert (got < scores(Mahalanobis(), train, test)).all()

    theirs = detector.MahalanobisODIN(lambda x: body(x).float(), eps=magnitude, norm_std=std.flatten().tolist())
    theirs.fit_features(train.features.float(), train.y)
    close(got, theirs.predict(normalised(test)).double() * len(train.features))
