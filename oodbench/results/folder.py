"""A folder in; its results out, with those of the collections one asks for, and what could not be read. No torch.

A folder with a file COLLECTION, which holds one word, is a collection: results that somebody else made, or that are set
apart. Whoever reads a folder above it does not see them unless he asks, so nobody's numbers pass for his own.
"""

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten

from oodbench.config.cards import PACKAGE
from oodbench.errors import UserError
from oodbench.results import pack
from oodbench.results.result import OUTPUTS, WEIGHTS, Result, Unreadable, read
from oodbench.user_files import TEXT_LIMIT, read_regular

COLLECTION = "COLLECTION"  # the name of the file
SUBMISSION = "submission.json"  # describes results that others have sent, and is none itself
LARGE = (WEIGHTS, OUTPUTS)  # folders that hold no results, and that many a user moves to another disk and links
NAMED = 3  # so many of what was skipped a warning names; it counts the others
REFERENCE, DEMO, COMMUNITY = "reference", "demo", "community"
# The words it may hold, and what to do where there are no such results.
COLLECTIONS = {
    REFERENCE: "they are in oodbench's repository, not in the installed package; clone the repository",
    DEMO: "make them with `oodbench demo`",
    COMMUNITY: "add them with `oodbench verify mine.zip --into results/community`",
}


@dataclass(frozen=True)
class Reading:
    """What a folder holds, and what was added to it."""

    results: list[Result]
    problems: dict[Path, str]  # files and folders that could not be read, and why
    stand_in: Path | None = None  # the reference results, read because the folder has none of its own


class SkippedWarning(UserWarning):
    """Results are missing from what was read, because their files or folders could not be read."""


@dataclass
class _Listing:
    """The JSON files of a folder, the collections below it, whose files are not among them, and what hides others."""

    files: list[Path] = field(default_factory=list)
    packs: list[Path] = field(default_factory=list)
    collections: dict[Path, str] = field(default_factory=dict)
    problems: dict[Path, str] = field(default_factory=dict)


def read_with(folder: Path, collections: Sequence[str] = ()) -> Reading:
    """The results of a folder and of these collections, each below it, beside it or else in the repository.

    Where the folder has none and nothing is asked for, the reference results below it stand in.
    """
    results, problems = read_folder(folder)
    added = [(name, root) for name in dict.fromkeys(collections) for root in roots_of(name, folder)]
    stand_in = None
    if not results and not collections:
        stand_in = next((root for root, name in _listed(folder).collections.items() if name == REFERENCE), None)
        added += [(REFERENCE, stand_in)] if stand_in else []
    for name, root in added:
        more, unread = read_folder(root)
        results += [replace(result, collection=name) for result in more]
        problems |= unread
    return Reading(results, problems, stand_in)


def read_folder(folder: Path) -> tuple[list[Result], dict[Path, str]]:
    """Every result below a folder, in packs too, but not in a collection below it, and what could not be read and why.

    A pack may stand for a folder.
    """
    listing = _listed(folder)
    results, problems = [], listing.problems
    for path in sorted(listing.packs):
        more, unread = pack.read(path)
        results += more
        problems |= unread
    for path in sorted(listing.files):
        try:
            results.append(read(path))
        except Unreadable as error:
            problems[path] = str(error)
    return results, dict(sorted(problems.items()))


def read_or_warn(folder: Path) -> list[Result]:
    """The same for Python: every result that can be read, and one `SkippedWarning` about the rest."""
    results, problems = read_folder(folder)
    if problems:
        named = "; ".join(f"'{path}': {reason}" for path, reason in [*problems.items()][:NAMED])
        more = f"; and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
        warnings.warn(f"skipped {len(problems)} in '{folder}': {named}{more}", SkippedWarning, stacklevel=3)
    return results


def reference_results() -> list[Result]:
    """Those of the repository that oodbench runs from; none where it is an installed package."""
    return [result for root in _children(PACKAGE.parent / "results", REFERENCE) for result in read_folder(root)[0]]


def roots_of(name: str, folder: Path, otherwise: str = "leave out --with") -> list[Path]:
    """The collections of a name; none for a folder in one. `otherwise` is what else a user can do where none exist."""
    here = folder.resolve()
    if any(collection_of(each) == name for each in (here, *here.parents)):
        return []
    roots = [root for root, word in _listed(folder).collections.items() if word == name]
    for parent in (here.parent, PACKAGE.parent / "results"):
        roots = roots or _children(parent, name)
    if not roots:
        raise UserError(
            f"there are no {name} results below or beside '{folder}': {COLLECTIONS[name]}, or {otherwise} {name}"
        )
    return roots


def _listed(folder: Path) -> _Listing:
    """What is below a folder; nothing that may hold results is passed over in silence."""
    listing = _Listing()
    if pack.is_pack(folder):
        return _Listing(packs=[folder])
    try:
        if not folder.is_dir():
            raise UserError(
                f"there is no results folder '{folder}'; make one with: "
                f"oodbench run --suite digits-c --results {folder}"
            )
        waiting = _take(_entries(folder), folder, listing)
    except OSError as error:
        raise UserError(f"cannot read '{folder}': {error.strerror}; fix permissions or name another folder") from None
    while waiting:
        parent = waiting.pop()
        try:
            entries = _entries(parent)
            if any(entry.name == COLLECTION for entry in entries):
                listing.collections[parent] = _checked_word(parent)
            else:
                waiting += _take(entries, folder, listing)
        except OSError as error:
            listing.problems[Path(error.filename or parent)] = f"cannot be read: {error.strerror}"
    return listing


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    with os.scandir(folder) as entries:
        return sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.name)


def _take(entries: "list[os.DirEntry[str]]", top: Path, listing: _Listing) -> list[Path]:
    """Note the files and the problems among the entries of a folder; the folders among them, the last first."""
    folders = []
    for entry in entries:
        path = Path(entry.path)
        try:
            if entry.is_symlink():
                path.stat()  # which fails where the link leads nowhere, or to itself
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except OSError as error:
            if entry.name not in LARGE:
                listing.problems[path] = f"cannot be read: {error.strerror}"
            continue
        if is_folder and not entry.is_symlink():
            folders.append(path)
        elif is_folder and entry.name not in LARGE and not path.resolve().is_relative_to(top.resolve()):
            listing.problems[path] = (
                "it is a link to a folder, which is not followed; name that folder, or move it here"
            )
        elif is_file and entry.name == SUBMISSION:
            continue
        elif is_file and entry.name.endswith(".json"):
            listing.files.append(path)
        elif is_file and entry.name.endswith(pack.ENDING):
            listing.packs.append(path)
        elif not is_folder and entry.name.endswith(".json"):
            listing.problems[path] = "cannot be read: Not a regular file"
    return folders[::-1]


def collection_of(folder: Path) -> str | None:
    """What a collection says it is; None for any other folder."""
    with suppress(OSError):
        return _read_word(folder)
    return None


def _read_word(folder: Path) -> str:
    return read_regular(folder / COLLECTION, TEXT_LIMIT).decode(errors="replace").strip()


def _checked_word(folder: Path) -> str:
    """A word that nobody knows is refused: results of unknown origin would be shown, or lost, without a word."""
    word = _read_word(folder)
    if word not in COLLECTIONS:
        said = f"says '{shorten(word, 40)}'" if word else "is empty"
        raise UserError(
            f"'{folder / COLLECTION}' {said}; write one of {', '.join(COLLECTIONS)} into it, or delete the file"
        )
    return word


def _children(parent: Path, name: str) -> list[Path]:
    with suppress(OSError):
        return [child for child in sorted(parent.iterdir()) if collection_of(child) == name]
    return []
