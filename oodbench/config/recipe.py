"""How a network is trained, as a suite file states it."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """SGD with momentum, or Adam, under one learning-rate schedule."""

    RENAMED: ClassVar[dict[str, str]] = {"plain": "unaugmented", "steps": "epoch_length"}

    epochs: int | None = None  # how long the training is: in passes, or
    iterations: int | None = None  # in optimizer steps; one of the two is stated
    batch_size: int
    lr: float
    momentum: float = 0.9  # beta 1 of Adam
    nesterov: bool = True  # SGD alone
    weight_decay: float = 5e-4
    optimizer: Literal["sgd", "adam"] = "sgd"
    freeze_bn: bool = False  # batch normalization keeps its statistics; its scale and shift still learn
    bn_momentum: float | None = None  # of its running statistics; None: the network's own
    bn_bias_lr: float = 1.0  # times lr: the rate of its shift, whose weight decay is divided by as much
    first_layer_epochs: int | None = None  # how many epochs, the first ones, it learns in; None: all
    lookahead: int | None = None  # steps after which the weights return to their moving average, each time
    schedule: Literal["cosine", "steps", "constant", "linear"] = "cosine"
    milestones: list[float] = field(default_factory=lambda: [0.5, 0.75, 0.9])  # of the training, for "steps"
    decay: float = 0.5  # at each milestone
    warmup: float = 0.0  # of the training: the rate rises, and the schedule begins after it
    warmup_from: float = 0.0  # times lr: where it rises from
    final: float = 0.0  # times lr: where "linear" ends
    # Of the labeled images.
    augment: Literal["none", "crop-flip", "resized-crop-flip", "domainbed", "alternating-flip"] = "none"
    unaugmented: float = 0.0  # share of the epochs, the last ones, without augmentation: the network then fits them
    epoch_length: Literal["labelled", "shortest"] = "labelled"  # see data.Data.steps

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of step 0 <= step < steps."""
        rising = int(self.warmup * steps)
        if step < rising:
            first = self.warmup_from * self.lr
            return first + (self.lr - first) * (step + 1) / rising
        step, steps = step - rising, steps - rising
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * step / steps)) / 2
        if self.schedule == "steps":
            return self.lr * self.decay ** sum(step >= int(m * steps) for m in self.milestones)
        if self.schedule == "linear":
            return self.lr * (1 - (1 - self.final) * step / steps)
        return self.lr

    def steps(self, of_an_epoch: int) -> int:
        """Optimizer steps in all."""
        return self.iterations if self.epochs is None else self.epochs * of_an_epoch  # type: ignore[return-value]

    def of_epoch(self, epoch: int, epochs: int) -> "Recipe":
        """As it is in epoch 0 <= epoch < epochs: without augmentation in the `unaugmented` last ones."""
        return replace(self, augment="none") if epoch >= round((1 - self.unaugmented) * epochs) else self

    def changed(self, **values: Any) -> "Recipe":
        """With these values; a length in epochs takes the place of one in iterations, and the other way round."""
        if values.get("epochs") is not None:
            values = {"iterations": None, **values}
        if values.get("iterations") is not None:
            values = {"epochs": None, **values}
        return replace(self, **values)
