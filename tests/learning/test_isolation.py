"""What a component leaves behind. Random numbers, threads and gradients are as they were before."""

import random

import numpy as np
import pytest
import torch

from oodbench.learning.precision import fresh_state


def drawn():
    return torch.rand(1).item(), np.random.rand(), random.random()


def test_random_numbers_do_not_depend_on_what_ran_before():
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        with fresh_state():
            found.append(drawn())
    assert found[0] == found[1]


def test_whoever_comes_after_draws_as_if_nothing_had_run():
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    with pytest.raises(ZeroDivisionError), fresh_state():
        drawn()
        raise ZeroDivisionError
    after = drawn()
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    assert drawn() == after


def test_threads_and_gradients_are_as_they_were():
    threads = torch.get_num_threads()
    with fresh_state():
        torch.set_num_threads(threads + 1)
        torch.set_grad_enabled(False)
    assert torch.get_num_threads() == threads and torch.is_grad_enabled()
