"""The families of corruptions: which kinds each has, and how strong these may be."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from oodbench.config.cards import PACKAGE
from oodbench.config.schema import Misfit
from oodbench.errors import unknown


def severities(family: str) -> Sequence[int]:
    """1 to 5, unless the family of corruptions says otherwise."""
    return getattr(_family(family), "SEVERITIES", range(1, 6))


def corruption_kinds(family: str) -> list[str]:
    return list(_family(family).KINDS)


def _family(family: str) -> ModuleType:
    families = [path.stem for path in (PACKAGE / "data" / "corruptions").glob("[a-z]*.py")]
    if family not in families:
        raise Misfit(("corruptions",), str(unknown("family of corruptions", family, families)))
    return import_module(f"oodbench.data.corruptions.{family}")
