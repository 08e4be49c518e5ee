"""Boards in, tables of papers as plain values out: our numbers, what is reported, and the verdict on each.

Only what was run at full size is held against a paper. A smaller preset whose settings stand in for a paper's has the
reported numbers beside its own, without a difference, as tables have them.
"""

from dataclasses import replace
from typing import Any

from oodbench.report import comparison, layouts
from oodbench.report import reported as sources
from oodbench.report.beside import has_stand_ins, with_reported
from oodbench.report.labels import title_of
from oodbench.report.model import Cell, Entry, Table
from oodbench.report.page.leaderboard import Standings
from oodbench.report.reported import FULL_SIZE
from oodbench.report.tables import DEFAULT_METRICS
from oodbench.report.verdicts import STATUSES, Verdict, cells_judged


def data_of(boards: list[Standings]) -> dict[str, Any]:
    """Checkpoints are chosen as each source did, and as `oodbench check` does."""
    tables: list[dict[str, Any]] = []
    left_out = []
    for some in boards:
        newest = some.board.ledger.newest
        if newest.preset in FULL_SIZE:
            own = [table for name in sources.source_files() for table in _of_source(some, name)]
        elif has_stand_ins(newest.suite, newest.preset):
            own = _stand_ins(some)
        else:
            own = []
        tables += own
        if not own:
            full = newest.preset in FULL_SIZE
            why = "no paper's table has these cells" if full else "it is smaller than what papers report"
            left_out.append({"board": some.board.id, "title": some.board.title, "why": why})
    return {"tables": tables, "left_out": left_out, "statuses": list(STATUSES)}


def _of_source(some: Standings, source: str) -> list[dict[str, Any]]:
    """The tables of a source that the board has numbers for, judged together."""
    trained = some.board.ledger.filtered(lambda result: result.config.given is None)
    filled = [t for t in layouts.all_of(trained, source=source) if _has_numbers(t)] if trained.results else []
    if not filled:
        return []
    owner = sources.reference(source)
    verdicts = comparison.with_source(trained, source) if owner.is_checked else []
    judged = cells_judged(verdicts)
    made = []
    for table in (layouts.fill(sources.layout(each.layout), trained) for each in filled):
        own = [verdict for verdict in verdicts if verdict.table == table.layout]
        plain = _table(some, table, own)
        counts = [f"{s} {sum(v.status == s for v in own)}" for s in STATUSES if any(v.status == s for v in own)]
        if own:
            plain["verdict"] = (
                f"Compared with {owner.source.label}: {', '.join(counts)}. "
                f"Holm's correction covers {judged} cells of this board."
            )
        made.append(plain)
    return made


def _stand_ins(some: Standings) -> list[dict[str, Any]]:
    """The board's own table, with numbers of a setting that it stands in for."""
    shown = [each for each in some.table.metrics if each.name in DEFAULT_METRICS]
    places = [
        i * len(some.table.metrics) + j
        for i in range(len(some.table.settings))
        for j, metric in enumerate(some.table.metrics)
        if metric in shown
    ]
    rows = [replace(row, cells=[row.cells[i] for i in places]) for row in some.table.rows]
    (table,) = with_reported([replace(some.table, metrics=shown, rows=rows)], some.board.ledger)
    rows = [replace(row, cells=[_in_direction(cell) for cell in row.cells]) for row in table.rows]
    table = replace(table, rows=[row for row in rows if any(cell.reported for cell in row.cells)])
    return [_table(some, table, [])] if table.rows else []


def _in_direction(cell: Cell) -> Cell:
    """Without numbers that would be compared: the preset is too small for that."""
    return replace(cell, reported=tuple(number for number in cell.reported if not number.is_comparable))


def _has_numbers(table: Table) -> bool:
    return any(cell.mean is not None for row in table.rows for cell in row.cells)


def _table(some: Standings, table: Table, verdicts: list[Verdict]) -> dict[str, Any]:
    """Rows without a number of ours are left out; verdicts are row by row."""
    width = len(table.settings) * len(table.metrics)
    rows = []
    for i, row in enumerate(table.rows):
        if any(cell.mean is not None for cell in row.cells):
            lines = [
                {"heads": list(line.heads), "measured": line.is_measured, "entries": [_entry(e) for e in line.entries]}
                | ({"notes": list(line.notes)} if line.notes else {})
                for line in row.lines
            ]
            plain: dict[str, Any] = {"group": table.group_of_row(i), "lines": lines}
            if verdicts:
                plain["verdicts"] = [[v.status, str(v)] for v in verdicts[i * width : (i + 1) * width]]
            rows.append(plain)
    return {
        "board": some.board.id,
        "title": table.title,
        "caption": table.caption,
        "heads": list(table.heads),
        "settings": table.settings,
        "metrics": [[title_of(metric), metric.summary] for metric in table.metrics],
        "rows": rows,
        "sentences": [each for each in (table.seeds_line, *table.remarks) if each],
        "missing": len(table.rows) - len(rows),
    }


def _entry(entry: Entry) -> list[Any]:
    """Text, error, note and whether it is best, without what is empty at the end."""
    values: list[Any] = [entry.text, entry.error, "; ".join(entry.notes), int(entry.best)]
    while values and not values[-1]:
        values.pop()
    return values
