"""The values of a suite file: what it may say, and what it means where it says nothing."""

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from oodbench.config.recipe import Recipe
from oodbench.config.schema import values_of

Precision = Literal["fp32", "tf32", "bf16"]
FOLDER = "folder:"  # before the path of any folder of images, in place of the name of a data set
Option = bool | int | float | str  # the value of one of a network's options
WILD = "wild"  # in place of an auxiliary set of outliers: the wild mixture
NONE = "none"  # in place of a semantic set: generalization alone is measured; or of a covariate set: detection alone


@dataclass(frozen=True)
class Source:
    """A data set, or some classes or domains of one."""

    dataset: str  # a name, or folder:PATH for any folder of images
    classes: list[int] | None = None
    domains: list[str] | None = None
    part: Literal["train", "test", "all"] | None = None  # of a semantic set, then divided here; default: as published
    size: int | None = None  # side of the ID images, where the files do not fix it; other sets follow
    jpeg: int | None = None  # encode the ID images at this quality, as those of a set of JPEG files are
    embed: Literal["efficientnet-lite0"] | None = None  # all sets as features of this frozen network, not as pixels


@dataclass(frozen=True)
class Splits:
    """How images are shared out. Shares are of what stands before them; the rest feeds the wild mixture."""

    labelled: float = 0.5  # of the ID training images, or how many; the others never show their labels
    # Of the ID training images, or how many, that a training from scratch learns from; None: the labeled ones. None of
    # those that validate. What starts from it, and what reads the mixture, has the labeled ones alone.
    base: float | None = None
    mixed_validation: float = 0.3  # of each kind of unlabeled images
    id_validation: float = 0.1  # of the clean unlabeled images; as many covariate ones are set aside
    semantic_test: float = 0.3  # of a semantic set, or a domain, that has no test part of its own
    domain_out: float = 0.2  # of every domain where there is no semantic set: validates, or tests as ID
    covariate_from: Literal["unlabelled", "all"] = "unlabelled"  # whose corrupted copies the mixture may hold


@dataclass(frozen=True)
class NetworkChoice:
    name: str  # of `oodbench list networks`, or FILE.py:function
    options: dict[str, Option] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipes:
    """One recipe for training from scratch, one for trainers that start from another's weights."""

    scratch: Recipe
    finetune: Recipe


@dataclass(frozen=True)
class Setting:
    """One column group of a table."""

    semantic: str
    covariate: str
    severity: int
    pi_c: float  # share of covariate images in the wild mixture
    pi_s: float  # share of semantic images in it


@dataclass(frozen=True)
class Defaults:
    """What the settings of a suite have in common unless they say otherwise."""

    covariate: str
    severity: int = 1  # of a corruption; other covariate sets have none
    pi_c: float = 0.5  # the paper's mixture
    pi_s: float = 0.1


@dataclass(frozen=True)
class Column:
    """A setting as a suite file lists it: the semantic set, if it has one, and what differs from the defaults."""

    semantic: str = NONE
    covariate: str | None = None
    severity: int | None = None
    pi_c: float | None = None
    pi_s: float | None = None


@dataclass(frozen=True)
class Sweep:
    """An ablation of the paper: methods, and the values that their hyperparameters or the settings take in turn."""

    methods: str
    set: dict[str, list[bool | int | float | str]] = field(default_factory=dict)  # scone.margin: [0, -1, ...]
    setting: dict[str, list[int | float | str]] = field(default_factory=dict)  # pi_c: [0, 0.1, ...]


@dataclass(frozen=True)
class Contents:
    """The keys of a suite file."""

    RENAMED: ClassVar[dict[str, str]] = {"setting": "defaults"}

    title: str
    id: Source
    network: NetworkChoice
    recipes: Recipes
    defaults: Defaults
    settings: list[Column]
    corruptions: str | None = None  # a module of oodbench/data/corruptions, whose kinds are covariate sets
    semantic: dict[str, Source] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)  # of semantic sets, near or far: a table averages each
    covariate: dict[str, Source] = field(default_factory=dict)  # further ones: data sets or domains, labeled as the ID
    outliers: Source | None = None  # an auxiliary set for trainers that need outliers; none: the wild mixture
    splits: Splits = field(default_factory=Splits)
    wild: bool = True  # false: no unlabeled mixture is to be had
    mixture: Literal["categorical", "three_masks"] = "categorical"  # how a wild batch is drawn, see data.WildMixture
    # Those that run unless --methods says otherwise, in this order, with hyperparameters and, under `recipe`, what
    # differs from the suite's recipe. A preset that has this key replaces it as a whole. See stated.py. A suite
    # without any runs registry.DEFAULT_METHODS.
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)
    search: dict[str, str] = field(default_factory=dict)  # recipe.lr: 10**U(-5,-3.5), for --draws; see search.py
    precision: Precision = "fp32"  # of the network's body; --precision overrides it
    cpu_threads: int | None = None  # of a training on a CPU, 1 unless said; --cpu-threads overrides it
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def completed(self, column: Column) -> Setting:
        """A setting as listed, with the defaults where it says nothing."""
        given = {key: value for key, value in values_of(column).items() if value is not None}
        return Setting(**{**values_of(self.defaults), **given})

    def domains_of(self, covariate: str) -> list[str]:
        """The domains of the ID data set that a covariate set consists of."""
        source = self.covariate.get(covariate)
        return source.domains or [] if source is not None and source.dataset == self.id.dataset else []

    def pairs(self) -> list[tuple[str, str]]:
        """Every two covariate sets that hold out one domain each, in the order of the suite file."""
        alone = [name for name in self.covariate if len(self.domains_of(name)) == 1]
        return list(itertools.combinations(alone, 2))


# What `--set` can change, besides hyperparameters: the word before the dot, and whose fields may stand behind it.
SECTIONS: dict[str, Any] = {"recipe": Recipe, "id": Source, "splits": Splits, "network": NetworkChoice}
