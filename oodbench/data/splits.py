"""Which image plays which part: a suite, a setting and a seed to disjoint parts. Plain arrays, no torch.

The shares are those of the SCONE paper's code: the ID training images are halved into a labelled part and one that
never shows its labels; what feeds the wild mixture and what validates it are kept apart.
"""

from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from oodbench import digests
from oodbench.config import identity
from oodbench.config.cards import catalogue, load_class
from oodbench.config.suite import FOLDER, NONE, Setting, Source, Suite
from oodbench.data import corruptions, embedding, store
from oodbench.data.dataset import Dataset, Rows
from oodbench.data.decoder import code as decoder_code
from oodbench.data.jpeg import encoded
from oodbench.data.pictures import Pictures, PictureSet
from oodbench.data.sets.corrupted import Official, official
from oodbench.data.sets.folders import Folder
from oodbench.data.stored import Stored
from oodbench.data.weights import WEIGHTS
from oodbench.errors import UserError
from oodbench.seeds import derive

NEVER_EMPTY = ("labelled", "id", "covariate", "covariate_validation")  # also where there is no wild mixture
PUBLISHED = {"cifar10": "cifar_c", "mnist": "mnist_c"}  # families of corruptions whose files are published


@cache
def dataset(name: str) -> Dataset:
    """By name, or any folder of images as `folder:PATH`."""
    if name.startswith(FOLDER):
        return Folder(Path(name.removeprefix(FOLDER)).expanduser())
    loaded: Dataset = load_class(catalogue("datasets")[name])()
    return loaded


@dataclass(frozen=True)
class Part:
    """Some images with their labels, and which rows of which data set they are."""

    whole: Any  # uint8, M x C x H x W: a memory-mapped array, or Pictures that are decoded when they are read
    chosen: np.ndarray  # which images of it
    labels: np.ndarray
    rows: np.ndarray
    origin: str  # data set, and what was done to it
    domains: np.ndarray | None = None  # numbers of the data set's domains, if it has any

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def images(self) -> Any:
        """Copied when asked for and not before: a run never holds what it does not use."""
        return self.whole[self.chosen]

    def take(self, some: Any) -> "Part":
        domains = None if self.domains is None else self.domains[some]
        return replace(self, chosen=self.chosen[some], labels=self.labels[some], rows=self.rows[some], domains=domains)

    @property
    def digest(self) -> str:
        """Of the origin and the rows, in order: two parts with one digest hold the same pixels."""
        return digests.of_bytes(self.origin.encode(), self.rows.astype("<i8").tobytes())


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
    covariate_validation: Part | None = None  # of held-out domains, with labels: for the selection of models alone

    def items(self) -> dict[str, Part]:
        """By name, without a part that the setting does not have."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: part for name, part in found.items() if part is not None}


def num_classes(suite: Suite) -> int:
    source = suite.contents.id
    if source.classes is not None:
        return len(source.classes)
    return int(dataset(source.dataset).labels().max()) + 1


def normalisation(suite: Suite) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation, in [0, 1], of each channel of what the network is given; features keep their own scale."""
    if suite.contents.id.embed is not None:
        return (0.0,) * embedding.FEATURES, (1 / embedding.LARGEST,) * embedding.FEATURES
    data = dataset(suite.contents.id.dataset)
    return data.mean, data.std


def sources(suite: Suite, setting: Setting) -> dict[str, Source]:
    """The data sets that a setting reads, by the part they play."""
    found = {"id": suite.contents.id}
    if setting.semantic != NONE:
        found["semantic"] = suite.contents.semantic[setting.semantic]
    if setting.covariate in suite.contents.covariate:
        found["covariate"] = suite.contents.covariate[setting.covariate]
    return found


def fingerprints(suite: Suite, setting: Setting) -> dict[str, str]:
    """The content of every data set a cell reads, without decoding any."""
    sets = [dataset(source.dataset) for source in sources(suite, setting).values()]
    marks = {each.name: each.fingerprint for each in sets}
    official = _official(suite, setting)
    if official is not None:
        marks[official.name] = official.fingerprint
    return dict(sorted(marks.items()))


def build(suite: Suite, setting: Setting, seed: int) -> Parts:
    """All parts of one setting under one seed; the same arguments always give the same rows."""
    shares = suite.contents.splits
    test_share = shares.domain_out if setting.semantic == NONE else shares.semantic_test

    def shuffled(part: Part, purpose: str) -> Part:
        return part.take(np.random.default_rng(derive(seed, purpose)).permutation(len(part)))

    def divided(source: Source, purpose: str) -> tuple[Part, Part]:
        """The train and the test part of a set: its own, or by lot. Truncated as in the paper's code."""
        if dataset(source.dataset).has_test_part and source.part is None:
            return shuffled(_part(suite, source, test=False), purpose), _part(suite, source, test=True)
        everything = shuffled(_part(suite, source, {"train": False, "test": True}.get(source.part or "all")), purpose)
        train = int((1 - test_share) * len(everything))
        return everything.take(slice(train)), everything.take(slice(train, None))

    id_source = suite.contents.id
    held_out = suite.held_out(setting)
    if held_out:
        known = id_source.domains or dataset(id_source.dataset).domains
        id_source = replace(id_source, domains=[name for name in known if name not in held_out])
    id_train, id_test = divided(id_source, "labelled")
    if setting.semantic == NONE:
        # Domain generalisation as DomainBed measures it: no wild mixture, the larger part of the held-out domain tests.
        nothing, aside = id_test.take(slice(0)), None
        if setting.covariate in suite.contents.covariate:
            test, aside = divided(suite.contents.covariate[setting.covariate], "covariate")
        else:
            test = _corrupted(suite, setting, id_test)
        parts = Parts(id_train, *(nothing,) * 7, id_test, test, nothing, aside if held_out else None)
        return _checked(suite, setting, parts)
    labelled, unlabelled = _cut(id_train, shares.labelled if shares.labelled < 1 else shares.labelled / len(id_train))
    if setting.covariate in suite.contents.covariate:
        clean = unlabelled
        covariate, covariate_test = divided(suite.contents.covariate[setting.covariate], "covariate")
    else:
        if shares.covariate_from == "all":
            clean, to_corrupt = unlabelled, shuffled(id_train, "covariate")
        else:
            clean, to_corrupt = _cut(unlabelled, 0.5)
        covariate, covariate_test = _corrupted(suite, setting, to_corrupt), _corrupted(suite, setting, id_test)
    mixed_id, id_validation, wild_id = _cut(clean, shares.mixed_validation, shares.id_validation)
    mixed_covariate, aside, wild_covariate = _cut(covariate, shares.mixed_validation, shares.id_validation)
    semantic, semantic_test = divided(suite.contents.semantic[setting.semantic], "semantic")
    mixed_semantic, wild_semantic = _cut(semantic, shares.mixed_validation)
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
        covariate=covariate_test,
        semantic=semantic_test,
        covariate_validation=aside if held_out else None,
    )
    return _checked(suite, setting, parts)


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


def _part(suite: Suite, source: Source, test: bool | None) -> Part:
    """Rows of a set as the suite's network takes them: as large and with as many channels as the ID images."""
    id, data = suite.contents.id, dataset(source.dataset)
    size = id.size if source.dataset == id.dataset else side(suite)
    found: Rows = data.part(test, source.classes, source.domains)
    origin = data.name
    if id.embed is not None and isinstance(data, PictureSet):
        whole: Any = data.pictures(size or data.size)  # not cached, since they are read once
    else:
        whole = data.arrays(size)[0]
    if source in suite.contents.covariate.values():
        found = replace(found, labels=_as_id_labels(suite, source, found.labels))
    if source.dataset == id.dataset and id.jpeg is not None:
        whole, origin = _encoded(suite), f"{origin} jpeg-{id.jpeg}"
    if id.embed is not None:
        whole, origin = _embedded(suite, source, whole), f"{origin} {id.embed}"
    else:
        whole = _with_channels(suite, whole)
    return Part(whole, found.rows, found.labels, found.rows, origin, found.domains)


def _as_id_labels(suite: Suite, source: Source, labels: np.ndarray) -> np.ndarray:
    """Labels of a covariate set, matched by the names of the classes where both sets have names."""
    ours, theirs = dataset(suite.contents.id.dataset).class_names, dataset(source.dataset).class_names
    if not ours or not theirs or ours == theirs:
        return labels
    strange = [name for name in theirs if name not in ours]
    if strange:
        raise UserError(
            f"'{dataset(source.dataset).name}' has the class '{strange[0]}', which is none of the ID data; "
            f"name its folders {', '.join(ours)}"
        )
    return np.array([ours.index(name) for name in theirs])[labels]


def side(suite: Suite) -> int:
    """Of the ID images, in pixels."""
    id = suite.contents.id
    return id.size if id.size is not None else int(dataset(id.dataset).arrays(None)[0].shape[-1])


def _encoded(suite: Suite) -> np.ndarray:
    """The whole ID data set as JPEG files would give it back."""
    id = suite.contents.id
    origin = dataset(id.dataset)
    images = origin.arrays(id.size)[0]
    quality = id.jpeg
    assert quality is not None
    if isinstance(images, Pictures):
        raise UserError(f"'{origin.name}' is too large to be encoded in memory; leave out id.jpeg={quality}")
    version = f"{origin.fingerprint}-{id.size}-{decoder_code()}"
    return store.cached_array(f"{origin.name}-jpeg-{quality}", version, lambda: encoded(images, quality))


def _embedded(suite: Suite, source: Source, images: Any) -> np.ndarray:
    """A whole set as the features that the suite's embedding gives of its images, computed once."""
    embed = suite.contents.id.embed
    assert embed is not None
    coloured = _with_channels(suite, images)

    def make() -> np.ndarray:
        return embedding.embedded(coloured, embedding.network(WEIGHTS[embed].path()))

    return store.cached_array(*_embedding(suite, source), make)


def _embedding(suite: Suite, source: Source) -> tuple[str, str]:
    """The name and version that the features of a set are cached under."""
    id, data = suite.contents.id, dataset(source.dataset)
    assert id.embed is not None
    key = data.key if isinstance(data, PictureSet) else data.name
    jpeg = f"-jpeg-{id.jpeg}" if source.dataset == id.dataset and id.jpeg is not None else ""
    version = f"{data.fingerprint}-{decoder_code()}-{WEIGHTS[id.embed].digest}-{identity.of_harness('embedding')}"
    return f"{key}-{side(suite)}{jpeg}-{id.embed}", version


def is_embedded(suite: Suite) -> bool:
    """Whether the features of the ID data set are there."""
    return store.cached_file(*_embedding(suite, suite.contents.id)).exists()


def _with_channels(suite: Suite, images: Any) -> Any:
    """Colour as grey (ITU-R 601 luma) or grey as colour, where the ID images are so; embeddings are of colours."""
    id = suite.contents.id
    wanted = 3 if id.embed is not None else len(dataset(id.dataset).mean)
    if images.shape[1] == wanted:
        return images
    if {wanted, images.shape[1]} != {1, 3}:
        raise UserError(
            f"images of {images.shape[1]} channels cannot become like the ID images of {wanted}; choose another set"
        )
    convert = _grey if wanted == 1 else _coloured
    if isinstance(images, Pictures):
        return images.then(lambda pixels, rows: convert(pixels), channels=wanted)
    return convert(images)


def _grey(images: np.ndarray) -> np.ndarray:
    weights = np.array([299, 587, 114], dtype=np.uint32).reshape(1, 3, 1, 1)
    grey = np.empty((len(images), 1, *images.shape[2:]), dtype=np.uint8)
    for start in range(0, len(images), 4096):  # whole sets would take sixteen times their size for a moment
        some = slice(start, start + 4096)
        grey[some] = (images[some] * weights).sum(axis=1, keepdims=True) // 1000
    return grey


def _coloured(images: np.ndarray) -> np.ndarray:
    return np.repeat(images, 3, axis=1)


def _cut(part: Part, *shares: float) -> list[Part]:
    """Consecutive shares of a part, and the rest."""
    edges = [0, *np.rint(np.cumsum(shares) * len(part)).astype(int), len(part)]
    return [part.take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _official(suite: Suite, setting: Setting) -> Official | None:
    """The published files of a corruption, which are preferred where they are."""
    id = suite.contents.id
    if PUBLISHED.get(id.dataset) != suite.contents.corruptions or id.jpeg is not None or id.size is not None:
        return None
    if setting.covariate in suite.contents.covariate:
        return None
    return official(id.dataset, setting.covariate, setting.severity)


def published(suite: Suite, setting: Setting, rows: np.ndarray) -> tuple[Official, np.ndarray] | None:
    """Files that hold copies of all these rows of the ID data set, and where in them."""
    files = _official(suite, setting)
    if files is None or not np.isin(rows, files.rows).all():
        return None
    return files, np.searchsorted(files.rows, rows)


def _corrupted(suite: Suite, setting: Setting, part: Part) -> Part:
    """A part under the setting's corruption: from the published files if they cover it, otherwise made here."""
    id = suite.contents.id
    family, kind, severity = suite.contents.corruptions, setting.covariate, setting.severity
    assert family is not None
    copies = published(suite, setting, part.rows)
    if copies is not None:
        files, where = copies
        origin = f"{part.origin} {files.name}.{kind}-{severity}"
        return replace(part, whole=files.images, chosen=where, origin=origin)
    corrupt = corruptions.kinds(family)[kind]
    data = dataset(id.dataset)
    origin = f"{part.origin} {family}.{kind}-{severity}"
    if isinstance(part.whole, Pictures):
        return replace(part, whole=part.whole.then(lambda pixels, rows: corrupt(pixels, severity, rows)), origin=origin)
    if isinstance(data, Stored | PictureSet):
        clean = _encoded(suite) if id.jpeg is not None else data.arrays(id.size)[0]
        key = f"{data.name}-{family}-{kind}-{severity}" + (f"-jpeg-{id.jpeg}" if id.jpeg is not None else "")
        decoded = f"-{id.size}-{decoder_code()}" if isinstance(data, PictureSet) or id.jpeg is not None else ""
        version = f"{data.fingerprint}{decoded}-{identity.of_family(family)}"
        whole = store.cached_array(key, version, lambda: corrupt(clean, severity, np.arange(len(clean))))
        return replace(part, whole=whole, chosen=part.rows, origin=origin)
    images = corrupt(part.images, severity, part.rows)
    return replace(part, whole=images, chosen=np.arange(len(part)), origin=origin)
