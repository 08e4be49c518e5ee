"""A result in, the same with the metrics of today out: metrics follow from the raw scores beside it. No torch."""

import math
from dataclasses import replace
from pathlib import Path

from oodbench.config import identity
from oodbench.errors import shown
from oodbench.files import write_text
from oodbench.results.metrics import METRICS, Scored, evaluate
from oodbench.results.result import Result, Unreadable, as_json, read, read_scores

SAME = 1e-9  # by which a metric may differ from what it is computed as: less than one image in any set


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
        write_text(path, as_json(after))
    return after != before


def is_current(result: Result) -> bool:
    """Whether its metrics are of today's version; a cell that failed has none to renew."""
    return result.status != "ok" or result.metrics_version == identity.version_of("metrics")


def rescored(result: Result) -> Result:
    """Of a result that was read from a file."""
    scores = scores_of(result)
    return replace(result, metrics=evaluate(**scores), metrics_version=identity.version_of("metrics"))


def contradiction(result: Result, scores: dict[str, Scored]) -> str | None:
    """How its metrics, which must be of today's version, differ from what its raw scores give; None if they do not."""
    try:
        measured = evaluate(**scores)
    except ValueError as error:
        return str(error)
    strange = [name for name in METRICS if (name in measured) != (name in result.metrics)]
    strange += [name for name in result.metrics if name not in METRICS]
    if strange:
        return f"{shown(strange[0])} is missing, or cannot be computed from the raw scores"
    stored = result.metrics
    wrong = [n for n, value in measured.items() if not math.isclose(value, stored[n], rel_tol=0.0, abs_tol=SAME)]
    if not wrong:
        return None
    name, more = wrong[0], f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"{name} is {stored[name]:.6g}, and its raw scores give {measured[name]:.6g}{more}"


def scores_of(result: Result) -> dict[str, Scored]:
    """The raw scores beside a result, of as many images as it says; `NotRescored` where there are none."""
    assert result.path is not None
    if result.status != "ok":
        raise NotRescored("it failed and has no scores")
    try:
        scores = read_scores(result.path)
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
