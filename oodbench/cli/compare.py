"""`oodbench compare`: every method minus a baseline, with intervals, and what of it holds."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from oodbench.cli.output import terminal_width
from oodbench.cli.parser import add_names_of, one_of
from oodbench.cli.reading import add_names, add_results, names_in, read_ledger
from oodbench.errors import UserError
from oodbench.files import write_atomically
from oodbench.report import difference_tables, differences, render
from oodbench.report.differences import Comparison
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results.metrics import METRICS

RECORDS: dict[str, Callable[[list[Comparison]], str]] = {
    "csv": difference_tables.to_csv,
    "json": difference_tables.to_json,
}
FIGURES = (".png", ".pdf", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument(
        "--baseline",
        metavar="METHOD",
        help=f"compare with this one (default: {differences.BASELINE}; for given networks "
        f"{differences.BASELINE_OF_GIVEN})",
    )
    add_names(parser)
    parser.add_argument("--metrics", metavar="METRICS", help="in this order (default: those of `table`)")
    parser.add_argument(
        "--format",
        default="text",
        type=one_of("format", render.FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(render.FORMATS)} (default: text)",
    )
    parser.add_argument("--figure", metavar="FILE", help="also draw one suite's differences as .png, .pdf or .svg")
    add_names_of(parser, "metrics", METRICS)


def main(given: argparse.Namespace) -> int:
    folder = Path(given.folder)
    figure = _figure(given.figure)
    ledger = read_ledger(folder, given.beside)
    shown = ledger.narrowed(given.suite, given.setting)
    methods = names_in("method of these results", given.methods, {each.method for each in shown.results})
    metrics = DEFAULT_METRICS if given.metrics is None else names_in("metric", given.metrics, METRICS)
    baseline = given.baseline or differences.default_baseline(shown)
    compared = differences.compare(shown, baseline, methods, metrics)
    if figure is not None and len(compared) > 1:
        raise UserError(f"--figure shows one table, and these are {len(compared)}; choose with --suite or --setting")
    left_out = set(shown.suites) - {each.suite for each in compared}
    if left_out:
        names = ", ".join(sorted(left_out))
        print(f"oodbench: nothing to compare with {baseline} in {names}; left out", file=sys.stderr)
    if given.format in RECORDS:
        print(RECORDS[given.format](compared), end="")
    else:
        tables = [table for each in compared for table in difference_tables.tables(each)]
        print(render.render(tables, given.format, terminal_width()), end="")
    if figure is not None:
        _draw(compared[0], figure, folder)
    return 0


def _figure(given: str | None) -> Path | None:
    if given is None:
        return None
    path = Path(given)
    if path.suffix not in FIGURES:
        raise UserError(f"--figure {given} is no PNG, PDF or SVG; give a name that ends in {' or '.join(FIGURES)}")
    return path


def _draw(comparison: Comparison, path: Path, folder: Path) -> None:
    """The figure, with its caption beside it."""
    from oodbench.report.figures import differences as figure
    from oodbench.report.figures import style

    encoded = style.encode(figure.drawing_of(comparison), folder, [path.suffix[1:]])
    for target, content in ((path, encoded[path.suffix[1:]]), (path.with_suffix(".txt"), encoded["txt"])):
        write_atomically(target, lambda file: file.write(content))  # noqa: B023
