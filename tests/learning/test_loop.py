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


def test_iterations_are_the_steps_of_a_training_and_its_last_epoch_is_cut(new_model, toy_data):
    loop = Loop(Recipe(iterations=10, batch_size=50, lr=0.1), 0, torch.device("cpu"))
    Trainer().train(new_model(), toy_data, loop)
    assert toy_data.steps(loop.recipe) == 4 and len(loop.log) == 3
    assert loop.steps_in_all == loop.step + 1 == 10


def test_so_many_iterations_as_whole_epochs_have_are_the_same_training(new_model, toy_data):
    trained = []
    for length in ({"epochs": 2}, {"iterations": 8}):
        model = new_model()
        Trainer().train(model, toy_data, Loop(Recipe(batch_size=50, lr=0.1, **length), 0, torch.device("cpu")))
        trained.append(model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(trained[0].values(), trained[1].values(), strict=True))


def test_a_recipe_told_to_last_so_many_iterations_forgets_its_epochs_and_back():
    recipe = Recipe(epochs=3, batch_size=50, lr=0.1)
    assert recipe.changed(iterations=7) == Recipe(iterations=7, batch_size=50, lr=0.1)
    assert recipe.changed(iterations=7).changed(epochs=3) == recipe
    assert recipe.changed(lr=0.2).epochs == 3


def test_there_is_no_optimizer_to_restart_before_epochs(loop, new_model, toy_data):
    with pytest.raises(UserError, match="has none to restart before loop.epochs; call it in the loss"):
        loop.restart_optimizer()
    Trainer().train(new_model(), toy_data, loop)
    loop.restart_optimizer()
    assert not loop._optimizer.state
