"""The trainers that compare environments: by hand, where they are ERM, and what the loop gives them."""

import copy
import dataclasses
import itertools
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import optimize, stats
from torch import nn

from oodbench.cli import main
from oodbench.config.cards import load_class
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning.batches import Batch, Data, Split
from oodbench.learning.method import Classifier, Loop
from oodbench.learning.outputs import forward
from oodbench.methods.arm import Convolution, InContext, add_input_channel
from oodbench.methods.eqrm import quantile
from oodbench.methods.groupdro import GroupWeights
from oodbench.methods.mmd import kernel
from oodbench.methods.mtl import Embeddings
from oodbench.methods.rsc import top
from oodbench.methods.sagnet import content_randomised, restyled, style, style_randomised
from oodbench.methods.sharpdro import kept_statistics
from oodbench.results.folder import read_folder

CARDS = Registry().cards
COMPARING = ["groupdro", "i-mixup", "mldg", "coral", "mmd", "dann", "cdann", "mtl", "arm"]
TRAINERS = [*COMPARING, "sagnet", "rsc"]
CPU = torch.device("cpu")
GENTLE = Recipe(epochs=2, batch_size=40, lr=0.05, weight_decay=0.0)


def make(name, **values):
    """A trainer, on the environments of the toy data unless told otherwise."""
    if name in COMPARING:
        values = {"environments": "native", **values}
    return load_class(CARDS[name])(**values)


@dataclasses.dataclass
class WatchedLoop(Loop):
    """Knows its optimizers, what their parameters were, and in which order they step."""

    made: list = dataclasses.field(default_factory=list)
    before: list = dataclasses.field(default_factory=list)
    order: list = dataclasses.field(default_factory=list)

    def optimizer(self, *args, **kwargs):
        made = super().optimizer(*args, **kwargs)
        number = len(self.made)
        self.made.append(made)
        self.before.append([p.detach().clone() for group in made.param_groups for p in group["params"]])
        made.register_step_post_hook(lambda *_: self.order.append(number))
        return made


def train(trainer, data, model, recipe=GENTLE, seed=0):
    torch.manual_seed(seed)
    trainer.extend(model)
    loop = WatchedLoop(recipe, seed, CPU)
    trainer.train(model, data, loop)
    return loop


def trained(trainer, data, model, recipe=GENTLE, seed=0):
    train(trainer, data, model, recipe, seed)
    return model


def largest_difference(a, b):
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max((p.double() - q.double()).abs().max().item() for p, q in pairs)


@pytest.fixture(scope="module")
def data(toy_data):
    """200 labeled rows in two native environments."""
    return Data(toy_data.labelled, toy_data.num_classes)


@pytest.fixture(scope="module")
def erm(data, new_model):
    return trained(make("erm"), data, new_model())


def flat_model(pixels, classes, seed=0):
    """A linear classifier of the pixels, without batch normalization."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Classifier(nn.Flatten(), pixels, classes, mean=(0.0,), std=(1.0,))


def two_environments(rows=6, seed=0):
    """Images of 2 x 2 pixels of three classes, unlike in the two environments."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (2 * rows, 1, 2, 2), generator=generator).to(torch.uint8)
    images[rows:] //= 3
    return Data(Split(images, torch.arange(2 * rows) % 3, torch.arange(2 * rows) // rows), 3)


def in_numpy(data, e):
    """Rows and one-hot labels of an environment as the flat model sees them."""
    chosen = data.labelled.env == e
    x = data.labelled.images[chosen].flatten(1).double().numpy() / 255
    return np.c_[x, np.ones(len(x))], np.eye(3)[data.labelled.y[chosen].numpy()]


def gradient(theta, x, y):
    """Of the mean cross-entropy of a linear classifier, in closed form."""
    logits = x @ theta.T
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True) - y).T @ x / len(x)


def theta_of(model):
    return torch.cat([model.head.weight, model.head.bias[:, None]], dim=1).detach().double().numpy()


# Where theory says ERM.


@pytest.mark.parametrize(
    ("name", "values"), [("coral", {"gamma": 0.0}), ("mmd", {"gamma": 0.0}), ("rsc", {"f_drop": 0.0, "b_drop": 0.0})]
)
def test_without_its_penalty_a_trainer_is_erm_to_the_bit(name, values, data, new_model, erm):
    assert largest_difference(trained(make(name, **values), data, new_model()), erm) == 0
    assert largest_difference(trained(make(name), data, new_model()), erm) > 1e-3


def test_groupdro_with_weights_that_stay_is_erm(data, new_model, erm):
    assert largest_difference(trained(make("groupdro", eta=0.0), data, new_model()), erm) < 1e-4
    assert largest_difference(trained(make("groupdro", eta=10.0), data, new_model()), erm) > 1e-3


@pytest.mark.parametrize("name", ["coral", "mmd"])
def test_identical_environments_leave_nothing_to_align(name, data, new_model):
    one = Split(data.labelled.images[:100], data.labelled.y[:100])
    twice = Split(torch.cat([one.images] * 2), torch.cat([one.y] * 2), torch.arange(200) // 100)
    recipe = dataclasses.replace(GENTLE, batch_size=200, epochs=1)  # whole environments in one step
    twins = dataclasses.replace(data, labelled=twice)
    same = trained(make("erm"), twins, new_model(), recipe)
    assert largest_difference(trained(make(name, gamma=10.0), twins, new_model(), recipe), same) < 1e-4
    differ = trained(make("erm"), data, new_model(), recipe)
    assert largest_difference(trained(make(name, gamma=10.0), data, new_model(), recipe), differ) > 1e-3


def test_mixup_that_hardly_mixes_takes_whole_environments():
    small = two_environments()
    recipe = dataclasses.replace(GENTLE, batch_size=12, epochs=1)
    losses = []
    for seed in range(20):
        loop = train(make("i-mixup", alpha=0.005), small, flat_model(4, 3), recipe, seed)
        losses.append(round(loop.log[0]["loss"], 3))
    model = flat_model(4, 3)
    x, y, env = small.labelled.images / 255, small.labelled.y, small.labelled.env
    risks = [F.cross_entropy(model(x[env == e]), y[env == e]).item() for e in (0, 1)]
    wholes = {round((risks[a] + risks[b]) / 2, 3) for a in (0, 1) for b in (0, 1)}
    assert len(wholes) == 3 and wholes <= set(losses)  # one of them is ERM's: both environments once
    assert sum(loss in wholes for loss in losses) >= 18


def test_dann_without_an_adversary_takes_the_step_of_erm(data, new_model):
    recipe = dataclasses.replace(GENTLE, batch_size=200, epochs=1)
    plain = trained(make("erm"), data, new_model(), recipe)
    for name in ("dann", "cdann"):
        without = trained(make(name, weight=0.0, beta1=0.9), data, new_model(), recipe)
        assert largest_difference(without, plain) < 1e-6
        assert largest_difference(trained(make(name, beta1=0.9), data, new_model(), recipe), plain) > 1e-4


@pytest.mark.parametrize("name", ["dann", "cdann"])
def test_dann_descends_the_risk_and_ascends_the_discriminators_loss(name, data, new_model):
    trainer = make(name, weight=3.0, grad_penalty=0.5, beta1=0.0)
    recipe = dataclasses.replace(GENTLE, batch_size=200, epochs=1)
    found = trained(trainer, data, new_model(), recipe)
    torch.manual_seed(0)
    discriminator, model = trainer.discriminator([16, 256, 256, 2], 5), new_model().train()
    (batch,) = [Batch(x, y, torch.arange(200) // 100, None) for x, y in batches_of(Loop(recipe, 0, CPU), data)]
    features = model.features(batch.x)
    risk = F.cross_entropy(model.head(features), batch.y)
    (risk - 3 * trainer.domain_loss(discriminator, features, batch)).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.05 * p.grad
    assert largest_difference(found, model) < 1e-6


def test_mldg_in_a_ring_without_the_second_risk_is_erm():
    small, recipe = two_environments(), Recipe(epochs=3, batch_size=12, lr=0.5, weight_decay=0.0)
    plain = trained(make("erm"), small, flat_model(4, 3), recipe)
    ring = trained(make("mldg", beta=0.0, pairs="published_cyclic"), small, flat_model(4, 3), recipe)
    assert largest_difference(ring, plain) < 1e-6
    assert largest_difference(trained(make("mldg", beta=0.0), small, flat_model(4, 3), recipe), plain) > 1e-3


# Mathematics by hand.


def test_coral_compares_means_and_unbiased_covariances():
    a, b = torch.tensor([[0.0, 0], [2, 0]]), torch.tensor([[0.0, 0], [0, 4]])
    means = (1**2 + 2**2) / 2  # of (1, 0) and (0, 2)
    covariances = (2**2 + 8**2) / 4  # of [2 0; 0 0] and [0 0; 0 8]
    assert make("coral").distance(a, b).item() == pytest.approx(means + covariances)


def test_mmd_sums_seven_kernels_over_all_pairs_of_rows():
    a, b = torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0]])

    def k(distance):
        return sum(math.exp(-(10.0**power) * distance**2) for power in range(-3, 4))

    assert kernel(a, a).item() == pytest.approx((2 * 7 + 2 * k(1)) / 4)
    expected = (14 + 2 * k(1)) / 4 + 7 - 2 * (k(3) + k(2)) / 2
    assert make("mmd").distance(a, b).item() == pytest.approx(expected, rel=1e-5)


def test_the_penalty_is_the_mean_over_pairs_of_environments():
    trainer, rows = (
        make("coral", environments="random:3", gamma=2.0),
        Recipe(epochs=1, batch_size=12, lr=0.0001, weight_decay=0.0),
    )
    small = two_environments()
    loop = train(trainer, small, flat_model(4, 3), rows)
    made, _ = Loop(rows, 0, CPU).in_environments(small, "random:3")
    x = [made.labelled.images[made.labelled.env == e].flatten(1) / 255 for e in range(3)]
    pairs = [trainer.distance(x[0], x[1]), trainer.distance(x[0], x[2]), trainer.distance(x[1], x[2])]
    record = loop.log[0]
    assert record["penalty"] == pytest.approx(sum(pairs).item() / 3, rel=1e-5)
    assert record["loss"] == pytest.approx(record["risk"] + 2 * record["penalty"], rel=1e-5)


def test_groupdro_weights_grow_with_the_risk_over_three_steps():
    weights = GroupWeights(2)
    for risks, expected in [((2, 1), (2 / 3, 1 / 3)), ((2, 1), (4 / 5, 1 / 5)), ((1, 4), (1 / 2, 1 / 2))]:
        weights.update(torch.tensor(risks).log(), eta=1.0)
        torch.testing.assert_close(weights.q, torch.tensor(expected))


def test_groupdro_minimises_the_risk_under_the_new_weights():
    small, model = two_environments(), flat_model(4, 3)
    recipe = Recipe(epochs=1, batch_size=12, lr=0.1)
    x, y, env = small.labelled.images / 255, small.labelled.y, small.labelled.env
    risks = np.array([F.cross_entropy(model(x[env == e]), y[env == e]).item() for e in (0, 1)])
    q = np.exp(3 * risks) / np.exp(3 * risks).sum()
    loss = train(make("groupdro", eta=3.0), small, flat_model(4, 3), recipe).log[0]["loss"]
    assert loss == pytest.approx(q @ risks, rel=1e-5)
    published = make("groupdro", eta=3.0, normalisation="published_double")
    assert train(published, small, flat_model(4, 3), recipe).log[0]["loss"] == pytest.approx(loss / 2)


def test_sagnet_moves_rows_to_another_mean_and_variance():
    rows = torch.tensor([[1.0, 3.0], [0.0, 4.0]])
    mean, variance = style(rows)
    assert mean.flatten().tolist() == [2, 2] and variance.flatten().tolist() == [2, 8]
    moved = restyled(rows[:1], torch.tensor([[10.0]]), torch.tensor([[8.0]]))
    torch.testing.assert_close(moved, torch.tensor([[8.0, 12.0]]), rtol=1e-4, atol=0)


def test_sagnet_keeps_content_under_random_styles_and_style_under_random_contents():
    torch.manual_seed(0)
    rows = torch.randn(50, 16, requires_grad=True)
    zero, one = torch.zeros(50, 1), torch.ones(50, 1)
    randomised = style_randomised(rows)
    torch.testing.assert_close(restyled(randomised, zero, one), restyled(rows, zero, one), rtol=1e-3, atol=1e-3)
    means, variances = style(rows)
    new_means, new_variances = style(randomised)
    assert not torch.allclose(new_means, means)
    assert means.min() <= new_means.min() and new_variances.max() <= variances.max() + 1e-4  # between two rows' styles
    swapped = content_randomised(rows)
    for found, expected in zip(style(swapped), style(rows), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(swapped, rows)
    # Only the style learns: a change of a row at the same mean and variance moves nothing.
    (slope,) = torch.autograd.grad((swapped * torch.randn(50, 16)).sum(), rows)
    within = torch.stack([torch.ones(50, 16), rows.detach() - means.detach()])  # what moves mean and variance
    left = (
        slope.T
        - torch.stack([torch.linalg.lstsq(within[:, i].T, slope[i]).solution @ within[:, i] for i in range(50)]).T
    )
    assert slope.abs().max() > 0.1 and left.abs().max() < 1e-4


def test_sagnet_updates_the_style_head_alone_and_then_the_features_alone(data, new_model):
    loop = train(make("sagnet"), data, new_model(), dataclasses.replace(GENTLE, epochs=1, batch_size=100))
    body, head, style_head = range(3)
    assert loop.order == 2 * [body, head, style_head, body]


def test_the_top_share_of_a_row_is_nobody_at_nought_and_everybody_at_one():
    values = torch.tensor([[3.0, 1, 2, 4]])
    masks = {share: top(values, share).tolist()[0] for share in (0, 0.25, 0.5, 1)}
    assert masks == {0: [False] * 4, 0.25: [False] * 3 + [True], 0.5: [True, False, False, True], 1: [True] * 4}


def test_rsc_mutes_the_loudest_features_where_confidence_falls_most():
    model = flat_model(4, 2)
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[4.0, 1, 0, 0], [0, 0, 1, 3]]))
        model.head.bias.zero_()
    features = torch.tensor([[1.0, 1, 0, 0], [0.0, 1, 0, 0], [0.0, 0, 1, 0], [0, 0, 0, 0.1]])
    y = torch.tensor([0, 0, 1, 1])
    # Feature 0 speaks loudest for class 0, feature 3 for class 1; rows 0 and 3 have some of it, row 0 more.
    row = make("rsc", f_drop=0.25, b_drop=0.25).muted(model, features, y)
    assert row.nonzero().tolist() == [[0, 0]]
    rows = make("rsc", f_drop=0.25, b_drop=0.5).muted(model, features, y)
    assert rows.nonzero().tolist() == [[0, 0], [3, 3]]
    batch = Batch(features.view(4, 1, 2, 2), y, None, None)
    logits = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 0.3]])
    assert make("rsc", f_drop=0.25, b_drop=0.25).loss(model, batch).item() == pytest.approx(
        F.cross_entropy(logits, y).item()
    )


@pytest.mark.parametrize("name", ["dann", "cdann"])
@pytest.mark.parametrize(("k", "turns"), [(1, "gdgdgd"), (2, "dgddgd"), (3, "ddgddd")])
def test_dann_takes_one_step_of_the_network_after_k_of_the_discriminator(name, k, turns, data, new_model):
    recipe = dataclasses.replace(GENTLE, epochs=3, batch_size=100)
    loop = train(make(name, d_steps_per_g_step=k), data, new_model(), recipe)
    assert "".join("gd"[number] for number in loop.order) == turns


def domain_batch():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(6, 3, generator=generator)
    env, y = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 2, 2, 0, 0])
    return z.requires_grad_(), Batch(z, y, env, None), nn.Linear(3, 2)


def test_danns_gradient_penalty_is_the_squared_gradient_of_the_discriminators_loss():
    z, batch, discriminator = domain_batch()
    w = discriminator.weight.detach().double().numpy()
    p = discriminator(z).softmax(dim=1).detach().double().numpy()
    by_row = (p - np.eye(2)[batch.env]) @ w
    plain = F.cross_entropy(discriminator(z), batch.env).item()
    penalised = make("dann", grad_penalty=0.7).domain_loss(discriminator, z, batch).item()
    assert make("dann").domain_loss(discriminator, z, batch).item() == pytest.approx(plain)
    assert penalised == pytest.approx(plain + 0.7 * (by_row**2).sum(axis=1).mean())


def test_the_published_gradient_penalty_vanishes_where_the_environments_have_equally_many_rows():
    """Each row is asked for all rows' environments, so its softmax is summed to a constant."""
    z, batch, discriminator = domain_batch()
    plain = make("dann").domain_loss(discriminator, z, batch)
    published = make("dann", grad_penalty=0.7, penalty_on="published")
    torch.testing.assert_close(published.domain_loss(discriminator, z, batch), plain)
    uneven = dataclasses.replace(batch, env=torch.tensor([0, 1, 1, 1, 1, 1]))
    p = discriminator(z).softmax(dim=1).detach()
    slope = (p[:, 0] * p[:, 1]).double().numpy()[:, None] * np.diff(discriminator.weight.detach().numpy(), axis=0) * 4
    expected = make("dann").domain_loss(discriminator, z, uneven).item() + 0.7 * (slope**2).sum(axis=1).mean()
    assert published.domain_loss(discriminator, z, uneven).item() == pytest.approx(expected, rel=1e-5)


def test_cdann_gives_every_class_the_same_weight():
    weights = make("cdann").balance(torch.tensor([0, 0, 2]))
    torch.testing.assert_close(weights, torch.tensor([1 / 6, 1 / 6, 1 / 3]))
    z, batch, _ = domain_batch()
    trainer = make("cdann")
    discriminator = trainer.discriminator([3, 4, 2], 3)
    guesses = discriminator["layers"](z + discriminator["class"].weight[batch.y])
    losses = F.cross_entropy(guesses, batch.env, reduction="none")
    expected = losses[batch.y == 0].mean() / 3 + losses[batch.y == 2].mean() / 3
    torch.testing.assert_close(trainer.domain_loss(discriminator, z, batch), expected)


def test_the_discriminator_has_its_own_depth_rate_and_decay(data, new_model):
    trainer = make("dann", depth=4, width=7, lr_d=0.003, weight_decay_d=0.01, beta1=0.25)
    loop = train(trainer, data, new_model(), dataclasses.replace(GENTLE, schedule="constant", weight_decay=0.5))
    network, discriminator = (made.param_groups[0] for made in loop.made)
    shapes = [tuple(p.shape) for p in discriminator["params"] if p.ndim == 2]
    assert shapes == [(7, 16), (7, 7), (7, 7), (2, 7)]
    assert (network["lr"], network["weight_decay"], network["momentum"]) == (0.05, 0.5, 0.25)
    assert (discriminator["lr"], discriminator["weight_decay"], discriminator["momentum"]) == (0.003, 0.01, 0.25)


def test_mtl_follows_the_mean_feature_of_each_environment():
    embeddings = Embeddings(2, 1)
    first = torch.tensor([[[0.0], [2]], [[4], [4]]], requires_grad=True)  # means 1 and 4
    used = embeddings.update(first, ema=0.75)
    assert used.flatten().tolist() == [0.75, 3.0]
    used.sum().backward()
    assert first.grad.flatten().tolist() == [0.375] * 4
    second = torch.tensor([[[8.0], [8]], [[0], [0]]])
    assert embeddings.update(second, ema=0.75).flatten().tolist() == [6.1875, 0.75]
    assert embeddings.m.flatten().tolist() == [6.1875, 0.75] and not embeddings.m.requires_grad


def test_mtls_head_sees_a_row_beside_the_mean_of_its_test_batch(new_model):
    model = new_model()
    x = torch.rand(5, 1, 8, 8)
    model.eval()
    own = model.features(x)
    make("mtl").extend(model)
    model.eval()
    features = model.features(x)
    torch.testing.assert_close(features, torch.cat([own, own.mean(dim=0).expand(5, 16)], dim=1))
    assert torch.equal(model.head(features), model(x)) and model.head(features).shape == (5, 5)
    noisy = new_model()
    make("mtl", embedding="published_noise").extend(noisy)
    beside = noisy.eval().features(x)[:, 16:].detach()
    assert torch.equal(beside, noisy.features(x)[:, 16:]) and beside.std() == pytest.approx(1, abs=0.2)


def test_mtl_sums_the_risks_of_the_environments():
    small, model, ema = two_environments(), flat_model(4, 3), 0.5
    trainer = make("mtl", ema=ema)
    torch.manual_seed(0)
    trainer.extend(model)
    before = copy.deepcopy(model)
    loop = WatchedLoop(Recipe(epochs=1, batch_size=12, lr=0.1), 0, CPU)
    trainer.train(model, small, loop)
    risks = []
    for e in (0, 1):
        chosen = small.labelled.env == e
        x = small.labelled.images[chosen].flatten(1) / 255
        logits = before.head(torch.cat([x, ema * x.mean(dim=0).expand_as(x)], dim=1))
        risks.append(F.cross_entropy(logits, small.labelled.y[chosen]).item())
    assert loop.log[0]["loss"] == pytest.approx(sum(risks), rel=1e-5)


def test_mldg_adds_the_gradient_after_a_trial_step_to_that_before_it():
    small, rate, beta = two_environments(), 0.5, 0.3
    start = theta_of(flat_model(4, 3))
    environments = [in_numpy(small, e) for e in (0, 1)]
    for optimizer in ("sgd", "adam"):
        recipe = Recipe(
            epochs=1, batch_size=12, lr=rate, momentum=0.0, weight_decay=0.0, optimizer=optimizer, schedule="constant"
        )
        expected = []
        for i, j in ((0, 1), (1, 0)):
            here = gradient(start, *environments[i])
            trial = start - rate * (here if optimizer == "sgd" else np.sign(here))
            both = here + beta * gradient(trial, *environments[j])
            expected.append(start - rate * (both if optimizer == "sgd" else np.sign(both)))
        seen = set()
        for seed in range(6):
            found = theta_of(trained(make("mldg", beta=beta), small, flat_model(4, 3), recipe, seed))
            seen.add(tuple(np.abs(found - each).max() < 1e-4 for each in expected))
        assert seen == {(True, False), (False, True)}, optimizer


def test_the_trial_step_of_mldg_follows_the_schedule_and_the_weight_decay():
    small = two_environments()
    recipe = Recipe(epochs=2, batch_size=12, lr=0.5, momentum=0.0, weight_decay=0.1, schedule="cosine")
    expected = []
    for pairs in itertools.product(((0, 1), (1, 0)), repeat=2):
        theta = theta_of(flat_model(4, 3))
        for rate, (i, j) in zip((0.5, 0.25), pairs, strict=True):
            here = gradient(theta, *in_numpy(small, i))
            trial = theta - rate * (here + 0.1 * theta)
            theta = theta - rate * (here + gradient(trial, *in_numpy(small, j)) + 0.1 * theta)
        expected.append(theta)
    found = theta_of(trained(make("mldg"), small, flat_model(4, 3), recipe))
    assert sorted(np.abs(found - each).max() < 1e-5 for each in expected) == [False, False, False, True]


@pytest.mark.parametrize(
    ("count", "values", "pairs", "tested"),
    [
        (2, {"n_meta_test": 2}, 1, 1),  # where the published code draws no pair and never learns
        (3, {"n_meta_test": 2}, 1, 1),
        (3, {"n_meta_test": 1}, 2, 1),
        (5, {"n_meta_test": 2}, 3, 2),
        (4, {"pairs": "published_cyclic"}, 4, 4),
    ],
)
def test_mldg_pairs_training_environments_with_held_out_ones(count, values, pairs, tested):
    for seed in range(5):
        torch.manual_seed(seed)
        drawn = make("mldg", **values).draw(count)
        assert len(drawn) == pairs
        train_on, test_on = {i for i, _ in drawn}, {j for _, j in drawn}
        assert len(train_on) == pairs and len(test_on) == tested
        assert all(i != j for i, j in drawn)
        assert values.get("pairs") or not train_on & test_on


def test_mixup_blends_images_and_labels_of_two_environments():
    """A model that only adds up pixels shows the share."""
    images = torch.cat([torch.full((3, 1, 2, 2), 255), torch.zeros(3, 1, 2, 2)]).to(torch.uint8)
    two = Data(Split(images, torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(6) // 3), 2)
    seen = []

    class Watched(Classifier):
        def forward(self, x):
            seen.append(x.detach().flatten(1).mean(dim=1))
            return super().forward(x)

    model = Watched(nn.Flatten(), 4, 2, mean=(0.0,), std=(1.0,))
    before = copy.deepcopy(model)
    loop = train(make("i-mixup", alpha=1.0), two, model, Recipe(epochs=1, batch_size=6, lr=0.1))
    share = seen[0].double()
    assert share[:3].unique().numel() == share[3:].unique().numel() == 1  # one draw per pair
    assert 0.01 < share[0] < 0.99 and abs(share[0] + share[3] - 1) > 1e-3  # and each its own
    log_p = before.head(share.float()[:, None].expand(6, 4)).log_softmax(dim=1).double()
    expected = -(share * log_p[:, 0] + (1 - share) * log_p[:, 1]).mean()  # class 0 is bright
    assert loop.log[0]["loss"] == pytest.approx(expected.item(), rel=1e-5)


def test_arm_shows_the_mean_context_of_an_environment_to_its_rows(new_model):
    model = new_model()
    make("arm").extend(model)
    body = model.body
    assert isinstance(body, InContext) and body.body[0].in_channels == 2
    seen = []
    body.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.rand(6, 1, 8, 8)
    body.context.eval()
    context = body.context(x).detach()
    body.environments = 2
    body.train()
    body.context.eval()
    body(x)
    for rows in (slice(0, 3), slice(3, 6)):
        expected = context[rows].mean(dim=0).expand(3, 1, 8, 8)
        torch.testing.assert_close(seen[0][rows, 1:], expected)
    assert torch.equal(seen[0][:, :1], x)
    body.eval()
    for support, groups in ((0, [6]), (2, [2, 2, 2]), (4, [6])):  # 4 do not divide 6: the whole batch
        body.support.fill_(support)
        body(x)
        parts = [part.mean(dim=0, keepdim=True).expand_as(part) for part in context.split(groups)]
        torch.testing.assert_close(seen[-1][:, 1:], torch.cat(parts))


def test_the_first_layer_can_be_given_a_channel():
    image = torch.rand(2, 3, 4, 4)
    wider = torch.cat([image, image[:, :1]], dim=1)
    for body in (
        nn.Sequential(nn.Conv2d(3, 5, 3, bias=False), nn.Flatten()),
        nn.Sequential(nn.Flatten(), nn.Linear(48, 5, bias=False)),
    ):
        before = body(image)
        add_input_channel(body, 3)
        added = body(wider) - before  # what the first channel's weights make of the first channel once more
        body_without = copy.deepcopy(body)
        torch.testing.assert_close(body_without(torch.cat([torch.zeros_like(image), image[:, :1]], dim=1)), added)
        zeros = torch.zeros_like(image[:, 1:])
        torch.testing.assert_close(
            body(torch.cat([image[:, :1], zeros, 0 * image[:, :1]], dim=1)),
            body(torch.cat([0 * image[:, :1], zeros, image[:, :1]], dim=1)),
        )
    with pytest.raises(UserError, match="this network cannot take one; choose another network"):
        add_input_channel(nn.Sequential(nn.Conv2d(1, 5, 3)), 3)


def test_arms_convolution_is_the_plain_one_also_where_images_are_single_values():
    ours, plain = Convolution(7, 3), nn.Conv2d(7, 3, 5, padding=2)
    plain.load_state_dict(ours.state_dict())
    for side in (1, 2, 9):
        x = torch.randn(4, 7, side, side)
        torch.testing.assert_close(ours(x), plain(x))


def test_arms_context_network_learns_and_the_published_one_only_moves_its_statistics(data, new_model):
    for context, learns in (("trained", True), ("published", False)):
        model = new_model()
        trainer = make("arm", context=context)
        torch.manual_seed(0)
        trainer.extend(model)
        before = copy.deepcopy(model.body.context)
        trainer.train(model, data, Loop(dataclasses.replace(GENTLE, freeze_bn=True, epochs=1), 0, CPU))
        pairs = zip(model.body.context.parameters(), before.parameters(), strict=True)
        assert [not torch.equal(p, q) for p, q in pairs] == [learns] * 10
        assert not torch.equal(model.body.context[1].running_mean, before[1].running_mean)
        assert int(model.body.support) == 20


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_every_parameter_of_every_part_moves(name, optimizer, data, new_model):
    recipe = dataclasses.replace(GENTLE, optimizer=optimizer, lr=0.05 if optimizer == "sgd" else 0.002)
    loop = train(make(name), data, new_model(), recipe)
    parts = {"dann": 2, "cdann": 2, "sagnet": 3, "mldg": 2}
    assert len(loop.made) == parts.get(name, 1)
    for made, before in zip(loop.made, loop.before, strict=True):
        after = [p for group in made.param_groups for p in group["params"]]
        assert isinstance(made, torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam)
        assert not [i for i, (p, q) in enumerate(zip(after, before, strict=True)) if torch.equal(p, q)]
        assert all(p.isfinite().all() for p in after)


class Interrupted(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class TwoEpochs(Data):
    """Then the machine is switched off."""

    given: list = dataclasses.field(default_factory=list)

    def batches(self, *args, **kwargs):
        self.given.append(args)
        if len(self.given) > 2:
            raise Interrupted
        return super().batches(*args, **kwargs)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_training_under_adam_resumes_to_the_same_bits(name, data, new_model, tmp_path):
    recipe = dataclasses.replace(GENTLE, optimizer="adam", lr=0.002, epochs=3, batch_size=100)

    def run(seen, checkpoint, seed):
        model = new_model()
        torch.manual_seed(0)
        trainer = make(name)
        trainer.extend(model)
        torch.manual_seed(seed)  # what the trainer draws before its first epoch is in the checkpoint, too
        trainer.train(model, seen, Loop(recipe, 0, CPU, checkpoint))
        return model

    with pytest.raises(Interrupted):
        run(TwoEpochs(data.labelled, data.num_classes), tmp_path / "half.ckpt", seed=0)
    resumed = run(data, tmp_path / "half.ckpt", seed=1)
    assert largest_difference(resumed, run(data, None, seed=0)) == 0


# What the loop gives them.


def test_adam_is_that_of_torch_under_the_schedule(data, new_model):
    recipe = Recipe(
        epochs=2,
        batch_size=50,
        lr=0.01,
        momentum=0.8,
        weight_decay=0.02,
        optimizer="adam",
        schedule="steps",
        milestones=[0.5],
    )
    found = trained(make("erm"), data, new_model(), recipe)
    model = new_model().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.8, 0.999), weight_decay=0.02)
    loop = Loop(recipe, 0, CPU)
    for i, x_y in enumerate(batches_of(loop, data)):
        optimizer.param_groups[0]["lr"] = 0.01 if i < 4 else 0.005
        optimizer.zero_grad()
        F.cross_entropy(model(x_y[0]), x_y[1]).backward()
        optimizer.step()
    assert largest_difference(found, model) == 0


def test_adam_with_a_momentum_of_one_is_refused(data, new_model):
    with pytest.raises(UserError, match="^recipe.momentum=1 is Adam's beta 1, which is below 1; choose 0.9$"):
        train(make("erm"), data, new_model(), dataclasses.replace(GENTLE, optimizer="adam", momentum=1.0))


def batches_of(loop, data):
    """What a loop feeds its steps."""
    seen = []
    for _ in loop.passes(flat_model(64, 5), data, lambda b: seen.append((b.x, b.y)) or torch.zeros(()), []):
        pass
    return seen


def test_several_optimisers_follow_one_schedule_from_their_own_rates(data, new_model):
    loop = Loop(Recipe(epochs=2, batch_size=100, lr=0.4, schedule="cosine", weight_decay=0.3), 0, CPU)
    model = new_model()
    one, other = loop.optimizer(model.body.parameters()), loop.optimizer(model.head.parameters(), 0.1, 0.0, (0.5, 0.9))
    rates = []

    def step(batch):
        rates.append((one.param_groups[0]["lr"], other.param_groups[0]["lr"]))
        return torch.zeros(())

    for _ in loop.passes(model, data, step, [model, one, other]):
        pass
    shares = [(1 + math.cos(math.pi * i / 4)) / 2 for i in range(4)]
    assert rates == [pytest.approx((0.4 * share, 0.1 * share)) for share in shares]
    groups = one.param_groups[0], other.param_groups[0]
    assert [(g["weight_decay"], g["momentum"], g["nesterov"]) for g in groups] == [(0.3, 0.9, True), (0.0, 0.5, True)]


@pytest.mark.parametrize("name", ["erm", "mldg", "dann"])
def test_frozen_batch_normalisation_keeps_its_statistics_and_learns_its_scale(name, data, new_model):
    for freeze in (False, True):
        model, before = new_model(), new_model()
        train(make(name), data, model, dataclasses.replace(GENTLE, freeze_bn=freeze))
        for i in (1, 4):
            assert torch.equal(model.body[i].running_mean, before.body[i].running_mean) == freeze
            assert not torch.equal(model.body[i].weight, before.body[i].weight)
            assert not torch.equal(model.body[i].bias, before.body[i].bias)


@pytest.mark.parametrize("name", COMPARING)
def test_one_environment_is_refused_before_training(name, data, new_model):
    alone = dataclasses.replace(data, labelled=dataclasses.replace(data.labelled, env=torch.zeros(200).long()))
    model = new_model()
    trainer = make(name)
    trainer.extend(model)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(UserError, match="^the suite has one environment and two are compared; choose environments="):
        trainer.train(model, alone, Loop(GENTLE, 0, CPU))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items() if key != "body.support")
    with pytest.raises(UserError, match=rf"^{name} compares environments and needs two or more; choose {name}\.env"):
        make(name, environments="random:1")


@pytest.mark.parametrize(("name", "rows"), [("coral", 2), ("mmd", 2), ("groupdro", 1), ("mldg", 1)])
def test_a_batch_too_small_to_compare_is_refused_before_training(name, rows, data, new_model):
    small = Loop(dataclasses.replace(GENTLE, batch_size=3 * rows - 1), 0, CPU)
    needed = f"has room for {rows - 1} of each of 3 environments, {rows} are needed"
    message = f"^a batch of {3 * rows - 1} {needed}; choose recipe.batch_size={3 * rows} or more$"
    with pytest.raises(UserError, match=message):
        make(name, environments="random:3").train(new_model(), data, small)
    enough = dataclasses.replace(GENTLE, batch_size=3 * rows, epochs=1)
    few = dataclasses.replace(data, labelled=Split(data.labelled.images[:12], data.labelled.y[:12]))
    train(make(name, environments="random:3"), few, new_model(), enough)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("groupdro", {"eta": -1.0}, "groupdro.eta=-1 is negative; choose 0 or more"),
        ("i-mixup", {"alpha": 0.0}, "i-mixup.alpha=0 is out of range; choose more than 0"),
        ("mldg", {"n_meta_test": 0}, "mldg.beta must be 0 or more and mldg.n_meta_test 1 or more; change --set"),
        ("coral", {"gamma": -1.0}, "coral.gamma=-1 is negative; choose 0 or more"),
        ("mmd", {"gamma": -1.0}, "mmd.gamma=-1 is negative; choose 0 or more"),
        (
            "dann",
            {"weight": -1.0},
            "dann: weight, grad_penalty, weight_decay_d must be 0 or more, lr_d above 0; change",
        ),
        ("cdann", {"depth": 1}, "cdann: d_steps_per_g_step and width must be 1 or more, depth 2 or more; change --set"),
        ("dann", {"dropout": 1.0}, "dann: beta1 and dropout must lie in [0, 1); change --set"),
        (
            "cdann",
            {"penalty_on": "published"},
            "cdann.penalty_on=published serves only cdann.grad_penalty above 0; set",
        ),
        ("mtl", {"ema": 0.0}, "mtl.ema=0 is out of range; choose more than 0 and at most 1"),
        ("sagnet", {"w_adv": -0.1}, "sagnet.w_adv=-0.1 is negative; choose 0 or more"),
        ("rsc", {"f_drop": 1.5}, "rsc.f_drop and rsc.b_drop are shares; choose numbers from 0 to 1"),
    ],
)
def test_values_out_of_range_are_refused(name, values, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        make(name, **values)


NUMBER = r"-?\d+(\.\d+)?"
UNIFORM = rf"U\({NUMBER},{NUMBER}\)"
GRAMMAR = rf"{UNIFORM}|(int )?10\*\*{UNIFORM}|int 2\*\*{UNIFORM}|\{{{NUMBER}(,{NUMBER})*\}}"


@pytest.mark.parametrize("name", TRAINERS)
def test_search_distributions_are_of_hyperparameters_and_told_beside_them(name):
    card = CARDS[name]
    assert set(card.search) <= set(card.parameters)
    for key, distribution in card.search.items():
        assert re.fullmatch(GRAMMAR, distribution), (key, distribution)
        assert card.parameters[key].comment.endswith(f"search: {distribution.replace('**', '^')}")


# Through the command.


@pytest.mark.parametrize("name", ["mtl", "arm"])
def test_an_extended_network_is_saved_and_loaded_with_its_parts(name, tmp_path, capsys):
    def run(methods):
        chosen = ["--suite", "digits-c", "--preset", "smoke", "--setting", "unseen-digits", "--results", str(tmp_path)]
        environments = f"{name}.environments=random:2"
        assert main(["run", *chosen, "--methods", methods, "--set", "recipe.epochs=1", "--set", environments]) == 0
        return capsys.readouterr().err

    assert "epoch 1/1" in run(name)
    (first,) = read_folder(tmp_path)[0]
    first.path.unlink()
    weights = torch.load(next((tmp_path / "weights").glob("*.pt")), weights_only=True)["model"]
    assert any(key.startswith("body.body.") for key in weights)
    assert "epoch" not in run(f"{name},{name}+msp,{name}+vim")
    found = {result.method.partition(",")[0]: result for result in read_folder(tmp_path)[0]}
    assert found[name].metrics == first.metrics and found[name].weights == first.weights
    assert {r.metrics["id_acc"] for r in found.values()} == {first.metrics["id_acc"]} and len(found) == 3
    assert found[name].notes["transductive"]


def test_a_reloaded_model_predicts_the_same(data, new_model):
    for name in ("mtl", "arm"):
        model, again, trainer = new_model(), new_model(), make(name)
        train(trainer, data, model)
        trainer.extend(again)
        again.load_state_dict(model.state_dict())
        images = data.labelled.images
        assert torch.equal(forward(again, images).logits, forward(model, images).logits)
        assert forward(again, images).features.shape[1] == again.head.in_features


def test_wrong_environments_end_the_command_in_one_line(tmp_path, capsys):
    chosen = [
        "run",
        "--suite",
        "digits-c",
        "--preset",
        "smoke",
        "--methods",
        "coral",
        "--results",
        str(tmp_path / "res"),
    ]
    assert main([*chosen, "--set", "coral.environments=random:1"]) == 2
    message = "oodbench: coral compares environments and needs two or more; choose coral.environments=random:2\n"
    assert capsys.readouterr().err.endswith(f"\n{message}") and not (tmp_path / "res").exists()
    assert main([*chosen, "--set", "coral.environments=native"]) == 2
    assert "environments" in capsys.readouterr().err
    assert main([*chosen, "--set", "coral.environments=random:2", "--set", "recipe.batch_size=3"]) == 2
    assert "choose recipe.batch_size=4 or more" in capsys.readouterr().err and not (tmp_path / "res").exists()


# --- EQRM -----------------------------------------------------------------------------------------------------------


def test_the_quantile_of_equally_far_risks_by_hand():
    # The median of a symmetric estimate is its middle. Far up, one risk of n is left alone: F = (n - 1 + Phi(x)) / n.
    assert quantile(torch.tensor([1.0, 2.0, 6.0, 7.0]), 0.5).item() == pytest.approx(4.0)
    risks = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 100.0]).double()
    h = 1.06 * risks.std().item() * 10**-0.2  # 100 is over 4.7 h from the others
    assert quantile(risks, 0.95).item() == pytest.approx(100, abs=1e-3 * h)


def test_the_quantile_of_two_risks_is_their_mean_and_a_multiple_of_their_deviation():
    # With s = |R1 - R2| / sqrt 2, (R - mean) / s is +-1 / sqrt 2 whatever the risks are.
    unit = quantile(torch.tensor([0.0, math.sqrt(2)]).double(), 0.75).item() - math.sqrt(0.5)
    assert quantile(torch.tensor([3.0, 5.0]).double(), 0.75).item() == pytest.approx(4 + math.sqrt(2) * unit)


@pytest.mark.parametrize("alpha", [0.5, 0.75, 0.99])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_quantile_is_the_root_of_the_kernel_density_estimate_of_scipy(alpha, count):
    risks = np.random.default_rng(count).exponential(size=count)
    estimate = stats.gaussian_kde(risks, bw_method=1.06 * count**-0.2)
    root = optimize.brentq(lambda q: estimate.integrate_box_1d(-np.inf, q) - alpha, -20, 20, xtol=1e-12)
    assert quantile(torch.from_numpy(risks), alpha).item() == pytest.approx(root, abs=1e-7)
    assert quantile(torch.from_numpy(risks), alpha, "bisection").item() == pytest.approx(root, abs=1e-7)


@pytest.mark.parametrize("count", [2, 5])
def test_the_gradient_of_the_quantile_is_that_of_differences_and_bisection_gives_it_for_two(count):
    risks = torch.rand(count, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: quantile(r, 0.75), risks, atol=1e-6)
    (exact,) = torch.autograd.grad(quantile(risks, 0.75), risks)
    (halved,) = torch.autograd.grad(quantile(risks, 0.75, "bisection"), risks)
    assert torch.allclose(exact, halved, atol=1e-6) == (count == 2)
    assert exact.sum().item() == pytest.approx(1) and halved.sum().item() == pytest.approx(1)  # equivariant


def test_equal_risks_have_a_quantile_and_a_gradient():
    for gradient in ("exact", "bisection"):
        risks = torch.zeros(3, requires_grad=True)
        value = quantile(risks, 0.75, gradient)
        value.backward()
        assert value.item() == pytest.approx(0, abs=1e-7) and risks.grad.isfinite().all()


def test_eqrm_warms_up_like_erm_and_then_steps_slowly(data, new_model, erm):
    """All of a training but its second half is ERM's on the same batches; the second optimizer has its own rate."""
    loop = train(make("eqrm", environments="native"), data, new_model())
    steps = len(loop.order)
    assert loop.order == [0] * (steps // 2) + [1] * (steps - steps // 2)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in loop.made]
    assert rates[1] == pytest.approx(0.02 * rates[0])
    slow = trained(make("eqrm", environments="native", slowdown=1e-12, warmup=10**6), data, new_model(), seed=0)
    half = trained(make("eqrm", environments="native", slowdown=1e-12, alpha=0.5), data, new_model(), seed=0)
    assert all(torch.allclose(p, q, atol=1e-9) for p, q in zip(slow.parameters(), half.parameters(), strict=True))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alpha": 1.0}, "eqrm.alpha=1 is out of range; choose a number between 0 and 1"),
        ({"slowdown": 0.0}, "eqrm.warmup must be 0 or more and eqrm.slowdown above 0; change --set"),
    ],
)
def test_values_of_eqrm_that_make_no_sense_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        make("eqrm", **values)


# --- SharpDRO -------------------------------------------------------------------------------------------------------


def linear_problem():
    """Rows of two pixels in two environments, one batch of all, and a network that is its head alone."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (12, 1, 1, 2), generator=generator, dtype=torch.uint8)
    y = torch.randint(3, (12,), generator=generator)
    model = Classifier(nn.Flatten(), 2, 3, mean=(0.0,), std=(1.0,))
    with torch.no_grad():
        model.head.weight.copy_(torch.randn(3, 2, generator=generator))
        model.head.bias.copy_(torch.randn(3, generator=generator))
    return Data(Split(images, y, torch.arange(12) // 6), 3), model


def plain_risks(weight, bias, x, y, shares):
    """The risks of two environments of six rows, and the gradient of their weighted sum, in closed form."""
    z = x @ weight.T + bias
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    losses = -np.log(p[np.arange(len(y)), y])
    by_logits = (p - np.eye(3)[y]) * np.repeat(shares, 6)[:, None] / 6
    return losses.reshape(2, 6).mean(axis=1), by_logits.T @ x, by_logits.sum(axis=0)


def test_a_step_of_sharpdro_is_that_of_plain_numpy():
    data, model = linear_problem()
    x, y = data.labelled.images.flatten(1).double().numpy() / 255, data.labelled.y.numpy()
    weight, bias = (p.detach().double().numpy() for p in model.head.parameters())
    recipe = Recipe(epochs=1, batch_size=12, lr=0.5, momentum=0.0, weight_decay=0.0, schedule="constant")
    loop = train(make("sharpdro", rho=0.3, eta=2.0, environments="native"), data, model, recipe)
    assert loop.order == [0]

    risks, by_weight, by_bias = plain_risks(weight, bias, x, y, np.array([0.5, 0.5]))
    omega = np.exp(2.0 * risks) / np.exp(2.0 * risks).sum()
    length = np.sqrt((by_weight**2).sum() + (by_bias**2).sum())
    climbed = weight + 0.3 * by_weight / length, bias + 0.3 * by_bias / length
    uphill, by_weight_up, by_bias_up = plain_risks(*climbed, x, y, omega)
    np.testing.assert_allclose(model.head.weight.detach(), weight - 0.5 * (by_weight + by_weight_up), atol=1e-5)
    np.testing.assert_allclose(model.head.bias.detach(), bias - 0.5 * (by_bias + by_bias_up), atol=1e-5)
    assert loop.log[0]["sharpness"] == pytest.approx(omega @ (uphill - risks), abs=1e-5)
    assert loop.log[0]["largest_weight"] == pytest.approx(omega.max(), rel=1e-5)


def test_sharpdro_with_hardly_a_step_uphill_and_equal_weights_takes_erm_s_step_twice_as_far(data, new_model):
    """The mean risk here and the mean risk uphill have the same gradient where uphill is here."""
    gentle = dataclasses.replace(GENTLE, epochs=1, batch_size=200)
    sharp = trained(make("sharpdro", rho=1e-9, eta=0.0, environments="native"), data, new_model(), gentle)
    fast = trained(make("groupdro", eta=0.0), data, new_model(), dataclasses.replace(gentle, lr=2 * gentle.lr))
    pairs = zip(sharp.parameters(), fast.parameters(), strict=True)
    assert all(torch.allclose(p, q, atol=1e-5) for p, q in pairs)


def test_batch_statistics_uphill_are_not_remembered(toy_data, new_model):
    model = new_model().train()
    images = toy_data.labelled.images[:40].float() / 255
    before = {name: value.clone() for name, value in model.named_buffers() if "running" in name}
    with kept_statistics(model):
        inside = model(images)
    assert all(torch.equal(dict(model.named_buffers())[name], value) for name, value in before.items())
    assert torch.equal(inside, model(images))  # of the same batch, as without
    assert not all(torch.equal(dict(model.named_buffers())[name], value) for name, value in before.items())


def test_values_of_sharpdro_that_make_no_sense_are_refused():
    with pytest.raises(UserError, match="sharpdro.rho must be above 0 and sharpdro.eta 0 or more; change --set"):
        make("sharpdro", rho=0.0)
