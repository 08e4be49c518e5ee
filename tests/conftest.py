"""One toy problem for all tests: that of the contract, whose data, network and outputs are fixtures here."""

import os

import pytest
import torch
from torch import Tensor

from oodbench.learning.batches import Data
from oodbench.learning.method import Classifier, Outputs
from oodbench.testing.toy_problem import toy, toy_classifier

for variable in ("OODBENCH_RESULTS", "OODBENCH_DEVICE"):  # of whoever runs the tests
    os.environ.pop(variable, None)

torch.set_num_threads(1)  # tensors this small only lose by sharing; every test is faster so


@pytest.fixture(scope="session")
def new_model():
    """A function that gives the untrained toy network."""
    return toy_classifier


@pytest.fixture(scope="session")
def toy_data() -> Data:
    return toy().data


@pytest.fixture(scope="session")
def toy_weights() -> dict[str, Tensor]:
    return toy().weights


@pytest.fixture
def toy_model(toy_weights: dict[str, Tensor]) -> Classifier:
    """The trained toy network, frozen as a run freezes it."""
    model = toy_classifier()
    model.load_state_dict(toy_weights)
    return model.eval().requires_grad_(False)


@pytest.fixture
def train_outputs() -> Outputs:
    return toy().train_outputs()


@pytest.fixture
def unseen_outputs() -> Outputs:
    return toy().unseen_outputs()
