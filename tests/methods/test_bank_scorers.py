"""Scorers that compare rows with the bank: NNGuide and Relation against brute force, alone and beside KNN."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scorer_problems import outputs
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.errors import UserError
from oodbench.learning import bank
from oodbench.torchvision_import import import_with_torchvision

import_with_torchvision("torchvision")  # pytorch-ood imports it
detector = pytest.importorskip("pytorch_ood.detector", reason="needs pytorch-ood, which the dev extra installs")

KNN, NNGuide, Relation = (load_class(Registry().card(name)) for name in ("knn", "nnguide", "relation"))
ROWS, DIM, CLASSES = 400, 24, 6
every_problem = pytest.mark.parametrize("name", ["relu", "rank k - 1", "no bias", "signed"])
every_size = pytest.mark.parametrize(("rows", "bank_rows"), [(1, 1), (3, 5), (8, 60), (1000, 17)])
close = partial(assert_allclose, rtol=1e-6, atol=1e-9)  # ln 3 of a logit is rounded to float32


def problem(name):
    """Training and test outputs: correlated features around class means, half of them exactly zero unless signed."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    means, mixing = 1.2 * draw(CLASSES, DIM), torch.eye(DIM) + draw(DIM, DIM) / 8
    weight = means / 3 + draw(CLASSES, DIM) / 8
    head = nn.Linear(DIM, CLASSES, bias=name != "no bias")
    with torch.no_grad():
        head.weight.copy_(weight - weight.mean(dim=0) if name == "rank k - 1" else weight)
        if head.bias is not None:
            head.bias.copy_(draw(CLASSES))

    def rows(count, spread=1.0):
        features = spread * means[torch.arange(count) % CLASSES] + draw(count, DIM) @ mixing
        return features if name == "signed" else features.relu()

    train, known, unknown = rows(ROWS), rows(100), rows(50, spread=-0.5)
    train[7] = 0  # a row without direction
    test = torch.cat([known, unknown, torch.zeros(1, DIM)])
    return outputs(train, head, torch.arange(ROWS) % CLASSES), outputs(test, head)


def scores(scorer, train, test):
    with torch.no_grad():
        scorer.fit(train)
        return scorer.score(test).numpy()


def agree(got, expected):
    """Within 1e-4 of a standard deviation, the unit in which a difference could matter."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert got.shape == expected.shape and np.isfinite(expected).all() and expected.std() > 0
    assert np.abs(got - expected).max() <= 1e-4 * expected.std()


def doubles(*tensors):
    return [t.double().numpy() for t in tensors]


def unit(rows):
    """A row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def nnguide_by_numpy(train, test, k):
    bank, rows, bank_logits, logits = doubles(train.features, test.features, train.logits, test.logits)
    guides = logsumexp(bank_logits, axis=1, keepdims=True) * unit(bank)
    means = [np.mean(sorted(guides @ row)[-k:]) for row in unit(rows)]
    return -logsumexp(logits, axis=1) * means


def relation_by_numpy(train, test, power, threshold):
    bank, rows, bank_logits, logits = doubles(train.features, test.features, train.logits, test.logits)
    found = []
    for row, z in zip(unit(rows), logits, strict=True):
        relations = np.maximum(0, unit(bank) @ row) * (softmax(bank_logits, axis=1) @ softmax(z))
        found.append(-sum(relation**power for relation in relations if relation > threshold))
    return np.array(found)


@every_problem
@pytest.mark.parametrize("k", [1, 10, ROWS])
def test_nnguide_is_the_energy_times_the_mean_of_the_largest_products(name, k):
    train, test = problem(name)
    got = scores(NNGuide(k), train, test)
    agree(got, nnguide_by_numpy(train, test, k))
    theirs = detector.NNGuide(None, train.model.head, k=k).fit_features(train.features, train.y)
    agree(got, theirs.predict_features(test.features))


@every_problem
@pytest.mark.parametrize(("power", "threshold"), [(1.0, 0.03), (2.0, 0.03), (1.5, 0.3), (1.0, 0.0)])
def test_relation_is_the_sum_of_relations_above_the_threshold(name, power, threshold):
    train, test = problem(name)
    agree(scores(Relation(power, threshold), train, test), relation_by_numpy(train, test, power, threshold))


def test_nnguide_of_hand_worked_energies():
    # One logit is its own energy. The bank: (1, 0) of energy 2, (0, 1) of energy 3, (-1, 0) of energy 1, (0, 0) of 9.
    train = outputs([[5.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [0.0, 0.0]], logits=[[2.0], [3.0], [1.0], [9.0]])
    # (3, 4) is (.6, .8): products 1.2, 2.4, -.6, 0. Its energy is 10, then -10: the sign changes with it.
    test = outputs([[3.0, 4.0], [3.0, 4.0]], logits=[[10.0], [-10.0]])
    for k, mean in [(1, 2.4), (2, 1.8), (3, 1.2), (4, 0.75)]:
        close(scores(NNGuide(k), train, test), [-10 * mean, 10 * mean])


def test_nnguide_takes_a_training_row_of_negative_energy_for_one_on_the_other_side():
    # (1, 0) of energy -2: its product with (1, 0) is -2, with (-1, 0) it is 2.
    train = outputs([[1.0, 0.0]], logits=[[-2.0]])
    close(scores(NNGuide(1), train, outputs([[4.0, 0.0], [-4.0, 0.0]], logits=[[1.0], [1.0]])), [2, -2])


def test_relation_of_hand_worked_rows():
    # Probabilities (3/4, 1/4), (1/2, 1/2) and (3/4, 1/4) in the directions (1, 0), (0, 1), (-1, 0).
    ln3 = math.log(3)
    train = outputs([[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0]], logits=[[ln3, 0], [0, 0], [ln3, 0]])
    # (.6, .8) with (1/4, 3/4): .6 * 3/8 = .225, .8 * 1/2 = .4, and the cosine -.6 is none. A row of zeros has none.
    test = outputs([[3.0, 4.0], [0.0, 0.0]], logits=[[0, ln3], [0, ln3]])
    close(scores(Relation(), train, test), [-0.625, 0])
    close(scores(Relation(power=2.0), train, test), [-(0.225**2 + 0.4**2), 0])
    close(scores(Relation(threshold=0.3), train, test), [-0.4, 0])


def test_a_relation_that_equals_the_threshold_counts_as_none():
    # In one class all probabilities are 1: the relations are 1 and 1/2, exactly.
    train = outputs([[1.0, 0, 0, 0], [1.0, 1.0, 1.0, 1.0]], logits=[[0.0], [0.0]])
    close(scores(Relation(threshold=0.25), train, outputs([[1.0, 0, 0, 0]], logits=[[0.0]])), [-1.5])
    relation = outputs([[1.0, 1.0, 1.0, 1.0]]).unit[0, 0].item()
    close(scores(Relation(threshold=relation), train, outputs([[1.0, 0, 0, 0]], logits=[[0.0]])), [-1])


@every_size
@pytest.mark.parametrize("scorer", [NNGuide(), NNGuide(30), Relation(), Relation(2.0)], ids=repr)
def test_blocks_of_any_size_give_the_same_scores(scorer, rows, bank_rows, monkeypatch):
    train, test = problem("relu")
    train, test = outputs(train.features[:60], train.model.head), outputs(test.features[-20:], train.model.head)
    expected = scores(scorer, train, test)
    monkeypatch.setattr(bank, "ROWS", rows)
    monkeypatch.setattr(bank, "BANK_ROWS", bank_rows)
    close(scores(scorer, train, test), expected)


class Watched(TorchDispatchMode):
    """Counts the products of rows and bank, and remembers how many elements the largest tensor had that was computed.

    Views and what is computed into a given tensor are none.
    """

    def __init__(self, dim):
        super().__init__()
        self.dim, self.products, self.elements = dim, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        operator, given = function.overloadpacket, storages((args, kwargs))
        self.products += operator == torch.ops.aten.addmm and args[1].shape[1] == self.dim
        if operator not in (torch.ops.aten.empty, torch.ops.aten.new_empty):
            new = [elements for place, elements in storages(made).items() if place not in given]
            self.elements = max([self.elements, *new])
        return made


def storages(tree):
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return {tensor.untyped_storage().data_ptr(): tensor.numel() for tensor in tensors}


def fitted(train):
    scorers = [KNN(5), NNGuide(), Relation()]
    for scorer in scorers:
        scorer.fit(train)
    return scorers


@pytest.mark.parametrize("sizes", [(1024, 8192), (50, 70)])
def test_scorers_that_share_a_bank_score_as_alone_to_the_bit_and_multiply_once(sizes, monkeypatch):
    monkeypatch.setattr(bank, "ROWS", sizes[0])
    monkeypatch.setattr(bank, "BANK_ROWS", sizes[1])
    train, test = problem("relu")
    scorers, products = fitted(train), []
    assert all(scorer.bank is train.features for scorer in scorers)
    with torch.no_grad():
        for some in ([scorers[0]], scorers):
            with Watched(DIM) as watched:
                together = bank.compare(some, test)
            products.append(watched.products)
        alone = [scorer.score(test) for scorer in scorers]
    assert products[0] == products[1] == math.ceil(151 / sizes[0]) * math.ceil(ROWS / sizes[1])
    assert all(torch.equal(one, other) for one, other in zip(together, alone, strict=True))


@pytest.mark.parametrize("scorer", [NNGuide(), Relation(), Relation(2.0)], ids=repr)
def test_no_more_than_a_slice_of_a_block_is_looked_at_at_a_time(scorer, monkeypatch):
    monkeypatch.setattr(bank, "BANK_ROWS", 512)
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    train, test = outputs(draw(2000, 3), logits=draw(2000, 2)), outputs(draw(4 * bank.SLICE, 3))
    with torch.no_grad():
        scorer.fit(train)
        with Watched(3) as watched:
            scorer.score(test)
    assert watched.products == 4 and watched.elements == bank.SLICE * 512


def test_nnguide_refuses_a_k_beyond_the_training_rows():
    with pytest.raises(UserError) as error:
        NNGuide(ROWS + 1).fit(problem("relu")[0])
    assert str(error.value) == f"nnguide.k={ROWS + 1} is out of range; choose 1 to {ROWS}, the number of training rows"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(NNGuide, 0), "nnguide.k=0 is out of range; choose 1 or more"),
        (partial(Relation, 0.0), "relation.power=0 is out of range; choose more than 0"),
        (partial(Relation, threshold=-0.1), "relation.threshold=-0.1 is out of range; choose 0 to less than 1"),
        (partial(Relation, threshold=1.0), "relation.threshold=1 is out of range; choose 0 to less than 1"),
    ],
)
def test_a_number_out_of_range_is_refused_before_anything_trains(make, message):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value) == message
