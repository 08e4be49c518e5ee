"""Training steps beside the same steps in a bare PyTorch loop: ERM and SCONE, on the network of mnist-c.

    python benchmarks/speed/training.py

The bare loops index the images, compute the loss and step, and average the loss of an epoch; SCONE's also draws the
mixture, and passes the labeled images between epochs for its multipliers, as the method says. The harness does the
same by its own loop, with schedule, progress, log and checks. The network is small, so that what the harness adds
shows. CPU time of one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import copy
import sys
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from subject import CLASSES, images, network, scorers
from timing import TURNS, Row, least, main
from torch import Tensor

from oodbench.config.recipe import Recipe
from oodbench.learning.batches import Data, Split, WildMixture
from oodbench.learning.method import Classifier, Loop
from oodbench.learning.rows import as_rows

GREY = (1, 28, 28)
PI_C, PI_S, MARGIN, ALARMS = 0.5, 0.1, -10.0, 0.05
CPU = torch.device("cpu")


def epochs(
    model: Classifier,
    recipe: Recipe,
    labelled: Split,
    loss: Callable[[Tensor, Tensor], Tensor],
    extra: list[Tensor],
    between: Callable[[], None],
) -> list[float]:
    groups = [{"params": list(model.parameters())}, {"params": extra, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=recipe.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps, log = len(labelled) // recipe.batch_size, []
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.epochs * steps)
    for _ in range(recipe.epochs):
        model.train()
        total = torch.zeros(())
        for rows in torch.randperm(len(labelled)).split(recipe.batch_size):
            value = loss(labelled.images.index_select(0, rows).float() / 255, labelled.y[rows])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            total += value.detach()
        log.append(total.item() / steps)
        between()
    return log


def bare_erm(model: Classifier, recipe: Recipe, labelled: Split) -> None:
    epochs(model, recipe, labelled, lambda x, y: F.cross_entropy(model(x), y), [], lambda: None)


def bare_scone(model: Classifier, recipe: Recipe, labelled: Split, wild: list[Tensor]) -> None:
    u = torch.tensor(0.5, requires_grad=True)
    multipliers, weights = torch.zeros(2), torch.ones(2)
    shares = torch.tensor([1 - PI_C - PI_S, PI_C, PI_S])

    def constrained(logits: Tensor, y: Tensor) -> Tensor:
        alarms = torch.sigmoid(F.softplus(u) * (-logits.logsumexp(1) - MARGIN)).mean()
        return torch.stack([alarms, F.cross_entropy(logits, y)])

    def loss(x: Tensor, y: Tensor) -> Tensor:
        counts = torch.multinomial(shares, len(x), replacement=True).bincount(minlength=3).tolist()
        drawn = zip(wild, counts, strict=True)
        mixed = torch.cat([part.index_select(0, torch.randint(len(part), (n,))) for part, n in drawn])
        both = model(torch.cat([x, mixed.float() / 255]))
        logits, wild_logits = both[: len(x)], both[len(x) :]
        taken_for_id = torch.sigmoid(F.softplus(u) * wild_logits.logsumexp(1)).mean()
        g = constrained(logits, y) - bounds
        penalty = ((multipliers + weights * g).relu().square() - multipliers.square()) / (2 * weights)
        return taken_for_id + penalty.sum()

    @torch.no_grad()
    def on_training_set() -> Tensor:
        model.eval()
        passed = [model(rows.float() / 255) for rows in labelled.images.split(256)]
        return constrained(torch.cat(passed), labelled.y)

    def update() -> None:
        g = on_training_set() - bounds
        multipliers.add_(torch.maximum(g, -multipliers / weights))
        weights.mul_(torch.where(g > 0, 1.5, 1.0))

    bounds = torch.tensor([ALARMS, 2 * on_training_set()[1].item()])
    epochs(model, recipe, labelled, loss, [u], update)


def rows(quick: bool) -> Iterator[Row]:
    recipe = Recipe(epochs=2, batch_size=128, lr=0.001)
    count = 256 if quick else 2560
    split = images(count, GREY)
    labelled = Split(as_rows(split.images), torch.from_numpy(split.labels))
    wild = [torch.from_numpy(images(count, GREY, seed).whole) for seed in (1, 2, 3)]
    start = network("lenet-bn", channels=1).requires_grad_(True)
    erm, scone = (method.make() for method in scorers("erm", "scone"))

    mixture = WildMixture(*wild, pi_c=PI_C, pi_s=PI_S)

    def harness_erm() -> None:
        erm.train(copy.deepcopy(start), Data(labelled, CLASSES), Loop(recipe, seed=0, device=CPU))

    def harness_scone() -> None:
        data = Data(labelled, CLASSES, mixture)
        scone.train_with(MARGIN, copy.deepcopy(start), data, Loop(recipe, seed=0, device=CPU))

    spent = least(
        {
            "bare ERM": lambda: bare_erm(copy.deepcopy(start), recipe, labelled),
            "ERM": harness_erm,
            "bare SCONE": lambda: bare_scone(copy.deepcopy(start), recipe, labelled, wild),
            "SCONE": harness_scone,
        },
        1 if quick else 2 * TURNS,
    )
    for name in ("ERM", "SCONE"):
        yield Row(f"training of {name}, log included : a bare loop", spent[name] / spent[f"bare {name}"], 1.05)


if __name__ == "__main__":
    sys.exit(main(rows, __doc__))
