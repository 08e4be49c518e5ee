"""`oodbench merge`: the results of other folders, made without a shared disk, into one."""

import argparse
import sys
from pathlib import Path

from oodbench.results.result import Result
from oodbench.running.merging import Merged, merge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "others", nargs="+", metavar="OTHER", help="results folders; they and collections below them stay as they are"
    )
    parser.add_argument("--into", required=True, metavar="DIR", help="the results folder that receives the results")
    parser.add_argument("--weights", action="store_true", help="also copy weights that are missing")
    parser.add_argument("--dry-run", action="store_true", help="say what would be merged; write nothing")


def main(given: argparse.Namespace) -> int:
    """0 if all is in one folder now; 1 if a cell differs or a file cannot be read, which stay where they are."""
    merged = merge([Path(other) for other in given.others], Path(given.into), given.weights, given.dry_run)
    for path, reason in merged.problems.items():
        print(f"oodbench: not merged '{path}': {reason}", file=sys.stderr)
    for each in merged.conflicts:
        result = each.theirs
        cell = f"{result.suite_label} / {result.setting} / {result.method} / seed {result.seed}"
        print(f"oodbench: not merged '{result.path}': {cell} has other content: {each.words}", file=sys.stderr)
        for one in (each.ours, each.theirs):
            print(f"oodbench:   '{one.path}' was made on {_machine(one)}", file=sys.stderr)
    for path, reason in merged.unchecked.items():
        print(f"oodbench: the metrics of '{path}' were not checked: {reason}", file=sys.stderr)
    print(f"{given.into}: {_summary(merged, given.weights, given.dry_run)}")
    return 0 if merged.is_complete else 1


def _machine(result: Result) -> str:
    words = [result.machine.get("host") or "an unnamed machine", result.machine.get("cpu", ""), result.device]
    return f"{', '.join(word for word in words if word)}; {result.written[:16]}"


def _summary(merged: Merged, weights: bool, dry_run: bool) -> str:
    words = [f"{len(merged.new)} {'would be ' if dry_run else ''}merged"]
    words[0] += f" ({merged.replaced} in place of failed ones)" if merged.replaced else ""
    words += [f"{merged.same} there already"]
    words += [f"{len(merged.unchecked)} of them without a check"] if merged.unchecked else []
    words += [f"{len(merged.conflicts)} with other content left"] if merged.conflicts else []
    words += [f"{len(merged.problems)} refused"] if merged.problems else []
    words += [f"{len(merged.weights)} file{'s' * (len(merged.weights) != 1)} of weights"] if weights else []
    return ", ".join(words)
