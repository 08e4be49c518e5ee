"""The raw scores and the training logs beside results."""

from typing import Any

from oodbench.config.suite import NONE
from oodbench.report.figures.studies import NotDrawn
from oodbench.results import result as ledger
from oodbench.results.metrics import Scored
from oodbench.results.result import Result

SPLITS = ("id", "covariate", "semantic")
AGAIN = "run again with --force"


def scores_of(result: Result) -> dict[str, Scored]:
    """Of the test splits that its setting has."""
    if result.path is None:
        raise NotDrawn("needs raw scores, and these results were not read from files")
    file = result.path.with_suffix(".npz")
    try:
        scores = ledger.read_scores(result.path)
    except FileNotFoundError:
        raise NotDrawn(f"the raw scores '{file}' are missing; {AGAIN}") from None
    except ledger.Unreadable as reason:
        raise NotDrawn(f"the raw scores '{file}' cannot be read: {reason}; {AGAIN}") from None
    expected = [split for split in SPLITS if getattr(result.config.setting, split, None) != NONE]
    if not set(expected) <= set(scores):
        raise NotDrawn(f"the raw scores '{file}' are not of {', '.join(expected)}; {AGAIN}")
    return scores


def log_of(result: Result) -> list[dict[str, Any]]:
    """A record for every epoch of its training."""
    if result.path is None:
        raise NotDrawn("needs the logs of trainings, and these results were not read from files")
    file = result.path.with_suffix(".jsonl")
    try:
        return ledger.read_log(file)
    except FileNotFoundError:
        raise NotDrawn(f"the training log '{file}' is missing; {AGAIN}") from None
    except ledger.Unreadable as reason:
        raise NotDrawn(f"the training log '{file}' cannot be read: {reason}; {AGAIN}") from None
