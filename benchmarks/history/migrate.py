"""Packs committed results of schema 2, with what schema 3 adds: the request, the precision, who made the numbers.

    python benchmarks/history/migrate.py results/reference digits-c [--ranks]

Writes results/reference/digits-c/results.pack.zip; the files that it was made of can then go. The request is the one
that asks for this cell alone: what was once asked for is not known. The constraints that a training met are not known
either, but those that it violated, which are in its notes.
"""

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from oodbench.cli import run
from oodbench.cli.command_line import parser_of
from oodbench.results import pack
from oodbench.results.folder import read_folder
from oodbench.results.result import Result
from oodbench.results.stored import contents_of
from oodbench.running import provenance
from oodbench.running.repeat import Files, command
from oodbench.running.request import recorded


def migrated(result: Result, files: Files) -> Result:
    """The same with what follows from it."""
    words = shlex.split(command(result, files)[0])[1:]
    (asked,) = run._requests(parser_of(words).parse_args(words))
    method, precision = result.config.method, result.config.suite.precision
    return replace(result, request=recorded(asked), chain=provenance.chain(method), precision=precision)


def migrate(folder: Path, suite: str, ranks: bool) -> Path:
    results, problems = read_folder(folder)
    assert not problems, problems
    files, out = Files(), folder / suite / "results.pack.zip"
    chosen = [each for each in results if each.suite_label == suite and each.path is not None]
    members = [
        pack.Member(migrated(each, files), each.path.relative_to(folder).as_posix(), *contents_of(each))
        for each in chosen
        if each.path is not None
    ]
    pack.write(out, members, ranks)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("suite")
    parser.add_argument("--ranks", action="store_true")
    given = parser.parse_args()
    print(migrate(given.folder, given.suite, given.ranks))
