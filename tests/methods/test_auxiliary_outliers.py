"""MixOE, DAL, DivOE and diverseMix: their mathematics by hand, and their losses against a plain reading in float64."""

import copy
import math
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.functional import to_uniform
from oodbench.learning.batches import Batch
from oodbench.learning.networks import Classifier

K, SIDE, FEATURES = 3, 4, 5


def method(name):
    return load_class(Registry().card(name))


def module(name):
    return sys.modules[method(name).__module__]


@pytest.fixture
def model():
    """In float64, one hidden layer with batch normalization, far from certain of anything."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, FEATURES), nn.BatchNorm1d(FEATURES), nn.ReLU())
    made = Classifier(body, FEATURES, K, mean=(0.5,), std=(0.25,)).double()
    made.memory_format = torch.contiguous_format
    return made.train()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    x, outliers = (torch.rand(n, 1, SIDE, SIDE, generator=generator).double() for n in (7, 6))
    return Batch(x, torch.arange(7) % K, None, None, outliers)


class Taken:
    """Stands for the loop: keeps the loss that a trainer hands over, and what goes with it."""

    device = torch.device("cpu")

    def epochs(self, model, data, loss, extra=()):
        self.loss, self.extra = loss, extra
        return iter(())

    def record(self, **values):
        self.recorded = values


def logits_of_both(model, x, others):
    """In one pass, as batch normalization of both together asks for."""
    both = model(torch.cat([x, others]))
    return both[: len(x)], both[len(x) :]


def plain_cross_entropy(logits, targets):
    """Against whole distributions, row by row."""
    rows = [
        -sum(t * (z - math.log(sum(math.exp(a) for a in row))) for t, z in zip(target, row, strict=True))
        for row, target in zip(logits.tolist(), targets, strict=True)
    ]
    return sum(rows) / len(rows)


def onehot(y):
    return F.one_hot(y, K).double().tolist()


UNIFORM = [1 / K] * K


def test_the_cross_entropy_to_the_uniform_distribution_by_hand():
    # log(3 + 1) - (log 3 + log 1) / 2
    logits = torch.tensor([[math.log(3), 0.0], [5.0, 5.0]]).double()
    assert to_uniform(logits).tolist() == pytest.approx([math.log(4) - math.log(3) / 2, math.log(2)])


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("mixoe", {"weight": -1.0}, "mixoe.weight=-1 is out of range; choose 0 or more"),
        ("mixoe", {"beta": 0.0}, "mixoe.beta=0 is out of range; choose more than 0"),
        ("dal", {"gamma_max": -0.5}, "dal.gamma_max=-0.5 is negative; choose 0 or more"),
        ("divoe", {"share": 1.5}, "divoe.share=1.5 is no share between 0 and 1; choose 0.5"),
        ("divoe", {"steps": -1}, "divoe.steps=-1 is negative; choose 0 or more"),
        ("diversemix", {"temperature": 0.0}, "diversemix.temperature=0 is out of range; choose more than 0"),
    ],
)
def test_values_out_of_range_are_refused(name, values, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        method(name)(**values)


# --- MixOE ----------------------------------------------------------------------------------------------------------


def center(monkeypatch, *values):
    """The next boxes lie around these pixels."""
    left = [torch.tensor(value) for value in values]
    monkeypatch.setattr(torch, "randint", lambda size, shape: left.pop(0))


@pytest.mark.parametrize(
    ("row", "column", "rows", "columns"),
    [(2, 1, slice(1, 3), slice(0, 2)), (0, 3, slice(0, 1), slice(2, 4)), (0, 0, slice(0, 1), slice(0, 1))],
)
def test_a_patch_of_a_quarter_of_the_image_is_cut_at_its_edges_and_its_pixels_counted(
    row, column, rows, columns, monkeypatch
):
    # l = 3/4: the box has the side sqrt(1/4) of 4 pixels, 2 of them.
    center(monkeypatch, row, column)
    images, outliers = torch.zeros(2, 3, 4, 4), torch.ones(2, 3, 4, 4)
    mixed, share = module("mixoe").with_patch(images, outliers, 0.75)
    expected = torch.zeros(4, 4)
    expected[rows, columns] = 1
    assert all(torch.equal(channel, expected) for image in mixed for channel in image)
    assert share == 1 - expected.mean().item()
    assert not images.any(), "the labeled images stay as they are"


def test_a_share_of_one_leaves_the_images_as_they_are():
    images, outliers = torch.zeros(2, 1, 4, 4), torch.ones(2, 1, 4, 4)
    for mix in ("with_patch", "combined"):
        mixed, share = getattr(module("mixoe"), mix)(images, outliers, 1.0)
        assert torch.equal(mixed, images) and share == 1


@pytest.mark.parametrize("mix", ["cutmix", "mixup"])
def test_mixoe_is_cross_entropy_to_labels_mixed_with_the_uniform_one(mix, model, batch):
    trainer = method("mixoe")(mix=mix, alpha=2.0, beta=3.0, weight=0.7)
    torch.manual_seed(5)
    loss = trainer.loss(copy.deepcopy(model), batch).item()
    torch.manual_seed(5)
    share = torch.distributions.Beta(2.0, 3.0).sample().item()
    x, outliers = batch.x[:6], batch.outliers  # as many as there are of both
    if mix == "mixup":
        mixed = share * x + (1 - share) * outliers
    else:
        side = int(SIDE * math.sqrt(1 - share)) // 2
        inside = []
        for _ in range(2):
            middle = int(torch.randint(SIDE, ()))
            inside.append([middle - side <= pixel < middle + side for pixel in range(SIDE)])
        box = torch.tensor(inside[0])[:, None] & torch.tensor(inside[1])
        mixed, share = torch.where(box, outliers, x), 1 - box.double().mean().item()
    logits, others = logits_of_both(model, batch.x, mixed)
    soft = [[share * t + (1 - share) / K for t in row] for row in onehot(batch.y[:6])]
    expected = plain_cross_entropy(logits, onehot(batch.y)) + 0.7 * plain_cross_entropy(others, soft)
    assert 0 < share < 1
    assert loss == pytest.approx(expected, rel=1e-12)


# --- DAL ------------------------------------------------------------------------------------------------------------


def head_of(weight, bias):
    head = nn.Linear(len(weight[0]), len(weight)).double()
    head.weight.data, head.bias.data = torch.tensor(weight).double(), torch.tensor(bias).double()
    return head


def test_one_step_of_dal_by_hand():
    # Logits (log 3, 0) have softmax (3/4, 1/4), so dU/dz = (1/4, -1/4); with W = ((4, 0), (0, -3)) that is
    # (1, 3/4) by the features: a step of 0.1 goes to 0.1 (4/5, 3/5).
    head = head_of([[4.0, 0.0], [0.0, -3.0]], [math.log(3), 0.0])
    trainer = method("dal")(steps=1, step=0.1)
    delta = trainer.worst(torch.zeros(1, 2).double(), head, torch.tensor(0.7).double())
    assert delta.tolist() == [pytest.approx([0.08, 0.06])]


def test_a_row_that_is_uniform_already_and_has_no_gradient_stays_finite():
    head = head_of([[1.0, 0.0], [1.0, 0.0]], [0.0, 0.0])
    assert method("dal")().worst(torch.ones(1, 2).double(), head, torch.tensor(0.0)).tolist() == [[0.0, 0.0]]


def plain_worst(features, head, gamma, steps=10, step=0.01):
    """By automatic differentiation of U - gamma mean |delta|, from a delta of 0."""
    delta = torch.zeros_like(features)
    for _ in range(steps):
        delta.requires_grad_(True)
        z = head(features + delta)
        objective = (z.logsumexp(1) - z.mean(1)).mean() - gamma * delta.abs().mean()
        (gradient,) = torch.autograd.grad(objective, delta)
        delta = delta.detach() + step * gradient / gradient.square().sum(1, keepdim=True).sqrt()
    return delta


@pytest.mark.parametrize("gamma", [0.0, 0.01, 1.0])
def test_the_search_of_dal_is_that_of_automatic_differentiation(gamma):
    torch.manual_seed(0)
    head, features = nn.Linear(FEATURES, K).double(), torch.randn(6, FEATURES).double()
    found = method("dal")().worst(features, head, torch.tensor(gamma, dtype=torch.double))
    torch.testing.assert_close(found, plain_worst(features, head, gamma), rtol=1e-9, atol=1e-12)
    assert (to_uniform(head(features + found)) > to_uniform(head(features))).all() or gamma == 1.0


def test_two_steps_of_dal_against_a_plain_reading(model, batch):
    loop = Taken()
    method("dal")(gamma_step=3.0, rho=0.02).train(model, None, loop)
    price = loop.extra[0].double()
    plain, gamma = copy.deepcopy(model), 0.01
    price.gamma.fill_(gamma)
    for _ in range(2):
        loss = loop.loss(model, batch)
        features = plain.features(torch.cat([batch.x, batch.outliers]))
        labelled, outliers = features[:7], features[7:]
        delta = plain_worst(outliers.detach(), plain.head, gamma)
        gamma = min(max(gamma - 3.0 * (0.02 - delta.abs().mean().item()), 0.0), 1.0)
        targets = [UNIFORM] * 6
        expected = plain_cross_entropy(plain.head(labelled), onehot(batch.y))
        expected += 0.5 * plain_cross_entropy(plain.head(outliers + delta), targets)
        assert loss.item() == pytest.approx(expected, rel=1e-12)
        assert price.gamma.item() == pytest.approx(gamma, rel=1e-9)
    assert gamma > 0


@pytest.mark.parametrize(("rho", "end"), [(100.0, 0.0), (-100.0, 1.0)])
def test_gamma_stays_between_zero_and_its_largest_value(rho, end, model, batch):
    loop, trainer = Taken(), method("dal")()
    trainer.rho = rho
    trainer.train(model, None, loop)
    loop.loss(model, batch)
    assert loop.extra[0].gamma.item() == end == loop.recorded["gamma"].item()


def test_the_outlier_term_of_dal_reaches_the_body_through_the_features(model, batch):
    loop, batch = Taken(), Batch(batch.x, batch.y, None, None, batch.outliers.requires_grad_(True))
    method("dal")().train(model.eval(), None, loop)
    loop.loss(model, batch).backward()
    assert batch.outliers.grad.any()


# --- DivOE ----------------------------------------------------------------------------------------------------------


def linear_model(weight, bias):
    made = Classifier(nn.Flatten(), len(weight[0]), len(weight), mean=(0.0,), std=(1.0,)).double()
    made.head = head_of(weight, bias)
    return made


def test_extrapolated_pixels_by_hand():
    # Logits (log 3, 0), so dU/dz = (1/4, -1/4): U rises with the first pixel and the third, and falls with the second.
    # Five steps of a quarter of 0.1 are more than the bound of 0.1, and a pixel is at most 1.
    network = linear_model([[2.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]], [math.log(3), 0.0])
    image = torch.tensor([0.5, 0.5, 0.95, 0.5]).double().view(1, 1, 2, 2)
    moved = method("divoe")(epsilon=0.1).extrapolated(network, image)
    assert moved.flatten().tolist() == pytest.approx([0.6, 0.4, 1.0, 0.5])
    moved = method("divoe")(epsilon=0.1, steps=2).extrapolated(network, image)
    assert moved.flatten().tolist() == pytest.approx([0.55, 0.45, 1.0, 0.5])


def test_moving_outliers_raises_u_and_leaves_gradients_and_statistics_alone(model, batch):
    before = copy.deepcopy(model.state_dict())
    moved = method("divoe")().extrapolated(model, batch.outliers)
    assert (moved - batch.outliers).abs().max().item() == pytest.approx(0.01)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters()) and all(each.training for each in model.modules())
    model.eval()
    with torch.no_grad():
        assert (to_uniform(model(moved)) > to_uniform(model(batch.outliers))).all()


def test_divoe_is_outlier_exposure_with_half_of_the_outliers_moved(model, batch):
    trainer, plain = method("divoe")(weight=0.7), copy.deepcopy(model)
    torch.manual_seed(3)
    loss = trainer.loss(model, batch).item()
    torch.manual_seed(3)
    rows = torch.randperm(6)
    others = batch.outliers.clone()
    for row in rows[:3].tolist():  # one at a time
        start = image = batch.outliers[row : row + 1]
        for _ in range(5):
            image = image.detach().requires_grad_(True)
            z = plain.eval()(image)
            (gradient,) = torch.autograd.grad(z.logsumexp(1).sum() - z.mean(1).sum(), image)
            image = torch.minimum(torch.maximum(image + 0.0025 * gradient.sign(), start - 0.01), start + 0.01)
            image = image.clamp(0, 1)
        others[row] = image.detach()
    logits, outliers = logits_of_both(plain.train(), batch.x, others)
    expected = plain_cross_entropy(logits, onehot(batch.y)) + 0.7 * plain_cross_entropy(outliers, [UNIFORM] * 6)
    assert loss == pytest.approx(expected, rel=1e-12)
    torch.manual_seed(3)
    assert method("divoe")(weight=0.7, share=0.0).loss(copy.deepcopy(plain), batch).item() != pytest.approx(loss)


def test_divoe_that_moves_nothing_is_oe(model, batch):
    oe = method("oe")().loss(copy.deepcopy(model), batch).item()
    for values in ({"share": 0.0}, {"epsilon": 0.0}, {"steps": 0}):
        assert method("divoe")(**values).loss(copy.deepcopy(model), batch).item() == pytest.approx(oe, rel=1e-12)


# --- diverseMix -----------------------------------------------------------------------------------------------------


def test_the_shapes_of_the_beta_distribution_by_hand():
    # Energies -10 log 3 and 0 at T = 10: c is the softmax of (log 3, 0), which is (3/4, 1/4).
    own, other = torch.tensor([-10 * math.log(3), 2.0]).double(), torch.tensor([0.0, 2.0]).double()
    first, second = method("diversemix")().shapes(own, other)
    assert first.tolist() == pytest.approx([3.01, 2.01])
    assert second.tolist() == pytest.approx([1.01, 2.01])


def test_diversemix_is_the_energy_hinge_on_mixtures_of_two_outliers(model, batch):
    trainer, plain = method("diversemix")(weight=0.3, m_out=0.5), copy.deepcopy(model)
    torch.manual_seed(2)
    loss = trainer.loss(model, batch).item()
    torch.manual_seed(2)
    other = torch.randperm(6).tolist()
    with torch.no_grad():
        e = [math.log(sum(map(math.exp, row))) for row in plain.eval()(batch.outliers).tolist()]
    weights = [[math.exp(e[i] / 10), math.exp(e[j] / 10)] for i, j in enumerate(other)]
    shapes = [[4 * w / sum(pair) + 0.01 for w in pair] for pair in weights]
    shares = torch.distributions.Beta(*torch.tensor(shapes).double().T).sample().tolist()
    pairs = zip(shares, other, strict=True)
    mixed = [s * batch.outliers[i] + (1 - s) * batch.outliers[j] for i, (s, j) in enumerate(pairs)]
    logits, outliers = logits_of_both(plain.train(), batch.x, torch.stack(mixed))
    e_in, e_out = ([-math.log(sum(map(math.exp, row))) for row in z.tolist()] for z in (logits, outliers))
    hinges = sum(max(0, a + 25) ** 2 for a in e_in) / 7 + sum(max(0, 0.5 - a) ** 2 for a in e_out) / 6
    assert loss == pytest.approx(plain_cross_entropy(logits, onehot(batch.y)) + 0.3 * hinges, rel=1e-10)
    assert len({*shares}) == 6, "every pair has a share of its own"
