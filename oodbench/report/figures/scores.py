"""The raw scores and the training logs beside results."""

from typing import Any

from oodbench.config.suite import NONE
from oodbench.report.figures.studies import NotDrawn
from oodbench.results.metrics import Scored
from oodbench.results.result import Result, Unreadable
from oodbench.results.stored import LOG, SCORES, read_log, read_scores

SPLITS = ("id", "covariate", "semantic")
AGAIN = "run again with --force"


def scores_of(result: Result) -> dict[str, Scored]:
    """Of the test splits that its setting has."""
    if result.path is None:
        raise NotDrawn("needs raw scores, and these results were not read from files")
    file = result.path.with_suffix(SCORES)
    try:
        scores = read_scores(result)
    except FileNotFoundError:
        raise NotDrawn(f"the raw scores '{file}' are missing; {AGAIN}") from None
    except Unreadable as reason:
        raise NotDrawn(f"the raw scores '{file}' cannot be read: {reason}; {AGAIN}") from None
    expected = [split for split in SPLITS if getattr(result.config.setting, split, None) != NONE]
    if not set(expected) <= set(scores):
        raise NotDrawn(f"the raw scores '{file}' are not of {', '.join(expected)}; {AGAIN}")
    return scores


def values_of(result: Result) -> dict[str, Scored]:
    """Of results that keep their scores as such."""
    if result.ranks:
        raise NotDrawn(f"the scores of '{result.path}' are kept as ranks, and their values are not known")
    return scores_of(result)


def log_of(result: Result) -> list[dict[str, Any]]:
    """A record for every epoch of its training."""
    if result.path is None:
        raise NotDrawn("needs the logs of trainings, and these results were not read from files")
    file = result.path.with_suffix(LOG)
    try:
        return read_log(result)
    except FileNotFoundError:
        raise NotDrawn(f"the training log '{file}' is missing; {AGAIN}") from None
    except Unreadable as reason:
        raise NotDrawn(f"the training log '{file}' cannot be read: {reason}; {AGAIN}") from None
