"""Trainers for detection that see no outliers: their mathematics by hand, against plain float64 and pytorch-ood."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import log_softmax, softmax
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.config.shipped import DETECTION_TRAINING
from oodbench.errors import UserError
from oodbench.functional import ClassQueues
from oodbench.learning.batches import Batch
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.methods.vos import WeightedEnergy, least_likely
from oodbench.report.labels import whole_group
from oodbench.testing.toy_problem import toy
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
their_losses = pytest.importorskip("pytorch_ood.loss", reason="needs pytorch-ood, which the dev extra installs")

REGISTRY = Registry()
LogitNorm, T2FNorm, VOS = (load_class(REGISTRY.card(name)) for name in ("logitnorm", "t2fnorm", "vos"))
CPU = torch.device("cpu")
LN3 = math.log(3)


def identity_network(weight, bias=None):
    """Features are the two pixels of an image; the head is given."""
    weight = torch.tensor(weight, dtype=torch.float64)
    model = Classifier(nn.Flatten(), weight.shape[1], len(weight), mean=(0.0,), std=(1.0,)).double()
    with torch.no_grad():
        model.head.weight.copy_(weight)
        model.head.bias.copy_(torch.zeros(len(weight)) if bias is None else torch.tensor(bias, dtype=torch.float64))
    return model


def batch_of(rows, y):
    x = torch.tensor(rows, dtype=torch.float64).unsqueeze(1).unsqueeze(1)
    return Batch(x, torch.tensor(y), None, None)


def some_batch():
    """Twelve rows of two features and three classes, and the head as NumPy sees it."""
    generator = np.random.default_rng(0)
    rows, y = generator.normal(size=(12, 2)) * 3, generator.integers(3, size=12)
    return (
        identity_network(generator.normal(size=(3, 2)), generator.normal(size=3)),
        batch_of(rows.tolist(), y),
        rows,
        y,
    )


def plain_cross_entropy(logits, y):
    return -log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()


def numbers(model):
    return model.head.weight.detach().numpy(), model.head.bias.detach().numpy()


@pytest.mark.parametrize("name", ["logitnorm", "t2fnorm", "vos"])
def test_trainers_for_detection_stand_in_a_group_of_their_own(name):
    assert REGISTRY.method(name).group == DETECTION_TRAINING
    assert REGISTRY.method(f"{name}+knn").group == DETECTION_TRAINING
    assert whole_group(DETECTION_TRAINING) == "OOD detection"


# --- LogitNorm ------------------------------------------------------------------------------------------------------


def test_the_loss_of_logitnorm_by_hand():
    # Logits (3, 4) have the length 5; with tau = .2 / ln 3 they become (3 ln 3, 4 ln 3), so p = (1/4, 3/4).
    model = identity_network([[1.0, 0.0], [0.0, 1.0]])
    trainer = LogitNorm(temperature=0.2 / LN3)
    assert trainer.loss(model, batch_of([[3.0, 4.0]], [1])).item() == pytest.approx(math.log(4 / 3))
    assert trainer.loss(model, batch_of([[3.0, 4.0]], [0])).item() == pytest.approx(math.log(4))


def test_the_loss_of_logitnorm_is_that_of_its_equation_and_of_pytorch_ood():
    model, batch, rows, y = some_batch()
    weight, bias = numbers(model)
    z = rows @ weight.T + bias
    expected = plain_cross_entropy(z / (0.04 * np.linalg.norm(z, axis=1, keepdims=True)), y)
    assert_allclose(LogitNorm().loss(model, batch).item(), expected, rtol=1e-12)
    theirs = their_losses.LogitNorm(t=0.04)(model(batch.x), batch.y)
    assert_allclose(LogitNorm().loss(model, batch).item(), theirs.item(), rtol=1e-5)  # it adds 1e-7 to the length


def test_longer_logits_do_not_lower_the_loss_of_logitnorm():
    model, batch, _, _ = some_batch()
    loss = LogitNorm().loss(model, batch)
    with torch.no_grad():
        model.head.weight *= 7
        model.head.bias *= 7
    assert LogitNorm().loss(model, batch).item() == pytest.approx(loss.item())


def test_logits_of_zero_have_a_finite_loss_and_gradient():
    model = identity_network([[0.0, 0.0], [0.0, 0.0]])
    loss = LogitNorm().loss(model, batch_of([[3.0, 4.0]], [1]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2)) and model.head.weight.grad.isfinite().all()


# --- T2FNorm --------------------------------------------------------------------------------------------------------


def test_the_loss_of_t2fnorm_by_hand():
    # Features (3, 4) become (.6, .8) / tau; with tau = .2 / ln 3 that is (3 ln 3, 4 ln 3), and the bias adds ln 3.
    model = identity_network([[1.0, 0.0], [0.0, 1.0]], [LN3, 0.0])
    trainer = T2FNorm(temperature=0.2 / LN3)
    assert trainer.loss(model, batch_of([[3.0, 4.0]], [1])).item() == pytest.approx(math.log(2))
    assert trainer.loss(model, batch_of([[30.0, 40.0]], [0])).item() == pytest.approx(math.log(2))


def test_the_loss_of_t2fnorm_is_that_of_its_equation():
    model, batch, rows, y = some_batch()
    weight, bias = numbers(model)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert_allclose(T2FNorm().loss(model, batch).item(), plain_cross_entropy(unit @ weight.T / 0.1 + bias, y))


def test_after_training_the_network_gives_plain_features_over_tau():
    """With the length of the features in the logits, so that MSP reads what the paper scores."""
    problem = toy()
    trained, unfolded = problem.train(T2FNorm()).model, problem.start(T2FNorm())
    loop = problem.trained(load_class(REGISTRY.card("erm"))).loop
    again = type(loop)(problem.recipe(T2FNorm()), 0, loop.device)
    torch.manual_seed(0)
    for _ in again.epochs(unfolded, problem.data_for(T2FNorm()), T2FNorm().loss):
        pass
    out = forward(trained, problem.data.labelled.images)
    weight, bias = numbers(unfolded)
    expected = out.features.double().numpy() @ weight.T.astype(float) / 0.1 + bias
    assert_allclose(out.logits.numpy(), expected, rtol=1e-4, atol=1e-4)
    scores = load_class(REGISTRY.card("msp"))().score(out)
    assert_allclose(scores.numpy(), -softmax(expected, axis=1).max(axis=1), atol=1e-5)


@pytest.mark.parametrize(("name", "trainer"), [("logitnorm", LogitNorm), ("t2fnorm", T2FNorm)])
def test_temperatures_that_are_not_positive_are_refused(name, trainer):
    with pytest.raises(UserError) as error:
        trainer(temperature=0.0)
    assert str(error.value) == f"{name}.temperature=0 is out of range; choose more than 0"


# --- VOS ------------------------------------------------------------------------------------------------------------


def test_a_queue_keeps_the_latest_rows_of_each_class():
    queues = ClassQueues(classes=3, size=2, dim=1)
    queues.push(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 2, 0]))
    assert queues.rows.flatten(1).tolist() == [[1, 3], [0, 0], [2, 0]]
    queues.push(
        torch.tensor([[4.0], [5.0], [6.0], [7.0]]), torch.tensor([0, 2, 0, 0])
    )  # more of 0 than its queue holds
    assert [sorted(rows) for rows in queues.rows.flatten(1).tolist()] == [[6, 7], [0, 0], [2, 5]]
    assert queues.counts.tolist() == [5, 0, 2]


def test_the_gaussians_of_queues_by_hand():
    # Class 0 has (0, 0) and (2, 0), class 1 has (5, 1): means (1, 0) and (5, 1), two rows of three are (+-1, 0) off.
    queues = ClassQueues(classes=3, size=4, dim=2)
    queues.push(torch.tensor([[0.0, 0.0], [2.0, 0.0], [5.0, 1.0]]), torch.tensor([0, 0, 1]))
    means, factor = queues.gaussians()
    assert means.tolist() == [[1, 0], [5, 1], [0, 0]]
    assert_allclose((factor @ factor.T).numpy(), [[2 / 3 + 1e-4, 0], [0, 1e-4]], atol=1e-12)


def test_the_gaussians_of_queues_are_those_of_plain_numpy():
    generator = np.random.default_rng(0)
    rows, y = generator.normal(5, 2, size=(60, 4)).astype(np.float32), generator.integers(3, size=60)
    queues = ClassQueues(classes=3, size=100, dim=4)
    for part in np.array_split(np.arange(60), 5):
        queues.push(torch.from_numpy(rows[part]), torch.from_numpy(y[part]))
    means, factor = queues.gaussians()
    centers = np.stack([rows[y == k].mean(axis=0, dtype=float) for k in range(3)])
    centered = rows - centers[y]
    assert_allclose(means.numpy(), centers, rtol=1e-6)
    assert_allclose((factor @ factor.T).numpy(), centered.T @ centered / 60 + 1e-4 * np.eye(4), rtol=1e-6)


def test_the_least_likely_draws_are_as_far_out_as_those_of_all_draws():
    """Their Mahalanobis distances and their means against draws whose densities are all computed."""
    torch.manual_seed(0)
    factor = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.3, 3.0]]).double()
    means = torch.tensor([[1.0, -2.0, 0.5]]).double().expand(2000, 3)
    ours = least_likely(means, factor, draws=50, count=1)
    gaussian = torch.distributions.MultivariateNormal(means[0], scale_tril=factor)
    every = gaussian.sample((2000, 50))
    theirs = every[torch.arange(2000), gaussian.log_prob(every).argmin(dim=1)]
    assert stats.ks_2samp(gaussian.log_prob(ours), gaussian.log_prob(theirs)).pvalue > 0.01
    for axis in range(3):
        assert stats.ks_2samp(ours[:, axis], theirs[:, axis]).pvalue > 0.01


def test_several_draws_of_a_class_stand_together():
    torch.manual_seed(0)
    found = least_likely(torch.tensor([[0.0, 0.0], [100.0, 0.0]]).double(), torch.eye(2).double(), draws=30, count=3)
    assert found.shape == (6, 2)
    assert (found[:3, 0] < 50).all() and (found[3:, 0] > 50).all()


def test_the_weighted_energy_by_hand():
    # log(2 e^0 + 0 e^9 + 1 e^ln3) = ln 5, and a negative weight counts as none.
    head = WeightedEnergy(3).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([2.0, -4.0, 1.0]))
        head.logistic.weight.copy_(torch.tensor([[0.0], [1.0]]))
        head.logistic.bias.zero_()
    guesses = head(torch.tensor([[0.0, 9.0, LN3]]).double())
    assert guesses.tolist()[0] == pytest.approx([0, math.log(5)])
    guesses.sum().backward()
    assert head.weight.grad.isfinite().all() and head.weight.grad[1] == 0


def vos_problem():
    """The toy network with full queues, the logits of a batch, and the trainer."""
    torch.manual_seed(0)
    problem, trainer = toy(), VOS(draws=100, select=2)
    model = problem.start(trainer).double()
    batch = next(problem.data_for(trainer).batches(problem.recipe(trainer), 0, CPU))
    features = model.features(batch.x.double())
    queues = ClassQueues(5, 20, 16)
    queues.push(features.float().detach(), batch.y)
    return trainer, model, model.head(features), queues


def test_the_outlier_term_of_vos_is_that_of_pytorch_ood():
    trainer, model, logits, queues = vos_problem()
    torch.manual_seed(1)
    got = trainer.outlier_term(model, logits, queues)
    torch.manual_seed(1)
    virtual = model.head(least_likely(*queues.gaussians(), 100, 2))
    linear = nn.Linear(5, 1).double()
    linear.weight = nn.Parameter(model.is_id.weight.detach().unsqueeze(0))
    flipped = nn.Linear(1, 2).double()  # their energy has the other sign
    flipped.weight = nn.Parameter(-model.is_id.logistic.weight.detach())
    flipped.bias = nn.Parameter(model.is_id.logistic.bias.detach())
    y = torch.cat([torch.zeros(len(logits)), -torch.ones(len(virtual))]).long()
    theirs = their_losses.VOSRegLoss(flipped, linear)._regularization(torch.cat([logits, virtual]), y)
    assert_allclose(got.item(), theirs.item(), rtol=1e-6)


def test_the_outlier_term_of_vos_reaches_the_body_the_head_and_the_energy():
    trainer, model, logits, queues = vos_problem()
    trainer.outlier_term(model, logits, queues).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.body.parameters())
    assert all(p.grad.abs().sum() > 0 for p in (*model.head.parameters(), *model.is_id.parameters()))


def test_a_class_without_rows_has_no_virtual_outliers():
    trainer, model, logits, queues = vos_problem()
    torch.manual_seed(1)
    expected = trainer.outlier_term(model, logits, queues)
    with torch.no_grad():
        model.head.weight[0] += 100  # changes the logits of virtual outliers, of all classes
    queues.counts.zero_()
    only_labeled = trainer.outlier_term(model, logits, queues)
    ones = torch.ones(len(logits), dtype=torch.int64)
    assert only_labeled.item() == pytest.approx(nn.functional.cross_entropy(model.is_id(logits), ones).item())
    assert only_labeled.item() != pytest.approx(expected.item())


def test_virtual_outliers_come_after_the_stated_share_of_the_training():
    log = toy().trained(VOS).loop.log  # three epochs of five steps: 40 % are six steps
    assert [record["outlier_term"] > 0 for record in log] == [False, True, True]
    assert log[1]["outlier_term"] == pytest.approx(0.8 * log[2]["outlier_term"], rel=0.3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"start": 1.0}, "vos.weight must be 0 or more and vos.start from 0 to below 1; change --set"),
        ({"queue": 0}, "vos.queue must be 1 or more and vos.select from 1 to vos.draws; change --set"),
        ({"select": 3, "draws": 2}, "vos.queue must be 1 or more and vos.select from 1 to vos.draws; change --set"),
    ],
)
def test_values_of_vos_that_make_no_sense_are_refused(values, message):
    with pytest.raises(UserError) as error:
        VOS(**values)
    assert str(error.value) == message
