"""`oodbench submit`: results in an archive that others can verify."""

import argparse
from pathlib import Path

from oodbench.cli.parser import add_plugins
from oodbench.cli.reading import names_in
from oodbench.results.folder import read_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a results folder")
    parser.add_argument(
        "--methods", required=True, metavar="METHODS", help="as results name them, such as mine or mine,k=5"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.zip", help="the archive to write")
    parser.add_argument("--name", metavar="NAME", help="of the submission and its folder (default: that of FILE.zip)")
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="a line about the submission: authors, a paper, an address"
    )
    for word, kind in (("suite", str), ("setting", str), ("seed", int)):
        about = f"only this {word}; repeatable"
        metavar = word.upper()
        parser.add_argument(f"--{word}", action="append", default=[], type=kind, metavar=metavar, help=about)
    add_plugins(parser)


def main(given: argparse.Namespace) -> int:
    from oodbench.running.submitting import submit

    folder = Path(given.folder)
    methods = names_in("method in these results", given.methods, {each.method for each in read_folder(folder)[0]})
    found = submit(
        folder, methods, given.out, given.name, given.note, given.plugin or (), given.suite, given.setting, given.seed
    )
    for claim in found.submission.claims:
        label = claim.suite if claim.preset is None else f"{claim.suite}-{claim.preset}"
        print(f"{label}: {', '.join(claim.methods)}")
        print(f"  settings {', '.join(claim.settings)}; seeds {', '.join(map(str, claim.seeds))}")
    size = given.out.stat().st_size
    print(f"{len(found.cells)} cells in '{given.out}', {size / 1e6:.1f} MB; all of them hold")
    for reason in found.unchecked:
        print(f"not checked here: {reason}")
    print(f"Next: oodbench verify {given.out}")
    return 0
