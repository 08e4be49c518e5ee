"""What is refused before anything trains, and how long the rest will take."""

import time
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from oodbench.config.recipe import Recipe
from oodbench.config.suite import Setting, Suite
from oodbench.data import counting
from oodbench.data.parts import build_parts
from oodbench.errors import UserError, shortened
from oodbench.learning import precision, rehearsal
from oodbench.learning.batches import Data
from oodbench.learning.initial_weights import read_weights
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.precision import fresh_state
from oodbench.running import network_size, own_networks
from oodbench.running.cells import Training, files_of_training
from oodbench.running.costs import Costs, Pace, cpu, kind_of, remember, remembered
from oodbench.running.costs import costs as costs_of
from oodbench.running.mistakes import in_words
from oodbench.running.plan import Plan
from oodbench.running.trained import build_model, extended, frozen, training_data

NOBODYS: frozenset[Path] = frozenset()  # files of users: of shipped code there are none


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
            raise UserError(
                f"there is only one CPU device, regardless of its cores, and no '{name}'; choose --device cpu"
            )
        return torch.device("cpu")
    return device


def check(plan: Plan, device: torch.device) -> None:
    """What can only be found with the code and the device at hand, still before anything trains; no code of plugins."""
    _make_components(plan, NOBODYS)
    for setting, seed in {cell.setting: cell.seed for cell in plan.todo}.items():
        if setting.covariate in plan.suite.contents.covariate:  # its domains and classes; corruptions come when needed
            build_parts(plan.suite, setting, seed)
    if plan.todo:
        network_size.check(plan.suite)
        untrained = build_model(plan.suite, seed=0)  # which tells what is wrong with its options and weights
        own_networks.rehearse(plan.suite, untrained, device)
        _rehearse(plan, untrained, NOBODYS)
    for training in plan.all_trainings.values():
        if training.init is not None:
            read_weights(build_model(training.suite, training.seed), training.init)


def rehearse(plan: Plan, device: torch.device, files: frozenset[Path]) -> None:
    """Let the trainers and scorers of users' files try a few images, rather than fail after a training."""
    if files and plan.todo:
        _make_components(plan, files)
        untrained = build_model(plan.suite, seed=0)
        _rehearse(plan, untrained, files)
        _rehearse_scorers(plan, untrained, device, files)


def _make_components(plan: Plan, files: frozenset[Path]) -> None:
    for method in {(cell.method.label, str(cell.training.draw)): cell.method for cell in plan.todo}.values():
        for component in (method.trainer, method.scorer):
            if component.card.path in files if files else component.card.is_ours:
                with fresh_state():
                    component.make()


class _Rehearsed(Exception):
    """A trainer has come to its first step."""


class _Rehearsal(Loop):
    """Ends where the training would begin."""

    def passes(self, *_: Any, **__: Any) -> Iterator[dict[str, Any]]:
        raise _Rehearsed

    def stage(self, name: str) -> Loop:
        return self


def _rehearse(plan: Plan, untrained: Classifier, files: frozenset[Path]) -> None:
    """Let trainers that compare environments say what is wrong with these or the batch, on a few images."""
    smallest: dict[Any, tuple[int, Training, Setting]] = {}  # batch of each trainer and number of domains
    for training, cells in plan.trainings.values():
        environments = training.trainer.values.get("environments")
        if environments is None or training.reads_wild or training.init is not None:
            continue
        own = files_of_training(training)
        if bool(own) != bool(files) or not own <= files:
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
            with fresh_state():
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


def _rehearse_scorers(plan: Plan, untrained: Classifier, device: torch.device, files: frozenset[Path]) -> None:
    """Let plugins fit and score a few images on the untrained network, rather than fail after a training."""
    cells = {
        (cell.method.trainer.label, cell.method.scorer.label): cell
        for cell in plan.todo
        if not cell.method.scorer.card.is_ours and cell.files <= files
    }
    for cell in cells.values():
        scorer, parts = cell.method.scorer, build_parts(cell.suite, cell.setting, cell.seed)
        try:
            with fresh_state():
                model = frozen(_copied(untrained, cell.training, device))
        except KeyboardInterrupt:
            raise
        except BaseException:
            if cell.method.trainer.card.is_ours:
                raise
            continue  # a plugin's mistake fails its cells when their turn comes
        try:
            with fresh_state():
                rehearsal.rehearse(scorer.make, model, parts)
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


MEASURED = 3  # steps of a kind, after one to warm up
PATIENCE = 2.0  # seconds after which no further one is begun


def costs(plan: Plan, device: torch.device, anew: bool = False) -> Costs:
    """Of what is still to do and has its data, at the pace that this machine has shown, or shows now on a few batches.

    `anew`: also where it is remembered.
    """
    if not plan.todo:
        return Costs({}, 0.0)
    name = device_kind(device, plan.suite.threads)
    trainings = [*plan.all_trainings.values(), *(cell.training for cell in plan.todo)]
    kinds = {kind_of(plan.suite, each.recipe): each.recipe for each in trainings}
    known = remembered(name)
    unknown = {kind: recipe for kind, recipe in kinds.items() if anew or known(plan.suite, recipe) is None}
    parts = {setting: build_parts(plan.suite, setting, seed=0) for setting in {cell.setting for cell in plan.todo}}
    paces = {kind: known(plan.suite, recipe) for kind, recipe in kinds.items()}
    if unknown:
        with precision.threads(plan.suite.threads, device):
            data = training_data(plan.suite, next(iter(parts.values())), setting=None)
            measured = {kind: _pace(plan.suite, recipe, data, device) for kind, recipe in unknown.items()}
        remember(name, measured)
        paces |= measured

    def runs(training: Training) -> int:
        if not training.trainer.card.is_ours:  # whose code does not run here
            return 1
        with fresh_state():
            return int(training.trainer.make().runs)

    found = costs_of(
        replace(plan, waiting=[]),
        lambda suite, recipe: paces[kind_of(suite, recipe)],
        lambda _, setting: counting.of_parts(parts[setting]),
        runs,
    )
    assert found is not None
    return found


def device_kind(device: torch.device, threads: int) -> str:
    """The name under which the pace of a device is remembered."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu(threads) if device.type == "cpu" else str(device)


def _pace(suite: Suite, recipe: Recipe, data: Data, device: torch.device) -> Pace:
    """Of training steps, with their batches, and of passes forward."""
    model = build_model(suite, seed=0).to(device).train()
    steps = data.batches(recipe, 0, device, 1 + MEASURED)

    def step() -> int:
        batch = next(steps)
        F.cross_entropy(model(batch.x), batch.y).backward()
        float(model.head.weight.grad.sum())  # type: ignore[union-attr]  # wait for the device
        return len(batch)

    trained = _images_per_second(step)
    images = next(data.batches(recipe, 0, device, 1)).x
    model.eval()

    @torch.inference_mode()
    def score() -> int:
        float(model(images).sum())
        return len(images)

    return Pace(trained, _images_per_second(score))


def _images_per_second(act: Callable[[], int]) -> float:
    """At best, for a machine may do other things too."""
    act()
    best, began = 0.0, time.perf_counter()
    for _ in range(MEASURED):
        started = time.perf_counter()
        count = act()
        best = max(best, count / (time.perf_counter() - started))
        if time.perf_counter() - began > PATIENCE:
            break
    return best
