"""The one training loop: optimizer, schedule, checkpoints, resuming, progress. Knows nothing of any method.

An epoch's batches and random numbers follow from (seed, epoch) alone. A checkpoint therefore holds only weights, the
optimiser's state and the log, and a training that resumes from one ends with the same bits as one never stopped.
"""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oodbench.config.recipe import Recipe
from oodbench.errors import UserError, place_of
from oodbench.learning.batches import Batch, Data
from oodbench.learning.checkpoint import Saver, Stateful
from oodbench.learning.label_oracle import LabelOracle
from oodbench.learning.networks import Classifier
from oodbench.seeds import derive

Loss = Callable[[Classifier, Batch], Tensor]
OBSERVED_EPOCHS = 20  # of a training, at most


class Failed(Exception):
    """A cell that cannot be finished, for example because its loss is no longer a number; others go on."""

    @property
    def traceback(self) -> str:
        """For the author of the method: the message itself says in one line what happened."""
        return "".join(traceback.format_exception(self))


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    epoch: int  # of epochs, counted from 1
    epochs: int
    loss: float | None  # mean of the last whole epoch
    images_per_second: float
    remaining: float  # seconds


def _silent(_: object) -> None:
    pass


@dataclass(frozen=True)
class Observer:
    """Looks at the network at some steps of a training, which goes on as if nobody had looked."""

    name: str  # of what it tells, in the log
    look: Callable[[Classifier, "Loop"], dict[str, Any]]
    points: int | None = None  # so many looks, the first before any step; None: at the ends of epochs

    def steps(self, steps: int, length: int) -> set[int]:
        """After which of all steps it looks, where an epoch has so many."""
        if self.points is None:
            return {min((epoch + 1) * length, steps) for epoch in observed_epochs(-(-steps // length))}
        return {round(i * steps / (self.points - 1)) for i in range(self.points)}


@dataclass
class Loop:
    """Trains under one recipe; a trainer asks it for epochs and may run its own code between them."""

    recipe: Recipe
    seed: int
    device: torch.device
    checkpoint: Path | None = None  # where to save progress and resume from
    report: Callable[[Progress], None] = _silent
    observers: Sequence[Observer] = ()
    say: Callable[[str], None] = _silent  # what the user should know
    log: list[dict[str, Any]] = field(default_factory=list)  # one record per epoch
    notes: dict[str, Any] = field(default_factory=dict)  # what the trainer found out and the result shall tell
    step: int = 0  # optimizer steps taken before this one
    first_of_epoch: bool = True  # whether this step is
    oracle: LabelOracle | None = None  # who labels wild images, for a trainer that has a budget
    constraints: Callable[[Classifier], list[dict[str, Any]]] | None = None  # as they are now, if there are any

    _sums: dict[str, Tensor] = field(default_factory=dict, init=False)
    _optimizers: list[tuple[torch.optim.Optimizer, list[float]]] = field(default_factory=list, init=False)  # base rates
    _keep_last: bool = field(default=False, init=False)
    _steps_in_all: int | None = field(default=None, init=False)  # once a training runs
    _optimizer: torch.optim.Optimizer | None = field(default=None, init=False)  # that of `epochs`, once it runs

    def stage(self, name: str) -> "Loop":
        """A loop for one of several trainings within this one, resumed on its own; its last state stays on disk."""
        path = None if self.checkpoint is None else self.checkpoint.with_suffix(f".{name}.ckpt")
        inner = Loop(self.recipe, self.seed, self.device, path, self.report, say=self.say, oracle=self.oracle)
        inner.observers, inner._keep_last = self.observers, True
        return inner

    def ask(self, rows: Tensor) -> Tensor:
        """The labels of some images of `data.wild.once()`, by their rows; -1 for a semantic one. Each costs a label."""
        if self.oracle is None:
            raise UserError('nobody answers loop.ask here; add needs = frozenset({"wild", "labels"}) to the trainer')
        labels = self.oracle.ask(rows)
        self.notes["labels_asked"] = self.oracle.spent
        return labels

    def record(self, **values: Tensor) -> None:
        """Add values of this step to the epoch's means in the log; nothing is read from the device here."""
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0) + value.detach()

    @property
    def steps_in_all(self) -> int:
        """Of the whole training, whose data `epochs` and `passes` are given."""
        if self._steps_in_all is None:
            raise UserError("loop.steps_in_all is not known before loop.epochs or loop.passes; read it in the loss")
        return self._steps_in_all

    def epochs(
        self,
        model: Classifier,
        data: Data,
        loss: Loss,
        extra: Sequence[nn.Module] = (),
        extra_weight_decay: float = 0.0,
        extra_lr: float | None = None,
        every: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Train epoch by epoch; hands control back after each with its log record, which the caller may add to.

        `extra` modules are trained with the network, at their own rate if one is given, and saved with it; what the
        caller changes in them between epochs (a multiplier, say) is in the next checkpoint. An epoch is as long as the
        data make it, or `every` so many steps.
        """
        groups = self._groups(model)
        extra_parameters = [p for module in extra for p in module.parameters() if p.requires_grad]
        if extra_parameters:
            own = {} if extra_lr is None else {"lr": extra_lr}
            groups.append({"params": extra_parameters, "weight_decay": extra_weight_decay, **own})
        self._optimizer = optimizer = self.optimizer(groups)

        def step(batch: Batch) -> Tensor:
            value = _one_number(loss(model, batch), loss)
            if not value.requires_grad:
                advice = "compute it from model(batch.x), without no_grad or detach"
                raise UserError(f"{place_of(loss)}: the loss has no gradient; {advice}")
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            return value

        yield from self.passes(model, data, step, [model, *extra, optimizer], every)

    def _groups(self, model: Classifier) -> list[dict[str, Any]]:
        """The parameters that learn; those that shift after batch normalization apart, if they have their own rate."""
        recipe, learning = self.recipe, [p for p in model.parameters() if p.requires_grad]
        if recipe.bn_bias_lr == 1:
            return [{"params": learning}]
        own = {"lr": recipe.bn_bias_lr * recipe.lr, "weight_decay": recipe.weight_decay / recipe.bn_bias_lr}
        shifts = {m.bias for m in model.modules() if isinstance(m, _BatchNorm) and m.bias is not None}
        return [
            {"params": [p for p in learning if p not in shifts]},
            {"params": [p for p in learning if p in shifts], **own},
        ]

    def optimizer(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float | None = None,
        weight_decay: float | None = None,
        betas: tuple[float, float] | None = None,
    ) -> torch.optim.Optimizer:
        """An optimizer of the recipe's kind, its rate moved by the recipe's schedule; None is the recipe's value.

        For a trainer that takes its own steps in `passes`. SGD has the first of `betas` as its momentum.
        """
        recipe = self.recipe
        lr = recipe.lr if lr is None else lr
        weight_decay = recipe.weight_decay if weight_decay is None else weight_decay
        betas = (recipe.momentum, 0.999) if betas is None else betas
        built: torch.optim.Optimizer
        if recipe.optimizer == "adam":
            if betas[0] >= 1:
                raise UserError(f"recipe.momentum={betas[0]:g} is Adam's beta 1, which must be below 1; choose 0.9")
            built = torch.optim.Adam(parameters, lr=lr, betas=betas, weight_decay=weight_decay)
        else:
            nesterov = recipe.nesterov and betas[0] > 0
            built = torch.optim.SGD(parameters, lr=lr, momentum=betas[0], nesterov=nesterov, weight_decay=weight_decay)
        self._optimizers.append((built, [group["lr"] for group in built.param_groups]))
        return built

    def in_environments(self, data: Data, spec: str, rows: int = 1) -> tuple[Data, int]:
        """The labeled images in two or more environments, and how many; a step takes at least `rows` of each.

        Random ones follow from the loop's seed, so that all trainers compare the same.
        """
        if spec == "auto":
            spec = "random:2" if data.labelled.env is None else "native"
        self.notes["environments"] = spec
        data = data.with_environments(spec, derive(self.seed, "env"))
        assert data.labelled.env is not None
        count, size = int(data.labelled.env.max()) + 1, self.recipe.batch_size
        if count < 2:
            raise UserError("the suite has one environment, and the method compares two; choose environments=random:2")
        if size // count < rows:
            raise UserError(
                f"a batch of {size} has room for {size // count} of each of {count} environments, {rows} are needed; "
                f"choose recipe.batch_size={rows * count} or more"
            )
        return data, count

    def restart_optimizer(self, shrink: float = 1.0) -> None:
        """Forget the momentum of `epochs`, as a new optimizer would; divide the weight decay as the loss is divided."""
        if self._optimizer is None:
            raise UserError("loop.restart_optimizer has none to restart before loop.epochs; call it in the loss")
        self._optimizer.state.clear()
        for group in self._optimizer.param_groups:
            group["weight_decay"] /= shrink

    def passes(
        self,
        model: Classifier,
        data: Data,
        step: Callable[[Batch], Tensor],
        state: Sequence[Stateful],
        every: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The loop itself, for a trainer that takes its own steps: `step` returns a loss to log, `state` is saved."""
        recipe, length = self.recipe, every or data.steps(self.recipe)
        self._steps_in_all = recipe.steps(data.steps(recipe))
        epochs = -(-self._steps_in_all // length)  # the last one may be cut short
        average = _Average(model, recipe.lookahead) if recipe.lookahead else None
        state = state if average is None else [*state, average]
        saver = Saver(self.checkpoint, state, self.log, self.seed, epochs)
        first = saver.restore(self.device, self.say)
        looks = [(each, each.steps(self._steps_in_all, length)) for each in self.observers]
        clock = _Clock(first, epochs, self.report)
        for epoch in range(first, epochs):
            if epoch > first:
                saver.save(epoch)
            steps = min(length, self._steps_in_all - epoch * length)
            told: dict[str, Any] = {}
            if epoch == 0:
                self._look(model, looks, 0, 0, told)
            torch.manual_seed(derive(self.seed, "epoch", epoch))
            self._train_mode(model, epoch)
            losses = torch.zeros(steps, device=self.device)
            self._sums = {}
            seed = derive(self.seed, "batches", epoch)
            batches = data.batches(recipe.of_epoch(epoch, epochs), seed, self.device, steps, epoch)
            for i, batch in enumerate(batches):
                self.step, self.first_of_epoch = epoch * length + i, i == 0
                self._set_rates()
                losses[i] = _one_number(step(batch), step).detach()
                if average is not None:
                    average.follow(self.step + 1, self.steps_in_all)
                self._look(model, looks, epoch, self.step + 1, told)
                clock.tick(epoch + (i + 1) / steps, len(batch) + (0 if batch.wild is None else len(batch.wild)))
            _refuse_nan(losses, epoch * length, self.log)
            loss = losses.mean().item()
            record: dict[str, Any] = {"epoch": epoch, "lr": recipe.rate(self.step, self.steps_in_all), "loss": loss}
            record |= {name: (total / steps).item() for name, total in self._sums.items()} | told
            self.log.append(record)
            clock.loss = loss
            yield record
        if self._keep_last and first < epochs:
            saver.save(epochs, always=True)
        clock.end()
        model.eval()

    def _train_mode(self, model: Classifier, epoch: int) -> None:
        recipe = self.recipe
        model.train()
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.train(not recipe.freeze_bn)
                module.momentum = module.momentum if recipe.bn_momentum is None else recipe.bn_momentum
        if recipe.first_layer_epochs is not None:
            first = next(each for each in model.body.modules() if list(each.parameters(recurse=False)))
            for parameter in first.parameters(recurse=False):
                parameter.requires_grad_(epoch < recipe.first_layer_epochs)

    def _look(
        self,
        model: Classifier,
        looks: Sequence[tuple[Observer, set[int]]],
        epoch: int,
        step: int,
        told: dict[str, Any],
    ) -> None:
        """Let those look whose turn it is after so many steps, at the network in eval mode."""
        for observer, steps in looks:
            if step not in steps:
                continue
            modes = {module: module.training for module in model.modules()}
            with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
                seen = {"epoch": epoch, "step": step, **observer.look(model.eval(), self)}
            for module, mode in modes.items():
                module.training = mode
            if observer.points is None:
                told[observer.name] = seen
            else:
                told.setdefault(observer.name, []).append(seen)

    def _set_rates(self) -> None:
        for optimizer, rates in self._optimizers:
            for group, lr in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = replace(self.recipe, lr=lr).rate(self.step, self.steps_in_all)


class _Average:
    """Lookahead, M. Zhang et al., NeurIPS 2019: every few steps the weights become a moving average of themselves.

    With the weight of the past that K. Jordan gives it, which grows to 0.95 a step; in the end it is all.
    """

    def __init__(self, model: Classifier, every: int) -> None:
        self.every = every
        self.model = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
        self.values = {name: value.clone() for name, value in self.model.items()}

    def follow(self, step: int, steps: int) -> None:
        """After `step` of all steps."""
        if step % self.every and step < steps:
            return
        past = 0.95**self.every * (step / steps) ** 3
        for average, value in zip(self.values.values(), self.model.values(), strict=True):
            if step % self.every == 0:
                average.lerp_(value, 1 - past)
            value.copy_(average)

    def state_dict(self) -> dict[str, Tensor]:
        return self.values

    def load_state_dict(self, values: dict[str, Tensor]) -> None:
        for name, average in self.values.items():
            average.copy_(values[name])


def _one_number(value: Any, function: Callable[..., Any]) -> Tensor:
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise UserError(f"{place_of(function)}: the loss is a {kind}, not a tensor; return it as torch computes it")
    if value.numel() != 1:
        shape = tuple(value.shape)
        raise UserError(f"{place_of(function)}: the loss has the shape {shape}, not one number; return its mean()")
    return value


def observed_epochs(epochs: int) -> set[int]:
    """Every epoch, or as many as are observed at most, evenly spaced; always the last."""
    count = min(epochs, OBSERVED_EPOCHS)
    return {round(i * epochs / count) - 1 for i in range(1, count + 1)}


def _refuse_nan(losses: Tensor, first_step: int, log: list[dict[str, Any]]) -> None:
    """One look per epoch, so that a GPU never waits for it."""
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        i = int(bad[0])
        last = losses[i - 1].item() if i else log[-1]["loss"] if log else None
        known = "there was no finite loss before it" if last is None else f"the last finite loss was {last:.4g}"
        raise Failed(f"the loss became {losses[i].item()} at step {first_step + i}; {known}")


class _Clock:
    """Turns ticks of the loop into progress, a few times a second."""

    def __init__(self, first: int, epochs: int, report: Callable[[Progress], None]) -> None:
        self.first, self.epochs, self.report = first, epochs, report
        self.started = self.reported = time.perf_counter()
        self.images, self.done, self.unsent = 0, float(first), False
        self.loss: float | None = None

    def tick(self, done: float, images: int) -> None:
        self.images += images
        self.done, self.unsent = done, True
        if time.perf_counter() - self.reported > 0.2:
            self._send()

    def end(self) -> None:
        if self.images and self.unsent:
            self._send()

    def _send(self) -> None:
        self.reported, self.unsent = time.perf_counter(), False
        elapsed = self.reported - self.started
        remaining = elapsed * (self.epochs - self.done) / max(self.done - self.first, 1e-9)
        epoch = min(int(self.done) + 1, self.epochs)
        self.report(Progress(epoch, self.epochs, self.loss, self.images / max(elapsed, 1e-9), remaining))
