"""`oodbench report`: a page to look at, from results: leaderboards, trade-offs, single cells, comparisons, papers."""

import argparse
import sys
import webbrowser
from pathlib import Path

from oodbench.cli.parser import one_of
from oodbench.cli.reading import report_problems
from oodbench.report.page import folders, site
from oodbench.results.selection import RULES, TRAINING_DOMAIN

MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        default=["results"],
        metavar="RESULTS",
        help="results folders; of several, each is kept apart (default: results)",
    )
    parser.add_argument("--out", default="site", metavar="FOLDER", help="where index.html goes (default: site)")
    parser.add_argument(
        "--single",
        action="store_true",
        help=f"one file, whatever its size (default: of more than {site.ONE_FILE:,} results data lies beside it)",
    )
    parser.add_argument("--title", metavar="T", help=f"what stands above the page (default: {site.TITLE})")
    parser.add_argument(
        "--selection",
        type=one_of("selection", RULES),
        metavar="S",
        help=f"what chooses checkpoints where domains are held out: {', '.join(RULES)} (default: {TRAINING_DOMAIN}, "
        "and in tables of papers what the paper did)",
    )
    parser.add_argument("--open", action="store_true", help="show the page in the browser")


def main(given: argparse.Namespace) -> int:
    reading = folders.read([Path(each) for each in given.folders])
    report_problems(reading.problems)
    if reading.stand_in is not None:
        print(f"oodbench: these are the reference results, of '{reading.stand_in}'", file=sys.stderr)
    shows_progress = sys.stderr.isatty()

    def tell(what: str) -> None:
        if shows_progress:
            print(f"oodbench: {what}", file=sys.stderr, flush=True)

    made = site.make(reading, Path(given.out), given.single, given.title, given.selection, tell=tell)
    files = "one file" if made.files == 1 else f"{made.files} files"
    boards = "1 board" if made.boards == 1 else f"{made.boards} boards"
    results = "1 result" if made.results == 1 else f"{made.results:,} results"
    print(f"{made.path}: {results} on {boards}, {files}, {made.size / MEGABYTE:.1f} MB")
    if given.open:
        webbrowser.open(made.path.resolve().as_uri())
    return 0
