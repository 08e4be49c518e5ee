"""What every trainer promises."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from oodbench.config.cards import OOD_HEAD
from oodbench.config.registry import Registry
from oodbench.learning.outputs import forward
from oodbench.running.mistakes import in_words
from oodbench.testing.contract import Subject, Violation, require, require_some_effect, rule
from oodbench.testing.simulated_device import AwayTensor, simulated
from oodbench.testing.toy_problem import EPOCHS, GradientLoop, Interrupted, Toy


@rule("Trainer", "defaults", "the scorer and the start that a trainer names exist")
def names_what_exists(subject: Subject, problem: Toy) -> None:
    registry = Registry()
    registry.scorer_of(subject.card)
    registry.start_of(subject.card)
    require(subject.card.starts_from != subject.card.name, "it starts from itself")


@rule("Trainer", "defaults", "the loss falls")
def loss_falls(subject: Subject, problem: Toy) -> None:
    # Within one epoch, since some change their objective between epochs.
    if takes_steps(subject, problem):
        losses = problem.losses(subject.make())
        require(sum(losses[-5:]) < sum(losses[:5]), "in twenty steps it does not")


def takes_steps(subject: Subject, problem: Toy) -> bool:
    """Whether it has an optimizer: a control may have none, on purpose."""
    return bool(problem.trained(subject.cls).loop._optimizers)


@rule("Trainer", "defaults", "every trainable weight moves and stays finite")
def weights_move(subject: Subject, problem: Toy) -> None:
    before, model = problem.start(subject.make()), problem.trained(subject.cls).model
    old = dict(before.named_parameters())
    still = [key for key, p in model.named_parameters() if p.requires_grad and torch.equal(p, old[key])]
    expected = [] if takes_steps(subject, problem) else list(old)
    require(still == expected, f"{', '.join(still) or 'none'} did not move")
    require(not same_weights(before, model), "nothing of the network has changed")
    require(all(tensor.isfinite().all() for tensor in model.state_dict().values()), "some weights are not finite")
    kept = [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in before.parameters()]
    require(kept, "afterwards other weights are trainable than before")


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@rule("Trainer", "defaults", "what it learns from wild images or outliers has a gradient that reaches the network")
def outliers_teach(subject: Subject, problem: Toy) -> None:
    # Batch normalization is frozen: its statistics would carry something of any image into the other terms.
    if not subject.card.needs & {"wild", "outliers"} or not takes_steps(subject, problem):
        return
    trainer = subject.make()
    # Longer if need be: a hinge may cost nothing before a network from random weights is sure of something.
    for epochs in (EPOCHS, 4 * EPOCHS):
        model, data = problem.start(trainer), problem.data_for(trainer)
        recipe, oracle = problem.recipe(trainer, epochs=epochs), problem.oracle_for(trainer)
        loop = GradientLoop(recipe, 0, torch.device("cpu"), oracle=oracle)
        torch.manual_seed(0)
        trainer.train(model, data, loop)
        if loop.reached:
            return
    raise Violation("no step's loss has a gradient by the wild images or outliers; is a term detached, or zero?")


@rule("Trainer", "defaults", "an OOD head is there if and only if the trainer says that it adds one")
def adds_what_it_says(subject: Subject, problem: Toy) -> None:
    model, says = problem.trained(subject.cls).model, OOD_HEAD in subject.card.adds
    advice = (
        "extend does not set model.ood_head" if says else f'extend sets one; write adds = frozenset({{"{OOD_HEAD}"}})'
    )
    require(hasattr(model, "ood_head") == says, advice)
    if says:
        found = model.ood_head(torch.zeros(3, model.head.in_features))
        require(found.shape == (3, 1), f"it gives {tuple(found.shape)} for 3 rows, not (3, 1)")


@rule("Trainer", "defaults", "the same seed gives the same weights and another seed others")
def follows_the_seed(subject: Subject, problem: Toy) -> None:
    first, again = problem.trained(subject.cls), problem.train(subject.make())
    is_same = same_weights(first.model, again.model) and first.loop.log == again.loop.log
    require(is_same, "the same seed gives others; draw from torch's global generator")
    other = problem.train(subject.make(), seed=1)
    require(not same_weights(first.model, other.model), "another seed gives the same")


@rule("Trainer", "modes", "a training resumed from its checkpoint ends with the same weights")
def resumes(subject: Subject, problem: Toy) -> None:
    # Where several trainings follow one another, the second is interrupted.
    fails_after = EPOCHS - 1 if subject.make().runs == 1 else 2 * EPOCHS - 1
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "half.ckpt")
        with suppress(Interrupted):
            problem.train(subject.make(), checkpoint=checkpoint, fails_after=fails_after)
            raise Violation("it reads its batches elsewhere than from the loop; use loop.epochs or loop.passes")
        require(any(Path(folder).iterdir()), "the loop has written no checkpoint")
        resumed = problem.train(subject.make(), checkpoint=checkpoint)
    whole = problem.train(subject.make()) if subject.values else problem.trained(subject.cls)
    is_same = same_weights(resumed.model, whole.model) and resumed.loop.log == whole.loop.log
    require(is_same, "it ends with others; hand all that it keeps between steps to the loop, as modules")


@rule("Trainer", "defaults", "predictions after training are deterministic")
def predicts_the_same(subject: Subject, problem: Toy) -> None:
    training, images = problem.trained(subject.cls), problem.data.labelled.images
    model = training.model
    require(not any(module.training for module in model.modules()), "the network is left in training mode")
    first, again = forward(model, images).logits, forward(model, images).logits
    require(torch.equal(first, again), "the same images are predicted otherwise")
    alike = torch.allclose(forward(model, images, size=7).logits, first, rtol=1e-4, atol=1e-5)
    said = "transductive" in training.loop.notes
    require(alike or said, 'they depend on the batch; say so: loop.notes["transductive"] = "..."')
    require(not (alike and said), "they do not depend on the batch, as its notes say")


@rule("Trainer", "modes", "training stays on the device of the model")
def trains_where_it_is(subject: Subject, problem: Toy) -> None:
    short: dict[str, Any] = {"epochs": 1, "batch_size": 100}
    expected = problem.train(subject.make(), **short).loop.log[-1]["loss"]
    with simulated() as device:
        try:
            there = problem.train(subject.make(), device=device, **short)
        except RuntimeError as error:
            if "was given tensors on" not in str(error):
                raise
            raise Violation(
                f"{in_words(subject.card, error)}; make tensors on the device of those you are given"
            ) from error
        require(all(isinstance(p, AwayTensor) for p in there.model.parameters()), "some weights are on the CPU")
    loss = there.loop.log[-1]["loss"]
    require(abs(loss - expected) <= 1e-3 * abs(expected), f"the loss is {loss} there and {expected} here")


@rule("Trainer", "hyperparameters", "every hyperparameter changes the weights")
def hyperparameter_changes_weights(subject: Subject, problem: Toy) -> None:
    def outcome(changed: Subject) -> nn.Module:
        return (problem.train(changed.make()) if changed.values else problem.trained(changed.cls)).model

    def differs(model: nn.Module, default: nn.Module) -> bool:
        return not same_weights(model, default)

    try:
        require_some_effect(subject, outcome, differs)
    except Violation:
        if "environments" not in subject.card.parameters or subject.key == "environments":
            raise
        # Some values differ only among more than two environments.
        require_some_effect(replace(subject, values={"environments": "random:3"}), outcome, differs)
