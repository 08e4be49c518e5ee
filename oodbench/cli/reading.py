"""DIR and `--with` of the commands that show results: which results they name, and what is said about reading them."""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from oodbench.cli.defaults import help_of
from oodbench.cli.parser import one_of
from oodbench.errors import UserError, unknown
from oodbench.results.folder import COLLECTIONS, read_with
from oodbench.results.ledger import Ledger


def add_results(parser: argparse.ArgumentParser, also: Sequence[str] = ()) -> None:
    """`also`: what else a command may set beside results."""
    add_folder(parser)
    choices = [*also, *COLLECTIONS]
    parser.add_argument(
        "--with",
        dest="beside",
        action="append",
        default=[],
        type=one_of("choice of --with", choices),
        metavar="NAME",
        help=f"also show {', '.join(choices)}; repeatable",
    )


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help=f"a results folder {help_of('results')}")


def add_names(parser: argparse.ArgumentParser) -> None:
    """Which of the results: `names_in` and `Ledger.narrowed` read what is given."""
    parser.add_argument(
        "--methods", default="", metavar="METHODS", help="only these, as results name them (default: all)"
    )
    for name in ("suite", "setting"):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=name.upper(),
            help=f"only this {name}, as tables name it; repeatable (default: all)",
        )


def read_ledger(folder: Path, beside: Sequence[str] = ()) -> Ledger:
    """The results of a folder and of the collections among `beside`; there is at least one."""
    reading = read_with(folder, [name for name in beside if name in COLLECTIONS])
    report_problems(reading.problems)
    if not reading.results:
        raise UserError(
            f"there are no results in '{folder}'; run some with: oodbench run --suite digits-c --results {folder}"
        )
    if reading.stand_in is not None:
        print(
            f"oodbench: there are no results of yours in '{folder}'; these are the reference results, "
            f"of '{reading.stand_in}'",
            file=sys.stderr,
        )
    return Ledger(reading.results, reading.problems)


def report_problems(problems: Mapping[Path, str]) -> None:
    for path, reason in problems.items():
        print(f"oodbench: skipped {path}: {reason}", file=sys.stderr)
    if len(problems) > 1:
        print(f"oodbench: {len(problems)} files or folders skipped; what they hold is left out", file=sys.stderr)


def names_in(kind: str, given: str, known: Iterable[str]) -> list[str]:
    """`scone,margin=-1,woods` names two: what has an equals sign belongs to the name before it."""
    words = split_names(given)
    check_known(kind, words, known)
    return words


def split_names(given: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in re.split(",(?![^,]*=)", given) if word.strip()))


def check_known(kind: str, words: Iterable[str], known: Iterable[str]) -> None:
    for word in words:
        if word not in known:
            raise unknown(kind, word, known)
