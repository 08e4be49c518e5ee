"""`oodbench verify`: what holds of results that somebody sends."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from oodbench.cli.reading import report_problems
from oodbench.errors import UserError, visible
from oodbench.results.folder import SUBMISSION, read_folder
from oodbench.results.pack import is_pack

if TYPE_CHECKING:
    from oodbench.running.cell_checks import CellFindings
    from oodbench.running.verifying import Verification


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="an archive of `oodbench submit`, its folder, a results folder or a pack"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--into", metavar="DIR", help="unpack it there if all of it holds, as in results/community")


def main(given: argparse.Namespace) -> int:
    """0 if everything holds, 1 if something does not."""
    path = Path(given.path)
    if is_pack(path) or (path.is_dir() and not (path / SUBMISSION).exists()):
        return _verify_results(path, given)
    from oodbench.running.verifying import verify

    found = verify(given.path, given.into)
    if given.json:
        print(json.dumps(found.as_values(), indent=1))
    else:
        _print(found)
        if given.into is not None:
            home = Path(given.into) / found.submission.name
            print(f"taken in as '{home}'" if found.holds else f"not taken into '{given.into}'")
    return 0 if found.holds else 1


def _verify_results(path: Path, given: argparse.Namespace) -> int:
    """Of a folder or a pack that nobody has sent: that nothing was edited or damaged since it was written."""
    from oodbench.running.cell_checks import check_stored

    if given.into is not None:
        raise UserError(f"'{path}' is not a submission, and only these are taken in; merge it, or leave out --into")
    results, problems = read_folder(path)
    if not results and not problems:
        raise UserError(f"'{path}' holds neither a submission nor results; name another folder, an archive or a pack")
    found = [check_stored(result) for result in results]
    good = sum(each.holds for each in found)
    if given.json:
        values = {
            "holds": not problems and good == len(found),
            "problems": {str(place): reason for place, reason in problems.items()},
            "cells": [{"cell": each.place, "holds": each.holds, **each.as_values()} for each in found],
        }
        print(json.dumps(values, indent=1))
    else:
        report_problems(problems)
        for each in found:
            if each.problems or each.unchecked:
                print(visible(f"{each.place}: {_words(each)}"))
        unread = f", {len(problems)} unreadable" if problems else ""
        print(f"{path}: {good} of {len(found)} results hold{unread}")
    return 0 if not problems and good == len(found) else 1


def _print(found: "Verification") -> None:
    for cell in found.cells:
        print(visible(f"{cell.place}: {_words(cell)}"))
    for problem in found.problems:
        print(visible(f"{found.submission.name}: {problem}"))
    good = sum(cell.holds for cell in found.cells)
    words = [f"{good} of {len(found.cells)} cells hold"]
    words += [f"{len(found.problems)} problems of the whole"] if found.problems else []
    print(f"{found.submission.name}: {', '.join(words)}; no code of it was run")


def _words(cell: "CellFindings") -> str:
    held = f"{', '.join(cell.held) or 'nothing'} hold{'s' if len(cell.held) < 2 else ''}"
    wrong = [f"{name.upper()}: {reason}" for name, reason in cell.problems.items()]
    open_ = [f"{name} not checked, {reason}" for name, reason in cell.unchecked.items()]
    return "; ".join([*wrong, held, *open_])
