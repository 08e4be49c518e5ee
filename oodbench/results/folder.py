"""A folder in; its results out, with those of the collections one asks for, and what could not be read. No torch.

A folder with a file COLLECTION, which holds one word, is a collection: results that somebody else made, or that are set
apart. Whoever reads a folder above it does not see them unless he asks, so nobody's numbers pass for his own.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten

from oodbench.config.cards import PACKAGE
from oodbench.errors import UserError
from oodbench.files import TEXT_LIMIT, read_regular
from oodbench.results.result import Result, Unreadable, read

COLLECTION = "COLLECTION"  # the name of the file
SUFFIXES = (".json", ".npz", ".jsonl")  # of the files of a cell
REFERENCE = "reference"
# The words it may hold, and what to do where there are no such results.
COLLECTIONS = {
    REFERENCE: "they are in oodbench's repository and not in the installed package; clone it, or leave out",
    "demo": "make them with `make demo`, or leave out",
    "community": "copy them there, or leave out",
}


@dataclass(frozen=True)
class Reading:
    """What a folder holds, and what was added to it."""

    results: list[Result]
    problems: dict[Path, str]  # files that could not be read, and why
    stand_in: Path | None = None  # the reference results, read because the folder has none of its own


def read_with(folder: Path, collections: Sequence[str] = ()) -> Reading:
    """The results of a folder and of these collections, each below it, beside it or else in the repository.

    Where the folder has none and nothing is asked for, the reference results below it stand in.
    """
    results, problems = read_folder(folder)
    added = [(name, root) for name in dict.fromkeys(collections) for root in _to_add(folder, name)]
    stand_in = None
    if not results and not collections:
        stand_in = next((root for root, name in _walk(folder)[1].items() if name == REFERENCE), None)
        added += [(REFERENCE, stand_in)] if stand_in else []
    for name, root in added:
        more, unread = read_folder(root)
        results += [replace(result, collection=name) for result in more]
        problems |= unread
    return Reading(results, problems, stand_in)


def read_folder(folder: Path) -> tuple[list[Result], dict[Path, str]]:
    """Every result below a folder but not in a collection below it, and what could not be read and why."""
    if not os.path.isdir(folder):
        raise UserError(
            f"there is no results folder '{folder}'; make one with: oodbench run --suite digits-c --results {folder}"
        )
    results, problems = [], {}
    for path in sorted(_walk(folder)[0]):
        try:
            results.append(read(path))
        except Unreadable as error:
            problems[path] = str(error)
    return results, problems


def remove(result: Result, folder: Path) -> None:
    """Delete a cell's result, scores and log, and the folders that this leaves empty. The result goes first: one that
    exists is complete."""
    assert result.path is not None
    for suffix in SUFFIXES:
        result.path.with_suffix(suffix).unlink(missing_ok=True)
    for parent in result.path.parents:
        if parent == folder or any(parent.iterdir()):
            return
        parent.rmdir()


def _walk(folder: Path) -> tuple[list[Path], dict[Path, str]]:
    """The JSON files of a folder, and the collections below it, whose files are not among them."""
    files, collections = [], {}
    for parent, folders, names in os.walk(folder):
        if COLLECTION in names and Path(parent) != folder:
            collections[Path(parent)] = _checked_word(Path(parent))
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(parent, name) for name in names if name.endswith(".json") and not name.startswith(".")]
    return files, collections


def _word(folder: Path) -> str | None:
    """What a collection says it is; None for any other folder."""
    with suppress(OSError):
        return read_regular(folder / COLLECTION, TEXT_LIMIT).decode(errors="replace").strip()
    return None


def _checked_word(folder: Path) -> str:
    """A word that nobody knows is refused: results of unknown origin would be shown, or lost, without a word."""
    word = _word(folder)
    if word not in COLLECTIONS:
        said = f"says '{shorten(word, 40)}'" if word else "cannot be read or is empty"
        raise UserError(
            f"'{folder / COLLECTION}' {said}; write one of {', '.join(COLLECTIONS)} into it, or delete the file"
        )
    return word


def _to_add(folder: Path, name: str) -> list[Path]:
    """The collections of a name; none for a folder in one, which is read already."""
    here = folder.resolve()
    if any(_word(each) == name for each in (here, *here.parents)):
        return []
    roots = [root for root, word in _walk(folder)[1].items() if word == name]
    for parent in (here.parent, PACKAGE.parent / "results"):
        roots = roots or _children(parent, name)
    if not roots:
        raise UserError(f"there are no {name} results below or beside '{folder}': {COLLECTIONS[name]} --with {name}")
    return roots


def _children(parent: Path, name: str) -> list[Path]:
    with suppress(OSError):
        return [child for child in sorted(parent.iterdir()) if _word(child) == name]
    return []
