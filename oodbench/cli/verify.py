"""`oodbench verify`: what holds of results that somebody sends."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from oodbench.errors import visible

if TYPE_CHECKING:
    from oodbench.running.cell_checks import CellFindings
    from oodbench.running.verifying import Verification


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="an archive of `oodbench submit`, or the folder of a submission")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--into", metavar="DIR", help="unpack it there if all of it holds, as in results/community")


def main(given: argparse.Namespace) -> int:
    """0 if everything holds, 1 if something does not."""
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
