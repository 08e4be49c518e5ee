"""Carries out trainings and cells, one by one or all that a plan has left to do."""

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oodbench import digests
from oodbench.config.registry import Component
from oodbench.config.suite import Setting
from oodbench.data import splits
from oodbench.errors import UserError
from oodbench.files import write_atomically
from oodbench.learning import domain_accuracy, precision
from oodbench.learning.evaluation import Evaluation, KeyedScorer
from oodbench.learning.loop import Failed, Loop
from oodbench.learning.method import Trainer
from oodbench.learning.networks import Classifier
from oodbench.results import result as results
from oodbench.results.metrics import Scored
from oodbench.results.result import Result
from oodbench.running import provenance, trained
from oodbench.running.cells import Cell, Training
from oodbench.running.mistakes import users_mistakes
from oodbench.running.plan import Plan
from oodbench.running.preflight import check as check
from oodbench.running.preflight import estimate as estimate
from oodbench.running.reporting import Reporter
from oodbench.running.trained import Trained, Unusable, weights_file
from oodbench.running.workplace import Last, Workplace, arithmetic
from oodbench.running.workplace import Options as Options
from oodbench.seeds import derive

OUTPUTS = "outputs"  # the folder of written outputs inside a results folder


class UnusableWeights(UserWarning):
    """Stored weights were not what they should be, so they are trained again."""


def choose_device(name: str) -> torch.device:
    """The one place a device is chosen; everything else follows its tensors."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"  # mps has no float64, which some scorers need
    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the device '{name}' cannot be used ({reason}); choose --device auto or cpu") from None
    return device


def execute(
    plan: Plan, device: torch.device, reporter: Reporter, force: bool = False, options: Options | None = None
) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    check(plan, device)
    _check_writable(plan.folder)
    waiting = _steps(plan, force)
    numbers = {training.key: number for number, (training, *_) in enumerate(waiting, start=1)}
    at = Workplace(plan.folder, device, reporter, options or Options(), force, numbers)
    new: list[Result] = []
    only_claimed_left = False
    while waiting:
        postponed: list[_Step] = []
        for step in waiting:
            training = step[0]
            # What another process has claimed comes later, and so does what starts from it; when only such is left,
            # wait for it and use its results.
            starts_later = training.parent is not None and training.parent.key in {each[0].key for each in postponed}
            if starts_later:
                postponed.append(step)
                continue
            with at.claim(training, wait=only_claimed_left) as mine:
                if not mine:
                    postponed.append(step)
                    continue
                new += _carry_out(step, at)
        only_claimed_left = len(postponed) == len(waiting)
        waiting = postponed
    return new


_Step = tuple[Training, Setting, list[Cell]]  # a training, a setting to take its images from, and its cells


def _steps(plan: Plan, force: bool) -> list[_Step]:
    """Every training that has cells to run, and before it those that it starts from and that have yet to be trained."""
    steps: dict[str, _Step] = {}
    for training, cells in plan.trainings.values():
        parents: list[Training] = []
        each = training
        while each.parent is not None and _must_train(each, plan.folder, force):
            each = each.parent
            parents.insert(0, each)
        for each in parents:
            if _must_train(each, plan.folder, force):
                own = plan.trainings[each.key][1] if each.key in plan.trainings else []
                steps.setdefault(each.key, (each, cells[0].setting, own))
        steps.setdefault(training.key, (training, cells[0].setting, cells))
    return list(steps.values())


def _must_train(training: Training, folder: Path, force: bool) -> bool:
    return training.init is None and (force or not weights_file(training.key, folder).exists())


def _carry_out(step: _Step, at: Workplace) -> list[Result]:
    training, setting, cells = step
    left = cells if at.force else [cell for cell in cells if not cell.is_done()]
    if left or not cells:  # without cells, others start from it
        with suppress(Failed):  # a failure is told by the cells of the training and of those that start from it
            train_one(training, at, setting)
    return [score_one(cell, at) for cell in left]


def train_one(training: Training, at: Workplace, setting: Setting | None = None) -> Trained:
    """The network of a training: its stored weights, or those it has after training now; `Failed` if that fails.

    Works in any process, whatever others do: what a training starts from is trained first if need be. Where the weights
    depend on no setting, `setting` is one whose images are at hand.
    """
    if training.key in at.failures:
        raise at.failures[training.key]
    if at.last is None or at.last.key != training.key:
        at.last = None  # whose outputs make room
        with at.claim(training), arithmetic(training.suite, at.device, at.options.deterministic):
            try:
                with users_mistakes(training.trainer):
                    network = _trained(training, at, setting or training.setting or training.suite.settings[0])
            except Failed as failure:
                at.failures[training.key] = failure
                raise
        at.last = Last(training.key, network)
    return at.last.network


def _trained(training: Training, at: Workplace, setting: Setting) -> Trained:
    network = None
    if at.force and training.init is None and training.key not in at.anew:
        _forget_checkpoints(training, at)
    else:
        network = _stored(training, at)
    if network is None:
        network = _train(training, at, setting)
        at.anew.add(training.key)
    elif at.compiles:
        precision.compile_body(network.model)
    _forget_checkpoints(training, at)  # also those of a run that was killed just after its last epoch
    return network


def _stored(training: Training, at: Workplace) -> Trained | None:
    try:
        return trained.stored(training, at.folder, at.device)
    except Unusable as problem:
        aside = trained.set_aside(training, at.folder)
        warnings.warn(f"{problem}; it is '{aside.name}' now, and trained again", UnusableWeights, stacklevel=2)
        return None


def _train(training: Training, at: Workplace, setting: Setting) -> Trained:
    model = trained.started(training, at.device)
    if training.parent is not None:
        try:
            parent = train_one(training.parent, at, setting)
        except Failed as failure:
            name = training.parent.trainer.card.name
            raise Failed(f"'{name}', which it starts from: {failure}") from failure
        model.load_state_dict(parent.model.state_dict())
    at.announce(training)
    trainer: Trainer = training.trainer.make()
    parts = at.parts(training.suite, setting, training.seed)
    data = trained.training_data(training.suite, parts, setting if training.reads_wild else None)
    data = data.on(at.device, _room(at.device))
    loop = Loop(
        training.recipe,
        derive(training.seed, "train"),
        at.device,
        weights_file(training.key, at.folder, "ckpt"),
        at.reporter.progress,
        domain_accuracy.observer(splits.dataset(training.suite.contents.id.dataset).domains, parts),
    )
    trained.extended(model, [training], at.device)
    if at.compiles:
        precision.compile_body(model)
    started = time.perf_counter()
    trainer.train(model, data, loop)
    seconds = time.perf_counter() - started
    trained.write(training, at.folder, model, loop, seconds)
    return Trained(trained.frozen(model), loop.log, loop.notes, seconds)


def _room(device: torch.device) -> int:
    """Bytes of a GPU that a training's images may take: a quarter of what is free. On a CPU no image has to move."""
    return torch.cuda.mem_get_info(device)[0] // 4 if device.type == "cuda" else 0


def _forget_checkpoints(training: Training, at: Workplace) -> None:
    for path in (at.folder / results.WEIGHTS).glob(f"{training.key}.*ckpt"):
        path.unlink(missing_ok=True)


def score_one(cell: Cell, at: Workplace) -> Result:
    """The result of a cell, written: its network, trained if need be, under its scorer. A failure is a result too.

    Cells of one training that come one after the other share its outputs.
    """
    network: Trained | None = None
    scored: dict[str, Scored] = {}
    seconds: dict[str, float] = {}
    failure: Failed | None = None
    with arithmetic(cell.suite, at.device, at.options.deterministic):
        parts = at.parts(cell.suite, cell.setting, cell.seed)
        try:
            network = train_one(cell.training, at, cell.setting)
            at.announce(cell.training)
            with users_mistakes(cell.method.scorer), precision.nondeterminism_warns():
                arrays, spent = _evaluation(cell, at).score(keyed(cell.method.scorer), parts)
            scored = {split: Scored(**vars(each)) for split, each in arrays.items()}
            seconds = {"train": network.seconds, **spent}
        except Failed as problem:
            failure = problem
        device = provenance.device_name(at.device, *at.run_flags)
    result = provenance.result(cell, parts, device, network, scored, seconds, failure)
    results.write(result, cell.path, scored, network.log if network else [])
    at.announce(cell.training)  # which failed before it could begin
    at.reporter.result(result)
    return result


def keyed(scorer: Component) -> KeyedScorer:
    """A component of a plan as `learning` knows it."""
    return KeyedScorer(scorer.make(), scorer.card.name, repr(scorer.identity()))


def _evaluation(cell: Cell, at: Workplace) -> Evaluation:
    last = at.last
    assert last is not None and last.key == cell.training.key
    if last.evaluation is None:
        labelled = at.parts(cell.suite, cell.setting, cell.seed).labelled
        write_to = _outputs_file(cell.training, last.network.model, at.folder) if at.options.keep_outputs else None
        last.evaluation = Evaluation(last.network.model, labelled, write_to)
    return last.evaluation


def _outputs_file(training: Training, model: Classifier, folder: Path) -> Callable[[str], Path]:
    """The file for a network's outputs of images with a digest; its name counts weights, code and precision."""
    network = digests.of_text(f"{training.key} {provenance.weights_digest(model)}")
    return lambda digest: folder / OUTPUTS / f"{network}-{digest}.pt"


def _check_writable(folder: Path) -> None:
    probe = folder / f".writable-{os.getpid()}"
    write_atomically(probe, lambda file: None)
    probe.unlink(missing_ok=True)


def write_splits(plan: Plan) -> None:
    """Beside the results, which rows of which data set play which part: a file for each setting and seed."""
    for cell in {(cell.setting, cell.seed): cell for cell in plan.cells}.values():
        path = cell.path.parent.parent / f"splits-seed{cell.seed}.npz"
        _write_rows(splits.build(plan.suite, cell.setting, cell.seed), path)


def _write_rows(parts: splits.Parts, path: Path) -> None:
    arrays: dict[str, Any] = {name: part.rows for name, part in parts.items().items()}
    arrays |= {f"{name}.origin": np.array(part.origin) for name, part in parts.items().items()}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))
