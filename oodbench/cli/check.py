"""`oodbench check`: results against what papers report or against other results, cell by cell."""

import argparse
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from oodbench.cli.json_output import add_json, as_json
from oodbench.cli.parser import add_names_of, one_of
from oodbench.cli.reading import add_results, read_ledger
from oodbench.errors import UserError, shortened, unknown
from oodbench.files import write_text
from oodbench.report import comparison
from oodbench.report.gate import Gate, badge, github, junit
from oodbench.report.openood import OPENOOD, with_leaderboard
from oodbench.report.reported import layout, reference, source_names
from oodbench.report.verdicts import STATUSES, Verdict, cells_judged, in_words, judged, title_of
from oodbench.results.folder import COLLECTIONS, REFERENCE, read_folder, roots_of
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
        "--against",
        required=True,
        metavar="SOURCE",
        help="a paper, openood, reference or another results folder",
    )
    parser.add_argument("--no-worse", action="store_true", help="let only differences for the worse count")
    parser.add_argument("--complete", action="store_true", help="fail also where a cell is missing")
    parser.add_argument("--strict", action="store_true", help="fail, with status 3, also where a cell cannot tell")
    parser.add_argument(
        "--same-machine",
        action="store_true",
        help="both come from one machine and version: demand equal bits",
    )
    add_json(parser)
    parser.add_argument(
        "--format",
        type=one_of("format", FORMATS),
        metavar="FORMAT",
        help=f"for programs: {', '.join(FORMATS)} (default: a table)",
    )
    parser.add_argument("--out", metavar="FILE", help="write what --format says to a file, and print the table")
    add_names_of(parser, "papers", [*source_names(), OPENOOD])
    add_names_of(parser, "collections", COLLECTIONS)


def main(given: argparse.Namespace) -> int:
    """0 if nothing differs and something agrees, 1 if something differs, 3 if nothing could be decided."""
    format = _format(given)
    folder, rest = Path(given.folder), list[str]()
    if given.same_machine and given.no_worse:
        raise UserError("--same-machine demands equal bits, and --no-worse does not; leave one of them out")
    if given.same_machine and given.against in (OPENOOD, *source_names()):
        raise UserError(f"--same-machine is for two results folders; leave it out with --against {given.against}")
    if given.against == OPENOOD:
        verdicts = with_leaderboard(read_ledger(folder, given.beside), given.no_worse)
    elif given.against in source_names():
        verdicts = _with_source(read_ledger(folder, given.beside), given.against, folder, given.no_worse)
    else:
        others = _others(given.against, folder)
        ours, theirs = read_ledger(folder, given.beside), list[Result]()
        for other in others:
            ours = _outside(ours, other, folder)
            theirs += _outside(read_ledger(other), folder, other).results
        verdicts = judged(_lined_up(ours, _of_collection(theirs), given.same_machine, given.no_worse), given.no_worse)
        rest = _rest(ours, verdicts)
    gate = Gate(given.against, verdicts, given.no_worse, given.complete, given.strict, rest)
    text = None if format is None else FORMATS[format](gate)
    if text is not None and given.out is not None:
        write_text(Path(given.out), f"{text}\n")
    if text is None or given.out is not None or format == "github":
        _print(gate, given.same_machine)
    if text is not None and given.out is None:
        print(text)
    if gate.status == 3:
        print(f"oodbench: {gate.problem}", file=sys.stderr)
    return gate.status


def _format(given: argparse.Namespace) -> str | None:
    if given.json and given.format not in (None, "json"):
        raise UserError(f"--json and --format {given.format} are two formats; leave one of them out")
    format: str | None = "json" if given.json else given.format
    if given.out is not None and format is None:
        raise UserError(f"--out {shortened(given.out)} needs --format; choose one of {', '.join(FORMATS)}")
    return format


def _json(gate: Gate) -> str:
    return as_json(
        {
            "against": gate.against,
            "exit_status": gate.status,
            "counts": {status: gate.counts[status] for status in dict.fromkeys([*STATUSES, *gate.counts])},
            "cells": [{name: getattr(verdict, name) for name in FIELDS} for verdict in gate.verdicts],
            "not_compared": gate.not_compared,
            "level": LEVEL,
            "no_worse": gate.no_worse,
        }
    )


FORMATS: dict[str, Callable[[Gate], str]] = {"json": _json, "junit": junit, "github": github, "badge": badge}


def _with_source(ledger: Ledger, source: str, folder: Path, no_worse: bool) -> list[Verdict]:
    try:
        return comparison.with_source(ledger, source, no_worse=no_worse)
    except comparison.NotReported as error:
        raise UserError(f"{error}; {_instead(ledger, source, folder)}") from None


def _instead(ledger: Ledger, source: str, folder: Path) -> str:
    """What does work: these results against the reference, if that has such, and a run that the source reports."""
    words, same = [], f"oodbench check {shlex.quote(str(folder))} --against {REFERENCE}"
    with suppress(UserError):
        results = [each for root in roots_of(REFERENCE, folder) for each in read_folder(root)[0]]
        if any(each.suite_label in ledger.suites for each in results):
            words.append(f"compare them with the reference results: {same}")
    run = next(filter(None, (table.run for table in reference(source).source.tables.values())))
    return ", or ".join([*words, f"run what it reports: {run}"])


def _others(against: str, folder: Path) -> list[Path]:
    """The folders that the results are held against, as a word for a collection or as a path."""
    if against in COLLECTIONS:
        others = roots_of(against, folder, otherwise="give a folder in place of")
    else:
        others = [Path(against)]
        if not os.path.exists(against) and others[0].name == against:
            raise _unknown_source(against)
    if not others:
        raise UserError(f"'{folder}' is among the {against} results itself; name another folder after --against")
    if os.path.realpath(folder) in map(os.path.realpath, others):
        raise UserError(f"'{folder}' is compared with itself; name another folder after --against")
    return others


def _unknown_source(name: str) -> UserError:
    """Near misses and the list: the names of sources are few."""
    names = [*source_names(), OPENOOD, *COLLECTIONS]
    error, known = unknown("source or results folder", name, names), ", ".join(sorted(names))
    return error if known in str(error) else UserError(f"{error} known: {known}")


def _of_collection(results: list[Result]) -> Ledger:
    """Results without the mark of the collection they came from."""
    return Ledger([replace(each, collection=None) for each in results])


def _lined_up(ours: Ledger, theirs: Ledger, same_machine: bool, no_worse: bool) -> list[Verdict]:
    """Each collection on its own; that of the other side does not matter."""
    verdicts = []
    for collection in dict.fromkeys(each.collection for each in ours.results):
        some = _of_collection([each for each in ours.results if each.collection == collection])
        compared = comparison.lined_up(some, theirs, same_machine, no_worse=no_worse)
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


def _print(gate: Gate, same_machine: bool) -> None:
    """A block for each table or suite that has anything, then what differs in words, and what chance may do."""
    if gate.not_compared:
        print(f"not compared in some setting, for lack of a counterpart: {', '.join(gate.not_compared)}\n")
    blocks: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in gate.verdicts:
        blocks.setdefault((verdict.suite, verdict.table), []).append(verdict)
    for (suite, table), own in blocks.items():
        title = " ".join(filter(None, [suite, table]))
        if all(verdict.status == "missing" for verdict in own):
            command = layout(table).table.run if table else ""
            hint = f"; make them with: {command}" if command else ""
            print(f"{title}: {len(own)} cells are missing{hint}\n")
        else:
            print(f"{title}\n{_counts_by_row(own) if same_machine else _block(gate, own)}\n")
    for heading, listed in (
        ("worse" if gate.no_worse else "differs", [each for each in gate.verdicts if each.status == "differs"]),
        ("suspect, not counted", [each for each in gate.verdicts if each.status == "suspect"]),
        ("missing", [each for each in gate.verdicts if each.status == "missing" and each.note and same_machine]),
    ):
        if listed:
            print(f"{heading}:\n" + "\n".join(f"  {verdict}" for verdict in listed) + "\n")
    if gate.counts["tuned there"]:
        print("tuned there: OpenOOD chose hyperparameters on OOD validation images, so nothing is judged")
    if gate.counts["cannot tell"]:
        print("? marks cells where these seeds cannot tell; in brackets is how many seeds could, – if none could")
    count = cells_judged(gate.verdicts)
    if count:
        print(
            f"expected to {'be found worse' if gate.no_worse else 'differ'} by chance: at most {LEVEL} of {count} "
            f"cells, by Holm's correction; without it {LEVEL * count:.1f}"
        )
    print(gate.words)


def _rest(ledger: Ledger, verdicts: list[Verdict]) -> list[str]:
    """Methods that have nothing to compare to in some setting."""
    compared = {(verdict.suite, verdict.setting, verdict.row) for verdict in verdicts}
    return sorted({r.method for r in ledger.results if (r.suite_label, r.setting, r.method) not in compared})


def _block(gate: Gate, verdicts: list[Verdict]) -> str:
    metrics = list(dict.fromkeys(verdict.metric for verdict in verdicts))
    rows = {place: {each.metric: each for each in own} for place, own in _by_row(verdicts).items()}
    cells = {
        place: [_shown(gate, own[metric]) if metric in own else "" for metric in metrics] for place, own in rows.items()
    }
    return _tabulated(["", *map(title_of, metrics)], cells)


def _counts_by_row(verdicts: list[Verdict]) -> str:
    """Of so many metrics that each of them is not shown."""
    rows = _by_row(verdicts)
    return _tabulated([], {place: [in_words(Counter(each.status for each in own))] for place, own in rows.items()})


def _by_row(verdicts: list[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    rows: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        rows.setdefault((verdict.setting, verdict.row), []).append(verdict)
    return rows


def _tabulated(heads: list[str], rows: dict[tuple[str, str], list[str]]) -> str:
    """Below the name of each setting, its rows."""
    body: list[list[str]] = []
    for setting in dict.fromkeys(setting for setting, _ in rows):
        body.append([setting])
        body += [[f"  {row}", *cells] for (own, row), cells in rows.items() if own == setting]
    return tabulate(body, heads, "simple", disable_numparse=True, preserve_whitespace=True)


def _shown(gate: Gate, verdict: Verdict) -> str:
    if verdict.status == "cannot tell":
        return f"? {verdict.points} ({verdict.seeds_needed or '–'})"
    return f"{gate.word(verdict)} {verdict.points}".strip()
