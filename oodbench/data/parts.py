"""Which image plays which part: a suite, a setting and a seed to disjoint parts. Plain arrays, no torch.

The shares are those of the SCONE paper's code: the ID training images are halved into a labeled part and one that
never shows its labels; what feeds the wild mixture and what validates it are kept apart.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from oodbench.config.suite import NONE, Setting, Source, Suite
from oodbench.data.image_part import ImagePart
from oodbench.data.lookup import dataset, num_classes
from oodbench.data.views import corrupted, part_of
from oodbench.errors import UserError
from oodbench.seeds import derive

NEVER_EMPTY = ("labelled", "id", "covariate", "covariate_validation")  # also where there is no wild mixture


@dataclass(frozen=True)
class Parts:
    """Everything one training and its evaluation may read.

    No image is in two of these. Copies neither, with `covariate_from: unlabelled`: a corrupted copy counts as its
    original, except in the covariate test split, which holds the ID test images corrupted. `base` is the exception: it
    holds the labeled images and others that do not validate.
    """

    labelled: ImagePart
    wild_id: ImagePart
    wild_covariate: ImagePart
    wild_semantic: ImagePart
    id_validation: ImagePart
    mixed_id: ImagePart  # the mixed validation set is these three, in the proportions of the mixture
    mixed_covariate: ImagePart
    mixed_semantic: ImagePart
    id: ImagePart  # the three test splits; the covariate one holds corrupted copies of the ID test images
    covariate: ImagePart
    semantic: ImagePart
    covariate_validation: ImagePart | None = None  # of held-out domains, with labels: for the selection of models alone
    base: ImagePart | None = None  # what a training from scratch learns from, where that is more than the labeled ones
    outliers: ImagePart | None = None  # of an auxiliary set, for trainers that need outliers

    def items(self) -> dict[str, ImagePart]:
        """By name, without a part that the setting does not have."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: part for name, part in every.items() if part is not None}


def build_parts(suite: Suite, setting: Setting, seed: int) -> Parts:
    """All parts of one setting under one seed; the same arguments always give the same rows."""
    parts = _without_mixture(suite, setting, seed) if setting.semantic == NONE else _with_mixture(suite, setting, seed)
    if suite.contents.outliers is not None:
        parts = replace(parts, outliers=_training_part(suite, suite.contents.outliers))
    return _checked(suite, setting, parts)


def _training_part(suite: Suite, source: Source) -> ImagePart:
    """The published training part of a set, or all of it: nothing of it tests."""
    if dataset(source.dataset).has_test_part and source.part is None:
        return part_of(suite, source, False)
    return part_of(suite, source, {"train": False, "test": True}.get(source.part or "all"))


def _without_mixture(suite: Suite, setting: Setting, seed: int) -> Parts:
    """Domain generalization as in DomainBed: nothing is unlabeled, the larger part of a held-out domain tests."""
    lots = _Lots(suite, suite.contents.splits.domain_out, seed)
    id_train, id_test = lots.divided(_id_source(suite, setting), "labelled")
    aside = None
    if setting.covariate in suite.contents.covariate:
        covariate_test, aside = lots.divided(suite.contents.covariate[setting.covariate], "covariate")
    else:
        covariate_test = corrupted(suite, setting, id_test)
    nothing = id_test.take(slice(0))
    return Parts(
        labelled=id_train,
        wild_id=nothing,
        wild_covariate=nothing,
        wild_semantic=nothing,
        id_validation=nothing,
        mixed_id=nothing,
        mixed_covariate=nothing,
        mixed_semantic=nothing,
        id=id_test,
        covariate=covariate_test,
        semantic=nothing,
        covariate_validation=aside if suite.held_out(setting) else None,
    )


def _with_mixture(suite: Suite, setting: Setting, seed: int) -> Parts:
    """As in the paper, or with a covariate set of its own files in place of corrupted copies."""
    shares = suite.contents.splits
    lots = _Lots(suite, shares.semantic_test, seed)
    id_train, id_test = lots.divided(_id_source(suite, setting), "labelled")
    labelled, unlabelled = _cut(id_train, shares.labelled if shares.labelled < 1 else shares.labelled / len(id_train))
    if setting.covariate in suite.contents.covariate:
        clean = unlabelled
        covariate, covariate_test = lots.divided(suite.contents.covariate[setting.covariate], "covariate")
    else:
        if shares.covariate_from == "all":
            clean, to_corrupt = unlabelled, lots.shuffled(id_train, "covariate")
        else:
            clean, to_corrupt = _cut(unlabelled, 0.5)
        covariate, covariate_test = corrupted(suite, setting, to_corrupt), corrupted(suite, setting, id_test)
    mixed_id, id_validation, wild_id = _cut(clean, shares.mixed_validation, shares.id_validation)
    mixed_covariate, aside, wild_covariate = _cut(covariate, shares.mixed_validation, shares.id_validation)
    semantic, semantic_test = lots.divided(suite.contents.semantic[setting.semantic], "semantic")
    mixed_semantic, wild_semantic = _cut(semantic, shares.mixed_validation)
    base = None if shares.base is None else _base(id_train, shares.base, id_validation)
    return Parts(
        labelled=labelled,
        wild_id=wild_id,
        wild_covariate=wild_covariate,
        wild_semantic=wild_semantic,
        id_validation=id_validation,
        mixed_id=mixed_id,
        mixed_covariate=mixed_covariate,
        mixed_semantic=mixed_semantic,
        id=id_test,
        covariate=covariate_test,
        semantic=semantic_test,
        covariate_validation=aside if suite.held_out(setting) else None,
        base=base,
    )


def _base(id_train: ImagePart, share: float, validation: ImagePart) -> ImagePart:
    """So many of the ID training images, the labeled ones first, and none that validates."""
    others = np.flatnonzero(~np.isin(id_train.rows, validation.rows))
    count = round(share * len(id_train) if share < 1 else share)
    if count > len(others):
        raise UserError(
            f"splits.base={share:g} asks for {count:,} images, and {len(validation):,} of {len(id_train):,} validate; "
            f"choose splits.base={len(others)} or fewer, or a smaller splits.id_validation"
        )
    return id_train.take(others[:count])


GIVEN_VALIDATION = 0.1  # of the ID training images, for what a scorer fits on validation images


def given_parts(suite: Suite, setting: Setting, seed: int) -> Parts:
    """The parts for a network that was trained elsewhere: nothing is unlabeled, nobody learns from OOD images.

    Scorers are fitted on all ID training images but those that validate. A set that is divided by lot tests as a whole.
    """
    lots = _Lots(suite, suite.contents.splits.semantic_test, seed)
    id_train, id_test = lots.divided(_id_source(suite, setting), "labelled")
    validation, labelled = _cut(id_train, GIVEN_VALIDATION)
    if setting.covariate in suite.contents.covariate:
        covariate = _tested(suite, suite.contents.covariate[setting.covariate])
    else:
        covariate = corrupted(suite, setting, id_test)
    nothing = id_test.take(slice(0))
    semantic = nothing if setting.semantic == NONE else _tested(suite, suite.contents.semantic[setting.semantic])
    wild = dict.fromkeys(("wild_id", "wild_covariate", "wild_semantic"), nothing)
    mixed = dict.fromkeys(("mixed_id", "mixed_covariate", "mixed_semantic"), nothing)
    return Parts(
        labelled, **wild, id_validation=validation, **mixed, id=id_test, covariate=covariate, semantic=semantic
    )


def _tested(suite: Suite, source: Source) -> ImagePart:
    """The published test part of a set, or all of it."""
    if dataset(source.dataset).has_test_part and source.part is None:
        return part_of(suite, source, True)
    return part_of(suite, source, {"train": False, "test": True}.get(source.part or "all"))


def _id_source(suite: Suite, setting: Setting) -> Source:
    """The ID data without the domains that a setting holds out."""
    source, held_out = suite.contents.id, suite.held_out(setting)
    if not held_out:
        return source
    known = source.domains or dataset(source.dataset).domains
    return replace(source, domains=[name for name in known if name not in held_out])


@dataclass(frozen=True)
class _Lots:
    """What chance decides, under one seed; every purpose has draws of its own."""

    suite: Suite
    test_share: float  # of a set that has no test part of its own
    seed: int

    def shuffled(self, part: ImagePart, purpose: str) -> ImagePart:
        return part.take(np.random.default_rng(derive(self.seed, purpose)).permutation(len(part)))

    def divided(self, source: Source, purpose: str) -> tuple[ImagePart, ImagePart]:
        """The train and the test part of a set: its own, or by lot. Truncated as in the paper's code."""
        if dataset(source.dataset).has_test_part and source.part is None:
            return self.shuffled(part_of(self.suite, source, False), purpose), part_of(self.suite, source, True)
        published_part = {"train": False, "test": True}.get(source.part or "all")
        everything = self.shuffled(part_of(self.suite, source, published_part), purpose)
        train = int((1 - self.test_share) * len(everything))
        return everything.take(slice(train)), everything.take(slice(train, None))


def _cut(part: ImagePart, *shares: float) -> list[ImagePart]:
    """Consecutive shares of a part, and the rest."""
    edges = [0, *np.rint(np.cumsum(shares) * len(part)).astype(int), len(part)]
    return [part.take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _checked(suite: Suite, setting: Setting, parts: Parts) -> Parts:
    """That nothing a run reads is empty, and that covariate labels are those of the ID classes."""
    for name, part in parts.items().items():
        if len(part) == 0 and (setting.semantic != NONE or name in NEVER_EMPTY):
            raise UserError(f"the part '{name}' of {suite.name} is empty; change its classes or shares in {suite.path}")
    classes = num_classes(suite)
    if parts.covariate.labels.max(initial=0) >= classes or parts.wild_covariate.labels.max(initial=0) >= classes:
        raise UserError(f"the covariate set '{setting.covariate}' has more classes than the {classes} of the ID data")
    return parts


def mixed_validation(parts: Parts, setting: Setting) -> Any:
    """Unlabelled images in the proportions of the mixture, as many as the smallest part allows."""
    pools = [
        (1 - setting.pi_c - setting.pi_s, parts.mixed_id),
        (setting.pi_c, parts.mixed_covariate),
        (setting.pi_s, parts.mixed_semantic),
    ]
    size = min(len(pool) / share for share, pool in pools if share > 1e-9)
    chosen = [pool.take(slice(int(share * size + 1e-9))) for share, pool in pools]
    return np.concatenate([np.asarray(part.images) for part in chosen])
