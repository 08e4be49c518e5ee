"""`oodbench remove`: deletes cells of a results folder, after showing which."""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from oodbench.cli.confirmation import agreed
from oodbench.cli.reading import report_problems
from oodbench.errors import UserError, unknown
from oodbench.results import pack, stored
from oodbench.results.folder import read_folder
from oodbench.results.result import Result

FILTERS: dict[str, Callable[[Result], str]] = {  # option, and what of a result it must equal
    "method": lambda result: result.method,
    "suite": lambda result: result.suite_label,
    "setting": lambda result: result.setting,
    "seed": lambda result: str(result.seed),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a results folder; collections below it stay as they are")
    for name in FILTERS:
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=name.upper(),
            help=f"cells of this {name}, as folders name it; repeatable",
        )
    parser.add_argument("--failed", action="store_true", help="only cells that failed")
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def main(given: argparse.Namespace) -> int:
    """0 if nothing fits, too; 1 if the user says no."""
    folder = Path(given.folder)
    if not given.failed and not any(getattr(given, name) for name in FILTERS):
        options = ", ".join(f"--{name}" for name in FILTERS)
        raise UserError(f"all of '{folder}' would be deleted; say which cells with {options} or --failed")
    pack.refuse(folder, "delete the file, or name a folder")
    results, problems = read_folder(folder)
    report_problems(problems)
    results = [result for result in results if result.pack is None]
    chosen = _chosen(results, given)
    if not chosen:
        print(f"nothing to remove: no cell in '{folder}' fits")
        return 0
    for result in chosen:
        failed = f", failed: {result.error}" if result.status != "ok" else ""
        print(f"  {result.path}{failed}")
    count = f"{len(chosen)} cell{'s' * (len(chosen) > 1)}"
    if not given.yes and not agreed(count):
        print("nothing removed")
        return 1
    sys.stdout.flush()  # nothing goes that has not been shown
    _remove(chosen, folder)
    print(f"{count} removed: results, raw scores and logs; weights stay")
    return 0


def _chosen(results: list[Result], given: argparse.Namespace) -> list[Result]:
    for name, value_of in FILTERS.items():
        wanted = getattr(given, name)
        _check(name, wanted, {value_of(result) for result in results})
        results = [result for result in results if not wanted or value_of(result) in wanted]
    return [result for result in results if not given.failed or result.status == "failed"]


def _check(kind: str, wanted: Iterable[str], known: set[str]) -> None:
    for word in wanted:
        if known and word not in known:
            raise unknown(f"{kind} of these results", word, known)


def _remove(results: list[Result], folder: Path) -> None:
    try:
        stored.remove(results, folder)
    except OSError as error:
        raise UserError(f"cannot delete '{error.filename}': {error.strerror}; fix permissions") from None
