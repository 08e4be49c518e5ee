"""`oodbench rescore`: the metrics of results computed again from their raw scores."""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

from oodbench.cli.reading import report_problems
from oodbench.config import identity
from oodbench.errors import UserError
from oodbench.results import pack
from oodbench.results.folder import read_folder
from oodbench.results.rescore import NotRescored, rescore
from oodbench.results.result import Result


@dataclass
class _Counts:
    changed: int = 0
    same: int = 0
    failed: int = 0
    skipped: dict[Path, str] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a results folder; collections below it stay as they are")
    parser.add_argument("--dry-run", action="store_true", help="say what would change; write nothing")


def main(given: argparse.Namespace) -> int:
    """0 if every result has the metrics of today, 1 if some cannot be computed again."""
    pack.refuse(Path(given.folder), "rescore the folder that it was made of, and pack it again")
    results, problems = read_folder(Path(given.folder))
    report_problems(problems)
    results = [result for result in results if result.pack is None]
    if not results:
        raise UserError(f"there are no results in '{given.folder}' to rescore; name another folder")
    counts = _Counts()
    for result in results:
        _rescore(result, counts, given.dry_run)
    for path, reason in counts.skipped.items():
        print(f"oodbench: not rescored '{path}': {reason}", file=sys.stderr)
    verb = "would be rescored" if given.dry_run else "rescored"
    words = [f"{counts.changed} {verb}", f"{counts.same} as before"]
    words += [f"{counts.failed} failed, left alone"] if counts.failed else []
    words += [f"{len(counts.skipped)} skipped"] if counts.skipped else []
    words += [f"{len(problems)} unreadable"] if problems else []
    print(f"metrics version {identity.version_of('metrics')}: {', '.join(words)}")
    return 1 if counts.skipped else 0


def _rescore(result: Result, counts: _Counts, dry_run: bool) -> None:
    assert result.path is not None
    if result.status != "ok":
        counts.failed += 1
        return
    try:
        changes = rescore(result.path, dry_run)
    except NotRescored as reason:
        counts.skipped[result.path] = str(reason)
        return
    counts.changed += changes
    counts.same += not changes
