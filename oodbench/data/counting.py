"""How many images play which part, and how large they are, counted without the data where that is not here."""

from dataclasses import dataclass, replace

from oodbench.config.suite import NONE, Setting, Source, Suite
from oodbench.data import availability, embedding
from oodbench.data.dataset import Dataset
from oodbench.data.lookup import dataset, normalization
from oodbench.data.parts import Parts
from oodbench.data.pictures import PictureSet
from oodbench.data.stored import Stored


@dataclass(frozen=True)
class Counts:
    """Images of a setting, as `parts.build_parts` shares them out."""

    labelled: int
    wild: tuple[int, ...]  # ID, covariate and semantic ones; none where there is no mixture
    tested: int  # of all test splits
    base: int | None = None  # that a training from scratch learns from, where that is not the labeled ones


def counts(suite: Suite, setting: Setting) -> Counts | None:
    """None where nobody has noted the size of a set that is not here."""
    id_source, shares = suite.contents.id, suite.contents.splits
    held_out = suite.held_out(setting)
    if held_out:
        known = id_source.domains or dataset(id_source.dataset).domains
        id_source = replace(id_source, domains=[name for name in known if name not in held_out])
    test_share = shares.domain_out if setting.semantic == NONE else shares.semantic_test
    of_id = _divided(id_source, test_share)
    own = suite.contents.covariate.get(setting.covariate)
    of_covariate = of_id if own is None else _divided(own, test_share)
    if of_id is None or of_covariate is None:
        return None
    train, test = of_id
    if setting.semantic == NONE:
        return Counts(train, (), test + (of_covariate[0] if held_out or own else of_covariate[1]))
    of_semantic = _divided(suite.contents.semantic[setting.semantic], test_share)
    if of_semantic is None:
        return None
    labelled = round(shares.labelled * train) if shares.labelled < 1 else round(shares.labelled)
    unlabelled = train - labelled
    clean, covariate = unlabelled, of_covariate[0]
    if own is None:
        covariate = train if shares.covariate_from == "all" else unlabelled - round(0.5 * unlabelled)
        clean = unlabelled if shares.covariate_from == "all" else round(0.5 * unlabelled)
    validation = shares.mixed_validation + shares.id_validation
    wild = [count - round(validation * count) for count in (clean, covariate)]
    wild.append(of_semantic[0] - round(shares.mixed_validation * of_semantic[0]))
    base = shares.base if shares.base is None or shares.base >= 1 else shares.base * train
    tested = test + of_covariate[1] + of_semantic[1]
    return Counts(labelled, tuple(wild), tested, None if base is None else round(base))


def of_parts(parts: Parts) -> Counts:
    """The same of parts that are here."""
    wild = (parts.wild_id, parts.wild_covariate, parts.wild_semantic)
    tested = (parts.id, parts.covariate, parts.semantic)
    mixture = tuple(map(len, wild)) if len(parts.wild_id) else ()
    base = None if parts.base is None else len(parts.base)
    return Counts(len(parts.labelled), mixture, sum(map(len, tested)), base)


def _divided(source: Source, test_share: float) -> tuple[int, int] | None:
    """Images to train and to test with: a set's own parts, or by lot."""
    data = dataset(source.dataset)
    if data.made_from is None and availability.missing(source.dataset) is None:  # what is made takes a while to make
        parts = [len(data.part(test, source.classes, source.domains).rows) for test in (False, True)]
    else:
        noted = _noted(data)
        if noted is None:
            return None
        chosen = 1.0
        if source.classes is not None and isinstance(data, Stored | PictureSet):
            chosen *= len(source.classes) / data.num_classes
        if source.domains is not None:
            chosen *= len(source.domains) / len(data.domains)
        parts = [round(chosen * count) for count in noted]
    train, test = parts
    if source.part is not None:
        whole = {"train": train, "test": test, "all": train + test}[source.part]
    elif data.has_test_part:
        return train, test
    else:
        whole = train + test
    train = int((1 - test_share) * whole)
    return train, whole - train


def _noted(data: Dataset) -> tuple[int, int] | None:
    """The official size of a set that is not here; of one that is made from another, the other's."""
    made_from = data if data.made_from is None else dataset(data.made_from)
    if not isinstance(made_from, Stored | PictureSet) or made_from.rows[0] is None:
        return None
    return made_from.rows[0], made_from.rows[1]


def image_shape(suite: Suite) -> tuple[int, int]:
    """Channels and side of what a network is given, where that is known without the data; of a set that is made from
    another, as the other's.
    """
    source = suite.contents.id
    if source.embed is not None:
        return embedding.FEATURES, 1
    data, channels = dataset(source.dataset), len(normalization(suite)[0])
    data = data if data.made_from is None else dataset(data.made_from)
    if source.size is not None:
        return channels, source.size
    if isinstance(data, PictureSet):
        return channels, data.size
    return channels, data.shape[-1] if isinstance(data, Stored) else int(data.arrays(None)[0].shape[-1])
