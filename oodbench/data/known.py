"""The name of a data set in; the fingerprints that its content is known to have out, also where it is not here."""

from functools import cache

from oodbench.config import identity
from oodbench.config.cards import catalogue
from oodbench.data import store
from oodbench.data.lookup import dataset
from oodbench.data.stored import Obtained, Stored
from oodbench.errors import UserError


@cache
def fingerprints(name: str) -> frozenset[str]:
    """Of the official content, of what comes with a package, and of what lies in the data folder; none for a name that
    is no data set of oodbench.
    """
    if name not in catalogue("datasets"):
        return frozenset()
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


def is_bundled(name: str) -> bool:
    """Whether a set of oodbench comes with a package: it is always here, and small."""
    return name in catalogue("datasets") and dataset(name).made_from is None and not isinstance(dataset(name), Obtained)
