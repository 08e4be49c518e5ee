"""`oodbench table`: results as tables."""

import argparse
import re
import sys
from pathlib import Path
from typing import Literal

from oodbench.cli.output import shows_bold, terminal_width
from oodbench.cli.parser import add_names_of, one_of
from oodbench.cli.reading import add_names, add_results, read_ledger, split_names
from oodbench.errors import UserError, shortened
from oodbench.files import write_text
from oodbench.report import layouts, render
from oodbench.report.labels import AVERAGE
from oodbench.report.model import REPORTED
from oodbench.results.metrics import METRICS
from oodbench.results.selection import RULES, TRAINING_DOMAIN
from oodbench.running import request as requests


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser, [REPORTED])
    add_names(parser)
    parser.add_argument(
        "--seeds", default="all", metavar="SEEDS", help="the first N, or 0,2 or 0-4: which to average (default: all)"
    )
    parser.add_argument(
        "--columns",
        "--metrics",
        dest="metrics",
        metavar="METRICS",
        help="in this order (default: those that run prints)",
    )
    parser.add_argument("--average", action="store_true", help="show means over settings instead of each setting")
    parser.add_argument("--tests", action="store_true", help="mark with ◦ what is not shown to be worse than the best")
    parser.add_argument("--ranks", action="store_true", help="below each mean its rank and the ranks it may have")
    parser.add_argument("--sort", metavar="METRIC", help="sort all rows by this metric, best first, without groups")
    parser.add_argument(
        "--format",
        type=one_of("format", render.FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(render.FORMATS)} (default: by output)",
    )
    parser.add_argument("--out", metavar="FILE", help=f"write a file that ends in {', '.join(render.ENDINGS)}")
    parser.add_argument("--layout", metavar="LAYOUT", help="show as a table of a paper (default: our own layout)")
    parser.add_argument(
        "--selection",
        type=one_of("selection", RULES),
        metavar="RULE",
        help=f"how checkpoints are selected (default: {TRAINING_DOMAIN})",
    )
    add_names_of(parser, "metrics", METRICS)
    parser.add_argument_group(
        "layouts",
        f"{', '.join(layouts.names()[:-1])}; {layouts.AUTO} shows those of the SCONE paper that DIR has results for",
    )
    add_names_of(parser, "rules of selection, where domains are held out", RULES)


def main(given: argparse.Namespace) -> int:
    format = given.format if given.out is None else _format_of(given.out, given.format)
    seeds = _seeds(given.seeds)
    ledger = read_ledger(Path(given.folder), given.beside)
    if given.selection is not None and not any(result.domain_accuracies for result in ledger.results):
        _say("no result here has epochs to select from; --selection changes nothing")
    metrics = None if given.metrics is None else [name.strip() for name in given.metrics.split(",") if name.strip()]
    built = layouts.assemble(
        ledger,
        metrics,
        seeds,
        given.layout,
        REPORTED in given.beside,
        given.selection,
        given.sort,
        split_names(given.methods),
        given.suite,
        given.setting,
        given.average,
        given.tests,
        given.ranks,
    )
    if given.average and not any(cell.setting.startswith(AVERAGE) for table in built for cell in table.rows[0].cells):
        _say("no table here has several settings; --average changes nothing")
    if given.out is not None:
        write_text(Path(given.out), render.render(built, format))
        print(f"{given.out}: {len(built)} table{'s' * (len(built) != 1)}")
        return 0
    width = terminal_width()
    print(render.render(built, format or ("markdown" if width is None else "text"), width, shows_bold()), end="")
    return 0


def _format_of(name: str, format: str | None) -> str:
    """What the name of a file says, which --format may repeat."""
    stated = render.ENDINGS.get(Path(name).suffix.lower())
    if stated is None:
        raise UserError(f"--out {shortened(name)} names no format; end it in {', '.join(render.ENDINGS)}")
    if format not in (None, stated):
        raise UserError(f"--out {shortened(name)} is {stated}, and --format says {format}; leave one of them out")
    return stated


def _seeds(given: str) -> int | Literal["all"] | tuple[int, ...]:
    if given == "all":
        return "all"
    if given.isdecimal() and len(given) < 10 and int(given) > 0:
        return int(given)
    if not re.fullmatch("[0-9]+[,-][0-9,-]*", given):
        raise UserError(
            f"--seeds {shortened(given)} is neither 'all' nor a number from 1; say how many seeds to average, or "
            "which, as in 0,2 or 0-4"
        )
    return requests.seeds(given)


def _say(what: str) -> None:
    print(f"oodbench: {what}", file=sys.stderr)
