"""A submission in, as an archive or a folder; what holds of it out. Runs no code of it, and imports no torch."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import oodbench
from oodbench.config.cards import command_name
from oodbench.config.registry import Registry
from oodbench.data.untrusted import plain_zip
from oodbench.errors import UserError, said, shortened, shown
from oodbench.files import check_writable, write_text
from oodbench.results import submission as submissions
from oodbench.results.folder import COLLECTION, COMMUNITY, SUBMISSION, collection_of
from oodbench.results.known_images import KnownImages
from oodbench.results.result import Result, Unreadable, read
from oodbench.results.stored import files_of, read_log
from oodbench.results.submission import METHODS, Claim, Submission, Verified
from oodbench.running.cell_checks import CHECKS, CellFindings, Context, check_cell

FILES = "files"  # the check that a cell's files are those that were packed, and are claimed
MOST_METHODS = 20  # that are not shipped
MOST_CELLS = plain_zip.MOST  # of a claim


@dataclass(frozen=True)
class Verification:
    """What was found out about a submission."""

    submission: Submission
    cells: list[CellFindings]
    problems: list[str]  # of the submission as a whole

    @property
    def holds(self) -> bool:
        return not self.problems and all(cell.holds for cell in self.cells)

    @property
    def held(self) -> list[str]:
        """The checks that held for every cell."""
        return [name for name in (FILES, *CHECKS) if all(name in cell.held for cell in self.cells)]

    @property
    def unchecked(self) -> list[str]:
        """What could not be checked, and why, each once."""
        reasons = (f"{name}: {reason}" for cell in self.cells for name, reason in cell.unchecked.items())
        return sorted({*reasons})

    def as_values(self) -> dict[str, Any]:
        """For a file or another program."""
        return {
            "name": self.submission.name,
            "note": self.submission.note,
            "holds": self.holds,
            "oodbench": oodbench.__version__,
            "problems": self.problems,
            "cells": [{"cell": each.place, "holds": each.holds, **each.as_values()} for each in self.cells],
        }


def verify(path: str | Path, into: str | Path | None = None) -> Verification:
    """What `oodbench verify` finds; `into` takes in what holds. `UserError` for what is no submission."""
    with _opened(Path(path)) as folder:
        found = check(folder, Path(path))
        if into is not None and found.holds:
            _accept(found, folder, Path(into))
        return found


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """The folder of a submission: itself, or what an archive unpacks to, which is gone afterwards."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="oodbench-") as folder:
        plain_zip.unpack(path, Path(folder), submissions.limit_of)
        yield Path(folder)


def check(folder: Path, named: Path) -> Verification:
    """The submission in a folder; errors name what the user named."""
    try:
        submission = submissions.read(folder)
    except Unreadable as problem:
        raise UserError(f"'{named}' is not a submission: {problem}; make one with: oodbench submit") from None
    names, strange = submissions.files_below(folder)
    problems = [f"{shown(name)} is not a file of a submission" for name in strange]
    problems += [f"{shown(name)} is missing" for name in sorted(submission.files.keys() - {*names})]
    context = Context(_registry(folder, names, problems), KnownImages(), folder)
    cells = [_cell(folder, name, context) for name in names if name.endswith(".json") and name != SUBMISSION]
    _check_files(folder, names, submission, cells, problems)
    _check_claims(submission.claims, cells, problems)
    used = {part for _, _, result in cells if result is not None for part in _components(result)}
    for name in names:
        stem = Path(name).stem
        if name.startswith(f"{METHODS}/") and name.endswith(".py") and command_name(stem) not in used:
            problems.append(f"no cell has run '{name}'")
    return Verification(submission, [findings for _, findings, _ in cells], problems)


Cell = tuple[str, CellFindings, Result | None]  # the name of its file, and None where that cannot be read


def _cell(folder: Path, name: str, context: Context) -> Cell:
    try:
        result = read(folder / name)
    except Unreadable as problem:
        return name, CellFindings(name, problems={FILES: str(problem)}), None
    findings = check_cell(result, context)
    try:
        with suppress(FileNotFoundError):  # a method may record nothing
            read_log(result)
    except Unreadable as problem:
        findings.problems[FILES] = f"its '.jsonl' is damaged: {problem}"
    return name, findings, result


def _components(result: Result) -> list[str]:
    ran = result.config.method
    return [each.name for each in (ran.trainer, ran.scorer, *ran.starts_from)]


def _registry(folder: Path, names: list[str], problems: list[str]) -> Registry:
    """The methods of oodbench and those that the submission has the text of, which is read and not run."""
    files = [folder / name for name in names if name.endswith(".py")]
    if len(files) > MOST_METHODS:
        problems.append(f"it holds {len(files)} files of methods, and {MOST_METHODS} is the maximum")
        return Registry()
    good: list[Path] = []
    for path in files:
        try:
            Registry([*good, path])
            good.append(path)
        except Exception as error:  # a text that is made to confuse whoever reads it
            reason = said(error).replace(f"{folder.resolve()}{os.sep}", "")
            problems.append(reason if isinstance(error, UserError) else f"'{path.name}' cannot be read: {reason}")
    return Registry(good)


def _check_files(
    folder: Path, names: list[str], submission: Submission, cells: list[Cell], problems: list[str]
) -> None:
    """Every file is the one that was packed, and belongs to a cell or is a method."""
    changed = {name for name in names if name != SUBMISSION and not _is_as_packed(folder, name, submission)}
    known = set[str]()
    for name, findings, _ in cells:
        own = {path.relative_to(folder).as_posix() for path in files_of(folder / name).values()}
        wrong = sorted(own & changed)
        if wrong and FILES not in findings.problems:
            findings.problems[FILES] = f"{Path(wrong[0]).name} is not the file that was packed"
        known |= own
    changed -= known
    for name in names:
        if name in changed:
            problems.append(f"'{name}' is not the file that was packed")
        elif name != SUBMISSION and not name.startswith(f"{METHODS}/") and name not in known:
            problems.append(f"'{name}' belongs to no result")


def _is_as_packed(folder: Path, name: str, submission: Submission) -> bool:
    return submission.files.get(name) == submissions.digest_of(folder / name)


def _check_claims(claims: list[Claim], cells: list[Cell], problems: list[str]) -> None:
    """Every cell that is claimed is there once, under one protocol, and no other."""
    places = Counter(_place(result) for _, _, result in cells if result is not None)
    claimed: set[tuple[Any, ...]] = set()
    axes = [(claim.methods, claim.settings, claim.seeds, claim.draws) for claim in claims]
    if sum(len(each[0]) * len(each[1]) * len(each[2]) * len(each[3]) for each in axes) > MOST_CELLS:
        problems.append(f"it claims more than {MOST_CELLS:,} cells")
        axes = []
    for claim, each in zip(claims, axes, strict=False):
        claimed |= {(claim.suite, claim.preset, *place) for place in product(*each)}
    missing = sorted(claimed - places.keys(), key=repr)
    problems += [f"{_words(place)} is claimed but missing" for place in missing]
    families: dict[tuple[Any, ...], set[str]] = {}
    for _, _, result in cells:
        if result is not None:
            families.setdefault(_place(result)[:4], set()).add(result.family)
    for _, findings, result in cells:
        if result is not None and FILES not in findings.problems:
            place = _place(result)
            if place not in claimed:
                findings.problems[FILES] = "it is not among the cells that are claimed"
            elif places[place] > 1:
                findings.problems[FILES] = f"the cell occurs {places[place]} times"
            elif len(families[place[:4]]) > 1:
                findings.problems[FILES] = "other seeds of this method and setting ran under another protocol"
            else:
                findings.held.insert(0, FILES)
    if not cells:
        problems.append("it holds no result")


def _place(result: Result) -> tuple[Any, ...]:
    return (result.suite, result.preset, result.method, result.setting, result.seed, result.draw)


def _words(place: tuple[Any, ...]) -> str:
    suite, preset, method, setting, seed, draw = place
    words = [suite if preset is None else f"{suite}-{preset}", setting, method, f"seed {shown(seed)}"]
    return shortened(" / ".join([*words, *([f"draw {shown(draw)}"] if draw else [])]))


def _accept(found: Verification, folder: Path, into: Path) -> None:
    """Beside other submissions, in a collection, whole or not at all."""
    submission = found.submission
    home = into / submission.name
    if os.path.lexists(home):
        raise UserError(f"'{home}' exists already; delete it, or submit under another --name")
    if collection_of(into) not in (None, COMMUNITY):
        raise UserError(f"'{into}' is another collection; take submissions into results/{COMMUNITY}")
    check_writable(into)
    verified = Verified(oodbench.__version__, found.held, found.unchecked)
    with tempfile.TemporaryDirectory(prefix=".oodbench-", dir=into) as work:
        copy = Path(work, submission.name)
        for name in submission.files:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, copy / name)
        write_text(copy / SUBMISSION, submissions.as_json(submissions.as_verified(submission, verified)))
        if not (into / COLLECTION).exists():
            write_text(into / COLLECTION, f"{COMMUNITY}\n")
        copy.rename(home)
