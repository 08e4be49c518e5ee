"""`oodbench compare`: every method minus a baseline, with intervals, and what of it holds."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from oodbench.cli.output import terminal_width
from oodbench.cli.parser import add_names_of, one_of
from oodbench.cli.reading import add_names, add_results, names_in, read_ledger
from oodbench.errors import UserError
from oodbench.files import write_atomically
from oodbench.report import differences, render, same_fpr
from oodbench.report.differences import Comparison
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results.ledger import Ledger
from oodbench.results.metrics import METRICS

RECORDS: dict[str, Callable[[list[Comparison]], str]] = {
    "csv": lambda compared: render.to_csv(differences.records(compared), differences.RECORDS),
    "json": lambda compared: render.to_json(differences.records(compared)),
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
    parser.add_argument(
        "--at-fpr", metavar="PERCENT", help="where paths of trainings have this FPR, such as 30,20,10; see run --path"
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
    if given.at_fpr is not None:
        return _at_fpr(given, shown, baseline, methods)
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
        tables = [table for each in compared for table in differences.tables(each)]
        print(render.render(tables, given.format, terminal_width()), end="")
    if figure is not None:
        _draw(compared[0], figure, folder)
    return 0


def _at_fpr(given: argparse.Namespace, shown: Ledger, baseline: str, methods: Sequence[str]) -> int:
    """The table of methods at the same FPR."""
    for option in ("figure", "metrics"):
        if getattr(given, option) is not None:
            raise UserError(f"--at-fpr prints one table of its own; leave out --{option}")
    if given.format != "text":
        raise UserError("--at-fpr prints Markdown; leave out --format")
    try:
        fprs = [float(word) / 100 for word in given.at_fpr.split(",")]
    except ValueError:
        fprs = []
    if not fprs or not all(0 < fpr < 1 for fpr in fprs):
        raise UserError(f"--at-fpr {given.at_fpr} is no list of rates in percent; write them as in 30,20,10")
    print(same_fpr.as_markdown(same_fpr.compare(shown, baseline, fprs, methods), baseline), end="")
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
