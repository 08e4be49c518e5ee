"""`oodbench table`: results as tables."""

import argparse
import sys
from pathlib import Path
from typing import Literal

from oodbench import layouts, render, tables
from oodbench import results as ledger
from oodbench.cli_parser import one_of
from oodbench.errors import UserError, unknown
from oodbench.metrics import METRICS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a results folder")
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
    parser.add_argument("--seeds", default="all", metavar="all|N", help="how many seeds to average (default: all)")
    parser.add_argument(
        "--layout",
        metavar="L",
        help="a table of the paper: main, additional, mnist, margin, validation, ratio, corruption, imagenet, pacs or "
        "pacs-ood; auto: those that DIR has results for (default: a layout of our own for every suite)",
    )
    parser.add_argument("--with", dest="beside", metavar="reported", help="what the paper reports, and the difference")


def main(given: argparse.Namespace) -> int:
    found, problems = ledger.read_folder(Path(given.folder))
    report_problems(problems)
    if not (given.seeds == "all" or (given.seeds.isdecimal() and int(given.seeds) > 0)):
        raise UserError(f"--seeds {given.seeds} is neither 'all' nor a number from 1; say how many seeds to average")
    seeds: int | Literal["all"] = "all" if given.seeds == "all" else int(given.seeds)
    if given.beside not in (None, "reported"):
        raise unknown("choice of --with", given.beside, ["reported"])
    if given.layout is not None:
        if given.metrics is not None:
            raise UserError("a layout has metrics of its own; leave out --metrics or --layout")
        built = layouts.build(found, given.layout, seeds)
        built = built if given.beside else layouts.without_reported(built)
    else:
        chosen = ",".join(tables.DEFAULT_METRICS) if given.metrics is None else given.metrics
        names = [name.strip() for name in chosen.split(",") if name.strip()]
        built = tables.build(found, names, seeds)
        built = layouts.with_reported(built, found) if given.beside else built
    print(render.render(built, given.format), end="")
    return 0


def report_problems(problems: dict[Path, str]) -> None:
    for path, reason in problems.items():
        print(f"oodbench: skipped {path}: {reason}", file=sys.stderr)
