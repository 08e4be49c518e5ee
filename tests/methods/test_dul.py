"""DUL and the entropy that it is scored by: by hand, against SciPy and a plain float64 reading."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln, log_softmax
from scorer_problems import EVERY, agree, outputs, plain, problem, scores

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.functional import dirichlet_entropy, forward_both
from oodbench.testing.toy_problem import toy

DUL, DirichletEntropy = (load_class(Registry().card(name)) for name in ("dul", "dirichlet-entropy"))
CPU = torch.device("cpu")


def tensor(*rows):
    return torch.tensor(rows, dtype=torch.float64)


# --- the entropy ----------------------------------------------------------------------------------------------------


def test_the_dirichlet_entropy_by_hand():
    # All ones: uniform over a triangle of area 1/2 in its two coordinates, so ln(1/2) = -ln Gamma(3).
    # Beta(2, 1) has the density 2 p: -E ln 2p = -ln 2 + 1/2.
    assert dirichlet_entropy(tensor([1.0, 1.0, 1.0])).item() == pytest.approx(-math.log(2))
    assert dirichlet_entropy(tensor([2.0, 1.0])).item() == pytest.approx(0.5 - math.log(2))


def test_the_dirichlet_entropy_is_that_of_scipy_and_highest_without_evidence():
    alpha = 1 + np.random.default_rng(0).exponential(8, size=(50, 6))
    got = dirichlet_entropy(torch.from_numpy(alpha)).numpy()
    assert_allclose(got, [stats.dirichlet.entropy(row) for row in alpha], rtol=1e-10)
    assert (got < -gammaln(6)).all()
    assert dirichlet_entropy(torch.ones(1, 6)).item() == pytest.approx(-gammaln(6), rel=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_the_scorer_is_the_entropy_of_the_evidence_in_the_logits(name):
    test = problem(name).test
    alpha = np.maximum(plain(test).z, 0) + 1
    agree(scores(DirichletEntropy(), problem(name).train, test), [stats.dirichlet.entropy(row) for row in alpha])
    strength = np.exp(np.maximum(plain(test).z, 0)).sum(axis=1)
    agree(scores(DirichletEntropy("exp"), problem(name).train, test), -np.log(strength))


def test_evidence_counts_and_negative_logits_do_not():
    out = outputs(np.zeros((3, 1)), logits=[(5, -1, -1), (5, -9, 0), (0, -1, -7)])
    one, same, none = DirichletEntropy().score(out).tolist()
    assert one == same < none == pytest.approx(-math.log(2))


def test_a_strength_beyond_all_numbers_is_still_scored():
    out = outputs(np.zeros((2, 1)), logits=[(1e4, 0), (2e4, 0)])
    assert DirichletEntropy("exp").score(out).tolist() == [-1e4, -2e4]


# --- the loss -------------------------------------------------------------------------------------------------------


def test_what_the_entropies_cost_by_hand():
    # Two classes: h(2, 1) = 1/2 - ln 2 = -.193 and h(1, 1) = 0. Labeled 0 from -.193, outliers -.193 from 0.
    fell, flat = tensor([1.0, -1.0]), tensor([-3.0, 0.0])
    h = 0.5 - math.log(2)
    cost = DUL(m_in=0.1, m_out=0.5).entropy_cost
    assert cost(flat, fell, fell, flat).item() == pytest.approx((0 - h - 0.1) + (0.5 + 0 - h))
    assert cost(fell, flat, fell, fell).item() == pytest.approx(0 + (h + 0.5 - 0))
    only = DUL(m_in=None, m_out=0.5, power=2.0).entropy_cost
    assert only(flat, fell, fell, flat).item() == pytest.approx((0.5 - h) ** 2)
    zero = DUL(m_in=-0.1, m_out=0.0, form="reference").entropy_cost
    assert zero(fell, flat, flat, fell).item() == 0  # -.193 is below -.1, and 0 is not below 0
    assert zero(flat, fell, fell, fell).item() == pytest.approx(0.1 - h)


def test_the_divergence_by_hand_in_both_directions():
    # p0 = (3/4, 1/4), p = (1/2, 1/2).
    before, now = tensor([math.log(3), 0.0]), tensor([0.0, 0.0])
    forward = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    reverse = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert DUL().divergence_from(before, now).item() == pytest.approx(reverse)
    assert DUL(form="reference").divergence_from(before, now).item() == pytest.approx(forward)


def plain_loss(trainer, y, now, wild, before, wild_before):
    """CE + lambda [hinge(labeled) + hinge(outliers)] + gamma KL, read from the paper in NumPy."""

    def h(z):
        return np.array([stats.dirichlet.entropy(row) for row in np.maximum(z, 0) + 1])

    h0_in, h0_out = (0, 0) if trainer.form == "reference" else (h(before), h(wild_before))
    cost = (np.maximum(0, h0_out + trainer.m_out - h(wild)) ** trainer.power).mean()
    if trainer.m_in is not None:
        cost += (np.maximum(0, h(now) - h0_in - trainer.m_in) ** trainer.power).mean()
    log_p, log_p0 = log_softmax(wild, axis=1), log_softmax(wild_before, axis=1)
    a, b = (log_p, log_p0) if trainer.form == "paper" else (log_p0, log_p)
    kl = (np.exp(a) * (a - b)).sum(axis=1).mean()
    ce = -log_softmax(now, axis=1)[np.arange(len(y)), y].mean()
    return ce + trainer.weight * cost + trainer.keep * kl


@pytest.mark.parametrize(
    "values",
    [
        {"m_in": 0.05},
        {"m_in": 0.05, "power": 2.0},
        {"m_in": None, "m_out": 1.0},
        {"m_in": -8.0, "m_out": -2.0, "form": "reference"},
    ],
)
def test_the_loss_of_a_second_step_is_that_of_its_equation(values):
    """The second, since at the first the weights are those of the start."""
    problem_, trainer, seen = toy(), DUL(bn_mode="frozen", **values), []

    def watch(model, data, loss, *args):
        model.double()
        for _ in range(2):
            batch = next(data.batches(problem_.recipe(trainer), 0, CPU))
            batch = replace(batch, x=batch.x.double(), outliers=batch.outliers.double())
            before = problem_.start(trainer).double().eval()
            got = loss(model, batch)
            with torch.no_grad():
                now, wild = (each.numpy() for each in forward_both(model, batch, "frozen"))
                old, wild_old = before(batch.x).numpy(), before(batch.outliers).numpy()
            seen.append((got.item(), plain_loss(trainer, batch.y.numpy(), now, wild, old, wild_old)))
            model.zero_grad()
            got.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.5 * p.grad
        return iter(())

    class Steps:
        epochs = staticmethod(watch)
        record = staticmethod(lambda **_: None)

    trainer.train(problem_.start(trainer).double(), problem_.data_for(trainer), Steps())
    for got, expected in seen:
        assert_allclose(got, expected, rtol=1e-9)
    assert seen[0][0] != seen[1][0]


@pytest.mark.parametrize("term", ["entropy", "divergence"])
def test_each_term_of_the_outliers_reaches_the_body_of_the_network(term):
    problem_, trainer = toy(), DUL(m_in=None)
    model, start = problem_.start(trainer), problem_.start(trainer).eval()
    batch = next(problem_.data_for(trainer).batches(problem_.recipe(trainer), 0, CPU))
    with torch.no_grad():
        before, wild_before = start(batch.x), start(batch.outliers) + torch.randn(40, 5)
    logits, wild = forward_both(model, batch, "id_only")
    if term == "entropy":
        trainer.entropy_cost(logits, wild, before, wild_before).backward()
    else:
        trainer.divergence_from(wild_before, wild).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.body.parameters())


def test_the_start_stays_as_it_was_while_the_network_learns():
    trained = toy().trained(DUL)
    first, last = trained.loop.log[0], trained.loop.log[-1]
    assert first["divergence"] > 0 and math.isfinite(last["divergence"])
    assert last["entropy_term"] < first["entropy_term"]


def test_wild_images_end_less_certain_than_without_the_term_and_are_predicted_as_before():
    problem_ = toy()
    data = problem_.data_for(DUL())
    images = torch.cat([data.wild.id, data.wild.covariate, data.wild.semantic]).float() / 255
    models = problem_.start(DUL()).eval(), problem_.trained(DUL).model, problem_.train(DUL(weight=0.0)).model
    with torch.no_grad():
        before, after, without = (model(images) for model in models)
    h_before, h_after, h_without = (dirichlet_entropy(each.relu() + 1).mean() for each in (before, after, without))
    assert h_after > max(h_before, h_without)
    assert F.kl_div(after.log_softmax(1), before.softmax(1), reduction="batchmean") < 0.05


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight": -1.0}, "dul.weight and dul.keep must be 0 or more; change --set"),
        ({"power": 0.5}, "dul.power=0.5 is out of range; choose 1 or more"),
    ],
)
def test_values_that_make_no_sense_are_refused(values, message):
    with pytest.raises(UserError) as error:
        DUL(**values)
    assert str(error.value) == message
