"""What the loop knows of a training, and when."""

import pytest
import torch

from oodbench.config.recipe import Recipe
from oodbench.errors import UserError
from oodbench.learning.loop import Loop
from oodbench.learning.method import Trainer


@pytest.fixture
def loop():
    return Loop(Recipe(epochs=2, batch_size=50, lr=0.1), 0, torch.device("cpu"))


def test_the_number_of_steps_is_not_known_before_a_training_runs(loop, new_model, toy_data):
    with pytest.raises(
        UserError, match="steps_in_all is not known before loop.epochs or loop.passes; read it in the l"
    ):
        loop.steps_in_all  # noqa: B018
    Trainer().train(new_model(), toy_data, loop)
    assert loop.steps_in_all == 2 * toy_data.steps(loop.recipe) == 8


def test_there_is_no_optimizer_to_restart_before_epochs(loop, new_model, toy_data):
    with pytest.raises(UserError, match="has none to restart before loop.epochs; call it in the loss"):
        loop.restart_optimizer()
    Trainer().train(new_model(), toy_data, loop)
    loop.restart_optimizer()
    assert not loop._optimizer.state
