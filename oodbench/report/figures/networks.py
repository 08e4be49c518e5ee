"""The networks and the images of results, again. Imports torch, but not before it must."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from oodbench.config import suite as suites
from oodbench.config.schema import Misfit
from oodbench.data.parts import Parts, build_parts
from oodbench.errors import UserError
from oodbench.report.figures.studies import Load, NotDrawn
from oodbench.results.result import Result

if TYPE_CHECKING:
    from oodbench.learning.networks import Classifier


@contextmanager
def reasons(what: str) -> Iterator[None]:
    """Missing data is no reason to leave out the other figures."""
    try:
        yield
    except (UserError, Misfit) as error:
        raise NotDrawn(f"{what}: {error}") from None


def check(result: Result) -> None:
    """That its suite and setting make sense: the file may have been edited."""
    suites.check(result.config.suite)
    suites.check_setting(result.config.setting, result.config.suite)


def parts_of(result: Result, used: Sequence[str]) -> Parts:
    """The images a result was made with; of the parts in `used` this is certain."""
    with reasons("needs the images again"):
        check(result)
        parts = build_parts(result.ran_suite, result.config.setting, result.seed)
    recorded = result.data.parts
    for name in used:
        if name not in recorded or recorded[name].digest != getattr(parts, name).digest:
            raise NotDrawn(f"the split '{name}' differs from the one of '{result.path}'; run again with --force")
    return parts


def networks_of(chosen: Sequence[Result], load: Load | None) -> "list[Classifier]":
    """The trained network of each result."""
    if load is None:
        raise NotDrawn("it needs networks, and nothing loads them here")
    with reasons("needs the images again"):
        for result in chosen:
            if result.config.given is None:  # of which no suite file speaks
                check(result)
    try:
        return [load(result) for result in chosen]
    except UserError as error:
        raise NotDrawn(str(error)) from None
