"""A board in, its leaderboard as plain values out: the numbers, intervals and marks of `report.tables`.

Numbers are in hundredths of a percent, the very figures that a table prints; None stands for a dash. A board has
columns (settings and averages), rows (methods) and metrics, and for each column and metric lists over the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oodbench.config import shipped
from oodbench.report import tables
from oodbench.report.beside import with_reported
from oodbench.report.labels import plain
from oodbench.report.model import Cell, Row, Table
from oodbench.report.page.boards import Board
from oodbench.results import selection
from oodbench.results.ledger import Place, in_order
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS
from oodbench.results.resampling import FAST
from oodbench.results.result import WILD_MIXTURE, Result
from oodbench.results.samples import Sample
from oodbench.results.standing import standing

Plain = dict[str, Any]


@dataclass(frozen=True)
class Standings:
    """What a board shows, and what it was made from."""

    board: Board
    runs: Mapping[Place, Runs]
    table: Table  # the metrics whose intervals and marks are known
    plain_table: Table | None  # the others, without
    settings: list[str]
    columns: dict[str, list[str]]  # titles, and the settings that a mean is over

    @property
    def rows(self) -> list[Row]:
        return self.table.rows

    def cell(self, row: int, column: int, metric: str) -> Cell:
        names = [each.name for each in self.table.metrics]
        return self.table.rows[row].cells[column * len(names) + names.index(metric)]

    def samples(self, column: int, metric: str) -> dict[str, Sample]:
        """By method, in the order of the rows."""
        cells = [(row.method, self.cell(i, column, metric)) for i, row in enumerate(self.rows)]
        return {method: cell.sample for method, cell in cells if cell.sample is not None}


def standings(board: Board, rule: str) -> Standings:
    """Metrics whose draws are slow have no intervals here: for hundreds of rows these would take hours."""
    runs = selection.select(board.ledger, rule, board.last_only)
    recorded = {name for some in runs.values() for each in some.ok for name in each.metrics} or set(FAST)
    quick = [name for name in METRICS if name in recorded and name in FAST]
    slow = [name for name in METRICS if name in recorded and name not in FAST]
    (table,) = tables.build(board.ledger, quick or list(tables.DEFAULT_METRICS), selection=rule, tests=True, ranks=True)
    table = replace(
        with_reported([table], board.ledger)[0], reported_notes=()
    )  # drawn where they compare, and not told
    without = tables.build(board.ledger, slow, selection=rule, images=False)[0] if slow else None
    settings = in_order(runs)
    columns = {setting: [setting] for setting in settings} | tables.averages(runs, settings)
    return Standings(board, runs, table, without, settings, columns)


def data_of(some: Standings) -> Plain:
    """All that the leaderboard and the trade-off show."""
    notes: dict[str, int] = {}
    titles = list(some.columns)
    metrics = {each.name: (some.table, j) for j, each in enumerate(some.table.metrics)}
    if some.plain_table is not None:
        metrics |= {each.name: (some.plain_table, j) for j, each in enumerate(some.plain_table.metrics)}
    order = {row.method: i for i, row in enumerate(some.rows)}
    numbers = {}
    for name in [each for each in METRICS if each in metrics]:
        table, j = metrics[name]
        by_method = {row.method: row for row in table.rows}
        rows = [by_method[method] for method in order]
        judged = table is some.table
        numbers[name] = [
            _column([row.cells[i * len(table.metrics) + j] for row in rows], judged, notes) for i in range(len(titles))
        ]
    return {
        "columns": [
            {"title": title, "over": some.columns[title]} if title not in some.settings else {"title": title}
            for title in titles
        ],
        "metrics": list(numbers),
        "rows": _rows(some, notes),
        "numbers": numbers,
        "notes": list(notes),
        "seeds": [
            [_seeds(some.runs.get((row.method, title))) for row in some.rows] if title in some.settings else None
            for title in titles
        ],
        "front": [_front(some, i) for i in range(len(titles))],
        "sentences": [each for each in (some.table.caption, some.table.seeds_line, *some.table.remarks) if each],
    }


def hundredths(rate: float | None) -> int | None:
    """Of a percent: as many as a table would print."""
    return None if rate is None else round(float(f"{100 * rate:.2f}") * 100)


def _column(cells: Sequence[Cell], judged: bool, notes: dict[str, int]) -> Plain:
    """The lists over rows; `note` has the places of their own notes in the board's list, counted from 1, or 0."""
    samples = [cell.sample for cell in cells]
    intervals = [cell.interval if judged else None for cell in cells]
    column: Plain = {
        "mean": [hundredths(cell.mean) for cell in cells],
        "note": [_place("; ".join(cell.remarks), notes) if cell.remarks else 0 for cell in cells],
        "values": [
            {} if s is None else {str(seed): hundredths(value) for seed, value in s.values.items()} for s in samples
        ],
    }
    if judged:
        column |= {
            "paper": [_reported(cell) for cell in cells],
            "margin": [None if each is None else hundredths(each.margin) for each in intervals],
            "low": [None if each is None else hundredths(each.low) for each in intervals],
            "high": [None if each is None else hundredths(each.high) for each in intervals],
            "over": [None if each is None else each.kind for each in intervals],
            "best": [int(cell.best) for cell in cells],
            "near": [int(cell.near) for cell in cells],
            "rank": [cell.rank and [cell.rank.value, cell.rank.low, cell.rank.high] for cell in cells],
        }
    return column


def _reported(cell: Cell) -> int | None:
    """What a paper reports for the very setting, which may stand on one axis with the mean."""
    number = cell.reported[0] if cell.reported else None
    return hundredths(number.value) if number and number.is_comparable and number.is_of_preset else None


def _place(note: str, notes: dict[str, int]) -> int:
    return notes.setdefault(note, len(notes)) + 1


def _rows(some: Standings, notes: dict[str, int]) -> list[Plain]:
    runs: dict[str, dict[str, Runs]] = {}
    for (method, setting), own in some.runs.items():
        runs.setdefault(method, {})[setting] = own
    newest = {method: own[max(own, key=lambda name: own[name].newest.written)].newest for method, own in runs.items()}
    networks: dict[object, int] = {}  # rows under the same weights in every setting and seed share a number
    made = []
    for i, row in enumerate(some.rows):
        number = networks.setdefault(_weights(row.method, runs[row.method]), len(networks))
        each: Plain = {"method": row.method, "name": row.name, "group": some.table.group_of_row(i), "network": number}
        if row.notes:
            each["notes"] = [_place(note, notes) for note in row.notes]
        if row.network:
            each["given"] = row.network
        each |= _facts(newest[row.method])
        paths = [one.result.path for own in runs[row.method].values() for one in own.measurements]
        words = {path and standing(path) for path in paths}
        if len(words) == 1 and None not in words:  # a row that is partly verified is not
            each["standing"] = words.pop()
        made.append(each)
    return made


def _facts(result: Result) -> Plain:
    """Where the method comes from, what it learned from beside labeled images, and when it was run."""
    method = result.config.method
    known = shipped.facts().get(method.first)
    needs = shipped.facts()[method.trainer.name].needs if method.trainer.name in shipped.facts() else ()
    uses = []
    if "wild" in needs:
        uses.append("wild images")
    if "labels" in needs:
        uses.append("labels")
    if "outliers" in needs or method.outliers is not None:
        uses.append(f"outliers: {plain(method.outliers or WILD_MIXTURE.removeprefix('the '))}")
    found: Plain = {"uses": uses, "date": result.written[:10]}
    if known is not None and known.paper is not None:
        found["paper"] = [known.paper.authors, known.paper.title, f"{known.paper.venue} {known.paper.year}".strip()]
    return found


def _weights(method: str, runs: Mapping[str, Runs]) -> object:
    return frozenset(
        (setting, one.seed, one.result.weights or f"{method}: not recorded")
        for setting, own in runs.items()
        for one in own.ok
    )


def _seeds(runs: Runs | None) -> list[int]:
    """Those that have a cell to look at, failed ones too."""
    return [] if runs is None else [each.seed for each in runs.measurements]


def _front(some: Standings, column: int) -> list[int]:
    """Rows that no other beats in OOD accuracy and FPR at once, by the means; from the lowest FPR on."""
    names = {each.name for each in some.table.metrics}
    if not {"covariate_acc", "fpr95"} <= names:
        return []
    points: list[tuple[float, float, int]] = []
    for i in range(len(some.rows)):
        accuracy, missed = (some.cell(i, column, name).mean for name in ("covariate_acc", "fpr95"))
        if accuracy is not None and missed is not None:
            points.append((missed, -accuracy, i))
    front: list[int] = []
    last: tuple[float, float] | None = None
    for missed, negative, i in sorted(points):
        if last is None or negative < last[1] or (missed, negative) == last:
            front.append(i)
            last = missed, negative
    return front
