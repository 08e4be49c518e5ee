"""A results folder, read for a command: unreadable files are named and an empty folder refused in the same words."""

import sys
from collections.abc import Mapping
from pathlib import Path

from oodbench.errors import UserError
from oodbench.results.folder import read_folder
from oodbench.results.ledger import Ledger


def read_ledger(folder: Path) -> Ledger:
    results, problems = read_folder(folder)
    report_problems(problems)
    if not results:
        raise UserError(
            f"there are no results in '{folder}'; run some with: oodbench run --suite digits-c --results {folder}"
        )
    return Ledger(results, problems)


def report_problems(problems: Mapping[Path, str]) -> None:
    for path, reason in problems.items():
        print(f"oodbench: skipped {path}: {reason}", file=sys.stderr)
