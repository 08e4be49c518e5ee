"""What every campaign of this folder yields, and how trials are counted.

A campaign is a module with one function, `campaign(count, seed, folder)`: it tries `count` things that may go wrong,
chosen by `seed`, in an empty `folder`, and yields a Trial for each. Equal arguments try the same things.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Trial:
    """One thing that was tried, and what did not hold."""

    kind: str  # a row of the table: many trials have it in common
    name: str  # of this one, enough to try it again
    problem: str | None = None  # None if everything held


@dataclass
class Tally:
    """How many trials of a kind there were, and how many held."""

    kind: str
    tried: int = 0
    held: int = 0


class Campaign(Protocol):
    def __call__(self, count: int, seed: int, folder: Path) -> Iterator[Trial]: ...


def tallied(trials: Iterable[Trial]) -> list[Tally]:
    """By kind, in the order in which kinds were first tried."""
    tallies: dict[str, Tally] = {}
    for trial in trials:
        tally = tallies.setdefault(trial.kind, Tally(trial.kind))
        tally.tried += 1
        tally.held += trial.problem is None
    return list(tallies.values())
