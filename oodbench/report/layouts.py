"""The paper's tables, filled with results: rows and columns as `benchmarks/reported/` has them, our numbers in them.

A cell is found by suite, setting and method, and is a dash if it was not run. Imports no torch.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

from oodbench.config.schema import values_of
from oodbench.config.suite import NONE
from oodbench.errors import UserError, unknown
from oodbench.report import reported as reference
from oodbench.report.origins import replaced
from oodbench.report.reported import OUT_SHARE, SHOWN, Number, ReportedRow, ReportedTable
from oodbench.report.tables import (
    DEFAULT_METRICS,
    Cell,
    Row,
    Table,
    average,
    by_suite,
    checked_seeds,
    last_runs,
    mark_best,
    measured,
    summary,
)
from oodbench.report.tables import build as own_tables
from oodbench.results.metrics import Metric
from oodbench.results.result import Result
from oodbench.results.selection import TRAINING_DOMAIN, describe, select

AUTO = "auto"
AT_EVERY_CHECKPOINT = ("covariate_acc", "id_acc")  # a table that shows more shows the last
NOTHING_REPORTED = "Nothing is reported for these cells."


def names() -> list[str]:
    return [*reference.paper().source.tables, AUTO]


def assemble(
    results: list[Result],
    metrics: Sequence[str] | None,
    seeds: int | Literal["all"],
    layout: str | None,
    reported: bool,
    selection: str,
) -> list[Table]:
    """The tables a user asks for: of a layout of the paper or, without one, a table of our own for every suite."""
    if layout is None:
        built = own_tables(results, DEFAULT_METRICS if metrics is None else metrics, seeds, selection)
        return with_reported(built, results) if reported else built
    if metrics is not None:
        raise UserError("a layout has metrics of its own; leave out --metrics or --layout")
    built = build(results, layout, seeds, selection)
    return built if reported else without_reported(built)


def build(
    results: list[Result], layout: str, seeds: int | Literal["all"] = "all", selection: str = TRAINING_DOMAIN
) -> list[Table]:
    """The tables of one layout, one per suite and preset; `auto`: those that show the most, and ours for other suites.

    Reported numbers are in the cells; `without_reported` takes them out.
    """
    if layout not in names():
        raise unknown("layout", layout, names())
    kept, suites = checked_seeds(seeds), by_suite(results)
    if layout != AUTO:
        specification = reference.paper().source.tables[layout]
        built = [
            fill(layout, found, kept, selection) for found in suites.values() if found[0].suite == specification.suite
        ]
        built = [table for table in built if any(_is_filled(cell) for row in table.rows for cell in row.cells)]
        if not built:
            raise UserError(f"no results for the layout '{layout}'; make them with: {specification.run}")
        return built
    tables: list[Table] = []
    for found in suites.values():
        own = own_tables(found, seeds=seeds, selection=selection)
        tables += _telling(all_of(found, kept, selection)) or with_reported(own, found)
    return tables


def all_of(results: list[Result], seeds: int | None = None, selection: str = TRAINING_DOMAIN) -> list[Table]:
    """Every table of the paper for the results of one suite and preset, filled or not."""
    return [
        fill(name, results, seeds, selection)
        for name, table in reference.paper().source.tables.items()
        if table.suite == results[0].suite
    ]


def _telling(tables: list[Table]) -> list[Table]:
    """As few as show everything: again and again the one with most that is not shown yet."""
    shown: set[tuple[str, str, str]] = set()
    picked: list[Table] = []
    while True:
        new = {table.layout: _places(table) - shown for table in tables}
        # Of equals, tables that compare methods go before ablations.
        best = max(tables, key=lambda table: (len(new[table.layout]), table.marks_best), default=None)
        if best is None or not new[best.layout]:
            return [table for table in tables if table in picked]
        picked.append(best)
        shown |= new[best.layout]


def _places(table: Table) -> set[tuple[str, str, str]]:
    return {
        (cell.setting, row.method, metric.name)
        for row in table.rows
        for cell, metric in zip(row.cells, table.metrics * len(table.settings), strict=True)
        if _is_filled(cell)
    }


def _is_filled(cell: Cell) -> bool:
    return cell.mean is not None or bool(cell.note)


def fill(layout: str, results: list[Result], seeds: int | None = None, selection: str = TRAINING_DOMAIN) -> Table:
    """One table of the paper with results of one suite and preset, oldest first."""
    paper = reference.paper()
    specification, numbers = paper.source.tables[layout], paper.numbers[layout]
    last_only = not {*specification.metrics} <= {*AT_EVERY_CHECKPOINT}
    selected = select(results, selection, last_only)
    shelf = _Shelf(selected, specification, seeds)
    metrics = [SHOWN[name] for name in specification.metrics]
    rows, grid = [], []
    for (group, row), reported in zip(specification.rows, numbers, strict=True):
        method = shelf.method_of(row)
        cells = [
            replace(
                shelf.cell(method, number.settings, metric, row),
                setting=" | ".join(number.settings),
                decimals=max(2, number.decimals),
                reported=(number, *_differing(number)),
            )
            for number, (_, metric) in zip(reported, product(specification.columns, metrics), strict=True)
        ]
        grid.append(cells)
        heads = (group.name, row.label) if len(specification.heads) > 1 else (row.label,)
        rows.append(Row(method, group.name if len(specification.heads) == 1 else "", cells, heads))
    if specification.best:
        mark_best(grid, metrics * len(specification.columns))
    printed = f"As Table {specification.number} of the SCONE paper."
    return Table(
        suite=results[0].suite_label,
        settings=[column.title for column in specification.columns],
        metrics=metrics,
        rows=rows,
        heads=tuple(specification.heads),
        layout=layout,
        caption=" ".join(filter(None, [specification.caption, printed, describe(selected, selection, last_only)])),
        notes=(*specification.notes, *replaced(results)),
        reported_notes=tuple(specification.reported_notes),
        marks_best=specification.best,
    )


def _differing(number: Number) -> list[Number]:
    """What others report for the same cell, where any number of that row of theirs is another than the paper's."""
    row = next(row for row in reference.paper().numbers[number.table] if number in row)
    theirs = [row for other in reference.others() for row in other.numbers.get(number.table, [])]
    return [
        other
        for line in theirs
        if line[0].methods == number.methods and [n.value for n in line] != [n.value for n in row]
        for other in line
        if (other.settings, other.metric) == (number.settings, number.metric)
    ]


class _Shelf:
    """Results of one suite and preset, to be found as a table of the paper names them."""

    def __init__(self, results: list[Result], table: ReportedTable, seeds: int | None) -> None:
        self.table, self.seeds = table, seeds
        self.runs: dict[tuple[str, str], list[Result]] = {}
        self.examples: dict[str, Result] = {}  # one of each setting
        for result in results:
            if _has_values(result, table.trainer):
                self.runs.setdefault((result.method, result.setting), []).append(result)
                self.examples[result.setting] = result
        self.names: dict[str, list[str]] = {}  # of settings as results bear them, by the table's
        self.semantic: dict[str, str | None] = {}  # of each method, where the table leaves the set open

    def method_of(self, row: ReportedRow) -> str:
        """The first of its names that was run."""
        settings = row.settings or [setting for column in self.table.columns for setting in column.settings]
        run = (method for method in row.methods if any(self._found(method, setting) for setting in settings))
        return next(run, row.methods[0])

    def cell(self, method: str, settings: Sequence[str], metric: Metric, row: ReportedRow) -> Cell:
        if metric is OUT_SHARE:
            return self._out_share(method, settings[0], row)
        found = [self._found(method, setting) for setting in settings]
        if not all(found):
            return Cell(None, None, 0, "")
        runs = [last_runs(results, self.seeds) for results in found]
        return measured(runs[0], metric) if len(runs) == 1 else average(runs, metric)

    def _found(self, method: str, setting: str) -> list[Result]:
        names = self._names(method, setting)
        if _is_open(setting):
            if method not in self.semantic:
                self.semantic[method] = self._usual_semantic(method)
            names = [name for name in names if _semantic(self.examples[name]) == self.semantic[method]]
        return self.runs[method, min(names)] if names else []

    def _names(self, method: str, setting: str) -> list[str]:
        """Of the settings that a method was run in and that the table may mean."""
        if setting not in self.names:
            self.names[setting] = [name for name, example in self.examples.items() if is_setting(example, setting)]
        return [name for name in self.names[setting] if (method, name) in self.runs]

    def _usual_semantic(self, method: str) -> str | None:
        """One set for all columns of a method: that of most, or else none of all sets, or else the first by name."""
        settings = {s for _, row in self.table.rows for s in row.settings}
        settings |= {s for column in self.table.columns for s in column.settings}
        names = [name for s in settings if _is_open(s) for name in self._names(method, s)]
        counts = Counter(_semantic(self.examples[name]) for name in names)
        return min(counts, key=lambda s: (-counts[s], s != NONE, s), default=None)

    def _out_share(self, method: str, setting: str, row: ReportedRow) -> Cell:
        """From the notes of the row's own runs, or else of the runs that tried every value."""
        if self.table.selection is None:
            return Cell(None, None, 0, "")
        for name in (method, self.table.selection.method):
            found = self._found(name, setting)
            ok = last_runs(found, self.seeds).ok if found else []
            noted = [_noted(result, self.table.selection.hyperparameter, row.value) for result in ok]
            values = [share for share in noted if share is not None]
            if values:
                return summary(values)
        return Cell(None, None, 0, "")


def _is_open(setting: str) -> bool:
    """Whether a setting of the paper leaves open which semantic set it has, if any."""
    return "semantic" not in _parts(setting)


def _semantic(result: Result) -> str:
    return result.config.setting.semantic


def _has_values(result: Result, wanted: dict[str, str]) -> bool:
    """Whether a trainer that has such hyperparameters had these values; for `auto` the notes tell what it was."""
    values = result.config.method.trainer.values
    values = {key: result.notes.get(key) if value == "auto" else value for key, value in values.items()}
    return all(values.get(key, value) == value for key, value in wanted.items())


def _noted(result: Result, hyperparameter: str, value: float | None) -> float | None:
    """out% as `tuning.select_at_drop` notes it: a list of values of the hyperparameter with their shares."""
    entries = result.notes.get("out_share")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get(hyperparameter) == value and isinstance(entry.get("share"), float):
            return float(entry["share"])
    return None


def is_setting(result: Result, wanted: str) -> bool:
    """Whether a result was made in the setting that the command line would call `wanted`."""
    if result.setting == wanted:
        return True
    suite, actual = result.config.suite, result.config.setting
    full = {"semantic": suite.settings[0].semantic, **values_of(suite.defaults), **_parts(wanted)}
    return all(getattr(actual, key) == value for key, value in full.items())


def _parts(setting: str) -> dict[str, Any]:
    """`svhn,pi_c=0.1` as keys and values."""
    parts: dict[str, Any] = {}
    for word in setting.split(","):
        key, equals, value = word.partition("=")
        if not equals:
            parts["semantic"] = word
        elif key in ("pi_c", "pi_s", "severity"):
            parts[key] = float(value)
        else:
            parts[key] = value
    return parts


def with_reported(tables: list[Table], results: list[Result]) -> list[Table]:
    """Tables in our own layout with the paper's numbers in their cells."""
    reported: dict[tuple[str, str, str], list[Number]] = {}
    for number in reference.paper().all:
        for method in number.methods:
            if len(number.settings) == 1:
                reported.setdefault((number.suite, method, number.metric), []).append(number)
    examples = {(result.suite_label, result.setting): result for result in results}

    def find(table: Table, row: Row, cell: Cell, metric: Metric) -> Cell:
        example = examples.get((table.suite, cell.setting))
        candidates = reported.get((example.suite, row.method, metric.name), []) if example else []
        fitting = [number for number in candidates if example and is_setting(example, number.settings[0])]
        return replace(cell, reported=tuple(fitting[:1]))

    done = []
    for table in tables:
        metrics = table.metrics * len(table.settings)
        rows = [
            replace(row, cells=[find(table, row, c, m) for c, m in zip(row.cells, metrics, strict=True)])
            for row in table.rows
        ]
        told = any(cell.reported for row in rows for cell in row.cells)
        done.append(replace(table, rows=rows, reported_notes=() if told else (NOTHING_REPORTED,)))
    return done


def without_reported(tables: list[Table]) -> list[Table]:
    return [
        replace(
            table,
            rows=[replace(row, cells=[replace(cell, reported=()) for cell in row.cells]) for row in table.rows],
            reported_notes=(),
        )
        for table in tables
    ]
