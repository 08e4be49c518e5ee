"""Which image plays which part: a suite, a setting and a seed to disjoint parts. Plain arrays, no torch.

The shares are those of the SCONE paper's code: the ID training images are halved into a labelled part and one that
never shows its labels; what feeds the wild mixture and what validates it are kept apart.
"""

import hashlib
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from oodbench.cards import catalogue, code_of, load_class
from oodbench.datasets import Dataset, Images, store
from oodbench.datasets._stored import Stored
from oodbench.errors import UserError
from oodbench.seeds import derive
from oodbench.suite import Setting, Source, Suite


@cache
def dataset(name: str) -> Dataset:
    loaded: Dataset = load_class(catalogue("datasets")[name])()
    return loaded


@dataclass(frozen=True)
class Part:
    """Some images with their labels, and which rows of which data set they are."""

    images: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    origin: str  # data set, and what was done to it

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: Any) -> "Part":
        return Part(self.images[chosen], self.labels[chosen], self.rows[chosen], self.origin)

    @property
    def digest(self) -> str:
        """Of the origin and the rows, in order: two parts with one digest hold the same pixels."""
        return hashlib.sha256(self.origin.encode() + self.rows.astype("<i8").tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Parts:
    """Everything one training and its evaluation may read.

    No image is in two of these. Copies neither, with `covariate_from: unlabelled`: a corrupted copy counts as its
    original, except in the covariate test split, which holds the ID test images corrupted.
    """

    labelled: Part
    wild_id: Part
    wild_covariate: Part
    wild_semantic: Part
    id_validation: Part
    mixed_id: Part  # the mixed validation set is these three, in the proportions of the mixture
    mixed_covariate: Part
    mixed_semantic: Part
    id: Part  # the three test splits; the covariate one holds corrupted copies of the ID test images
    covariate: Part
    semantic: Part

    def items(self) -> dict[str, Part]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def num_classes(suite: Suite) -> int:
    source = suite.contents.id
    if source.classes is not None:
        return len(source.classes)
    return int(dataset(source.dataset).part(test=False).labels.max()) + 1


def fingerprints(suite: Suite, setting: Setting) -> dict[str, str]:
    """The content of every data set a cell reads, without decoding any."""
    names = {suite.contents.id.dataset, suite.contents.semantic[setting.semantic].dataset}
    return {name: dataset(name).fingerprint for name in sorted(names)}


def build(suite: Suite, setting: Setting, seed: int) -> Parts:
    """All parts of one setting under one seed; the same arguments always give the same rows."""
    shares = suite.contents.splits

    def shuffled(part: Part, purpose: str) -> Part:
        return part.take(np.random.default_rng(derive(seed, purpose)).permutation(len(part)))

    id_train = shuffled(_part(suite.contents.id, test=False), "labelled")
    labelled, unlabelled = _cut(id_train, shares.labelled if shares.labelled < 1 else shares.labelled / len(id_train))
    if shares.covariate_from == "all":
        clean, to_corrupt = unlabelled, shuffled(id_train, "covariate")
    else:
        clean, to_corrupt = _cut(unlabelled, 0.5)
    covariate = _corrupted(suite, setting, to_corrupt)
    mixed_id, id_validation, wild_id = _cut(clean, shares.mixed_validation, shares.id_validation)
    mixed_covariate, _, wild_covariate = _cut(covariate, shares.mixed_validation, shares.id_validation)

    source = suite.contents.semantic[setting.semantic]
    if dataset(source.dataset).has_test_part and source.part is None:
        semantic_train = shuffled(_part(source, test=False), "semantic")
        semantic_test = _part(source, test=True)
    else:
        everything = shuffled(_part(source, {"train": False, "test": True}.get(source.part or "all")), "semantic")
        semantic_test, semantic_train = _cut(everything, shares.semantic_test)
    mixed_semantic, wild_semantic = _cut(semantic_train, shares.mixed_validation)

    id_test = _part(suite.contents.id, test=True)
    parts = Parts(
        labelled=labelled,
        wild_id=wild_id,
        wild_covariate=wild_covariate,
        wild_semantic=wild_semantic,
        id_validation=id_validation,
        mixed_id=mixed_id,
        mixed_covariate=mixed_covariate,
        mixed_semantic=mixed_semantic,
        id=id_test,
        covariate=_corrupted(suite, setting, id_test),
        semantic=semantic_test,
    )
    for name, part in parts.items().items():
        if len(part) == 0:
            raise UserError(f"the part '{name}' of {suite.name} is empty; change its classes or shares in {suite.path}")
    return parts


def mixed_validation(parts: Parts, setting: Setting) -> np.ndarray:
    """Unlabelled images in the proportions of the mixture, as many as the smallest part allows."""
    pools = [
        (1 - setting.pi_c - setting.pi_s, parts.mixed_id),
        (setting.pi_c, parts.mixed_covariate),
        (setting.pi_s, parts.mixed_semantic),
    ]
    size = min(len(pool) / share for share, pool in pools if share > 1e-9)
    return np.concatenate([pool.images[: int(share * size + 1e-9)] for share, pool in pools])


def _part(source: Source, test: bool | None) -> Part:
    found: Images = dataset(source.dataset).part(test, source.classes)
    return Part(found.images, found.labels, found.rows, source.dataset)


def _cut(part: Part, *shares: float) -> list[Part]:
    """Consecutive shares of a part, and the rest."""
    edges = [0, *np.rint(np.cumsum(shares) * len(part)).astype(int), len(part)]
    return [part.take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _corrupted(suite: Suite, setting: Setting, part: Part) -> Part:
    family, kind, severity = suite.contents.corruptions, setting.covariate, setting.severity
    corrupt = import_module(f"oodbench.corruptions.{family}").KINDS[kind]
    origin = dataset(suite.contents.id.dataset)
    if isinstance(origin, Stored):
        key = f"{origin.name}-{family}-{kind}-{severity}"
        version = f"{origin.fingerprint}-{corruption_code(family)}"
        whole = store.kept(key, version, lambda: corrupt(origin.load()[0], severity, np.arange(len(origin.load()[0]))))
        images = whole[part.rows]
    else:
        images = corrupt(part.images, severity, part.rows)
    return Part(images, part.labels, part.rows, f"{part.origin} {family}.{kind}-{severity}")


@cache
def corruption_code(family: str) -> str:
    """Changes when the code of a family of corruptions does, and with it what was kept of them."""
    folder = Path(__file__).parent / "corruptions"
    texts = [
        code_of(path.read_text(encoding="utf-8")) for path in (folder / f"{family}.py", *sorted(folder.glob("_*.py")))
    ]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
