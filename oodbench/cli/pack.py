"""`oodbench pack`: the results of a folder in one file, which is only read."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from oodbench.cli.reading import report_problems
from oodbench.errors import UserError
from oodbench.results import pack
from oodbench.results.folder import read_folder
from oodbench.results.raw_scores import Unreadable
from oodbench.results.result import Result
from oodbench.results.stored import contents_of

FILTERS: dict[str, Callable[[Result], object]] = {
    "suite": lambda result: result.suite_label,
    "seed": lambda result: result.seed,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a results folder; collections and packs below it are left out")
    parser.add_argument("--out", type=Path, required=True, metavar="PACK", help=f"the file to write, NAME{pack.ENDING}")
    parser.add_argument("--ranks", action="store_true", help="keep joint ranks in place of scores, which are larger")
    parser.add_argument("--suite", action="append", default=[], metavar="SUITE", help="only this suite; repeatable")
    parser.add_argument(
        "--seed", action="append", default=[], type=int, metavar="SEED", help="only this seed; repeatable"
    )


def main(given: argparse.Namespace) -> int:
    """0 if every result is in the file, 1 if some could not be read."""
    folder, out = Path(given.folder), given.out
    if not out.name.endswith(pack.ENDING):
        raise UserError(f"'{out}' is not the name of a pack; end it in {pack.ENDING}")
    if os.path.lexists(out):
        raise UserError(f"'{out}' exists already, and a pack is written once; delete it or choose another --out")
    results, problems = read_folder(folder)
    report_problems(problems)
    results = [result for result in results if result.pack is None]
    for name, value_of in FILTERS.items():
        wanted = getattr(given, name)
        results = [result for result in results if not wanted or value_of(result) in wanted]
    if not results:
        raise UserError(f"'{folder}' has no such results outside packs; see: oodbench status {folder}")
    members = [_member(result, folder) for result in results]
    pack.write(out, members, given.ranks)
    held = "joint ranks of their scores" if given.ranks else "their scores"
    print(f"{out}: {len(members)} result{'s' * (len(members) > 1)} with {held}, {out.stat().st_size / 1e6:.1f} MB")
    return 1 if problems else 0


def _member(result: Result, folder: Path) -> pack.Member:
    assert result.path is not None
    try:
        arrays, log = contents_of(result)
    except Unreadable as reason:
        raise UserError(
            f"the raw scores of '{result.path}' cannot be packed: {reason}; run its cell again, or remove it"
        ) from None
    return pack.Member(result, result.path.relative_to(folder).as_posix(), arrays, log)
