"""Executes a plan: train once per distinct training, then every scorer on the shared outputs."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F

from oodbench import digests
from oodbench.config import identity
from oodbench.config.cards import catalogue, load_class
from oodbench.config.suite import Setting, Suite
from oodbench.data import splits
from oodbench.errors import UserError
from oodbench.files import claim, write_atomically
from oodbench.learning import domain_accuracy, precision
from oodbench.learning.batches import Data, Split, WildMixture, as_rows
from oodbench.learning.evaluation import TEST_SPLITS, Evaluation, rehearse
from oodbench.learning.initial_weights import describe, read_weights
from oodbench.learning.loop import Failed, Loop, Progress, load_tensors
from oodbench.learning.method import Trainer
from oodbench.learning.networks import Classifier, Network
from oodbench.results import metrics
from oodbench.results import result as results
from oodbench.results.metrics import Scored
from oodbench.results.result import EpochAccuracies, Result
from oodbench.running import provenance
from oodbench.running.cells import Cell, Training
from oodbench.running.mistakes import in_words, users_mistakes
from oodbench.running.plan import Plan
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


def build_model(suite: Suite, seed: int) -> Classifier:
    """The suite's network with the initial weights that a seed gives, the same for every trainer."""
    contents = suite.contents
    mean, std = splits.normalisation(suite)
    network: Network = load_class(catalogue("networks")[contents.network.name])(**contents.network.options)
    torch.manual_seed(derive(seed, "init"))
    body, dim = network.body(len(mean))
    model = precision.classifier(contents.precision)(body, dim, splits.num_classes(suite), mean, std)
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


def execute(
    plan: Plan, device: torch.device, reporter: Reporter, force: bool = False, options: Options = PLAIN
) -> list[Result]:
    """Run what is still to do; the new results. A cell that fails is a result too, the others go on."""
    check(plan, device)
    _check_writable(plan.folder)
    arithmetic = precision.arithmetic(plan.suite.contents.precision, options.deterministic)
    with _threads(plan.suite, device), arithmetic:
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


def check(plan: Plan, device: torch.device) -> None:
    """What can only be found with the code and the device at hand, still before anything trains."""
    precision.check(plan.suite.contents.precision, device)
    for method in {(cell.method.label, str(cell.training.draw)): cell.method for cell in plan.todo}.values():
        method.trainer.make()
        method.scorer.make()
    for setting, seed in {cell.setting: cell.seed for cell in plan.todo}.items():
        if setting.covariate in plan.suite.contents.covariate:  # its domains and classes; corruptions come when needed
            splits.build(plan.suite, setting, seed)
    if plan.todo:
        untrained = build_model(plan.suite, seed=0)  # which tells what is wrong with its options and weights
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
        parts = splits.build(training.suite, setting, training.seed)
        rows = np.arange(min(64, len(parts.labelled)))
        if parts.labelled.domains is not None:  # some of each
            rows = np.union1d(rows, np.unique(parts.labelled.domains, return_index=True)[1])
        data = training_data(training.suite, replace(parts, labelled=parts.labelled.take(rows)), setting=None)
        loop = _Rehearsal(training.recipe, 0, torch.device("cpu"))
        try:
            training.trainer.make().train(_extended(untrained, training, loop.device), data, loop)
        except _Rehearsed:
            continue
        except UserError as error:
            raise UserError(f"'{training.trainer.label}': {error}") from None
        except Exception:
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
        scorer, parts = cell.method.scorer, splits.build(cell.suite, cell.setting, cell.seed)
        try:
            model = _frozen(_extended(untrained, cell.training, device))
        except Exception:
            if cell.method.trainer.card.is_ours:
                raise
            continue  # a plugin's mistake fails its cells when their turn comes
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            try:
                rehearse(scorer, model, parts)
            except UserError as error:
                raise UserError(f"'{scorer.card.name}': {error}") from error
            except Exception as error:
                words = in_words(scorer.card, error)
                raise UserError(f"{words}; correct it, or leave out '{cell.method.name}'") from error


def _extended(untrained: Classifier, training: Training, device: torch.device) -> Classifier:
    """A copy with what a trainer and those it starts from add."""
    model, chain = deepcopy(untrained).to(device), [training]
    while chain[0].parent is not None:
        chain.insert(0, chain[0].parent)
    for each in chain:
        _extend(model, each, device)
    return model


def _check_writable(folder: Path) -> None:
    probe = folder / f".writable-{os.getpid()}"
    write_atomically(probe, lambda file: None)
    probe.unlink(missing_ok=True)


def _room(device: torch.device) -> int:
    """Bytes of the device that a training's images may take: a quarter of what is free. In a CPU's they are already."""
    return torch.cuda.mem_get_info(device)[0] // 4 if device.type == "cuda" else 0


@contextmanager
def _threads(suite: Suite, device: torch.device) -> Iterator[None]:
    """As many as the key says on a CPU; whoever called has as many as before."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(suite.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Trained:
    model: Classifier
    log: list[dict[str, Any]]
    notes: dict[str, Any]
    seconds: float


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

    def trained(self, training: Training, setting: Setting) -> _Trained:
        """The network of a training: given, from the cache, or trained from its last checkpoint or its start."""
        model = self._start(training)
        if training.init is not None:
            read_weights(model, training.init)
            self._compile(model)
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
            self._complete(model, training)
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

    def _complete(self, model: Classifier, training: Training) -> None:
        """With what the training's own trainer adds, ready to compute."""
        _extend(model, training, self.device)
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
        trained: _Trained | None = None,
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
    with _threads(plan.suite, device):
        return _estimate(plan, device)


def _estimate(plan: Plan, device: torch.device) -> float:
    suite = plan.suite
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
        recipe = training.recipe
        images = 2 * data.steps(recipe) * recipe.batch_size if training.reads_wild else len(data.labelled)
        cached = training.init is not None or (plan.folder / results.WEIGHTS / f"{training.key}.pt").exists()
        runs = 0 if cached else training.trainer.make().runs
        trained += runs * recipe.epochs * images
    scored = sum(len(getattr(parts, split)) for split in ("labelled", *TEST_SPLITS)) * len(plan.todo)
    return per_image * (trained + scored / 3)  # a forward pass is about a third of a training step
