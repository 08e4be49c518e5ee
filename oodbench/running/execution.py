"""Executes a plan: train once per distinct training, then every scorer on the shared outputs."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from oodbench import digests
from oodbench.config import identity
from oodbench.config.suite import Setting
from oodbench.data import splits
from oodbench.errors import UserError
from oodbench.files import claim, write_atomically
from oodbench.learning import domain_accuracy, precision
from oodbench.learning.checkpoint import load_tensors
from oodbench.learning.evaluation import Evaluation
from oodbench.learning.initial_weights import describe, read_weights
from oodbench.learning.loop import Failed, Loop, Progress
from oodbench.learning.method import Trainer
from oodbench.learning.networks import Classifier
from oodbench.results import metrics
from oodbench.results import result as results
from oodbench.results.metrics import Scored
from oodbench.results.result import EpochAccuracies, Result
from oodbench.running import provenance
from oodbench.running.cells import Cell, Training
from oodbench.running.mistakes import users_mistakes
from oodbench.running.plan import Plan
from oodbench.running.preflight import check as check
from oodbench.running.preflight import estimate as estimate
from oodbench.running.preflight import threads
from oodbench.running.trained import Trained, build_model, extend, frozen, training_data
from oodbench.seeds import derive

OUTPUTS = "outputs"  # the folder of kept outputs inside a results folder


class Reporter(Protocol):
    """Who is told how a run goes."""

    def training(self, training: Training, number: int, count: int) -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def result(self, result: Result) -> None: ...


@dataclass(frozen=True)
class Options:
    """How to run, where it does not change what is computed."""

    compile: bool = False  # the network's body, on a GPU; on a CPU it would only cost
    deterministic: bool = False
    keep_outputs: bool = False  # features and logits of every pass on disk, and read from there


PLAIN = Options()


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
    plan: Plan, device: torch.device, reporter: Reporter, force: bool = False, options: Options = PLAIN
) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    check(plan, device)
    _check_writable(plan.folder)
    arithmetic = precision.arithmetic(plan.suite.contents.precision, options.deterministic)
    with threads(plan.suite, device), arithmetic:
        return _execute(plan, _Run(plan, device, reporter, force, options))


def _execute(plan: Plan, run: "_Run") -> list[Result]:
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
                left = cells if run.force else [cell for cell in cells if not cell.is_done()]
                if left:
                    run.reporter.training(training, finished, count)
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


def _check_writable(folder: Path) -> None:
    probe = folder / f".writable-{os.getpid()}"
    write_atomically(probe, lambda file: None)
    probe.unlink(missing_ok=True)


def _room(device: torch.device) -> int:
    """Bytes of the device that a training's images may take: a quarter of what is free. In a CPU's they are already."""
    return torch.cuda.mem_get_info(device)[0] // 4 if device.type == "cuda" else 0


class _Run:
    """The state of one execution: what is in memory and need not be made again."""

    def __init__(self, plan: Plan, device: torch.device, reporter: Reporter, force: bool, options: Options) -> None:
        self.plan, self.device, self.reporter, self.force, self.options = plan, device, reporter, force, options
        self.compiles = options.compile and device.type != "cpu"
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
                self._store(cell, failure=failure)
            return
        kept = self._kept(training, trained.model) if self.options.keep_outputs else None
        evaluation = Evaluation(trained.model, self.parts(cells[0].setting, training.seed).labelled, kept)
        for cell in cells:
            try:
                with users_mistakes(cell.method.scorer), precision.only_warned():
                    scored, seconds = evaluation.score(cell.method.scorer, self.parts(cell.setting, cell.seed))
            except Failed as failure:
                self._store(cell, trained, failure=failure)
            else:
                self._store(cell, trained, scored, {"train": trained.seconds, **seconds})

    def trained(self, training: Training, setting: Setting) -> Trained:
        """The network of a training: given, from the cache, or trained from its last checkpoint or its start."""
        model = self._start(training)
        if training.init is not None:
            read_weights(model, training.init)
            self._compile(model)
            return Trained(frozen(model), [], {"weights": f"given by --init {describe(training.init)}"}, 0.0)
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
            self._complete(model, training)
        self._forget_checkpoints(training)  # also those of a run that was killed just after its last epoch
        model.load_state_dict(contents.pop("model"))
        return Trained(frozen(model), **contents)

    def _start(self, training: Training) -> Classifier:
        """The network a trainer is given: the suite's, with what the trainers before it added."""
        if training.parent is None:
            return build_model(training.suite, training.seed).to(self.device)
        model = self._start(training.parent)
        extend(model, training.parent, self.device)
        return model

    def _complete(self, model: Classifier, training: Training) -> None:
        """With what the training's own trainer adds, ready to compute."""
        extend(model, training, self.device)
        self._compile(model)

    def _compile(self, model: Classifier) -> None:
        if self.compiles:
            precision.compile_body(model)

    def _kept(self, training: Training, model: Classifier) -> Callable[[str], Path]:
        """The file for a network's outputs of images with a digest; its name counts weights, code and precision."""
        weights = provenance.weights_digest(model)
        network = digests.of_text(f"{training.key} {weights}")
        return lambda digest: self.plan.folder / OUTPUTS / f"{network}-{digest}.pt"

    def _train(self, training: Training, setting: Setting, model: Classifier) -> dict[str, Any]:
        if training.parent is not None:
            with claim(self.file(training.parent, "lock"), wait=True):
                try:
                    with users_mistakes(training.parent.trainer):
                        parent = self.trained(training.parent, setting)
                except Failed as failure:
                    name = training.parent.trainer.card.name
                    raise Failed(f"'{name}', which it starts from: {failure}") from failure
            model.load_state_dict(parent.model.state_dict())
        trainer: Trainer = training.trainer.make()
        mixture = setting if training.reads_wild else None
        parts = self.parts(setting, training.seed)
        data = training_data(training.suite, parts, mixture).on(self.device, _room(self.device))
        loop = Loop(
            training.recipe,
            derive(training.seed, "train"),
            self.device,
            self.file(training, "ckpt"),
            self.reporter.progress,
            domain_accuracy.observer(training.suite, parts),
        )
        self._complete(model, training)
        started = time.perf_counter()
        trainer.train(model, data, loop)
        seconds = time.perf_counter() - started
        return {"model": model.state_dict(), "log": loop.log, "notes": loop.notes, "seconds": seconds}

    def _ways(self) -> list[str]:
        asked = {"deterministic": self.options.deterministic, "compiled": self.compiles}
        return [way for way, so in asked.items() if so]

    def _forget_checkpoints(self, training: Training) -> None:
        for path in self.file(training, "ckpt").parent.glob(f"{training.key}.*ckpt"):
            path.unlink(missing_ok=True)

    def _store(
        self,
        cell: Cell,
        trained: Trained | None = None,
        scored: dict[str, Scored] | None = None,
        seconds: dict[str, float] | None = None,
        failure: Failed | None = None,
    ) -> None:
        result = Result(
            suite=cell.suite.name,
            preset=cell.suite.preset,
            setting=cell.suite.setting_name(cell.setting),
            method=cell.method.label,
            seed=cell.seed,
            status="ok" if failure is None else "failed",
            error=None if failure is None else str(failure),
            traceback=None if failure is None else failure.traceback,
            metrics=metrics.evaluate(**scored) if scored else {},
            metrics_version=identity.version_of("metrics"),
            key=cell.key,
            variant=cell.variant,
            training=cell.training.key,
            config=provenance.configuration(cell),
            seeds=provenance.seeds(cell),
            versions=provenance.versions(),
            commit=provenance.commit(),
            device=provenance.device_name(self.device, *self._ways()),
            machine=provenance.machine(),
            data=provenance.data(cell, self.parts(cell.setting, cell.seed)),
            weights=provenance.weights_digest(trained.model) if trained else None,
            notes=trained.notes if trained else {},
            domain_accuracies=_observed(trained.log) if trained else [],
            seconds={stage: round(value, 4) for stage, value in (seconds or {}).items()},
            written=datetime.now(timezone.utc).isoformat(),
        )
        results.write(result, cell.path, scored or {}, trained.log if trained else [])
        self.results.append(result)
        self.reporter.result(result)


def _observed(log: list[dict[str, Any]]) -> list[EpochAccuracies]:
    """What the loop has looked at where domains are held out."""
    return [EpochAccuracies(**record["domains"]) for record in log if "domains" in record]
