"""KNN's blocks: exact whatever their size, and small whatever the bank."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from oodbench.config.cards import load_class
from oodbench.config.registry import Registry
from oodbench.learning import bank
from oodbench.learning.method import Outputs

KNN = load_class(Registry().card("knn"))


def outputs(count, dim=6, seed=0):
    features = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
    return Outputs(None, torch.empty(count), features, torch.empty(count, 2))


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that an operation made."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *(tensor.numel() for tensor in tensors)])
        return made


def brute_force(k, train, test):
    bank, rows = (x.features.double().numpy() for x in (train, test))
    bank, rows = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (bank, rows))
    return np.sort(np.sqrt(((rows[:, None] - bank[None]) ** 2).sum(-1)), axis=1)[:, k - 1]


@pytest.mark.parametrize("k", [1, 4, 11, 37])
@pytest.mark.parametrize(("rows", "bank_rows"), [(1, 1), (3, 5), (8, 37), (100, 10)])
def test_blocks_of_any_size_give_the_distances_of_brute_force(k, rows, bank_rows, monkeypatch):
    monkeypatch.setattr(bank, "ROWS", rows)
    monkeypatch.setattr(bank, "BANK_ROWS", bank_rows)
    train, test = outputs(37), outputs(9, seed=1)
    scorer = KNN(k)
    scorer.fit(train)
    np.testing.assert_allclose(scorer.score(test).numpy(), brute_force(k, train, test), rtol=1e-9)


def test_a_row_of_the_bank_is_at_no_distance_from_itself():
    train = outputs(30)
    scorer = KNN(1)
    scorer.fit(train)
    np.testing.assert_allclose(scorer.score(train).numpy(), 0, atol=1e-7)  # the root of what float64 rounds


def test_no_tensor_grows_with_the_bank(monkeypatch):
    monkeypatch.setattr(bank, "ROWS", 16)
    monkeypatch.setattr(bank, "BANK_ROWS", 64)
    sizes = []
    for rows in (640, 6400):
        scorer, train, test = KNN(5), outputs(rows), outputs(40)
        with torch.no_grad(), Largest() as largest:
            scorer.fit(train)
            scorer.score(test)
        sizes.append(largest.elements)
    assert sizes[0] == sizes[1] == 16 * 64


def test_distances_take_64_megabytes_at_most():
    assert bank.ROWS * bank.BANK_ROWS * 8 <= 64 * 2**20
