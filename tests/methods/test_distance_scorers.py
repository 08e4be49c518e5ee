"""Scorers of distances against plain float64 readings of their formulas, pytorch-ood and cases worked by hand.

The feature sets hold what trips a scorer: half of the features are exactly zero, one never fires in training and does
in some test rows, a head has rank K - 1, another no bias.
"""

import math
from functools import cache, partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from scorer_problems import linear, outputs
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import StandardScaler
from torch.utils._python_dispatch import TorchDispatchMode

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

NAMES = ("rmd", "mahalanobis-pp", "mahalanobis", "she", "neco", "residual", "vim", "gmm", "cosine", "cop")
RMD, MahalanobisPP, Mahalanobis, SHE, NECO, Residual, ViM, GMM, Cosine, CoP = (
    load_class(Registry().card(name)) for name in NAMES
)
ROWS, DIM, CLASSES, DEAD = 400, 24, 6, 5
EVERY = ("relu", "rank k - 1", "no bias", "signed")
every_problem = pytest.mark.parametrize("name", EVERY)
close = partial(assert_allclose, rtol=1e-9, atol=1e-9)


@cache
def problem(name):
    """Training and test outputs: correlated features around class means, the unknown rows fire where no other does."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    means, mixing = 1.2 * draw(CLASSES, DIM), torch.eye(DIM) + draw(DIM, DIM) / 8
    weight, bias = means / 3 + draw(CLASSES, DIM) / 8, draw(CLASSES)
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


def scores(scorer, train, test):
    with torch.no_grad():
        scorer.fit(train)
        return scorer.score(test).numpy()


def doubles(*tensors):
    return [t.double().numpy() for t in tensors]


def agree(got, expected):
    """Within 1e-4 of a standard deviation, the unit in which a difference could matter."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert got.shape == expected.shape and np.isfinite(expected).all() and expected.std() > 0
    assert np.abs(got - expected).max() <= 1e-4 * expected.std()


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def without_dead(out):
    """The same without the feature that never fires, so that every covariance has an inverse."""
    kept = [j for j in range(DIM) if j != DEAD]
    weight, bias = out.model.head.weight, out.model.head.bias
    return outputs(out.features[:, kept], linear(weight[:, kept], bias), out.y, out.logits)


def test_half_of_the_features_are_exactly_zero_and_one_never_fires():
    for name in EVERY[:3]:
        train, test = problem(name)
        assert 0.3 < (train.features == 0).float().mean() < 0.7
        assert (train.features[:, DEAD] == 0).all() and (test.features[-50:, DEAD] > 0).all()
    values = np.linalg.svd(doubles(problem("rank k - 1")[0].model.head.weight)[0], compute_uv=False)
    assert 0 < values[-1] < 1e-6 * values[0] and problem("no bias")[0].model.head.bias is None


def rmd_by_numpy(x, y, rows):
    """Class by class with plain inverses, of the features that vary."""
    varies = x.std(axis=0) > 0
    x, rows = x[:, varies], rows[:, varies]
    means = {k: x[y == k].mean(axis=0) for k in np.unique(y)}
    within = np.stack([row - means[k] for row, k in zip(x, y, strict=True)])
    precision = np.linalg.inv(within.T @ within / len(x))
    about = x - x.mean(axis=0)
    background = np.linalg.inv(about.T @ about / len(x))

    def distance(a, b, inverse):
        return np.array([(row - b) @ inverse @ (row - b) for row in a])

    nearest = np.min([distance(rows, mean, precision) for mean in means.values()], axis=0)
    return nearest - distance(rows, x.mean(axis=0), background)


@every_problem
@pytest.mark.parametrize("normalize", [False, True])
def test_rmd_is_the_distance_to_the_nearest_class_less_that_to_the_background(name, normalize):
    train, test = problem(name)
    x, rows = (unit(f) if normalize else f for f in doubles(train.features, test.features))
    agree(scores(RMD(normalize), train, test), rmd_by_numpy(x, train.y.numpy(), rows))


@every_problem
def test_rmd_agrees_with_pytorch_ood_where_all_features_vary(name):
    # Where one does not, its two ridges of 1e-6 add up to nothing that could be told.
    train, test = map(without_dead, problem(name))
    theirs = detector.RMD(None).fit_features(train.features, train.y)
    agree(scores(RMD(), train, test), ROWS * theirs.predict_features(test.features))  # it sums where we take means


def test_rmd_in_one_dimension_gives_the_hand_worked_scores():
    # Class 0 holds 0 and 4, class 1 holds 10 and 14: means 2 and 12, variance within 4. All: mean 7, variance
    # (7^2 + 3^2 + 3^2 + 7^2) / 4 = 29.
    train = outputs([[0.0], [4.0], [10.0], [14.0]], y=[0, 0, 1, 1])
    # 8: min(6^2, 4^2) / 4 - 1^2 / 29; 2: 0 - 5^2 / 29; 7: 5^2 / 4 - 0.
    close(scores(RMD(), train, outputs([[8.0], [2.0], [7.0]])), [4 - 1 / 29, -25 / 29, 25 / 4])


def test_rmd_drops_a_direction_from_both_distances_or_from_none():
    """A feature that tells the classes apart and never varies within one has variance about the mean alone."""
    train, test = problem("signed")
    named, unnamed = train.features.clone(), test.features.clone()
    named[:, DEAD], unnamed[:, DEAD] = train.y, 3.0
    got = scores(RMD(), outputs(named, y=train.y), outputs(unnamed))
    agree(got, scores(RMD(), train, test))


def test_rmd_counts_only_the_classes_that_occur():
    train, test = problem("relu")
    kept = train.y != 2
    some = outputs(train.features[kept], y=train.y[kept])
    agree(scores(RMD(), some, test), rmd_by_numpy(*doubles(some.features), some.y.numpy(), *doubles(test.features)))


def test_rmd_and_mahalanobis_pp_of_one_row_per_class_see_no_direction():
    train, test = problem("relu")
    lonely = outputs(train.features[:CLASSES], y=train.y[:CLASSES])
    for scorer in (RMD(), RMD(normalize=True), MahalanobisPP()):
        assert (scores(scorer, lonely, test) == 0).all()


def test_rmd_of_unit_features_does_not_see_their_lengths():
    train, test = problem("relu")
    longer = outputs(test.features * torch.linspace(0.1, 10, len(test.features))[:, None])
    agree(scores(RMD(normalize=True), train, longer), scores(RMD(normalize=True), train, test))


class Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("scorer", [RMD(), MahalanobisPP()], ids=["rmd", "mahalanobis-pp"])
def test_rows_are_whitened_once_however_many_classes_there_are(scorer):
    train, test = problem("relu")
    counts = []
    for classes in (2, CLASSES):
        kept = train.y < classes
        with torch.no_grad():
            scorer.fit(outputs(train.features[kept], y=train.y[kept]))
            with Products() as products:
                scorer.score(test)
        counts.append(products.count)
    assert counts[0] == counts[1] > 0


@every_problem
def test_mahalanobis_pp_is_mahalanobis_on_unit_features(name):
    train, test = problem(name)
    x, rows, y = *map(unit, doubles(train.features, test.features)), train.y.numpy()
    means = np.stack([x[y == k].mean(axis=0) for k in range(CLASSES)])
    gaussian = EmpiricalCovariance(assume_centered=True).fit(x - means[y])
    got = scores(MahalanobisPP(), train, test)
    agree(got, np.min([gaussian.mahalanobis(rows - mean) for mean in means], axis=0) / 2)
    # As the scorer that is there already computes it.
    agree(got, scores(Mahalanobis(), outputs(x, y=y), outputs(rows)))
    live, others = (torch.as_tensor(np.delete(f, DEAD, axis=1), dtype=torch.float32) for f in (x, rows))
    theirs = detector.Mahalanobis(None).fit_features(live, train.y)
    agree(got, ROWS * theirs.predict_features(others))  # it sums where we take means


def test_mahalanobis_pp_on_a_circle_gives_the_hand_worked_scores():
    # Unit rows (1, 0), (0, 1) of class 0 and (-1, 0), (0, -1) of class 1: means (.5, .5) and (-.5, -.5), residuals
    # +-(.5, -.5). So only the direction (1, -1) / sqrt 2 varies, by a variance of .5.
    train = outputs([[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0], [0.0, -3.0]], y=[0, 0, 1, 1])
    # (1, 0) is at 1 / sqrt 2 along it: .5 / .5 / 2. (1, 1) is at 0. (1, -1) / sqrt 2 is at 1: 1 / .5 / 2. A row of
    # zeros stays at the origin, which is at 0, too.
    test = outputs([[3.0, 0.0], [4.0, 4.0], [7.0, -7.0], [0.0, 0.0]])
    close(scores(MahalanobisPP(), train, test), [0.5, 0, 1, 0])


def test_mahalanobis_pp_keeps_its_digits_where_rows_are_far_from_the_origin_and_close_together():
    generator = torch.Generator().manual_seed(0)
    features = 1 + 1e-3 * torch.randn(500, 16, generator=generator)  # of a standard deviation of 3e-4 once of length 1
    y = torch.arange(400) % 3
    x, rows = map(unit, doubles(features[:400], features[400:]))
    means = np.stack([x[y == k].mean(axis=0) for k in range(3)])
    within = x - means[y]
    precision = np.linalg.pinv(within.T @ within / len(x), rcond=16 * np.finfo(float).eps, hermitian=True)
    expected = [min((row - mean) @ precision @ (row - mean) / 2 for mean in means) for row in rows]
    agree(scores(MahalanobisPP(), outputs(features[:400], y=y), outputs(features[400:])), expected)


def she_by_numpy(train, test, metric):
    x, z, y = *doubles(train.features, train.logits), train.y.numpy()
    patterns = np.stack([x[(y == k) & (z.argmax(axis=1) == k)].mean(axis=0) for k in range(CLASSES)])
    found = []
    for row, logits in zip(*doubles(test.features, test.logits), strict=True):
        pattern = patterns[logits.argmax()]
        if metric == "euclidean":
            found.append(math.dist(row, pattern))
        else:
            lengths = np.linalg.norm(row) * np.linalg.norm(pattern) if metric == "cosine" else 1
            found.append(-(row @ pattern) / lengths)
    return np.array(found)


@every_problem
@pytest.mark.parametrize("metric", ["inner", "cosine", "euclidean"])
def test_she_compares_with_the_correct_rows_of_the_predicted_class(name, metric):
    train, test = problem(name)
    assert 0.5 < (train.predicted == train.y).float().mean() < 1
    got = scores(SHE(metric), train, test)
    agree(got, she_by_numpy(train, test, metric))
    if metric == "inner":
        theirs = detector.SHE(None, train.model.head).fit_features(train.features, train.y)
        agree(got, theirs.predict_features(test.features))


def test_she_of_hand_worked_patterns_and_where_a_class_has_no_correct_row_or_none_at_all():
    # Predicted: 0, 1, 0, 0. Class 0 has the correct row (1, 2); class 1 has (0, 4), for (2, 0) is taken for class 0;
    # class 2 has no correct row and takes the mean of its own, (5, 2); class 3 has none and takes the mean of all.
    logits = [[9, 0, 0, 0], [0, 9, 0, 0], [9, 0, 0, 0], [9, 0, 0, 0]]
    train = outputs([[1.0, 2.0], [0.0, 4.0], [2.0, 0.0], [5.0, 2.0]], y=[0, 1, 1, 2], logits=logits)
    test = outputs([[3.0, 1.0]] * 4, logits=9 * np.eye(4))
    # (3, 1) with (1, 2), (0, 4), (5, 2) and (8 / 4, 8 / 4).
    close(scores(SHE(), train, test), [-5, -4, -17, -8])
    euclidean = [math.sqrt(5), math.sqrt(18), math.sqrt(5), math.sqrt(2)]
    close(scores(SHE("euclidean"), train, test), euclidean)
    cosines = [5 / math.sqrt(50), 4 / math.sqrt(160), 17 / math.sqrt(290), 8 / math.sqrt(80)]
    close(scores(SHE("cosine"), train, test), [-cosine for cosine in cosines])


def test_she_gives_a_row_of_zeros_a_finite_score():
    train, _ = problem("relu")
    zeros = outputs(np.zeros((1, DIM)), train.model.head)
    assert scores(SHE(), train, zeros) == 0 and scores(SHE("cosine"), train, zeros) == 0


@every_problem
@pytest.mark.parametrize("dim", ["auto", 1, 10])
@pytest.mark.parametrize("times_max_logit", [True, False])
def test_neco_is_the_share_of_the_principal_space_in_a_standardized_feature(name, dim, times_max_logit):
    train, test = problem(name)
    x, rows = (np.delete(f, DEAD, axis=1) for f in doubles(train.features, test.features))
    scaler = StandardScaler().fit(x)
    pca = PCA(0.9 if dim == "auto" else dim, svd_solver="full").fit(scaler.transform(x))
    standardized = scaler.transform(rows)
    expected = -np.linalg.norm(pca.transform(standardized), axis=1) / np.linalg.norm(standardized, axis=1)
    expected = expected * doubles(test.logits)[0].max(axis=1) if times_max_logit else expected
    agree(scores(NECO(dim, times_max_logit), train, test), expected)


def test_neco_of_every_direction_that_varies_is_a_share_of_one():
    close(scores(NECO(DIM - 1, times_max_logit=False), *problem("relu")), -1)


def test_neco_in_two_dimensions_gives_the_hand_worked_scores():
    # Means (3, 5), deviations 2 and 1: standardized, the rows are +-(1, 1) three times each and +-(1, -1) once, so the
    # principal direction is (1, 1) / sqrt 2.
    corners = np.array([(1, 1)] * 3 + [(-1, -1)] * 3 + [(1, -1), (-1, 1)])
    train = outputs(corners * (2, 1) + (3, 5))
    # Standardized (3, 4): 7 / sqrt 2 of a length of 5. (1, -1): nothing. The mean itself has no direction: nothing.
    # Times the largest logit, 2; where that is -1 the sign is the other.
    test = outputs(
        np.array([(3, 4), (3, 4), (1, -1), (0, 0)]) * (2, 1) + (3, 5), logits=[[2, 0], [-1, -3], [2, 0], [2, 0]]
    )
    share = 7 / math.sqrt(2) / 5
    close(scores(NECO(1, times_max_logit=False), train, test), [-share, -share, 0, 0])
    close(scores(NECO(1), train, test), [-2 * share, share, 0, 0])


def test_neco_gives_a_feature_that_never_varies_no_part_whatever_its_value():
    train, test = problem("relu")
    constant, other = train.features.clone(), test.features.clone()
    constant[:, DEAD], other[:, DEAD] = 0.1, 7.0
    got = scores(NECO(), outputs(constant, train.model.head, logits=train.logits), outputs(other, logits=test.logits))
    agree(got, scores(NECO(), train, test))


def test_neco_takes_the_fewest_directions_that_hold_nine_tenths_of_the_variance():
    # Ten features that vary alone and equally: nine of them are exactly 90 %, up to rounding.
    rows = np.concatenate([np.eye(10), -np.eye(10)])
    scorer = NECO()
    scores(scorer, outputs(rows), outputs(rows))
    assert scorer.principal.shape == (10, 9)


@every_problem
@pytest.mark.parametrize("dim", ["auto", 1, DIM - 2])
def test_residual_is_what_the_principal_space_leaves_of_the_length(name, dim):
    train, test = problem(name)
    x, rows, weight = doubles(train.features, test.features, train.model.head.weight)
    bias = np.zeros(CLASSES) if train.model.head.bias is None else doubles(train.model.head.bias)[0]
    cut = DIM * np.finfo(np.float32).eps
    origin = -np.linalg.lstsq(weight, bias, rcond=cut)[0]  # the shortest solution, as the pseudo-inverse gives
    principal = np.linalg.svd(x - origin, full_matrices=False)[2][: DIM // 2 if dim == "auto" else dim]
    centered = rows - origin
    expected = np.linalg.norm(centered - centered @ principal.T @ principal, axis=1)
    got = scores(Residual(dim), train, test)
    agree(got, expected)
    vim = ViM(dim)
    agree(scores(vim, train, test), vim.alpha.item() * got - logsumexp(doubles(test.logits)[0], axis=1))


def test_residual_in_two_dimensions_gives_the_hand_worked_lengths():
    # Logits (h1 + 2, h1 + 2): the origin is (-2, 0). About it the rows are (8, 1) and (8, -1), the principal axis h1.
    head = linear([[1, 0], [1, 0]], [2, 2])
    train = outputs([[6.0, 1.0], [6.0, -1.0]], head)
    close(scores(Residual(1), train, outputs([[0.0, 0.0], [1.0, -3.0], [100.0, 4.0]], head)), [0, 3, 4])


@pytest.mark.parametrize(("size", "dim"), [(2, 1), (128, 64), (767, 383), (768, 512)])
def test_residual_chooses_the_principal_dimension_as_vim_does(size, dim):
    draws = torch.randn(8, size, generator=torch.Generator().manual_seed(0))
    scorer = Residual()
    scorer.fit(outputs(draws))
    assert scorer.minor.shape == (size, size - dim)


@every_problem
@pytest.mark.parametrize("ridge", [1e-6, 0.1])
def test_gmm_is_the_negative_log_likelihood_of_a_gaussian_per_class(name, ridge):
    train, test = problem(name)
    x, rows, y = *doubles(train.features, test.features), train.y.numpy()
    terms = []
    for k in range(CLASSES):
        own = x[y == k]
        covariance = np.cov(own.T, bias=True) + ridge * np.eye(DIM)
        terms.append(np.log(len(own) / ROWS) + multivariate_normal(own.mean(axis=0), covariance).logpdf(rows))
    got, expected = scores(GMM(ridge), train, test), -logsumexp(terms, axis=0)
    agree(got[:100], expected[:100])
    assert_allclose(got, expected, rtol=1e-6)  # the others fire where only the ridge varies: far away
    theirs = detector.GMM(None, reg=ridge).fit_features(train.features, train.y).predict_features(test.features)
    assert_allclose(got, theirs, rtol=1e-6)


def test_gmm_in_one_dimension_gives_the_hand_worked_likelihoods():
    # Class 0 holds -1 and 1, of variance 1 (with the ridge 2); class 2 holds 9, 9, 11 and 11, as well; class 1 nothing.
    train = outputs([[-1.0], [1.0], [9.0], [9.0], [11.0], [11.0]], y=[0, 0, 2, 2, 2, 2])
    # At 0: 1/3 N(0; 0, 2) + 2/3 N(0; 10, 2); at 5 both densities are N(5; 0, 2).
    normal = partial(lambda distance: math.exp(-(distance**2) / 4) / math.sqrt(4 * math.pi))
    expected = [-math.log(normal(0) / 3 + normal(10) * 2 / 3), -math.log(normal(5))]
    close(scores(GMM(1.0), train, outputs([[0.0], [5.0]])), expected)


def test_gmm_stays_finite_where_every_density_underflows():
    train, _ = problem("relu")
    far = outputs(np.full((2, DIM), [[1e6], [-1e6]]))
    assert np.isfinite(scores(GMM(), train, far)).all()


def test_gmm_of_one_row_per_class_is_the_distance_in_units_of_the_ridge():
    # Covariances 4 I in the plane, 2 away from one mean and far from the other: -log(1/2 exp(-4 / 8) / 8 pi).
    train = outputs([[0.0, 0.0], [1000.0, 0.0]], y=[0, 1])
    expected = math.log(2) + math.log(8 * math.pi) + 4 / 8
    close(scores(GMM(4.0), train, outputs([[0.0, 2.0]])), [expected])


def test_gmm_refuses_a_ridge_that_rounding_swallows():
    features = 1e9 * torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(UserError) as error:
        GMM().fit(outputs(features, y=[0, 0, 0]))
    assert str(error.value) == "gmm.ridge=1e-06 is lost in the rounding of variances so large; choose more"
    assert np.isfinite(scores(GMM(1e6), outputs(features, y=[0, 0, 0]), outputs(features))).all()


@every_problem
def test_cosine_is_minus_the_cosine_to_the_nearest_class_mean(name):
    train, test = problem(name)
    x, rows, y = *doubles(train.features, test.features), train.y.numpy()
    means = np.stack([x[y == k].mean(axis=0) for k in range(CLASSES)])
    agree(scores(Cosine(), train, test), -cosine_similarity(rows, means).max(axis=1))


def test_cosine_in_the_plane_gives_the_hand_worked_cosines():
    # Class 0 has the mean (2, 0), class 3 (0, 5); the mean is of the rows as they are, not of unit rows.
    train = outputs([[1.0, 1.0], [3.0, -1.0], [0.0, 5.0]], y=[0, 0, 3])
    test = outputs([[3.0, 4.0], [4.0, -3.0], [-1.0, 0.0], [0.0, 0.0]])
    close(scores(Cosine(), train, test), [-4 / 5, -4 / 5, 0, 0])


def reconstruction_error(x, rows, dim):
    pca = PCA(0.9 if dim == "auto" else dim, svd_solver="full").fit(x)
    return np.linalg.norm(rows - pca.inverse_transform(pca.transform(rows)), axis=1)


@every_problem
@pytest.mark.parametrize("dim", ["auto", 1, 10])
def test_cop_is_the_reconstruction_error_of_unit_features(name, dim):
    train, test = problem(name)
    x, rows = map(unit, doubles(train.features, test.features))
    agree(scores(CoP(dim), train, test), reconstruction_error(x, rows, dim))


@pytest.mark.parametrize(("name", "dim"), [("relu", "auto"), ("signed", 10)])
def test_cop_with_a_gamma_is_the_reconstruction_error_of_random_fourier_features(name, dim):
    train, test = problem(name)
    scorer = CoP(dim, gamma=2.0)
    got = scores(scorer, train, test)
    frequencies, phases = doubles(scorer.frequencies, scorer.phases)
    assert frequencies.shape == (DIM, 4 * DIM)
    mapped = [
        math.sqrt(2 / len(phases)) * np.cos(unit(f) @ frequencies + phases)
        for f in doubles(train.features, test.features)
    ]
    agree(got, reconstruction_error(*mapped, dim))


def test_the_random_features_approximate_the_gaussian_kernel():
    # cos(omega'(a - b)) has the mean exp(-gamma ||a - b||^2); 4096 of them are within 4 / sqrt(4096) of it.
    draws = torch.randn(3, 1024, generator=torch.Generator().manual_seed(0))
    draws[1] += 3 * draws[0]
    scorer = CoP(gamma=0.7)
    scorer._draw(0.7, outputs(draws).unit)
    rows, mapped = unit(doubles(draws)[0]), scorer._mapped(outputs(draws).unit).numpy()
    assert mapped.shape == (3, 4096)
    kernel = np.exp(-0.7 * ((rows[:, None] - rows[None]) ** 2).sum(axis=-1))
    assert_allclose(mapped @ mapped.T, kernel, atol=4 / math.sqrt(4096))


def test_cop_in_the_plane_gives_the_hand_worked_lengths():
    # Unit rows (1, 0), (-1, 0), (0, 1), (0, 1): mean (0, 1/2), variances 1/2 along the first axis, 1/4 along the other.
    train = outputs([[2.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, 4.0]])
    # Only |second - 1/2| is left: of (0, 1), (.6, .8), (1, 0) and (0, 0).
    test = outputs([[0.0, 9.0], [3.0, 4.0], [5.0, 0.0], [0.0, 0.0]])
    for dim in (1, "auto"):  # 90 % would take both, and one is always left
        close(scores(CoP(dim), train, test), [0.5, 0.3, 0.5, 0.5])


def test_cop_of_many_rows_is_that_of_the_same_rows_at_once(monkeypatch):
    train, test = problem("relu")
    at_once = scores(CoP(gamma=1.0), train, test)
    monkeypatch.setattr("oodbench.methods.cop.ROWS", 7)
    agree(scores(CoP(gamma=1.0), train, test), at_once)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(NECO, 0), "neco.dim=0 is out of range; choose 1 or more, or auto"),
        (partial(Residual, -1), "residual.dim=-1 is out of range; choose 1 or more, or auto"),
        (partial(CoP, 0), "cop.dim=0 is out of range; choose 1 or more, or auto"),
        (partial(CoP, gamma=0.0), "cop.gamma=0 is out of range; choose more than 0"),
        (partial(GMM, 0.0), "gmm.ridge=0 is out of range; choose more than 0"),
    ],
)
def test_a_number_out_of_range_is_refused_before_anything_trains(make, message):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (NECO(DIM), f"neco.dim={DIM} is out of range; choose 1 to {DIM - 1}, or auto"),
        (CoP(DIM + 1), f"cop.dim={DIM + 1} is out of range; choose 1 to {DIM - 1}, or auto"),
        (CoP(4 * DIM, gamma=1.0), f"cop.dim={4 * DIM} is out of range; choose 1 to {4 * DIM - 1}, or auto"),
        (
            Residual(DIM),
            f"residual.dim={DIM} is out of range; choose 1 to {DIM - 1} for the {DIM} features of the network",
        ),
    ],
    ids=["neco", "cop", "corp", "residual"],
)
def test_a_dimension_that_leaves_no_direction_is_refused(scorer, message):
    with pytest.raises(UserError) as error:
        scorer.fit(problem("relu")[0])
    assert str(error.value) == message
