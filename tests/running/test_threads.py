"""Threads change the order of sums and so the last digits: they are in the key, and nothing else decides them."""

import pytest
import torch
from command_line import assert_done, smoke

from oodbench.results.folder import read_folder


def _networks(folder, *threads):
    """What each cell's network weighs, and the key of its training."""
    assert_done(smoke(folder, "msp,mixup", "--set", "recipe.batch_size=512", *threads))
    return {each.method: (each.training, each.weights) for each in read_folder(folder)[0]}


@pytest.fixture(params=[1, 2])
def ambient(request):
    """Threads that whoever started the run uses himself."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    return {count: _networks(folder / str(count), "--cpu-threads", count) for count in (1, 2)}


def test_another_number_of_threads_is_another_training(by_threads):
    for method, (key, _) in by_threads[1].items():
        assert by_threads[2][method][0] != key


@pytest.mark.parametrize("count", [1, 2])
def test_the_same_number_gives_the_same_bits_whatever_the_caller_uses(count, ambient, by_threads, tmp_path):
    assert _networks(tmp_path, "--cpu-threads", count) == by_threads[count]
    assert torch.get_num_threads() == ambient


def test_a_suite_that_fixes_none_trains_with_one(ambient, by_threads, tmp_path):
    assert _networks(tmp_path) == by_threads[1]
