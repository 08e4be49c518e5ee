"""`oodbench evaluate`: a network of the user's under every scorer."""

import argparse
import shlex
import sys
from pathlib import Path

from oodbench.cli import given_options, progress
from oodbench.cli.defaults import help_of
from oodbench.cli.output import results_stay, shows_bold, terminal_width
from oodbench.cli.progress import outcome
from oodbench.report.result_set import ResultSet, best_line
from oodbench.results.result import Result
from oodbench.running.given.request import GivenRequest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    given_options.add_network(parser)
    given_options.add_images(parser)
    what = parser.add_argument_group("scorers and results")
    what.add_argument("--scorers", metavar="SCORERS", help="such as msp,knn, or all that fit (default: all)")
    what.add_argument(
        "--arrays", metavar="FILE", help="instead of network and images: a .npz or .safetensors of outputs"
    )
    what.add_argument("--results", metavar="DIR", help=f"where results are stored {help_of('results')}")
    what.add_argument("--force", action="store_true", help="evaluate again what is done already")
    what.add_argument("--verbose", action="store_true", help="print a line for every result, not only for failures")
    given_options.add_how(parser)


def main(given: argparse.Namespace) -> int:
    asked = given_options.request_of(given)
    with results_stay(asked.folder):
        return _evaluate(asked, given)


def _evaluate(asked: GivenRequest, given: argparse.Namespace) -> int:
    from oodbench.running.given.evaluating import carry_out

    reporter = progress.reporter(each_result=given.verbose)
    done = carry_out(asked, reporter)
    found = ResultSet(done.results)
    reporter.note("")
    sort = "auroc" if _measures_detection(done.results) else None
    print(found.table(format="text", sort=sort, width=terminal_width(), bold=shows_bold()))
    best = found.best()
    if best is not None and best.compared > 1:
        print(best_line(best))
    if best is not None and given.model is not None:
        reporter.note(f"Next: {given_options.fit_command(given, best.scorer)}")
    else:
        reporter.note(f"Next: oodbench table {shlex.quote(str(Path(asked.results) / done.label))} --format latex")
    failed = [result for result in done.new if result.status != "ok"]
    if failed:
        for result in failed if given.debug else ():
            print(f"{outcome(result)}\n{result.traceback}", file=sys.stderr)
        print(f"oodbench: {len(failed)} of {len(done.new)} cells failed; the first: {failed[0].error}", file=sys.stderr)
        return 1
    return 0


def _measures_detection(results: list[Result]) -> bool:
    return any("auroc" in result.metrics for result in results)
