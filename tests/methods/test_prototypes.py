"""CIDER and HYPO: prototypes and losses by hand, and against a plain reading in float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.batches import Batch, Data, Split
from oodbench.learning.loop import Loop, Observer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.learning.prototypes import Prototypes, compactness, dispersion
from oodbench.testing.toy_problem import CLASSES, toy

K, SIDE, FEATURES = 3, 4, 5


def method(name):
    return load_class(Registry().card(name))


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


# --- prototypes -----------------------------------------------------------------------------------------------------


def test_prototypes_move_row_by_row_by_hand():
    # Two rows of the first class at momentum 1/2: (1, 0) and (0, 1) give (1, 1) / sqrt 2; then (1, 0) gives
    # (1 + sqrt 2, 1) / length. The second class has no row and stays.
    prototypes = Prototypes(torch.tensor([[1.0, 0.0], [0.6, 0.8]]).double())
    u = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    moved = prototypes.follow(u, torch.tensor([0, 0]), 0.5)
    expected = [unit([1 + math.sqrt(2), 1.0]), [0.6, 0.8]]
    assert moved.tolist() == [pytest.approx(row) for row in expected]
    assert torch.equal(prototypes.vectors, moved)


def plain_follow(vectors, u, y, momentum):
    """As the released code moves them: one row after the other, whatever its class."""
    vectors = list(vectors.clone())
    for row, k in zip(u, y.tolist(), strict=True):
        mixed = momentum * vectors[k] + (1 - momentum) * row
        vectors[k] = mixed / mixed.square().sum().sqrt()
    return torch.stack(vectors)


def test_prototypes_and_their_gradients_are_those_of_one_row_after_the_other():
    torch.manual_seed(0)
    start = F.normalize(torch.randn(4, 6).double(), dim=-1)
    y = torch.tensor([2, 0, 2, 2, 1, 0, 2])  # class 3 is absent
    u = F.normalize(torch.randn(7, 6).double(), dim=-1)
    rows, plain_rows = u.clone().requires_grad_(True), u.clone().requires_grad_(True)
    prototypes = Prototypes(start.clone())
    moved, expected = prototypes.follow(rows, y, 0.9), plain_follow(start, plain_rows, y, 0.9)
    torch.testing.assert_close(moved, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn(4, 6).double()
    (moved * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(rows.grad, plain_rows.grad, rtol=1e-10, atol=1e-12)
    assert rows.grad.any(dim=1).all(), "every row of the batch has its share"


def test_the_next_batch_has_no_gradient_by_this_one():
    prototypes = Prototypes(torch.eye(2).double())
    first = torch.eye(2).double().requires_grad_(True)
    prototypes.follow(first, torch.tensor([0, 1]), 0.5)
    assert not prototypes.vectors.requires_grad
    second = torch.eye(2).double().requires_grad_(True)
    prototypes.follow(second, torch.tensor([1, 0]), 0.5).sum().backward()
    assert first.grad is None and second.grad is not None


def test_the_first_prototypes_are_the_means_of_the_classes_as_the_network_projects_them():
    trainer = method("cider")()
    model, data = toy().start(trainer), toy().data_for(trainer)
    vectors = Prototypes.of(model, data).vectors
    with torch.no_grad():
        features = forward(model, data.labelled.images).features.clone()
        u = model.projection(features).double()
    u = u / u.square().sum(dim=1, keepdim=True).sqrt()
    for k in range(CLASSES):
        mean = u[data.labelled.y == k].mean(dim=0)
        torch.testing.assert_close(vectors[k].double(), mean / mean.square().sum().sqrt(), rtol=1e-4, atol=1e-6)


# --- the two terms --------------------------------------------------------------------------------------------------


def test_compactness_and_dispersion_by_hand():
    # tau = 1/2. u = v_0, v_1 orthogonal to it, v_2 opposite: products / tau are 2, 0, -2.
    prototypes = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]).double()
    near = compactness(prototypes[:1], torch.tensor([1]), prototypes, 0.5).item()
    assert near == pytest.approx(math.log(math.exp(2) + 1 + math.exp(-2)))
    rows = [math.log((1 + math.exp(-2)) / 2), math.log(1.0), math.log((math.exp(-2) + 1) / 2)]
    assert dispersion(prototypes, 0.5).item() == pytest.approx(sum(rows) / 3)


def test_two_prototypes_are_farthest_apart_where_they_are_opposite():
    # K = 2: the mean of v_0 . v_1 / tau, -1 / 0.1 at least
    assert dispersion(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double(), 0.1).item() == pytest.approx(-10)


# --- the trainers ---------------------------------------------------------------------------------------------------


class Taken:
    """Stands for the loop: keeps the loss that a trainer hands over, and what goes with it."""

    device = torch.device("cpu")

    def epochs(self, model, data, loss, extra=()):
        self.loss, self.extra = loss, extra
        return iter(())

    def record(self, **values):
        self.recorded = values


@pytest.fixture
def model():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, FEATURES), nn.ReLU())
    made = Classifier(body, FEATURES, K, mean=(0.5,), std=(0.25,)).double()
    made.memory_format = torch.contiguous_format
    return made


@pytest.fixture
def data():
    images = torch.randint(256, (12, 1, SIDE, SIDE), generator=torch.Generator().manual_seed(4)).to(torch.uint8)
    return Data(Split(images, torch.arange(12) % K), K)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    x, views = (torch.rand(7, 1, SIDE, SIDE, generator=generator).double() for _ in range(2))
    return Batch(x, torch.arange(7) % K, None, None, views=views)


@pytest.mark.parametrize("name", ["cider", "hypo"])
def test_the_loss_against_a_plain_reading(name, model, data, batch):
    trainer, loop = method(name)(weight=1.5, temperature=0.2, momentum=0.8, dim=6), Taken()
    trainer.extend(model)
    trainer.train(model.float(), data, loop)  # whose images come in float32
    model, prototypes = model.double(), loop.extra[0].double()
    vectors = prototypes.vectors.tolist()
    head = [p.detach().clone() for p in model.head.parameters()]
    loss = loop.loss(model, batch).item()

    y = [*batch.y.tolist(), *batch.y.tolist()]
    features = model.features(torch.cat([batch.x, batch.views]))
    u = [unit(row) for row in model.projection(features).tolist()]
    vectors = [unit(row) for row in vectors]
    for row, k in zip(u, y, strict=True):
        vectors[k] = unit([0.8 * v + 0.2 * x for v, x in zip(vectors[k], row, strict=True)])
    near = 0.0
    for row, k in zip(u, y, strict=True):
        powers = [math.exp(dot(row, v) / 0.2) for v in vectors]
        near -= math.log(powers[k] / sum(powers)) / len(u)
    apart = 0.0
    for k, v in enumerate(vectors):
        apart += math.log(sum(math.exp(dot(v, w) / 0.2) for j, w in enumerate(vectors) if j != k) / (K - 1)) / K
    expected = 1.5 * near + apart
    if name == "cider":
        logits = features @ head[0].T + head[1]
        expected += sum(z.logsumexp(0).item() - z[k].item() for z, k in zip(logits, y, strict=True)) / len(y)
    assert loss == pytest.approx(expected, rel=1e-6)  # the first prototypes were of length 1 in float32
    assert prototypes.vectors.tolist() == [pytest.approx(v, rel=1e-6, abs=1e-7) for v in vectors]


def test_the_probe_of_cider_sends_no_gradient_to_the_features(model, data, batch):
    trainer, loop = method("cider")(), Taken()
    trainer.extend(model)
    trainer.train(model.float(), data, loop)  # whose images come in float32
    model = model.double()
    loop.extra[0].double()
    before = loop.extra[0].vectors.clone()
    gradients = []
    for scale in (1.0, 100.0):  # what the head says must not matter to the body
        with torch.no_grad():
            model.head.weight.mul_(scale)
        loop.extra[0].vectors.copy_(before)
        model.zero_grad()
        loop.loss(model, batch).backward()
        gradients.append([p.grad.clone() for p in [*model.body.parameters(), *model.projection.parameters()]])
        assert model.head.weight.grad.any()
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_hypo_predicts_the_nearest_prototype(monkeypatch):
    kept, first = [], Prototypes.of
    monkeypatch.setattr(Prototypes, "of", lambda *given: kept.append(first(*given)) or kept[-1])
    trained = toy().train(method("hypo")())
    model, images = trained.model, toy().data.labelled.images
    out = forward(model, images)
    with torch.no_grad():
        u = F.normalize(model.projection(out.features.clone()).double(), dim=-1)
    distances = torch.cdist(u, kept[0].vectors.double())
    assert torch.equal(out.predicted, distances.argmin(dim=1))
    assert (out.predicted == toy().data.labelled.y).double().mean() > 0.5


def test_the_head_of_hypo_is_of_use_while_it_trains():
    seen = []

    def look(model, loop):
        predicted = forward(model, toy().data.labelled.images).predicted
        seen.append((predicted == toy().data.labelled.y).double().mean().item())
        return {}

    trainer = method("hypo")()
    loop = Loop(toy().recipe(trainer), 0, torch.device("cpu"), observers=[Observer("domains", look)])
    torch.manual_seed(0)
    trainer.train(toy().start(trainer), toy().data_for(trainer), loop)
    assert len(seen) == 3 and seen[-1] > 0.5


@pytest.mark.parametrize("name", ["cider", "hypo"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight": -1.0}, "weight=-1 is negative; choose 0 or more"),
        ({"temperature": 0.0}, "temperature=0 is out of range; choose more than 0"),
        ({"momentum": 1.0}, "momentum=1 is out of range; choose 0 or more, and less than 1"),
        ({"dim": 1}, "dim=1 is too small for a sphere; choose 2 or more"),
    ],
)
def test_values_out_of_range_are_refused(name, values, message):
    with pytest.raises(UserError, match=rf"^{name}\.{message}$"):
        method(name)(**values)
