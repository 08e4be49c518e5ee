"""Trainers for detection that see no outliers: their mathematics by hand, against plain float64 and pytorch-ood."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax, softmax
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import DETECTION_TRAINING, Registry
from oodbench.errors import UserError
from oodbench.learning.batches import Batch
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.report.groups import whole_group
from oodbench.testing.toy_problem import toy
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
their_losses = pytest.importorskip("pytorch_ood.loss", reason="needs pytorch-ood, which the dev extra installs")

REGISTRY = Registry()
LogitNorm, T2FNorm = (load_class(REGISTRY.card(name)) for name in ("logitnorm", "t2fnorm"))
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


@pytest.mark.parametrize("name", ["logitnorm", "t2fnorm"])
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
