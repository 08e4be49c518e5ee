"""`oodbench table`: results as tables."""

import argparse
import sys
from pathlib import Path
from typing import Literal

from oodbench.cli.parser import one_of
from oodbench.cli.reading import add_results, read_ledger
from oodbench.errors import UserError, shortened
from oodbench.report import layouts, render, tables
from oodbench.results.metrics import METRICS
from oodbench.results.selection import RULES, TRAINING_DOMAIN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser, [tables.REPORTED], f"{tables.REPORTED}: what the paper reports, and the difference; ")
    parser.add_argument(
        "--format",
        default="markdown",
        type=one_of("format", render.FORMATS),
        metavar="F",
        help=", ".join(render.FORMATS) + " (default: markdown)",
    )
    parser.add_argument(
        "--metrics",
        metavar="A,B",
        help="of: " + ", ".join(METRICS) + f" (default: {','.join(tables.DEFAULT_METRICS)})",
    )
    parser.add_argument(
        "--sort",
        metavar="METRIC",
        help="all rows by this metric, shown or not, best first over all settings, without groups; for example auroc",
    )
    parser.add_argument("--seeds", default="all", metavar="all|N", help="how many seeds to average (default: all)")
    parser.add_argument(
        "--layout",
        metavar="L",
        help=f"a table of a paper: {', '.join(layouts.names()[:-1])}; {layouts.AUTO}: those of the SCONE paper that "
        "DIR has results for (default: a layout of our own for every suite)",
    )
    parser.add_argument(
        "--selection",
        type=one_of("selection", RULES),
        metavar="S",
        help=f"what chooses checkpoints where domains are held out: {', '.join(RULES)} (default: {TRAINING_DOMAIN})",
    )


def main(given: argparse.Namespace) -> int:
    ledger = read_ledger(Path(given.folder), given.beside)
    if not (given.seeds == "all" or (given.seeds.isdecimal() and len(given.seeds) < 10 and int(given.seeds) > 0)):
        raise UserError(
            f"--seeds {shortened(given.seeds)} is neither 'all' nor a number from 1; say how many seeds to average"
        )
    seeds: int | Literal["all"] = "all" if given.seeds == "all" else int(given.seeds)
    if given.selection is not None and not any(result.domain_accuracies for result in ledger.results):
        print(
            "oodbench: no result here has epochs to select from; --selection changes nothing",
            file=sys.stderr,
        )
    metrics = None if given.metrics is None else [name.strip() for name in given.metrics.split(",") if name.strip()]
    reported = tables.REPORTED in given.beside
    built = layouts.assemble(ledger, metrics, seeds, given.layout, reported, given.selection, given.sort)
    print(render.render(built, given.format), end="")
    return 0
