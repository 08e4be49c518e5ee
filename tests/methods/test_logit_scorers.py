"""Scorers of logits, and GradNorm, against formulas written anew, SciPy, pytorch-ood and cases worked by hand."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, rel_entr, softmax
from scorer_problems import CLASSES, EVERY, agree, outputs, plain, problem, scores

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

NAMES = ("gen", "max-logit", "entropy", "temp-scale", "kl-matching", "gradnorm")
GEN, MaxLogit, Entropy, TempScale, KLMatching, GradNorm = (load_class(Registry().card(name)) for name in NAMES)
close = partial(assert_allclose, rtol=1e-6)
every_problem = pytest.mark.parametrize("name", EVERY)


def of_logits(*logits, y=None):
    return outputs(np.zeros((len(logits), 1)), logits=logits, y=y)


def score_logits(scorer, *logits):
    return scorer.score(of_logits(*logits)).numpy()


@every_problem
@pytest.mark.parametrize(("gamma", "top"), [(0.1, 100), (0.1, 2), (0.5, 1), (2.0, 4)])
def test_gen_sums_powers_of_the_largest_probabilities(name, gamma, top):
    p = -np.sort(-softmax(plain(problem(name).test).z, axis=1), axis=1)[:, :top]
    test = problem(name).test
    agree(scores(GEN(gamma, top), problem(name).train, test), (p**gamma * (1 - p) ** gamma).sum(axis=1))


@pytest.mark.parametrize("top", [2, 100])
def test_gen_is_that_of_pytorch_ood_where_no_probability_is_tiny(top):
    logits = problem("relu").test.logits / 4  # it lets none be less than 1e-7, and takes the mean for the sum
    theirs = detector.GEN(None, M=top).predict_logits(logits) * min(top, CLASSES)
    agree(score_logits(GEN(top=top), *logits.tolist()), theirs)


def test_gen_of_hand_worked_logits():
    # Of (ln 3, 0) the probabilities are 3/4 and 1/4: each gives (3/16)^gamma, and one of them is the largest.
    ln3 = math.log(3)
    close(score_logits(GEN(), (ln3, 0), (0, 0)), [2 * (3 / 16) ** 0.1, 2 * (1 / 4) ** 0.1])
    close(score_logits(GEN(gamma=1.0, top=1), (ln3, 0)), [3 / 16])


def test_gen_keeps_the_digits_of_a_probability_that_rounds_to_one():
    # Of (400, 0) p = 1 - e^-400 to all digits and more: p (1 - p) = e^-400 for both, and the power leaves e^-40.
    close(score_logits(GEN(), (400, 0), (200, 0)), [2 * math.exp(-40), 2 * math.exp(-20)])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gamma": 0.0}, "gen.gamma=0 is out of range; choose more than 0"),
        ({"gamma": -1.0}, "gen.gamma=-1 is out of range; choose more than 0"),
        ({"top": 0}, "gen.top=0 is out of range; choose 1 or more"),
    ],
)
def test_gen_refuses_powers_and_numbers_that_are_not_positive(values, message):
    with pytest.raises(UserError) as error:
        GEN(**values)
    assert str(error.value) == message


@every_problem
def test_max_logit_is_minus_the_largest_logit(name):
    test = problem(name).test
    got = scores(MaxLogit(), problem(name).train, test)
    agree(got, -plain(test).z.max(axis=1))
    agree(got, detector.MaxLogit(None).predict_logits(test.logits))
    close(score_logits(MaxLogit(), (3, -1), (-2, -1)), [-3, 1])


@every_problem
def test_entropy_is_that_of_the_softmax(name):
    test = problem(name).test
    got = scores(Entropy(), problem(name).train, test)
    agree(got, stats.entropy(softmax(plain(test).z, axis=1), axis=1))
    agree(got, detector.Entropy(None).predict_logits(test.logits))


def test_entropy_of_hand_worked_logits():
    # Four equal ones: ln 4. Of (ln 3, 0): -(3/4 ln 3/4 + 1/4 ln 1/4) = ln 4 - 3/4 ln 3. A certain class: 0.
    ln3, ln4 = math.log(3), math.log(4)
    close(score_logits(Entropy(), (7, 7, 7, 7)), [ln4])
    close(score_logits(Entropy(), (ln3, 0), (1e4, 0)), [ln4 - 0.75 * ln3, 0])
    # Of (20, 0) p is 1 in float32, yet q = 1 - p = 1 / (1 + e^20) adds ln(1 + e^-20) for itself and 20 q for the other.
    close(score_logits(Entropy(), (20, 0)), [math.log1p(math.exp(-20)) + 20 / (1 + math.exp(20))])


def likeliest_temperature(z, y):
    """By minimizing the loss itself."""

    def loss(inverse):
        return -log_softmax(inverse * z, axis=1)[np.arange(len(y)), y].mean()

    return 1 / minimize_scalar(loss, bounds=(1 / 20, 20), method="bounded", options={"xatol": 1e-10}).x


@every_problem
def test_temp_scale_is_one_minus_the_softmax_at_the_temperature_that_suits_validation_rows(name):
    train, validation, test = problem(name).train, problem(name).validation, problem(name).test
    scorer = TempScale()
    got = scores(scorer, train, test, validation)
    temperature = likeliest_temperature(plain(validation).z, validation.y.numpy())
    close(scorer.temperature, temperature)
    agree(got - 1, -softmax(plain(test).z / temperature, axis=1).max(axis=1))


@every_problem
def test_temp_scale_finds_a_temperature_no_worse_than_that_of_pytorch_ood(name):
    """Whose fifty steps stop on the way; at the same temperature the scores are the same."""
    train, validation, test = problem(name).train, problem(name).validation, problem(name).test
    scorer, theirs = TempScale(), detector.TemperatureScaling(None)
    got = scores(scorer, train, test, validation)
    theirs.fit_logits(validation.logits, validation.y)

    def loss(temperature):
        return F.cross_entropy(validation.logits.double() / temperature, validation.y).item()

    assert loss(scorer.temperature) <= loss(theirs.t.item())
    theirs.t.data.fill_(scorer.temperature)
    agree(got - 1, theirs.predict_logits(test.logits).detach())


def test_temp_scale_of_hand_worked_logits():
    # Three of four rows are right with the logits (2 ln 3, 0). They are likeliest where p is 3/4, at odds of 3: T = 2.
    rows = [(2 * math.log(3), 0)] * 4
    scorer = TempScale()
    scorer.fit(of_logits((0, 5), y=[0]), of_logits(*rows, y=[0, 0, 0, 1]))
    close(scorer.temperature, 2)
    close(score_logits(scorer, rows[0], (0, 0), (0, 4 * math.log(3))), [1 / 4, 1 / 2, 1 / 10])


@pytest.mark.parametrize(("y", "temperature"), [([0, 0], 1 / 20), ([1, 1], 20)])
def test_temp_scale_stays_in_its_range_where_all_rows_are_right_or_worse_than_chance(y, temperature):
    # 1 - p of (m, 0) is 1 / (1 + e^(m / T)), which stays apart at T = 1/20 where p is 1 in all digits.
    scorer = TempScale()
    scorer.fit(of_logits((1, 0), y=[0]), of_logits((1, 0), (2, 0), y=y))
    close(scorer.temperature, temperature)
    expected = [1 / (1 + math.exp(m / temperature)) for m in (1, 2, 3)]
    close(score_logits(scorer, (1, 0), (2, 0), (3, 0)), expected)


@pytest.mark.parametrize("scorer", [TempScale, KLMatching])
def test_without_validation_rows_the_training_rows_are_used(scorer):
    train, validation, test = problem("relu").train, problem("relu").validation, problem("relu").test
    alone = scores(scorer(), train, test)
    assert (alone == scores(scorer(), validation, test, train)).all()
    assert (alone != scores(scorer(), train, test, validation)).any()


def kl_matching_by_scipy(validation, test):
    """With a one-hot row for a class that is never predicted; rel_entr is infinite where q is 0 and p is not."""
    p, rows = softmax(plain(validation).z, axis=1), softmax(plain(test).z, axis=1)
    predicted = p.argmax(axis=1)
    one_hot = np.eye(p.shape[1])
    q = np.stack([p[predicted == k].mean(axis=0) if k in predicted else one_hot[k] for k in range(len(one_hot))])
    return rel_entr(rows[:, None], q[None]).sum(axis=-1).min(axis=1)


@every_problem
@pytest.mark.parametrize("missing", [None, 2])
def test_kl_matching_is_the_divergence_from_the_nearest_mean_prediction(name, missing):
    train, validation, test = problem(name).train, problem(name).validation, problem(name).test
    kept = validation.predicted != missing if missing is not None else slice(None)
    some = outputs(validation.features[kept], validation.model.head, validation.y[kept])
    got = scores(KLMatching(), train, test, some)
    agree(got, kl_matching_by_scipy(some, test))
    agree(got, detector.KLMatching(None).fit_logits(some.logits, some.y).predict_logits(test.logits))


def test_kl_matching_of_hand_worked_probabilities():
    # Rows of (.9, .1) and (.7, .3) make the template (.8, .2); class 1 has none. From it,
    # (.5, .5) is at .5 ln .5/.8 + .5 ln .5/.2 = .5 ln 1.5625, (.2, .8) at .2 ln 1/4 + .8 ln 4 = .6 ln 4, itself at 0.
    scorer = KLMatching()
    scorer.fit(of_logits((0, 5), y=[1]), of_logits(np.log([0.9, 0.1]), np.log([0.7, 0.3]), y=[1, 1]))
    got = score_logits(scorer, np.log([0.5, 0.5]), np.log([0.2, 0.8]), np.log([0.8, 0.2]))
    assert_allclose(got, [0.5 * math.log(1.5625), 0.6 * math.log(4), 0], atol=1e-6)


def test_kl_matching_is_finite_where_probabilities_vanish():
    # Of (0, 2000) the template is (e^-2000, 1), which is 0 in any float: a certain class 0 is 2000 away, class 1 at 0.
    scorer = KLMatching()
    scorer.fit(of_logits((0, 2000), y=[1]))
    assert_allclose(score_logits(scorer, (2000, 0), (0, 2000), (0, 4000)), [2000, 0, 0], rtol=1e-6, atol=1e-9)


def gradnorm_by_autograd(out, temperature):
    """Row by row, of the paper's loss summed over classes; times T, which is the same for all rows."""
    found = []
    for f in out.features.double():
        weight = out.model.head.weight.double().clone().requires_grad_()
        logits = F.linear(f, weight, None if out.model.head.bias is None else out.model.head.bias.double())
        (gradient,) = torch.autograd.grad(-F.log_softmax(logits / temperature, dim=-1).sum(), weight)
        found.append(-temperature * gradient.abs().sum().item())
    return np.array(found)


@every_problem
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_gradnorm_is_the_l1_norm_of_a_gradient_that_is_never_computed(name, temperature):
    train, test = problem(name).train, problem(name).test
    got, own = scores(GradNorm(temperature), train, test), plain(test)
    p = softmax(own.z / temperature, axis=1)
    agree(got, -np.abs(own.f).sum(axis=1) * np.abs(1 - CLASSES * p).sum(axis=1))
    agree(got, gradnorm_by_autograd(test, temperature))
    head = test.model.head
    theirs = detector.GradNorm(head, lambda name: name == "weight", temperature=temperature)
    agree(got, theirs.predict(test.features) * CLASSES * temperature)  # its loss is a mean over classes


def test_gradnorm_of_hand_worked_rows():
    # ||(1, -2)||_1 = 3. Of (ln 3, 0) p is (3/4, 1/4): |1 - 3/2| + |1 - 1/2| = 1. Equal logits have no gradient.
    out = outputs([[1.0, -2.0], [1.0, -2.0], [0.0, 0.0]], logits=[(math.log(3), 0), (4, 4), (9, 0)])
    close(GradNorm().score(out).numpy(), [-3, 0, 0])


def test_gradnorm_refuses_a_temperature_that_is_not_positive():
    with pytest.raises(UserError) as error:
        GradNorm(temperature=0.0)
    assert str(error.value) == "gradnorm.temperature=0 is out of range; choose more than 0"
