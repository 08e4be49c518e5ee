"""A folder of results in, its readable results out, and what could not be read and why. Imports no torch."""

import os
from pathlib import Path

from oodbench.errors import UserError
from oodbench.results.result import Result, Unreadable, read


def read_folder(folder: Path) -> tuple[list[Result], dict[Path, str]]:
    """Every result below a folder, and what could not be read and why."""
    if not folder.is_dir():
        raise UserError(
            f"there is no results folder '{folder}'; make one with: oodbench run --suite digits-c --results {folder}"
        )
    results, problems = [], {}
    for path in sorted(_json_files(folder)):
        try:
            results.append(read(path))
        except Unreadable as error:
            problems[path] = str(error)
    return results, problems


def _json_files(folder: Path) -> list[Path]:
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in files if name.endswith(".json") and not name.startswith(".")]
    return found
