"""Folders in, their results out, those of different folders kept apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oodbench.errors import UserError
from oodbench.results.folder import COMMUNITY, Reading, collection_of, read_with
from oodbench.results.result import Result


def read(folders: Sequence[Path]) -> Reading:
    """Where several folders are named, the results of each go by its name: nobody's numbers pass for another's.

    Those of the community are shown beside the others, and say how they stand, unless the others have the method.
    """
    if not folders:
        raise UserError("no results folder is named; give one, such as results/")
    readings = {folder: read_with(folder) for folder in dict.fromkeys(folders)}
    community = {folder for folder in readings if collection_of(folder) == COMMUNITY}
    others = [folder for folder in readings if folder not in community]
    names = _names(others) if len(others) > 1 else {}
    taken = {(r.suite_label, r.method) for folder in others for r in readings[folder].results}
    results: list[Result] = []
    problems: dict[Path, str] = {}
    for folder, reading in readings.items():
        for result in reading.results:
            is_taken = folder in community and (result.suite_label, result.method) in taken
            apart = COMMUNITY if is_taken else names.get(folder)
            results.append(result if apart is None else replace(result, collection=apart))
        problems |= reading.problems
    if not results:
        named = " or ".join(f"'{folder}'" for folder in readings)
        raise UserError(
            f"there are no results in {named}; run some with: oodbench run --suite digits-c --results {folders[0]}"
        )
    stand_in = next((each.stand_in for each in readings.values() if each.stand_in is not None), None)
    return Reading(results, problems, stand_in)


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """The last part of each path, or all of it where two end alike."""
    last = {folder: folder.resolve().name for folder in folders}
    counts = Counter(last.values())
    return {folder: name if counts[name] == 1 else folder.as_posix() for folder, name in last.items()}
