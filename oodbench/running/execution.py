"""One training, or one cell: the network is trained or loaded, its outputs are scored, and the result is written."""

import time
from collections.abc import Iterable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oodbench import digests
from oodbench.config import identity
from oodbench.config.cards import BUDGET
from oodbench.config.registry import Component
from oodbench.config.suite import Setting
from oodbench.data import lookup
from oodbench.data.parts import Parts, build_parts
from oodbench.files import is_since, write_atomically
from oodbench.learning import domain_accuracy, precision, seen
from oodbench.learning.batches import Data
from oodbench.learning.evaluation import Evaluation, KeyedScorer, SplitScores
from oodbench.learning.loop import Failed, Loop
from oodbench.learning.method import Trainer
from oodbench.results import metrics
from oodbench.results import result as results
from oodbench.results.metrics import Scored
from oodbench.results.result import Result
from oodbench.results.stored import write
from oodbench.running import provenance, trained, training_path
from oodbench.running.cells import Cell, Source, Training, files_of_training, weights_file
from oodbench.running.kept_outputs import KeptOutputs
from oodbench.running.mistakes import at_work, network_at_work, users_mistakes
from oodbench.running.plan import Plan
from oodbench.running.reporting import training_name
from oodbench.running.session import Last, Session, arithmetic
from oodbench.running.trained import Trained, Unusable
from oodbench.seeds import derive


def train_one(training: Training, at: Session, setting: Setting | None = None, source: Source | None = None) -> Trained:
    """The network of a training: its stored weights, or those it has after training now; `Failed` if that fails.

    Works in any process, whatever others do: what a training starts from is trained first if need be. Where the weights
    depend on no setting, `setting` is one whose images are at hand.
    """
    if at.last is None or at.last.key != training.key:
        at.last = None  # whose outputs make room
        with at.hold(source or Source(training), wait=True):
            try:
                with at_work(training.trainer), network_at_work(training.suite):
                    is_loaded = source is not None and source.is_loaded
                    network = _trained(training, at, setting or training.suite.settings[0], is_loaded)
            except Failed as failure:
                at.note_failure((source or Source(training)).key, str(failure), failure.traceback)
                raise
        at.forget_failure((source or Source(training)).key)
        at.last = Last(training.key, network)
    return at.last.network


def _trained(training: Training, at: Session, setting: Setting, is_loaded: bool) -> Trained:
    network = None
    if at.has_weights(training):
        network = _stored(training, at, setting)
    else:
        _forget_checkpoints(training, at, before=at.since if at.asked.force else 0)
    if network is None and is_loaded:
        raise Failed("its weights are gone; the same command trains them again")
    if network is None:
        network = _train(training, at, setting)
    if at.compiles:
        precision.compile_body(network.model)
    _forget_checkpoints(training, at)  # also those of a run that was killed just after its last epoch
    return network


def _stored(training: Training, at: Session, setting: Setting) -> Trained | None:
    def data() -> dict[str, str]:
        return seen.digests_of(_data(training, at, setting))

    try:
        return trained.stored(training, at.folder, at.device, data)
    except Unusable as problem:
        aside = trained.set_aside(training, at.folder)
        at.tell.note(f"note: {problem}; it was renamed to '{aside.name}', and the training starts over")
        return None


def _train(training: Training, at: Session, setting: Setting) -> Trained:
    model = trained.started(training, at.device)
    if training.parent is not None:
        try:
            theirs = files_of_training(training)
            source = Source(training.parent, theirs, is_loaded=theirs != files_of_training(training.parent))
            parent = train_one(training.parent, at, setting, source)
        except Failed as failure:
            name = training.parent.trainer.card.name
            raise Failed(f"'{name}', which it starts from: {failure}") from failure
        model.load_state_dict(parent.model.state_dict())
    at.tell.announce(training)
    trainer: Trainer = training.trainer.make()
    parts = at.parts(training.suite, setting, training.seed)
    given = _data(training, at, setting)
    before = seen.digests_of(given)
    if training.parent is None:
        trained.prepare(model, training.suite, given)
    data = given.on(at.device, _room(at.device))
    domains = lookup.dataset(training.suite.contents.id.dataset).domains
    observers = (
        domain_accuracy.observer(domains, parts),
        training_path.observer(training, setting, parts, at.asked.path),
    )
    loop = Loop(
        deepcopy(training.recipe),  # which other trainings share
        derive(training.seed, "train"),
        at.device,
        weights_file(training.key, at.folder, "ckpt"),
        partial(at.progress, training),
        [each for each in observers if each is not None],
        lambda text: at.tell.note(f"note: {training_name(training)}: {text}"),
    )
    if "labels" in training.trainer.card.needs:
        assert given.wild is not None
        loop.oracle = trained.oracle(parts, given.wild, training.trainer.values[BUDGET])
    with arithmetic(training.suite, at.device, at.asked.deterministic):
        trained.extended(model, [training], at.device)
        if at.compiles:
            precision.compile_body(model)
        started = time.perf_counter()
        trainer.train(model, data, loop)
        seconds = time.perf_counter() - started
    seen.refuse_changed(before, seen.digests_of(data))
    return trained.keep(training, at.folder, model, loop, seconds, before)


def _data(training: Training, at: Session, setting: Setting) -> Data:
    """Copies of the images and labels that it may read, for it alone."""
    parts = at.parts(training.suite, setting, training.seed)
    return trained.data_of(training, parts, setting)


def _room(device: torch.device) -> int:
    """Bytes of a GPU that a training's images may take: a quarter of what is free. On a CPU no image has to move."""
    return torch.cuda.mem_get_info(device)[0] // 4 if device.type == "cuda" else 0


def _forget_checkpoints(training: Training, at: Session, before: int | None = None) -> None:
    """All, or those that were written before that time."""
    for path in (at.folder / results.WEIGHTS).glob(f"{training.key}.*ckpt"):
        if before is None or not is_since(path, before):
            path.unlink(missing_ok=True)


def score_one(cell: Cell, at: Session, source: Source | None = None) -> Result:
    """The result of a cell, written: its network, trained if need be, under its scorer. A failure is a result too.

    Cells of one training that come one after the other share its outputs.
    """
    parts = at.parts(cell.suite, cell.setting, cell.seed)
    try:
        network = train_one(cell.training, at, cell.setting, source)
    except Failed as failure:
        return failed_result(cell, failure, at)
    digest = network.digest
    scored: dict[str, Scored] = {}
    measured: dict[str, float] = {}
    spent: dict[str, float] = {}
    failed: Failed | None = None
    with arithmetic(cell.suite, at.device, at.asked.deterministic):
        try:
            scoring = at_work(cell.method.scorer)
            with scoring, network_at_work(cell.suite), precision.nondeterminism_warns():
                arrays, spent = _scored(cell, at, parts)
            if provenance.weights_digest(network.model) != digest:
                at.last = None  # the next cell reads it again
                raise changed_network(cell.method.scorer)
            with users_mistakes(cell.method.scorer.card):  # who may have given what nobody can measure
                scored = {split: Scored(**vars(each)) for split, each in arrays.items()}
                measured = metrics.evaluate(**scored)
            spent = {"train": network.seconds, **spent}
        except Failed as failure:
            failed, spent = failure, {}
        device = provenance.device_name(at.device, *at.run_flags)
    result = provenance.result(cell, parts, device, network, measured, spent, failed)
    return write(result, cell.path, scored if measured else {}, network.log)


def changed_network(scorer: Component) -> Failed:
    return Failed(
        f"'{scorer.card.name}' changed the network, which is to be the same for every image and scorer; change a copy: "
        "copy.deepcopy(out.model)"
    )


def failed_result(cell: Cell, failure: Failed, at: Session) -> Result:
    """The result of a cell that has no network, or that ended its worker, written."""
    parts = at.parts(cell.suite, cell.setting, cell.seed)
    with arithmetic(cell.suite, at.device, at.asked.deterministic):
        device = provenance.device_name(at.device, *at.run_flags)
    return write(provenance.result(cell, parts, device, None, {}, {}, failure), cell.path, {}, [])


def keyed(scorer: Component) -> KeyedScorer:
    """A component of a plan as `learning` knows it."""
    return KeyedScorer(scorer.make(), scorer.card.name, repr(scorer.identity()), identity.is_shipped(scorer.card))


def expect(cells: Iterable[Cell], at: Session) -> None:
    """Say which cells of the last training will be scored, so that their scorers share the work."""
    if at.last is not None:
        last = at.last
        scorers = {repr(each.method.scorer.identity()): each for each in cells if each.training.key == last.key}
        shipped = [each.method.scorer for each in scorers.values() if identity.is_shipped(each.method.scorer.card)]
        last.expected = [keyed(scorer) for scorer in shipped]


def _scored(cell: Cell, at: Session, parts: Parts) -> tuple[dict[str, SplitScores], dict[str, float]]:
    """By an evaluation that the cells of a training share; outputs are read and written if they are to be kept."""
    last, scorer = at.last, keyed(cell.method.scorer)
    assert last is not None and last.key == cell.training.key
    if last.evaluation is None:
        last.evaluation = Evaluation(last.network.model, parts.labelled, last.expected)
        if at.asked.keep_outputs:
            network = digests.of_text(f"{last.key} {provenance.weights_digest(last.network.model)}")
            last.kept = KeptOutputs(at.folder / results.OUTPUTS / last.key, network, last.evaluation)
    if last.kept is None:
        return last.evaluation.score(scorer, parts)
    name = cell.suite.setting_name(cell.setting)
    if not any("feature-maps" in each.scorer.needs for each in (scorer, *last.expected)):  # for whom images pass anyway
        last.kept.restore(name, cell.setting, parts)
    scored = last.evaluation.score(scorer, parts)
    last.kept.store(name, cell.setting, parts)
    return scored


def write_splits(plan: Plan) -> None:
    """Beside the results, which rows of which data set play which part: a file for each setting and seed."""
    for cell in {(cell.setting, cell.seed): cell for cell in plan.cells}.values():
        path = cell.path.parent.parent / f"splits-seed{cell.seed}.npz"
        _write_rows(build_parts(plan.suite, cell.setting, cell.seed), path)


def _write_rows(parts: Parts, path: Path) -> None:
    arrays: dict[str, Any] = {name: part.rows for name, part in parts.items().items()}
    arrays |= {f"{name}.origin": np.array(part.origin) for name, part in parts.items().items()}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))
