"""`oodbench check`: results against what papers report or against other results, cell by cell."""

import argparse
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from oodbench.cli.json_output import add_json, print_json
from oodbench.cli.parser import add_names_of
from oodbench.cli.reading import add_results, read_ledger
from oodbench.errors import UserError, unknown
from oodbench.report import comparison
from oodbench.report.numbers import SHOWN
from oodbench.report.openood import OPENOOD, with_leaderboard
from oodbench.report.reported import layout, source_names
from oodbench.report.verdicts import STATUSES, Verdict, cells_judged, judged
from oodbench.results.ledger import Ledger
from oodbench.results.result import Result
from oodbench.results.significance import LEVEL

FIELDS = (  # of a cell, as --json prints them
    *("suite", "table", "setting", "row", "metric", "status", "measured", "expected", "difference", "band"),
    *("p_value", "seeds_needed", "note"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument(
        "--against", required=True, metavar="SOURCE", help="a paper's numbers, openood, or another results folder"
    )
    parser.add_argument("--complete", action="store_true", help="fail also where a cell is missing")
    parser.add_argument(
        "--same-machine", action="store_true", help="both folders come from one machine and version: demand equal bits"
    )
    add_json(parser)
    add_names_of(parser, "papers", [*source_names(), OPENOOD])


def main(given: argparse.Namespace) -> int:
    """0 if nothing differs, 1 if something does."""
    folder, rest = Path(given.folder), list[str]()
    if given.against == OPENOOD:
        verdicts = with_leaderboard(read_ledger(folder, given.beside))
    elif given.against in source_names():
        if given.same_machine:
            raise UserError(f"--same-machine is for two results folders; leave it out with --against {given.against}")
        verdicts = comparison.with_source(read_ledger(folder, given.beside), given.against)
    else:
        other = Path(given.against)
        if not os.path.exists(other) and other.name == given.against:
            raise _unknown_source(given.against)
        if os.path.realpath(folder) == os.path.realpath(other):
            raise UserError(f"'{folder}' is compared with itself; name another folder after --against")
        ours = _outside(read_ledger(folder, given.beside), other, folder)
        theirs = _of_collection(_outside(read_ledger(other), folder, other).results)
        verdicts = judged(_lined_up(ours, theirs, given.same_machine))
        rest = _rest(ours, verdicts)
    counts = Counter(verdict.status for verdict in verdicts)
    statuses = dict.fromkeys([*STATUSES, *counts])
    if given.json:
        print_json(
            {
                "counts": {status: counts[status] for status in statuses},
                "cells": [{name: getattr(verdict, name) for name in FIELDS} for verdict in verdicts],
                "not_compared": rest,
                "level": LEVEL,
            }
        )
    else:
        if rest:
            print(f"not compared in some setting, for lack of a counterpart: {', '.join(rest)}\n")
        _print(verdicts)
        print(", ".join(f"{counts[status]} {status}" for status in statuses))
    return 1 if counts["differs"] or (given.complete and counts["missing"]) else 0


def _unknown_source(name: str) -> UserError:
    """Near misses and the list: the names of sources are few."""
    names = sorted([*source_names(), OPENOOD])
    error, known = unknown("source or results folder", name, names), ", ".join(names)
    return error if known in str(error) else UserError(f"{error} known: {known}")


def _of_collection(results: list[Result]) -> Ledger:
    """Results without the mark of the collection they came from."""
    return Ledger([replace(each, collection=None) for each in results])


def _lined_up(ours: Ledger, theirs: Ledger, same_machine: bool) -> list[Verdict]:
    """Each collection on its own; that of the other side does not matter."""
    verdicts = []
    for collection in dict.fromkeys(each.collection for each in ours.results):
        some = _of_collection([each for each in ours.results if each.collection == collection])
        compared = comparison.lined_up(some, theirs, same_machine)
        mark = "" if collection is None else f" ({collection})"
        verdicts += [replace(verdict, suite=f"{verdict.suite}{mark}") for verdict in compared]
    return verdicts


def _outside(ledger: Ledger, inner: Path, outer: Path) -> Ledger:
    """Without the results of the other folder, if that lies within this one."""
    place = Path(os.path.realpath(inner))  # unlike `resolve`, also of a link to itself, which is told when it is read
    if not place.is_relative_to(os.path.realpath(outer)):
        return ledger
    rest = ledger.filtered(lambda each: not (each.path and each.path.resolve().is_relative_to(place)))
    if not rest.results:
        raise UserError(f"'{outer}' holds no results but those of '{inner}'; name another folder")
    return rest


def _print(verdicts: list[Verdict]) -> None:
    """A block for each table or suite that has anything, then what differs in words, and what chance may do."""
    blocks: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        blocks.setdefault((verdict.suite, verdict.table), []).append(verdict)
    for (suite, table), own in blocks.items():
        title = " ".join(filter(None, [suite, table]))
        if all(verdict.status == "missing" for verdict in own):
            command = layout(table).table.run if table else ""
            hint = f"; make them with: {command}" if command else ""
            print(f"{title}: {len(own)} cells are missing{hint}\n")
        else:
            print(f"{title}\n{_block(own)}\n")
    for status, heading in (("differs", "differs"), ("suspect", "suspect, not counted")):
        listed = [verdict for verdict in verdicts if verdict.status == status]
        if listed:
            print(f"{heading}:\n" + "\n".join(f"  {verdict}" for verdict in listed) + "\n")
    if any(verdict.status == "tuned there" for verdict in verdicts):
        print("tuned there: OpenOOD chose hyperparameters on OOD validation images, so nothing is judged")
    if any(verdict.status == "cannot tell" for verdict in verdicts):
        print("? marks cells where these seeds cannot tell; in brackets is how many seeds could, – if none could")
    count = cells_judged(verdicts)
    if count:
        print(
            f"expected to differ by chance: at most {LEVEL} of {count} cells, by Holm's correction; "
            f"without it {LEVEL * count:.1f}"
        )


def _rest(ledger: Ledger, verdicts: list[Verdict]) -> list[str]:
    """Methods that have nothing to compare to in some setting."""
    compared = {(verdict.suite, verdict.setting, verdict.row) for verdict in verdicts}
    return sorted({r.method for r in ledger.results if (r.suite_label, r.setting, r.method) not in compared})


def _block(verdicts: list[Verdict]) -> str:
    metrics = list(dict.fromkeys(verdict.metric for verdict in verdicts))
    rows: dict[tuple[str, str], dict[str, Verdict]] = {}
    for verdict in verdicts:
        rows.setdefault((verdict.setting, verdict.row), {})[verdict.metric] = verdict
    body: list[list[str]] = []
    for setting in dict.fromkeys(setting for setting, _ in rows):
        body.append([setting])
        for (own, row), cells in rows.items():
            if own == setting:
                body.append([f"  {row}", *(_shown(cells[metric]) if metric in cells else "" for metric in metrics)])
    heads = ["", *(SHOWN[metric].title for metric in metrics)]
    return tabulate(body, heads, "simple", disable_numparse=True, preserve_whitespace=True)


def _shown(verdict: Verdict) -> str:
    if verdict.status == "cannot tell":
        return f"? {verdict.points} ({verdict.seeds_needed or '–'})"
    return f"{verdict.status} {verdict.points}".strip()
