"""What a recipe may say beside the usual, each option by hand, and that a training with all of them resumes."""

import itertools

import numpy as np
import pytest
import torch

from oodbench.config.cards import load_class
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Registry
from oodbench.learning.batches import Data, Split
from oodbench.learning.method import Loop, Trainer
from oodbench.testing.toy_problem import Interrupted, toy

CPU = torch.device("cpu")
EVERYTHING = {
    "bn_momentum": 0.4,
    "bn_bias_lr": 16.0,
    "first_layer_epochs": 2,
    "lookahead": 3,
    "schedule": "linear",
    "warmup": 0.23,
    "warmup_from": 0.2,
    "final": 0.07,
    "augment": "alternating-flip",
}


def test_a_triangular_rate_rises_from_a_share_and_falls_to_one():
    recipe = Recipe(epochs=1, batch_size=1, lr=2.0, schedule="linear", warmup=0.25, warmup_from=0.2, final=0.1)
    rates = [recipe.rate(step, 8) for step in range(8)]
    assert rates == pytest.approx([1.2, 2.0, 2.0, 1.7, 1.4, 1.1, 0.8, 0.5])


# Alternating flips.


def seen_in(epoch, images, **recipe):
    split = Split(torch.from_numpy(images), torch.arange(len(images)))
    given = Recipe(epochs=9, batch_size=16, lr=0.1, augment="alternating-flip", **recipe)
    batches = list(Data(split, len(images)).batches(given, 3, CPU, epoch=epoch))
    order = torch.cat([batch.y for batch in batches]).argsort()
    return (torch.cat([batch.x for batch in batches])[order] * 255).round().to(torch.uint8).numpy()


def mirrored(epoch):
    """Of 64 images that are black on the left and white on the right, those that have turned round."""
    images = np.zeros((64, 1, 32, 32), dtype=np.uint8)
    images[..., 16:] = 255
    return seen_in(epoch, images)[:, 0, 16, 0] == 255


def test_half_of_the_images_are_mirrored_at_first_and_every_image_turns_round_from_epoch_to_epoch():
    first, second, third = mirrored(0), mirrored(1), mirrored(2)
    assert first.sum() == 32
    assert (second == ~first).all() and (third == first).all()


def test_images_move_by_up_to_two_pixels_and_their_edges_are_reflected():
    images = np.random.default_rng(0).integers(0, 256, (64, 3, 32, 32), dtype=np.uint8)
    places = set()
    for image, seen in zip(images, seen_in(0, images), strict=True):
        found = []
        for turned, original in enumerate((image, image[..., ::-1])):
            padded = np.pad(original, ((0, 0), (2, 2), (2, 2)), mode="reflect")
            found += [
                (turned, top, left)
                for top in range(5)
                for left in range(5)
                if (padded[:, top : top + 32, left : left + 32] == seen).all()
            ]
        assert len(found) == 1
        places.add(found[0][1:])
    assert len(places) > 15


# What the loop does with weights and rates.


def loop_of(**changes):
    return Loop(Recipe(**{"epochs": 1, "batch_size": 40, "lr": 0.1} | changes), 0, CPU)


def test_lookahead_takes_the_weights_back_to_their_moving_average(new_model, toy_data):
    """A weight that grows by one every step, beside the same average in plain numbers."""
    model, seen = new_model(), []
    weight = model.head.bias
    with torch.no_grad():
        weight.fill_(0.0)

    def grow(batch):
        seen.append(weight[0].item())
        with torch.no_grad():
            weight.add_(1)
        return torch.zeros(())

    loop = loop_of(epochs=3, lookahead=4)  # of 15 steps in all
    for _ in loop.passes(model, Data(toy_data.labelled, 5), grow, [model]):
        pass
    value = average = 0.0
    expected = []
    for step in range(1, 16):
        expected.append(value)
        value += 1
        if step % 4 == 0:
            past = 0.95**4 * (step / 15) ** 3
            average = value = past * average + (1 - past) * value
    assert seen == pytest.approx(expected, abs=1e-5)
    assert weight[0].item() == pytest.approx(average, abs=1e-5)  # the three last steps count for nothing


def test_shifts_of_batch_normalization_have_their_own_rate_and_the_same_decay(new_model, toy_data):
    """One step without momentum: b - lr (g + decay b), and b - k lr (g + decay / k b)."""

    def stepped(**changes):
        model = new_model()
        norm = next(module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d))
        with torch.no_grad():
            norm.bias.fill_(1.0)
        loop = loop_of(iterations=1, epochs=None, momentum=0.0, weight_decay=0.5, **changes)
        for _ in loop.epochs(model, Data(toy_data.labelled, 5), Trainer().loss):
            pass
        return norm.bias.detach() - 1, norm.weight.detach(), model.head.weight.detach()

    (usual, scale, head), (faster, same_scale, same_head) = stepped(), stepped(bn_bias_lr=10.0)
    decay = -0.1 * 0.5
    assert torch.allclose(faster - decay, 10 * (usual - decay), atol=1e-5) and (usual != decay).all()
    assert torch.equal(scale, same_scale) and torch.equal(head, same_head)


@pytest.mark.parametrize("epochs", [0, 2])
def test_the_first_layer_learns_in_so_many_epochs(new_model, toy_data, epochs):
    model = new_model()
    first, second = (module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
    kept = [(first.weight.clone(), second.weight.clone())]
    loop = loop_of(epochs=4, first_layer_epochs=epochs)
    for _ in loop.epochs(model, Data(toy_data.labelled, 5), Trainer().loss):
        kept.append((first.weight.clone(), second.weight.clone()))
    changed = [tuple(not torch.equal(a, b) for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(kept)]
    assert changed == [(epoch < epochs, True) for epoch in range(4)]


def test_batch_normalization_follows_with_the_momentum_of_the_recipe(new_model, toy_data):
    model, given = new_model(), []
    norm = next(module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d))
    norm.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].mean(dim=(0, 2, 3)).detach()))
    loop = loop_of(iterations=2, epochs=None, bn_momentum=1.0)  # only the last batch counts
    for _ in loop.epochs(model, Data(toy_data.labelled, 5), Trainer().loss):
        pass
    assert torch.allclose(norm.running_mean, given[-1], atol=1e-6)


@pytest.mark.parametrize("name", ["erm", "scone"])
def test_a_training_with_all_of_these_resumes_to_the_same_bits(name, tmp_path):
    trainer = load_class(Registry().card(name))
    whole = toy().train(trainer(), **EVERYTHING)
    with pytest.raises(Interrupted):
        toy().train(trainer(), checkpoint=tmp_path / "half.ckpt", fails_after=2, **EVERYTHING)
    assert (tmp_path / "half.ckpt").exists()
    resumed = toy().train(trainer(), checkpoint=tmp_path / "half.ckpt", **EVERYTHING)
    states = [training.model.state_dict() for training in (whole, resumed)]
    assert all(torch.equal(states[0][each], states[1][each]) for each in states[0])
    assert whole.loop.log == resumed.loop.log
    usual = toy().train(trainer(), augment="alternating-flip").model.state_dict()
    assert not torch.equal(states[0]["head.weight"], usual["head.weight"])
