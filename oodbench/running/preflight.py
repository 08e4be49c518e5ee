"""What is refused before anything trains, and how long the rest will take."""

import time
import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from oodbench.config.suite import Setting
from oodbench.data.parts import build_parts
from oodbench.errors import UserError, shortened
from oodbench.learning import precision
from oodbench.learning.batches import Data
from oodbench.learning.evaluation import TEST_SPLITS
from oodbench.learning.initial_weights import read_weights
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.rehearsal import rehearse
from oodbench.running import network_size, own_networks
from oodbench.running.cells import Training, must_train
from oodbench.running.mistakes import in_words, isolated
from oodbench.running.plan import Plan
from oodbench.running.trained import build_model, extended, frozen, training_data


def choose_device(name: str) -> torch.device:
    """The one place a device is chosen; everything else follows its tensors."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"  # mps has no float64, which some scorers need
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backends that torch no longer has
            device = torch.device(name)
            torch.empty(1, device=device).cpu()
    except Exception as error:  # every backend has its own
        reason = shortened(str(error).partition("\n")[0] or type(error).__name__)
        raise UserError(
            f"the device '{shortened(name)}' cannot be used ({reason}); choose --device auto or cpu"
        ) from None
    if device.type == "cpu":
        if device.index:
            raise UserError(f"there is one CPU here, whatever its cores, and no '{name}'; choose --device cpu")
        return torch.device("cpu")
    return device


def check(plan: Plan, device: torch.device) -> None:
    """What can only be found with the code and the device at hand, still before anything trains."""
    for method in {(cell.method.label, str(cell.training.draw)): cell.method for cell in plan.todo}.values():
        for component in (method.trainer, method.scorer):
            with isolated(component):
                component.make()
    for setting, seed in {cell.setting: cell.seed for cell in plan.todo}.items():
        if setting.covariate in plan.suite.contents.covariate:  # its domains and classes; corruptions come when needed
            build_parts(plan.suite, setting, seed)
    if plan.todo:
        network_size.check(plan.suite)
        untrained = build_model(plan.suite, seed=0)  # which tells what is wrong with its options and weights
        own_networks.rehearse(plan.suite, untrained, device)
        _rehearse(plan, untrained)
        _rehearse_scorers(plan, untrained, device)
    for training in plan.all_trainings.values():
        if training.init is not None:
            read_weights(build_model(training.suite, training.seed), training.init)


class _Rehearsed(Exception):
    """A trainer has come to its first step."""


class _Rehearsal(Loop):
    """Ends where the training would begin."""

    def passes(self, *_: Any, **__: Any) -> Iterator[dict[str, Any]]:
        raise _Rehearsed

    def stage(self, name: str) -> Loop:
        return self


def _rehearse(plan: Plan, untrained: Classifier) -> None:
    """Let trainers that compare environments say what is wrong with these or the batch, on a few images."""
    smallest: dict[Any, tuple[int, Training, Setting]] = {}  # batch of each trainer and number of domains
    for training, cells in plan.trainings.values():
        environments = training.trainer.values.get("environments")
        if environments is None or training.reads_wild or training.init is not None:
            continue
        setting, batch = cells[0].setting, training.recipe.batch_size
        what = (training.trainer.card.name, environments, len(plan.suite.held_out(setting)))
        if what not in smallest or batch < smallest[what][0]:
            smallest[what] = (batch, training, setting)
    for _, training, setting in smallest.values():
        parts = build_parts(training.suite, setting, training.seed)
        rows = np.arange(min(64, len(parts.labelled)))
        if parts.labelled.domains is not None:  # some of each
            rows = np.union1d(rows, np.unique(parts.labelled.domains, return_index=True)[1])
        data = training_data(training.suite, replace(parts, labelled=parts.labelled.take(rows)), setting=None)
        loop = _Rehearsal(training.recipe, 0, torch.device("cpu"))
        try:
            with isolated(training.trainer):
                training.trainer.make().train(_copied(untrained, training, loop.device), data, loop)
        except _Rehearsed:
            continue
        except UserError as error:
            raise UserError(f"'{training.trainer.label}': {error}") from None
        except KeyboardInterrupt:
            raise
        except BaseException:
            if training.trainer.card.is_ours:
                raise
            continue  # a plugin's mistake fails its cells when their turn comes


def _rehearse_scorers(plan: Plan, untrained: Classifier, device: torch.device) -> None:
    """Let plugins fit and score a few images on the untrained network, rather than fail after a training."""
    cells = {
        (cell.method.trainer.label, cell.method.scorer.label): cell
        for cell in plan.todo
        if not cell.method.scorer.card.is_ours
    }
    for cell in cells.values():
        scorer, parts = cell.method.scorer, build_parts(cell.suite, cell.setting, cell.seed)
        try:
            with isolated(cell.method.trainer):
                model = frozen(_copied(untrained, cell.training, device))
        except KeyboardInterrupt:
            raise
        except BaseException:
            if cell.method.trainer.card.is_ours:
                raise
            continue  # a plugin's mistake fails its cells when their turn comes
        try:
            with isolated(scorer):
                rehearse(scorer.make, model, parts)
        except UserError as error:
            raise UserError(f"'{scorer.card.name}': {error}") from error
        except KeyboardInterrupt:
            raise
        except Exception as error:
            words = in_words(scorer.card, error)
            raise UserError(f"{words}; correct it, or leave out '{cell.method.name}'") from error
        except BaseException:
            continue  # what ends more than itself fails its cells when their turn comes


def _copied(untrained: Classifier, training: Training, device: torch.device) -> Classifier:
    """A copy with what a trainer and those it starts from add."""
    return extended(deepcopy(untrained).to(device), training.chain, device)


@dataclass(frozen=True)
class Costs:
    """Seconds that parts of a plan will take."""

    trainings: dict[str, float]  # by key
    cell: float  # the scoring of one

    def of(self, plan: Plan) -> float:
        """Of the whole plan in one process."""
        cells = len(plan.todo) if plan.only is None else 0
        return sum(self.trainings.values()) + self.cell * cells


def costs(plan: Plan, device: torch.device) -> Costs:
    """What is still to do: the images it must pass, at the speed this machine shows on a few batches."""
    if not plan.todo:
        return Costs({}, 0.0)
    suite = plan.suite
    with precision.threads(suite.threads, device):
        parts = build_parts(suite, plan.todo[0].setting, seed=0)
        data = training_data(suite, parts, setting=None)
        per_image = _seconds_per_image(plan, data, device)
    scored = sum(len(getattr(parts, split)) for split in ("labelled", *TEST_SPLITS))
    trainings = {}
    for key, training in plan.all_trainings.items():
        if must_train(training, plan.folder, plan.request.force):
            recipe = training.recipe
            with isolated(training.trainer):
                runs = training.trainer.make().runs
            batch = recipe.batch_size * training.images_of_a_step
            trainings[key] = per_image * runs * recipe.steps(data.steps(recipe)) * batch
    return Costs(trainings, per_image * scored / 3)  # a forward pass is about a third of a training step


def _seconds_per_image(plan: Plan, data: Data, device: torch.device) -> float:
    """Of a training step."""
    model = build_model(plan.suite, seed=0).to(device).train()
    batch = next(data.batches(plan.suite.contents.recipes.scratch, 0, device))
    times = []
    for _ in range(4):
        started = time.perf_counter()
        F.cross_entropy(model(batch.x), batch.y).backward()
        float(model.head.bias.grad.sum())  # type: ignore[union-attr]  # wait for the device
        times.append(time.perf_counter() - started)
    return min(times[1:]) / len(batch)
