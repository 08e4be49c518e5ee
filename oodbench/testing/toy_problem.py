"""The problem that methods are tested on: five classes of 8x8 images, a small network that has learnt them, trainings
of a second. Everything follows from fixed seeds."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oodbench.config.cards import load_class
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Registry
from oodbench.learning.augmentation import UNMIRRORED_VIEWS
from oodbench.learning.batches import Batch, Data, Split, WildMixture
from oodbench.learning.label_oracle import SEMANTIC, LabelOracle
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier, Pooled
from oodbench.learning.outputs import Outputs, forward

CLASSES, UNSEEN = 5, 3
EPOCHS = 3
CPU = torch.device("cpu")


def toy_images(kinds: Tensor, seed: int, noise: float = 40.0) -> Tensor:
    """One uint8 image per kind: the kind's own smooth pattern under pixel noise (in gray levels of 0 to 255)."""
    coarse = torch.rand(CLASSES + UNSEEN, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    patterns = F.interpolate(coarse, size=8, mode="bilinear") * 255
    generator = torch.Generator().manual_seed(seed)
    pixels = patterns[kinds] + noise * torch.randn(len(kinds), 1, 8, 8, generator=generator)
    return pixels.clamp(0, 255).to(torch.uint8)


def separated_images() -> tuple[Tensor, Tensor, Tensor]:
    """Clear images of the five classes, and two kinds of images far from them: between all classes, and mostly noise.

    Who measures the distance from the mean of everything finds the former close, others the latter: nobody finds both.
    """
    kinds = torch.arange(100) % CLASSES
    middle = toy_images(torch.arange(CLASSES), seed=0, noise=0).float().mean(dim=0)
    generator = torch.Generator().manual_seed(12)
    between = middle + 20 * torch.randn(100, 1, 8, 8, generator=generator)
    noisy = 0.3 * middle + 0.7 * 255 * torch.rand(100, 1, 8, 8, generator=generator)
    far = [images.clamp(0, 255).to(torch.uint8) for images in (between, noisy)]
    return toy_images(kinds, seed=13, noise=10), far[0], far[1]


def toy_classifier() -> Classifier:
    """Two convolutions with batch normalization, 16 features, the same initial weights at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = Pooled(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        return Classifier(body, dim=16, num_classes=CLASSES, mean=(0.5,), std=(0.25,))


def toy_data() -> Data:
    """200 labeled rows of five classes in two environments, and a wild mixture with everything around it."""
    y = torch.arange(200) % CLASSES
    env = torch.arange(200) // 100
    images = torch.cat([toy_images(y[:100], seed=1, noise=30), toy_images(y[100:], seed=2, noise=50)])
    known, unseen = torch.arange(100) % CLASSES, CLASSES + torch.arange(60) % UNSEEN
    wild_id, covariate, semantic = toy_images(known, 3), toy_images(known, 4, noise=70), toy_images(unseen, 5)
    mixed = [toy_images(known[:40], 7), toy_images(known[:30], 8, noise=70), toy_images(unseen[:30], 9)]
    return Data(
        Split(images, y, env),
        CLASSES,
        WildMixture(wild_id, covariate, semantic, pi_c=0.3, pi_s=0.3),
        id_validation=toy_images(known, 6),
        mixed_validation=torch.cat(mixed),
        id_test=toy_images(known, 11),
    )


def toy_weights(data: Data) -> dict[str, Tensor]:
    """Of the toy network after training: it knows 95 % of its rows, and its features tell the classes apart."""
    model = toy_classifier()
    loop = Loop(Recipe(epochs=8, batch_size=40, lr=0.1), seed=0, device=CPU)
    load_class(Registry().card("erm"))().train(model, Data(data.labelled, CLASSES), loop)
    return model.state_dict()


class Interrupted(Exception):
    """A training that was stopped on purpose."""


@dataclass(frozen=True)
class FailingData(Data):
    """Gives a number of epochs, then stops as a machine does that is switched off."""

    limit: int = 0
    epochs: list[Any] = field(default_factory=list)

    def batches(self, *args: Any, **kwargs: Any) -> Iterator[Batch]:
        self.epochs.append(args)
        if len(self.epochs) > self.limit:
            raise Interrupted
        return super().batches(*args, **kwargs)


class WatchedLoop(Loop):
    """Keeps the loss of every step."""

    def passes(
        self, model: Classifier, data: Data, step: Any, state: Any, every: int | None = None
    ) -> Iterator[dict[str, Any]]:
        def watched(batch: Batch) -> Tensor:
            loss: Tensor = step(batch)
            self.notes.setdefault("losses", []).append(loss.item())
            return loss

        return super().passes(model, data, watched, state, every)


@dataclass
class GradientLoop(Loop):
    """Sees whether a loss has a gradient by the pixels of wild images or outliers; batch normalization stays frozen."""

    gradients: list[bool] = field(default_factory=list)  # whether there is one, at every step of every stage

    @property
    def reached(self) -> bool:
        return any(self.gradients)

    def _train_mode(self, model: Classifier, epoch: int) -> None:
        super()._train_mode(model, epoch)
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.eval()

    def passes(
        self, model: Classifier, data: Data, step: Any, state: Any, every: int | None = None
    ) -> Iterator[dict[str, Any]]:
        def watched(batch: Batch) -> Tensor:
            others = [each for each in (batch.wild, batch.wild_views, batch.outliers) if each is not None]
            for images in others:
                images.requires_grad_(True)
            loss: Tensor = step(batch)
            self.gradients.append(any(each.grad is not None and bool(each.grad.any()) for each in others))
            return loss

        return super().passes(model, data, watched, state, every)

    def stage(self, name: str) -> Loop:
        return GradientLoop(self.recipe, self.seed, self.device, oracle=self.oracle, gradients=self.gradients)


@dataclass(frozen=True)
class Training:
    """What a trainer left."""

    model: Classifier
    loop: Loop


class Fresh(Outputs):
    """Outputs that nobody has seen before. Their network is copied when it is asked for, which few scorers do."""

    network: Callable[[], Classifier]

    model = cached_property(lambda self: self.network())

    @classmethod
    def of(cls, passed: Outputs, network: Callable[[], Classifier]) -> Outputs:
        fresh = object.__new__(cls)
        tensors = {name: getattr(passed, name) for name in ("images", "features", "logits", "y", "maps")}
        vars(fresh).update({name: _copy(each) for name, each in tensors.items()}, network=network)
        return fresh


def _copy(values: Tensor | None) -> Tensor | None:
    """Made as the original was: a run makes its outputs, and nothing else, in inference mode."""
    if values is None:
        return None
    with torch.inference_mode(values.is_inference()):
        return values.clone()


@dataclass
class Toy:
    """Trains and scores on the toy problem as a run would."""

    data: Data
    new_model: Callable[[], Classifier]
    weights: dict[str, Tensor]  # of ERM
    _trained: dict[type, Training] = field(default_factory=dict)

    def outputs(self) -> tuple[Outputs, Outputs, Outputs]:
        """Of training, validation and unseen rows, which share a network as in a run; copies for whoever asks."""
        return self._fresh(self._passed)

    def separated_outputs(self) -> tuple[Outputs, Outputs, Outputs]:
        """Of the separated images, without labels."""
        return self._fresh(self._passed_separated)

    def _fresh(self, passed: tuple[Outputs, Outputs, Outputs]) -> tuple[Outputs, Outputs, Outputs]:
        network = cache(lambda: deepcopy(self._passed[0].model))
        first, second, third = (Fresh.of(each, network) for each in passed)
        return first, second, third

    @cached_property
    def _passed_separated(self) -> tuple[Outputs, Outputs, Outputs]:
        known, between, noisy = (forward(self._passed[0].model, images) for images in separated_images())
        return known, between, noisy

    @cached_property
    def _passed(self) -> tuple[Outputs, Outputs, Outputs]:
        """Of the trained network, frozen as a run freezes it."""
        model = self.new_model()
        model.load_state_dict(self.weights)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model.ood_head = nn.Linear(model.head.in_features, 1)  # for scorers that need one
        model.eval().requires_grad_(False)
        assert isinstance(self.data.labelled.images, Tensor) and isinstance(self.data.id_validation, Tensor)
        kinds = torch.cat([torch.arange(40) % CLASSES, CLASSES + torch.arange(20) % UNSEEN])
        return (
            forward(model, self.data.labelled.images, self.data.labelled.y),
            forward(model, self.data.id_validation, torch.arange(100) % CLASSES),
            forward(model, toy_images(kinds, seed=10)),
        )

    def train_outputs(self) -> Outputs:
        """Of the 200 labeled rows, with their labels."""
        return self.outputs()[0]

    def validation_outputs(self) -> Outputs:
        """Of 100 ID rows never trained on, with their labels."""
        return self.outputs()[1]

    def unseen_outputs(self) -> Outputs:
        """Of 60 rows never trained on, without labels: 40 of known classes, then 20 of unseen ones."""
        return self.outputs()[2]

    def start(self, trainer: Any) -> Classifier:
        """The network before training, with what the trainer adds to it."""
        model = self.new_model()
        if trainer.starts_from == "erm":
            model.load_state_dict(self.weights)
        elif trainer.starts_from is not None:
            parent = self.trained(load_class(Registry().card(trainer.starts_from)))
            model.load_state_dict(parent.model.state_dict())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            trainer.extend(model)
        return model

    def data_for(self, trainer: Any) -> Data:
        """What a run lets the trainer read."""
        split = self.data.labelled
        labelled = split if "environments" in trainer.needs else Split(split.images, split.y)
        data = replace(self.data, labelled=labelled)
        if not trainer.needs & {"wild", "outliers"}:
            data = Data(labelled, data.num_classes)
        return replace(data, views=UNMIRRORED_VIEWS) if "views" in trainer.needs else data

    def oracle_for(self, trainer: Any) -> LabelOracle | None:
        """Who labels the wild images, for a trainer with a budget."""
        wild = self.data.wild
        if "labels" not in trainer.needs or wild is None:
            return None
        known, covariate, semantic = wild.once_counts()
        labels = torch.cat([torch.arange(known), torch.arange(covariate)]) % CLASSES
        return LabelOracle(torch.cat([labels, torch.full((semantic,), SEMANTIC)]), trainer.budget)

    def recipe(self, trainer: Any, **changes: Any) -> Recipe:
        """Gentle where weights are fine-tuned, and without weight decay: what moves has had a gradient."""
        lr = 0.05 if trainer.starts_from is None else 0.01
        return Recipe(**{"epochs": EPOCHS, "batch_size": 40, "lr": lr, "weight_decay": 0.0, **changes})

    def train(
        self,
        trainer: Any,
        seed: int = 0,
        device: torch.device = CPU,
        checkpoint: Path | None = None,
        fails_after: int | None = None,
        **changes: Any,
    ) -> Training:
        data = self.data_for(trainer)
        if fails_after is not None:
            values = {each.name: getattr(data, each.name) for each in fields(Data)}
            data = FailingData(**values, limit=fails_after)
        model = self.start(trainer).to(device)
        loop = Loop(self.recipe(trainer, **changes), seed, device, checkpoint, oracle=self.oracle_for(trainer))
        torch.manual_seed(seed)
        trainer.train(model, data, loop)
        return Training(model, loop)

    def trained(self, trainer: type) -> Training:
        """The same with its defaults, once for all who ask."""
        if trainer not in self._trained:
            self._trained[trainer] = self.train(trainer())
        return self._trained[trainer]

    def losses(self, trainer: Any) -> list[float]:
        """Of every step of one long epoch under a constant rate."""
        data, model = self.data_for(trainer), self.start(trainer)
        split = data.labelled
        assert isinstance(split.images, Tensor)
        env = None if split.env is None else torch.cat([split.env] * 4)
        data = replace(data, labelled=Split(torch.cat([split.images] * 4), torch.cat([split.y] * 4), env))
        loop = WatchedLoop(self.recipe(trainer, epochs=1, schedule="constant"), 0, CPU, oracle=self.oracle_for(trainer))
        torch.manual_seed(0)
        trainer.train(model, data, loop)
        return list(loop.notes["losses"])


@cache
def toy() -> Toy:
    data = toy_data()
    return Toy(data, toy_classifier, toy_weights(data))
