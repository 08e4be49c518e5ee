"""Results in, all that a page shows out, as chunks: an index; of each board leaderboard, pairs and cells."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import oodbench
from oodbench.report.labels import arrow
from oodbench.report.page import details, leaderboard, pairs, papers, sweeps
from oodbench.report.page.boards import Board, boards
from oodbench.report.page.chunks import Chunk, chunk
from oodbench.report.page.details import Command
from oodbench.report.page.leaderboard import Standings, standings
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.results.ledger import Ledger
from oodbench.results.metrics import METRICS
from oodbench.results.resampling import FAST
from oodbench.results.selection import RULES, TRAINING_DOMAIN, check

SCHEMA = 1
ROWS = 64  # of a leaderboard, whose cells of one setting and seed are in one chunk

Listener = Callable[[str], object]  # hears what is being made


@dataclass(frozen=True)
class PageData:
    """The index, which has a place for the names of files, and what is read later."""

    index: dict[str, Any]
    chunks: list[Chunk]
    results: int
    boards: int


def page_data(
    ledger: Ledger,
    title: str,
    selection: str | None = None,
    tell: Listener = lambda _: None,
    *,
    command: Command,
) -> PageData:
    """`selection` chooses checkpoints where domains are held out."""
    rule = selection or TRAINING_DOMAIN
    check(rule)
    made, chunks, listed = [], [], []
    for number, board in enumerate(boards(ledger)):
        tell(board.title)
        some = standings(board, rule)
        plain = leaderboard.data_of(some) | {"sweeps": sweeps.data_of(some)}
        compared = pairs.data_of(some)
        made.append(some)
        listed.append(_listed(number, board, plain, compared["baseline"]))
        chunks += [chunk(f"board-{number}", plain), chunk(f"pairs-{number}", compared)]
        chunks += _cells(number, some, command)
    tell("papers")
    reported = papers.data_of(made)
    chunks.append(chunk("papers", reported))
    index = {
        "schema": SCHEMA,
        "title": title,
        "version": oodbench.__version__,
        "results": len(ledger.results),
        "skipped": len(ledger.problems),
        "selection": {"rule": rule, "means": RULES[rule]} if any(r.domain_accuracies for r in ledger.results) else None,
        "usual": list(DEFAULT_METRICS),
        "papers": len(reported["tables"]),
        "metrics": {
            each.name: {
                "title": each.title,
                "arrow": arrow(each),
                "higher": each.higher_is_better,
                "summary": each.summary,
                "judged": each.name in FAST,
            }
            for each in METRICS.values()
        },
        "rows_in_chunk": ROWS,
        "boards": listed,
    }
    return PageData(index, chunks, len(ledger.results), len(listed))


def _listed(number: int, board: Board, plain: dict[str, Any], baseline: int) -> dict[str, Any]:
    """What the index says of a board."""
    newest = board.ledger.newest
    return {
        "id": board.id,
        "number": number,
        "title": board.title,
        "suite": newest.suite,
        "preset": newest.preset,
        "collection": newest.collection,
        "about": newest.config.suite.title,
        "facts": board.facts,
        "columns": plain["columns"],
        "methods": len(plain["rows"]),
        "results": len(board.ledger.results),
        "baseline": baseline,
        "sweeps": len(plain["sweeps"]),
        "front": any(plain["front"]),
    }


def _cells(number: int, some: Standings, command: Command) -> Iterator[Chunk]:
    """By column, seed and a few rows, so that two methods under one seed are mostly in one chunk."""
    for column, setting in enumerate(some.settings):
        groups: dict[tuple[int, int], dict[str, Any]] = {}
        for i, row in enumerate(some.rows):
            runs = some.runs.get((row.method, setting))
            for each in [] if runs is None else runs.measurements:
                cell = details.data_of(each, command)
                groups.setdefault((each.seed, i // ROWS), {})[str(i)] = cell
        for (seed, part), cells in sorted(groups.items()):
            yield chunk(f"cells-{number}-{column}-{seed}-{part}", cells)
