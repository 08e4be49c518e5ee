"""Results folders in, one folder with the results of all out: for runs that share no disk. torch only for weights.

A cell is merged whole or not at all, its JSON last, so that a merge that was killed can be repeated. Its content is its
raw scores and metrics; host, commit, seconds and the time of writing may differ.
"""

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from oodbench.errors import UserError
from oodbench.files import CannotWrite, sweep, write_atomically
from oodbench.results.folder import read_folder
from oodbench.results.metrics import Scored
from oodbench.results.pack import refuse
from oodbench.results.raw_scores import contradiction
from oodbench.results.rescore import NoScores, NotRescored, rescored, scores_of
from oodbench.results.result import WEIGHTS, Result, Unreadable, read
from oodbench.results.stored import copy, file_of, link_among, read_log
from oodbench.running.request import REQUESTS
from oodbench.user_files import open_regular

KEY = re.compile(r"[0-9a-f]{8,64}")
LONGEST_NAME = 240  # bytes of a file's or folder's: file systems have 255, and what is damaged gets a longer name
LINK = "is a link, which is not followed; put the file itself there"  # for it may lead to any file of the reader's


@dataclass(frozen=True)
class Conflict:
    """Two results of one cell that differ in content, and how; what was there stays."""

    ours: Result
    theirs: Result
    words: str


@dataclass
class Merged:
    """What a merge did or, as a trial, would do."""

    new: list[Path] = field(default_factory=list)  # results that were not there, or only as a failure
    replaced: int = 0  # of these, the ones in place of a failed result
    same: int = 0  # results that were there with the same content, or better: done where the other failed
    conflicts: list[Conflict] = field(default_factory=list)
    problems: dict[Path, str] = field(default_factory=dict)  # files that were left where they are, and why
    unchecked: dict[Path, str] = field(default_factory=dict)  # of the new ones, why nobody can tell if metrics are true
    weights: list[Path] = field(default_factory=list)  # files of weights that were not there

    @property
    def is_complete(self) -> bool:
        return not (self.conflicts or self.problems)


class _Left(Exception):
    """Why a file stays where it is."""


def merge(others: Sequence[Path], into: Path, weights: bool = False, dry_run: bool = False) -> Merged:
    """Copy the results of other folders into one. Collections below a folder are left alone, as by whoever reads it."""
    _check_apart(others, into)
    readings = [read_folder(other) for other in others]  # a folder that is missing is told before anything is copied
    merged = Merged()
    there: dict[Path, Result] = {}  # by place, what this merge has brought
    for other, (results, problems) in zip(others, readings, strict=True):
        merged.problems |= problems
        for result in results:
            _merge_result(result, into, there, merged, dry_run)
        _copy_requests(other, into, merged, dry_run)
        if weights:
            _merge_weights(other, into, merged, dry_run)
    return merged


def _check_apart(others: Sequence[Path], into: Path) -> None:
    refuse(into, "merge into a folder")
    if into.exists() and not into.is_dir():
        raise UserError(f"the results folder '{into}' is a file; choose another with --into")
    home = into.resolve()
    for other in others:
        there = other.resolve()
        if there == home:
            raise UserError(f"'{other}' is the folder to merge into; name another")
        if there.is_relative_to(home) or home.is_relative_to(there):
            raise UserError(f"one of '{other}' and '{into}' contains the other; move one of them out")


def _merge_result(theirs: Result, into: Path, there: dict[Path, Result], merged: Merged, dry_run: bool) -> None:
    assert theirs.path is not None
    try:
        link = link_among(theirs.path)
        if link is not None:
            raise _Left(f"'{link}' {LINK}")
        home = _home(theirs, into)
        ours = there.get(home) or _read_if_there(home, theirs.key)
        unchecked = _unchecked(theirs) if theirs.status == "ok" else None
        if ours is not None and (ours.status == "ok" or theirs.status != "ok"):
            words = _difference(ours, theirs) if theirs.status == "ok" else None
            if words is None:
                merged.same += 1
            else:
                merged.conflicts.append(Conflict(ours, theirs, words))
            return
        if not dry_run:
            _copy(theirs, home)
    except (NotRescored, _Left) as reason:
        merged.problems[theirs.path] = str(reason)
        return
    there[home] = theirs
    merged.new.append(home)
    if unchecked is not None:
        merged.unchecked[theirs.path] = unchecked
    merged.replaced += ours is not None


def _unchecked(theirs: Result) -> str | None:
    """Why its metrics cannot be compared with its raw scores; a result that they contradict is left."""
    try:
        scores = scores_of(theirs)
    except NoScores as reason:
        return str(reason)
    if not theirs.has_current_metrics:
        return f"they have version {theirs.metrics_version}; oodbench rescore computes those of today"
    words = contradiction(theirs.metrics, scores)
    if words is not None:
        raise _Left(words)
    return None


def _home(result: Result, into: Path) -> Path:
    """Where it belongs, by what it says; a name that leads out of the folder, or that is none, is refused."""
    names = (result.suite_label, result.setting)
    if any(name in ("", ".", "..") or "/" in name or "\\" in name or not name.isprintable() for name in names):
        raise _Left("its suite or setting cannot name a folder")
    if result.method in ("", ".", ".."):
        raise _Left("its method cannot name a folder")
    if not KEY.fullmatch(result.key):
        raise _Left("its key is none")
    home = file_of(into, *names, result.method, result.seed, result.key)
    if any(len(name.encode()) > LONGEST_NAME for name in home.parts[-4:]):
        raise _Left("its suite, setting or method is too long for the name of a folder")
    return home


def _read_if_there(path: Path, key: str) -> Result | None:
    """The result that is in the place already; what is none is moved aside when the other is written."""
    try:
        ours = read(path)
    except Unreadable:
        return None
    if ours.key != key:
        raise _Left(f"another cell is in its place, '{path}'")
    return ours


def _difference(ours: Result, theirs: Result) -> str | None:
    """How two results that are done differ in content; None if they do not."""
    before, after = _scores(theirs), _our_scores(ours)
    if before is not None and after is not None:
        words = _scores_difference(before, after)
        if words is not None:
            return words
        if ours.metrics_version != theirs.metrics_version:  # then both are what the same scores give today
            ours, theirs = rescored(ours), rescored(theirs)
    for metric in sorted(ours.metrics.keys() | theirs.metrics.keys()):
        values = [each.metrics.get(metric) for each in (ours, theirs)]
        if values[0] != values[1]:
            scores = "equal raw scores" if before is not None and after is not None else "no raw scores to compare"
            return f"{scores}, but {metric} is {values[0]} and {values[1]}"
    return None


def _scores(result: Result) -> dict[str, Scored] | None:
    try:
        return scores_of(result)
    except NoScores:
        return None


def _our_scores(ours: Result) -> dict[str, Scored] | None:
    try:
        return _scores(ours)
    except NotRescored as reason:
        raise _Left(f"it cannot be compared with '{ours.path}': {reason}") from None


def _scores_difference(before: dict[str, Scored], after: dict[str, Scored]) -> str | None:
    if before.keys() != after.keys():
        return f"raw scores of {', '.join(before)} against {', '.join(after)}"
    for split in before:
        for name in ("scores", "predictions", "labels", "confidence"):
            words = _array_difference(f"{split} {name}", *(getattr(each[split], name) for each in (after, before)))
            if words is not None:
                return words
    return None


def _array_difference(what: str, ours: np.ndarray | None, theirs: np.ndarray | None) -> str | None:
    if ours is None or theirs is None:
        return None if ours is theirs else f"{what} are in only one of them"
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{what} are {ours.dtype} {ours.shape} and {theirs.dtype} {theirs.shape}"
    # Bit by bit, since a confidence may be no number.
    unequal = ours.view(np.uint8).reshape(len(ours), -1) != theirs.view(np.uint8).reshape(len(theirs), -1)
    rows = unequal.any(axis=1)
    if not rows.any():
        return None
    largest = np.abs(ours[rows].astype(float) - theirs[rows].astype(float)).max()
    return f"{rows.sum():,} of {len(rows):,} {what} differ, by at most {largest:.2g}"


def _copy(theirs: Result, into: Path) -> None:
    sweep([*into.parent.glob(".*"), *into.parent.parent.glob(".*")])  # what a merge left that was killed
    try:
        with suppress(FileNotFoundError):  # a method may record nothing
            read_log(theirs)
    except Unreadable as reason:
        raise _Left(f"its '.jsonl' is damaged: {reason}") from None
    try:
        copy(theirs, into)
    except CannotWrite:
        raise
    except OSError as error:
        raise _Left(f"it cannot be read: {error.strerror}") from None
    except Unreadable as reason:
        raise _Left(str(reason)) from None


def _copy_file(source: Path, target: Path) -> None:
    """What cannot be read is left; what cannot be written ends the merge."""
    try:
        opened = open_regular(source)
    except OSError as error:
        raise _Left(f"'{source.name}' cannot be read: {error.strerror}") from None

    def write(file: IO[bytes]) -> None:
        opened.seek(0)  # it may be written a second time
        shutil.copyfileobj(opened, file)

    with opened:
        write_atomically(target, write)


def _copy_requests(other: Path, into: Path, merged: Merged, dry_run: bool) -> None:
    """So that `status` knows what was asked for; their names say what they hold."""
    folder = other / REQUESTS
    if folder.is_symlink():
        merged.problems[folder] = f"it {LINK}"
        return
    for source in sorted(folder.glob("*.yaml")):
        target = into / REQUESTS / source.name
        if source.is_symlink():
            merged.problems[source] = f"it {LINK}"
        elif not target.exists() and not dry_run:
            with suppress(_Left):  # of no consequence for any result
                _copy_file(source, target)


def _merge_weights(other: Path, into: Path, merged: Merged, dry_run: bool) -> None:
    """Files of weights that are missing, if they are whole and of the training that their name says."""
    for source in sorted((other / WEIGHTS).glob("*.pt")):
        target = into / WEIGHTS / source.name
        if target.exists() or target in merged.weights:
            continue
        from oodbench.running import trained

        try:
            if source.is_symlink():
                raise _Left(f"it {LINK}")
            if not trained.is_whole(source):
                raise _Left("damaged, or not weights of the training that its name says")
            if not dry_run:
                _copy_file(source, target)
        except _Left as reason:
            merged.problems[source] = str(reason)
            continue
        merged.weights.append(target)
