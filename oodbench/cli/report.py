"""`oodbench report`: a page to look at, from results: leaderboards, trade-offs, single cells, comparisons, papers."""

import argparse
import sys
import webbrowser
from functools import partial
from pathlib import Path

from oodbench.cli.defaults import help_of
from oodbench.cli.parser import add_names_of, one_of
from oodbench.cli.reading import report_problems
from oodbench.report.page import folders, site
from oodbench.results.selection import RULES, TRAINING_DOMAIN
from oodbench.running.repeat import Files, command

MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="RESULTS",
        help=f"one or more results folders {help_of('results')}",
    )
    parser.add_argument("--out", default="site", metavar="DIR", help="where index.html goes (default: site)")
    parser.add_argument(
        "--single",
        action="store_true",
        help=f"write one file even for more than {site.ONE_FILE:,} results",
    )
    parser.add_argument("--title", metavar="TITLE", help=f"the title of the page (default: {site.TITLE})")
    parser.add_argument(
        "--selection",
        type=one_of("selection", RULES),
        metavar="RULE",
        help=f"how checkpoints are selected (default: {TRAINING_DOMAIN})",
    )
    add_names_of(parser, "rules of selection, where domains are held out", RULES)
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def main(given: argparse.Namespace) -> int:
    reading = folders.read([Path(each) for each in given.folders])
    report_problems(reading.problems)
    if reading.stand_in is not None:
        print(f"oodbench: these are the reference results, of '{reading.stand_in}'", file=sys.stderr)
    shows_progress = sys.stderr.isatty()

    def tell(what: str) -> None:
        if shows_progress:
            print(f"oodbench: {what}", file=sys.stderr, flush=True)

    how = partial(command, files=Files())
    made = site.make(reading, Path(given.out), given.single, given.title, given.selection, tell, command=how)
    files = "one file" if made.files == 1 else f"{made.files} files"
    boards = "1 board" if made.boards == 1 else f"{made.boards} boards"
    results = "1 result" if made.results == 1 else f"{made.results:,} results"
    print(f"{made.path}: {results} on {boards}, {files}, {made.size / MEGABYTE:.1f} MB")
    if given.open:
        webbrowser.open(made.path.resolve().as_uri())
    return 0
