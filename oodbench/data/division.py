"""Which of a user's ID images are for fitting, which for choosing temperatures and thresholds, which for testing."""

from dataclasses import dataclass, replace

import numpy as np

from oodbench.data.given_set import GivenSet
from oodbench.data.image_part import ImagePart
from oodbench.errors import UserError
from oodbench.seeds import derive

TRAINING = 0.7  # of the ID images, where none are given for training
VALIDATION = 0.1  # of the training images
MOST_VALIDATION = 5_000  # images; more make no threshold better


@dataclass(frozen=True)
class Divided:
    """The ID images by what they are for, none in two parts, with labels in one order of classes."""

    train: ImagePart
    validation: ImagePart
    test: ImagePart
    classes: tuple[str, ...]  # names in the order of the labels; () where they are not known
    said: str  # which images these are, in a line
    by_lot: bool = False  # whether nobody says which images are for testing: a network may have been trained on them


def divided(id_set: GivenSet, train_set: GivenSet | None = None, seed: int = 0) -> Divided:
    """By what is given: a training set, a train part inside the ID set, or else a lot."""
    _check_labels(id_set)
    test_rows = np.arange(len(id_set)) if id_set.in_test is None else np.flatnonzero(id_set.in_test)
    if train_set is not None:
        id_set = _trained_on(id_set, train_set)
        source, how = train_set, f"training images are those of '{train_set.name}'"
        rows = np.arange(len(train_set)) if train_set.in_test is None else np.flatnonzero(~train_set.in_test)
    elif id_set.in_test is not None:
        source, how = id_set, f"training images are the train part of '{id_set.name}'"
        rows = np.flatnonzero(~id_set.in_test)
    else:
        source, share = id_set, f"{TRAINING * 100:.0f} %"
        how = f"no training images given, so {share} of '{id_set.name}', drawn at random, take their place"
        _check_pairs(id_set)
        rows, test_rows = _by_lot(id_set, test_rows, TRAINING, seed, "training")
    _check_classes(source, rows)
    if len(test_rows) == 0:
        raise UserError(f"'{id_set.label}' leaves no image to test with; give test images")
    held_out_share = min(VALIDATION, MOST_VALIDATION / len(rows))
    validation, train = _by_lot(source, rows, held_out_share, seed, "validation")
    counts = f"{len(train):,} to fit on, {len(validation):,} held out for validation, {len(test_rows):,} to test"
    classes = source.classes or id_set.classes
    by_lot = train_set is None and id_set.in_test is None
    fitted, held_out, tested = source.part(train), source.part(validation), id_set.part(test_rows)
    return Divided(fitted, held_out, tested, classes, f"{how} ({counts})", by_lot)


def _check_labels(given: GivenSet) -> None:
    if len(given) == 0:
        raise UserError(f"'{given.label}' has no images; give at least two of each class")
    if given.labels is None:
        raise UserError(f"'{given.label}' has no labels; give a folder per class, or (images, labels)")


def _check_pairs(given: GivenSet) -> None:
    """A lot leaves an image of every class on either side, of which there must be two then."""
    assert given.labels is not None
    labels, counts = np.unique(given.labels, return_counts=True)
    if counts.min() < 2:
        label = labels[counts.argmin()]
        name = f"'{given.classes[label]}'" if given.classes else f"{label}"
        raise UserError(
            f"the class {name} of '{given.label}' has one image, which cannot be both for fitting and for testing; "
            "give at least two of each class, or training images of their own"
        )


def _check_classes(given: GivenSet, rows: np.ndarray) -> None:
    assert given.labels is not None
    present = np.unique(given.labels[rows])
    if len(present) < 2:
        only = f" ('{given.classes[present[0]]}')" if given.classes and len(present) else ""
        raise UserError(f"'{given.label}' has training images of one class alone{only}; give a folder per class")


def _trained_on(id_set: GivenSet, train_set: GivenSet) -> GivenSet:
    """The ID set with labels as the training set numbers them, which must have images of all its classes."""
    _check_labels(train_set)
    assert train_set.labels is not None
    if id_set.fingerprint == train_set.fingerprint and id_set.in_test is None:
        raise UserError(
            f"the training images '{train_set.label}' are the ID images '{id_set.label}'; "
            "give others, or leave them out: the ID images are then divided"
        )
    if id_set.classes and train_set.classes:
        matched = as_classes(id_set, train_set.classes, f"which '{train_set.label}' has no images of")
    else:
        matched = id_set
    assert matched.labels is not None
    strange = np.setdiff1d(matched.labels, train_set.labels)
    if len(strange):
        raise UserError(
            f"'{id_set.label}' has the label {strange[0]}, which '{train_set.label}' has no images of; "
            "give training images of all classes"
        )
    return matched


def as_classes(given: GivenSet, names: tuple[str, ...], lack: str = "which is none of the ID classes") -> GivenSet:
    """A set with labels in the order of these classes, matched by name where both have names."""
    if given.labels is None:
        raise UserError(f"'{given.label}' has no labels, and is said to show the ID classes; give (images, labels)")
    if not names or not given.classes or given.classes == names:
        if names and given.labels.max(initial=0) >= len(names):
            raise UserError(
                f"'{given.label}' has the label {given.labels.max()}, and there are {len(names)} ID classes; "
                "number them from 0"
            )
        return given
    strange = [name for name in given.classes if name not in names]
    if strange:
        shown = ", ".join(names[:10]) + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")
        raise UserError(f"'{given.label}' has the class '{strange[0]}', {lack}; name its folders {shown}")
    order = np.array([names.index(name) for name in given.classes], dtype=np.int64)
    return replace(given, labels=order[given.labels], classes=names)


def _by_lot(given: GivenSet, rows: np.ndarray, share: float, seed: int, purpose: str) -> tuple[np.ndarray, np.ndarray]:
    """A share of the rows of each class and the others, in their order; both sides have every class that has two."""
    assert given.labels is not None
    lot = np.random.default_rng(derive(seed, "given", purpose))
    chosen = np.zeros(len(rows), dtype=bool)
    labels = given.labels[rows]
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        count = min(max(round(share * len(own)), 1), len(own) - 1) if len(own) > 1 else 0
        chosen[lot.permutation(own)[:count]] = True
    return rows[chosen], rows[~chosen]
