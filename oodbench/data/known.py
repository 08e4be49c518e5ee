"""The name of a data set in; the fingerprints that its content is known to have out, also where it is not here."""

from oodbench.config import identity
from oodbench.config.cards import catalogue
from oodbench.data import store
from oodbench.data.lookup import dataset
from oodbench.data.sets.corrupted import CIFAR10C, MNISTC
from oodbench.data.stored import Obtained, Stored
from oodbench.errors import UserError


def fingerprints(name: str, kind: str | None = None) -> frozenset[str]:
    """Of the official content, of what comes with a package, and of what lies in the data folder; none for a name that
    is no data set of oodbench. Published copies are stored by their kind.
    """
    if name not in catalogue("datasets"):
        return frozenset()
    if kind is not None:
        entry = store.entry(f"{name}/{kind}")
        return frozenset() if entry is None else frozenset([entry.fingerprint])
    data = dataset(name)
    if data.made_from is not None:  # its content is that set and this code
        code = identity.of_card(catalogue("datasets")[name])
        return frozenset(f"{each}-{code}" for each in fingerprints(data.made_from))
    official = data.official if isinstance(data, Stored) else None
    try:
        here = [data.fingerprint] if is_bundled(name) or store.entry(name) is not None else []
    except UserError:  # damaged, or a package that lacks its files
        here = []
    return frozenset(here if official is None else [official, *here])


def published_copies(name: str) -> str | None:
    """The set that holds published copies of this one under corruptions."""
    return next((files.name for files in (CIFAR10C, MNISTC) if files.clean.name == name), None)


def is_bundled(name: str) -> bool:
    """Whether a set of oodbench comes with a package: it is always here, and small."""
    return name in catalogue("datasets") and dataset(name).made_from is None and not isinstance(dataset(name), Obtained)
