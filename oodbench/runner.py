"""Executes a plan: train once per distinct training, then every scorer on the shared outputs."""

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F

from oodbench import metrics, provenance, results, splits
from oodbench.cards import catalogue, load_class
from oodbench.checkpoints import describe, read_weights
from oodbench.data import Data, Split, WildMixture, as_rows
from oodbench.errors import UserError
from oodbench.evaluation import TEST_SPLITS, Evaluation
from oodbench.files import CannotWrite, claim, write_atomically
from oodbench.method import Trainer
from oodbench.metrics import Scored
from oodbench.networks import Classifier, Network
from oodbench.plan import Cell, Plan, Training
from oodbench.registry import Part
from oodbench.results import Result
from oodbench.seeds import derive
from oodbench.suite import Setting, Suite
from oodbench.training import Failed, Loop, Progress, load_tensors


class Reporter(Protocol):
    """Who is told how a run goes."""

    def training(self, training: Training, number: int, count: int) -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def result(self, result: Result) -> None: ...


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


def build_model(suite: Suite, seed: int) -> Classifier:
    """The suite's network with the initial weights that a seed gives, the same for every trainer."""
    contents = suite.contents
    data = splits.dataset(contents.id.dataset)
    network: Network = load_class(catalogue("networks")[contents.network.name])(**contents.network.options)
    torch.manual_seed(derive(seed, "init"))
    body, dim = network.body(len(data.mean))
    model = Classifier(body, dim, splits.num_classes(suite), data.mean, data.std)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch leaves this form untyped


def training_data(suite: Suite, parts: splits.Parts, setting: Setting | None) -> Data:
    """What a trainer may read: without a setting, nothing of the wild mixture."""
    env = None
    if parts.labelled.domains is not None:
        env = torch.from_numpy(np.unique(parts.labelled.domains, return_inverse=True)[1])
    labelled = Split(as_rows(parts.labelled.images), torch.from_numpy(parts.labelled.labels), env)
    if setting is None:
        return Data(labelled, splits.num_classes(suite))
    wild_id, covariate, semantic = (
        as_rows(part.images) for part in (parts.wild_id, parts.wild_covariate, parts.wild_semantic)
    )
    return Data(
        labelled,
        splits.num_classes(suite),
        WildMixture(wild_id, covariate, semantic, setting.pi_c, setting.pi_s, suite.contents.mixture),
        id_validation=as_rows(parts.id_validation.images),
        mixed_validation=as_rows(splits.mixed_validation(parts, setting)),
        id_test=as_rows(parts.id.images),
    )


def execute(plan: Plan, device: torch.device, reporter: Reporter, force: bool = False) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    check(plan)
    _check_writable(plan.folder)
    _use_threads(plan.suite, device)
    run = _Run(plan, device, reporter, force)
    waiting = list(plan.trainings.values())
    count, finished = len(waiting), 0
    while waiting:
        postponed = []
        for training, cells in waiting:
            # What another process has claimed comes later; when only such is left, wait for it and use its results.
            with claim(run.file(training, "lock"), wait=run.only_claimed_left) as mine:
                if not mine:
                    postponed.append((training, cells))
                    continue
                finished += 1
                left = cells if force else [cell for cell in cells if not cell.is_done()]
                if left:
                    reporter.training(training, finished, count)
                    run.cells(training, left)
        run.only_claimed_left = len(postponed) == len(waiting)
        waiting = postponed
    return run.results


def write_splits(plan: Plan) -> None:
    """Beside the results, which rows of which data set play which part: a file for each setting and seed."""
    for cell in {(cell.setting, cell.seed): cell for cell in plan.cells}.values():
        path = cell.path.parent.parent / f"splits-seed{cell.seed}.npz"
        _write_rows(splits.build(plan.suite, cell.setting, cell.seed), path)


def _write_rows(parts: splits.Parts, path: Path) -> None:
    found: dict[str, Any] = {name: part.rows for name, part in parts.items().items()}
    found |= {f"{name}.origin": np.array(part.origin) for name, part in parts.items().items()}
    write_atomically(path, lambda file: np.savez_compressed(file, **found))


def check(plan: Plan) -> None:
    """What can only be found with the code at hand, still before anything trains."""
    for method in {cell.method.label: cell.method for cell in plan.todo}.values():
        method.trainer.make()
        method.scorer.make()
    if plan.todo:
        build_model(plan.suite, seed=0)  # its options and pretrained weights
    for training in plan.all_trainings.values():
        if training.init is not None:
            read_weights(build_model(training.suite, training.seed), training.init)


def _check_writable(folder: Path) -> None:
    probe = folder / f".writable-{os.getpid()}"
    write_atomically(probe, lambda file: None)
    probe.unlink(missing_ok=True)


def _use_threads(suite: Suite, device: torch.device) -> None:
    if device.type == "cpu" and suite.contents.cpu_threads is not None:
        torch.set_num_threads(suite.contents.cpu_threads)


@contextmanager
def users_mistakes(part: Part) -> Iterator[None]:
    """What a plugin raises fails its cells, in one line; in our own methods it is a bug and keeps its traceback."""
    try:
        yield
    except (Failed, CannotWrite):
        raise
    except UserError as error:
        raise Failed(str(error)) from error
    except Exception as error:
        if part.card.is_ours:
            raise
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == part.card.path]
        where = f"{part.card.path}:{lines[-1]}" if lines else str(part.card.path)
        raise Failed(f"{type(error).__name__} at {where}: {error}") from error


@dataclass(frozen=True)
class _Trained:
    model: Classifier
    log: list[dict[str, Any]]
    notes: dict[str, Any]
    seconds: float


class _Run:
    """The state of one execution: what is in memory and need not be made again."""

    def __init__(self, plan: Plan, device: torch.device, reporter: Reporter, force: bool) -> None:
        self.plan, self.device, self.reporter, self.force = plan, device, reporter, force
        self.results: list[Result] = []
        self.only_claimed_left = False
        self._made_anew: set[str] = set()  # under --force, so that each is made anew once
        self._parts: dict[tuple[Setting, int], splits.Parts] = {}

    def file(self, training: Training, suffix: str) -> Path:
        return self.plan.folder / results.WEIGHTS / f"{training.key}.{suffix}"

    def parts(self, setting: Setting, seed: int) -> splits.Parts:
        if (setting, seed) not in self._parts:
            self._parts[setting, seed] = splits.build(self.plan.suite, setting, seed)
        return self._parts[setting, seed]

    def cells(self, training: Training, cells: list[Cell]) -> None:
        """Train (or load) one network and evaluate every cell that uses it."""
        try:
            with users_mistakes(training.trainer):
                trained = self.trained(training, cells[0].setting)
        except Failed as failure:
            for cell in cells:
                self._store(cell, failure=str(failure))
            return
        evaluation = Evaluation(trained.model, self.parts(cells[0].setting, training.seed).labelled)
        for cell in cells:
            try:
                with users_mistakes(cell.method.scorer):
                    scored, seconds = evaluation.score(cell.method.scorer, self.parts(cell.setting, cell.seed))
            except Failed as failure:
                self._store(cell, trained, failure=str(failure))
            else:
                self._store(cell, trained, scored, {"train": trained.seconds, **seconds})

    def trained(self, training: Training, setting: Setting) -> _Trained:
        """The network of a training: given, from the cache, or trained from its last checkpoint or its start."""
        model = self._start(training)
        if training.init is not None:
            read_weights(model, training.init)
            return _Trained(_frozen(model), [], {"weights": f"given by --init {describe(training.init)}"}, 0.0)
        stored = self.file(training, "pt")
        if self.force and training.key not in self._made_anew:
            self._forget_checkpoints(training)
            contents = None
        else:
            contents = load_tensors(stored, self.device)
            if not isinstance(contents, dict) or contents.keys() != {"model", "log", "notes", "seconds"}:
                contents = None  # damaged, or not ours
        if contents is None:
            contents = self._train(training, setting, model)
            write_atomically(stored, lambda file: torch.save(contents, file))
            self._made_anew.add(training.key)
        else:
            _extend(model, training, self.device)
        self._forget_checkpoints(training)  # also those of a run that was killed just after its last epoch
        model.load_state_dict(contents.pop("model"))
        return _Trained(_frozen(model), **contents)

    def _start(self, training: Training) -> Classifier:
        """The network a trainer is given: the suite's, with what the trainers before it added."""
        if training.parent is None:
            return build_model(training.suite, training.seed).to(self.device)
        model = self._start(training.parent)
        _extend(model, training.parent, self.device)
        return model

    def _train(self, training: Training, setting: Setting, model: Classifier) -> dict[str, Any]:
        if training.parent is not None:
            with claim(self.file(training.parent, "lock"), wait=True):
                try:
                    parent = self.trained(training.parent, setting)
                except Failed as failure:
                    raise Failed(f"'{training.parent.trainer.card.name}', which it starts from: {failure}") from None
            model.load_state_dict(parent.model.state_dict())
        trainer: Trainer = training.trainer.make()
        recipe = getattr(training.suite.contents.recipes, training.recipe)
        mixture = setting if training.reads_wild else None
        data = training_data(training.suite, self.parts(setting, training.seed), mixture)
        loop = Loop(
            recipe, derive(training.seed, "train"), self.device, self.file(training, "ckpt"), self.reporter.progress
        )
        _extend(model, training, self.device)
        started = time.perf_counter()
        trainer.train(model, data, loop)
        seconds = time.perf_counter() - started
        return {"model": model.state_dict(), "log": loop.log, "notes": loop.notes, "seconds": seconds}

    def _forget_checkpoints(self, training: Training) -> None:
        for path in self.file(training, "ckpt").parent.glob(f"{training.key}.*ckpt"):
            path.unlink(missing_ok=True)

    def _store(
        self,
        cell: Cell,
        trained: _Trained | None = None,
        scored: dict[str, Scored] | None = None,
        seconds: dict[str, float] | None = None,
        failure: str | None = None,
    ) -> None:
        result = Result(
            suite=cell.suite.name,
            preset=cell.suite.preset,
            setting=cell.suite.setting_name(cell.setting),
            method=cell.method.label,
            group=cell.method.group,
            seed=cell.seed,
            status="ok" if failure is None else "failed",
            error=failure,
            metrics=metrics.evaluate(**scored) if scored else {},
            cell=cell.key,
            variant=cell.variant,
            config=provenance.configuration(cell),
            seeds=provenance.seeds(cell),
            versions=provenance.versions(),
            device=provenance.device_name(self.device),
            data=provenance.data(cell, self.parts(cell.setting, cell.seed)),
            weights=provenance.weights_digest(trained.model) if trained else None,
            notes=trained.notes if trained else {},
            seconds={stage: round(value, 4) for stage, value in (seconds or {}).items()},
            written=datetime.now(timezone.utc).isoformat(),
        )
        results.write(result, cell.path, scored or {}, trained.log if trained else [])
        self.results.append(result)
        self.reporter.result(result)


def _extend(model: Classifier, training: Training, device: torch.device) -> None:
    """Let a trainer add to the network; the first weights of what it adds follow from the seed."""
    torch.manual_seed(derive(training.seed, "trainer"))
    training.trainer.make().extend(model)
    model.to(device)


def _frozen(model: Classifier) -> Classifier:
    """Scorers that differentiate by the input then do not pay for the weights."""
    return model.eval().requires_grad_(False)


def estimate(plan: Plan, device: torch.device) -> float:
    """Seconds the plan will take: the images it must pass, at the speed this machine shows on a few batches."""
    if not plan.todo:
        return 0.0
    suite = plan.suite
    _use_threads(suite, device)
    parts = splits.build(suite, plan.todo[0].setting, seed=0)
    data = training_data(suite, parts, setting=None)
    model = build_model(suite, seed=0).to(device).train()
    batch = next(data.batches(suite.contents.recipes.scratch, 0, device))
    times = []
    for _ in range(4):
        started = time.perf_counter()
        F.cross_entropy(model(batch.x), batch.y).backward()
        float(model.head.bias.grad.sum())  # type: ignore[union-attr]  # wait for the device
        times.append(time.perf_counter() - started)
    per_image = min(times[1:]) / len(batch)
    trained = 0
    for training in plan.all_trainings.values():
        recipe = getattr(suite.contents.recipes, training.recipe)
        images = 2 * data.steps(recipe) * recipe.batch_size if training.reads_wild else len(data.labelled)
        cached = training.init is not None or (plan.folder / results.WEIGHTS / f"{training.key}.pt").exists()
        runs = 0 if cached else training.trainer.make().runs
        trained += runs * recipe.epochs * images
    scored = sum(len(getattr(parts, split)) for split in ("labelled", *TEST_SPLITS)) * len(plan.todo)
    return per_image * (trained + scored / 3)  # a forward pass is about a third of a training step
