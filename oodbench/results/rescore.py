"""A result in, the same with the metrics of today out: metrics follow from the raw scores beside it. No torch."""

from dataclasses import replace
from pathlib import Path

from oodbench.config import identity
from oodbench.results.metrics import Scored, evaluate
from oodbench.results.result import Result, Unreadable, read
from oodbench.results.stored import contents_of, read_scores, write_arrays


class NotRescored(Exception):
    """Why a result keeps the metrics it has."""


class NoScores(NotRescored):
    """It was stored, or sent, without raw scores."""


def rescore(path: Path, dry_run: bool = False) -> bool:
    """Give the result in a file the metrics of today and leave all else as it is; whether the file changes.

    It is written whole or not at all. `Unreadable` where there is no result, `NotRescored` where it has no raw scores.
    """
    before = read(path)
    after = rescored(before)
    if after != before and not dry_run:
        write_arrays(after, path, *contents_of(before))
    return after != before


def rescored(result: Result) -> Result:
    """Of a result that was read from a file."""
    scores = scores_of(result)
    return replace(result, metrics=evaluate(**scores), metrics_version=identity.version_of("metrics"))


def scores_of(result: Result) -> dict[str, Scored]:
    """The raw scores beside a result, of as many images as it says; `NotRescored` where there are none."""
    if result.status != "ok":
        raise NotRescored("it failed and has no scores")
    try:
        scores = read_scores(result)
    except FileNotFoundError:
        raise NoScores("it has no raw scores") from None
    except Unreadable as reason:
        raise NotRescored(f"its raw scores cannot be read: {reason}") from None
    _check_rows(result, scores)
    return scores


def _check_rows(result: Result, scores: dict[str, Scored]) -> None:
    """Scores of other images, or of fewer, would pass for those of the result."""
    for name, part in result.data.parts.items():
        if name in ("id", "covariate", "semantic"):
            rows = len(scores[name].scores) if name in scores else 0
            if rows != part.rows:
                raise NotRescored(f"its raw scores are for {rows} {name} images, and it was made with {part.rows}")
