"""Trainings and cells: what a plan is made of. A cell is suite x setting x method with its values x seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from oodbench import digests
from oodbench.config import search
from oodbench.config.recipe import Recipe
from oodbench.config.registry import Component, MethodSpec
from oodbench.config.suite import Setting, Suite
from oodbench.results import result as results
from oodbench.results.stored import file_of
from oodbench.running import keys


@dataclass(frozen=True)
class Training:
    """One set of weights. What does not read the wild mixture is the same training in every setting."""

    suite: Suite
    trainer: Component
    seed: int
    setting: Setting | None  # None where the weights do not depend on it
    parent: "Training | None"  # whose weights it starts from
    init: Path | None = None  # weights given by the user that stand for this training
    draw: search.Draw | None = None  # of a random search; its values are those of suite and trainer
    marks: Mapping[str, str] = field(default_factory=dict)  # names of the data sets it reads and their fingerprints

    @property
    def root(self) -> "Training":
        return self if self.parent is None else self.parent.root

    @property
    def chain(self) -> "list[Training]":
        """From the root to this one."""
        return [self] if self.parent is None else [*self.parent.chain, self]

    @cached_property
    def init_digest(self) -> str | None:
        return None if self.init is None else keys.file_digest(self.init, "--init")

    @property
    def reads_wild(self) -> bool:
        needs = self.trainer.card.needs
        return "wild" in needs or ("outliers" in needs and self.suite.contents.outliers is None)

    @property
    def reads_outliers(self) -> bool:
        """Of an auxiliary set, rather than of the wild mixture."""
        return "outliers" in self.trainer.card.needs and self.suite.contents.outliers is not None

    @property
    def reads_base(self) -> bool:
        """Whether it learns from the larger set that a suite may state for networks that others start from."""
        return self.suite.contents.splits.base is not None and self.parent is None and not self.reads_wild

    @property
    def images_of_a_step(self) -> int:
        """In batches: labeled ones, wild ones or outliers, and as many again where it compares two views."""
        count = 1 + (self.reads_wild or self.reads_outliers)
        return 2 * count if "views" in self.trainer.card.needs else count

    @property
    def recipe_name(self) -> str:
        return "scratch" if self.parent is None else "finetune"

    @property
    def recipe(self) -> Recipe:
        recipe: Recipe = getattr(self.suite.contents.recipes, self.recipe_name)
        return recipe

    @cached_property
    def key(self) -> str:
        return digests.of_values(keys.of_training(self))


@dataclass(frozen=True)
class Source:
    """Where the outputs that cells score come from: a training, or the weights that another source makes.

    Users' code runs in workers of its own. So the cells of a training under a user's scorer are a source of their own,
    which waits for the weights and never trains them, unless the trainer lies in the same files.
    """

    training: Training
    files: frozenset[Path] = frozenset()  # users' code that its cells need; empty: shipped code alone
    is_loaded: bool = False  # its weights are another source's to make

    @property
    def key(self) -> str:
        """What its lock is named by."""
        names = sorted(path.name for path in self.files)
        return f"{self.training.key}-{digests.of_values(names)[:8]}" if self.is_loaded else self.training.key


def files_of_training(training: Training) -> frozenset[Path]:
    return frozenset(each.trainer.card.path for each in training.chain if not each.trainer.card.is_ours)


def weights_file(key: str, folder: Path, suffix: str = "pt") -> Path:
    """The file of a training's weights; with another suffix, that of its lock or its checkpoint."""
    return folder / results.WEIGHTS / f"{key}.{suffix}"


def must_train(training: Training, folder: Path, force: bool) -> bool:
    """Whether its weights are neither given nor in the results folder, or shall be made anew."""
    return training.init is None and (force or not weights_file(training.key, folder).exists())


@dataclass(frozen=True)
class Cell:
    """The unit that is planned, run, stored and resumed."""

    setting: Setting
    method: MethodSpec
    training: Training
    folder: Path
    marks: Mapping[str, str] = field(default_factory=dict)  # names of the data sets it reads and their fingerprints
    drawn_from: "Cell | None" = None  # of a random search: its draw 0
    request: Mapping[str, Any] = field(default_factory=dict, compare=False)  # that asked for it, as results carry it

    @property
    def suite(self) -> Suite:
        return self.training.suite

    @property
    def seed(self) -> int:
        return self.training.seed

    @cached_property
    def key(self) -> str:
        return digests.of_values(keys.of_cell(self))

    @property
    def name(self) -> str:
        """What tells it from all other cells of its plan: two methods may be one, as ERM and energy on it are."""
        return f"{self.key} {self.method.label}"

    @cached_property
    def variant(self) -> str:
        """The key without the seed: what a mean over seeds must have in common."""
        return digests.of_values(keys.of_cell(self, with_seed=False))

    @cached_property
    def path(self) -> Path:
        setting = self.suite.setting_name(self.setting)
        return file_of(self.folder, self.suite.label, setting, self.method.label, self.seed, self.key)

    @property
    def files(self) -> frozenset[Path]:
        """Users' code that it needs."""
        scorer = self.method.scorer.card
        return files_of_training(self.training) | ({scorer.path} if not scorer.is_ours else frozenset())

    def __str__(self) -> str:
        draw = f" / {self.training.draw}" if self.training.draw is not None else ""
        return f"{self.suite.setting_name(self.setting)} / {self.method.label} / seed {self.seed}{draw}"

    def is_done(self) -> bool:
        try:
            result = results.read(self.path)
        except results.Unreadable:
            return False
        return result.key == self.key and result.status == "ok"
