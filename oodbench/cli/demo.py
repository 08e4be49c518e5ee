"""`oodbench demo`: the suite that needs no download, its table, and its page."""

import argparse
import dataclasses
from pathlib import Path

from oodbench.cli.defaults import help_of
from oodbench.cli.run import run_and_show
from oodbench.files import write_text
from oodbench.results.folder import COLLECTION, DEMO
from oodbench.running.request import Request

REQUEST = Request(suite="digits-c", seeds=(0, 1, 2))
PAGE = "report"  # the folder of the page, in that of the results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", help=f"results are stored in DIR/{DEMO} {help_of('results')}")
    parser.add_argument("--device", metavar="DEVICE", help=f"auto, cpu, cuda or cuda:1 {help_of('device')}")
    parser.add_argument("--force", action="store_true", help="run again what is done already")


def main(given: argparse.Namespace) -> int:
    folder = Path(given.results) / DEMO
    # A collection of its own: these results never pass for those of `oodbench run`.
    write_text(folder / COLLECTION, f"{DEMO}\n")
    device = given.device or REQUEST.device
    asked = dataclasses.replace(REQUEST, results=str(folder), device=device, force=given.force)
    status = run_and_show(asked, given.debug)
    from oodbench.api import report

    print(f"The page of these results: {report(folder, folder / PAGE, title='oodbench demo')}")
    return status
