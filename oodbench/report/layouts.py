"""Tables of papers, filled with results: rows and columns as `benchmarks/reported/` has them, our numbers in them.

A cell is looked up by suite, setting and method, and is a dash if it was not run. Imports no torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from oodbench.errors import UserError, unknown
from oodbench.report import reported as sources
from oodbench.report.beside import other_preset, with_reported, without_reported
from oodbench.report.labels import suite_in_words
from oodbench.report.lookup import ResultIndex
from oodbench.report.model import Cell, Row, Table, mark_best
from oodbench.report.notes import of_row, replaced, with_seeds
from oodbench.report.numbers import OUT_SHARE, SHOWN, Number
from oodbench.report.reported import Columns, Layout, Reference, ReportedRow
from oodbench.report.tables import build as own_tables
from oodbench.report.tables import checked_seeds
from oodbench.results.ledger import Ledger, as_ledger
from oodbench.results.result import Result
from oodbench.results.selection import TRAINING_DOMAIN, describe, select

AUTO = "auto"
AT_EVERY_CHECKPOINT = ("covariate_acc", "id_acc")  # a table that shows more shows the last


def names() -> list[str]:
    """A table of a source, a source, or whatever fits."""
    return [*sources.layout_names(), *sources.source_names(), AUTO]


def assemble(
    results: Ledger | Sequence[Result],
    metrics: Sequence[str] | None = None,
    seeds: int | Literal["all"] | Sequence[int] = "all",
    layout: str | None = None,
    reported: bool = False,
    selection: str | None = None,
    sort: str | None = None,
    methods: Sequence[str] = (),
    suites: Sequence[str] = (),
    settings: Sequence[str] = (),
    average: bool = False,
    tests: bool = False,
    ranks: bool = False,
) -> list[Table]:
    """The tables a user asks for: of a layout of a paper or, without one, a table of our own for every suite.

    `seeds` is how many of the lowest, or which; `methods`, `suites` and `settings` are all unless some are named.
    """
    if layout is not None:
        _refuse_beside_layout(
            {
                "metrics": metrics is not None,
                "sort": sort,
                "methods": methods,
                "setting": settings,
                "average": average,
                "tests": tests,
                "ranks": ranks,
            }
        )
    count = seeds if isinstance(seeds, int | str) else "all"
    checked_seeds(count)
    ledger = as_ledger(results).narrowed(suites, settings, methods, None if isinstance(seeds, int | str) else seeds)
    if layout is None:
        built = own_tables(
            ledger, metrics, count, selection or TRAINING_DOMAIN, sort=sort, average=average, tests=tests, ranks=ranks
        )
        return with_reported(built, ledger) if reported else built
    built = build(ledger, layout, count, selection)
    return built if reported else without_reported(built)


def _refuse_beside_layout(asked: Mapping[str, object]) -> None:
    own = {
        "metrics": "its own metrics",
        "sort": "its rows in the order of its paper",
        "methods": "its own rows",
        "setting": "its own columns",
        "average": "its own columns",
        "tests": "its own marks",
        "ranks": "its own rows",
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise UserError(f"a layout has {own[option]}; leave out --{option} or --layout")


def build(
    results: Ledger | Sequence[Result],
    layout: str,
    seeds: int | Literal["all"] = "all",
    selection: str | None = None,
) -> list[Table]:
    """The tables of one layout, one per suite and preset; of a source: the fewest that show everything.

    `auto` are those of the paper, and ours for other suites. Without a `selection` each table selects as its source
    did. Reported numbers are in the cells; `without_reported` takes them out.
    """
    if layout not in names():
        raise unknown("layout", layout, names())
    lowest, ledger = checked_seeds(seeds), as_ledger(results)
    if layout in sources.layout_names():
        return _of_layout(sources.layout(layout), ledger, lowest, selection)
    if layout != AUTO:
        return _of_source(layout, ledger, lowest, selection)
    tables: list[Table] = []
    for suite in ledger.suites.values():
        covering = _covering(suite, sources.PAPER, lowest, selection)
        tables += covering
        rest = suite.filtered(lambda result: result.config.given is not None) if covering else suite
        if rest.results:  # networks that were given are in no table of a paper
            own = own_tables(rest, seeds=seeds, selection=selection or TRAINING_DOMAIN)
            tables += with_reported(own, rest)
    return tables


def _of_layout(layout: Layout, ledger: Ledger, seeds: int | None, selection: str | None) -> list[Table]:
    fitting = [suite for suite in ledger.suites.values() if suite.newest.suite == layout.table.suite]
    built = [fill(layout, suite, seeds, selection) for suite in fitting]
    built = [table for table in built if any(_is_filled(cell) for row in table.rows for cell in row.cells)]
    if not built:
        raise _no_results(f"the layout '{layout.name}'", layout.reference, [layout.table.run])
    return built


def _of_source(source: str, ledger: Ledger, seeds: int | None, selection: str | None) -> list[Table]:
    built = [table for suite in ledger.suites.values() for table in _covering(suite, source, seeds, selection)]
    if not built:
        owner = sources.reference(source)
        raise _no_results(
            f"any table of {owner.source.label}", owner, [each.run for each in owner.source.tables.values()]
        )
    return built


def _no_results(what: str, reference: Reference, commands: Sequence[str]) -> UserError:
    command = next(filter(None, commands), None)
    if command is None:
        file = f"benchmarks/reported/{reference.name}.yaml"
        return UserError(f"no results for {what}, and no command of oodbench makes them; its numbers are in {file}")
    return UserError(f"no results for {what}; make them with: {command}")


def _covering(ledger: Ledger, source: str, seeds: int | None, selection: str | None) -> list[Table]:
    """The fewest tables of a source that show all of its cells that one suite and preset has."""
    chosen = _smallest_cover(all_of(ledger, seeds, selection, source))
    return [fill(sources.layout(each.layout), ledger, seeds, selection) for each in chosen]


def all_of(
    ledger: Ledger, seeds: int | None = None, selection: str | None = None, source: str = sources.PAPER
) -> list[Table]:
    """Every table of a source for the results of one suite and preset, filled or not. Reads no raw scores."""
    layouts = [sources.layout(name) for name in sources.reference(source).layouts]
    own = [each for each in layouts if each.table.suite == ledger.newest.suite]
    return [fill(each, ledger, seeds, selection, images=False) for each in own]


def _smallest_cover(tables: list[Table]) -> list[Table]:
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


def fill(
    layout: Layout, ledger: Ledger, seeds: int | None = None, selection: str | None = None, images: bool = True
) -> Table:
    """One table of a source with results of one suite and preset."""
    table, rule = layout.table, selection or layout.table.selection
    last_only = not {*table.metrics} <= {*AT_EVERY_CHECKPOINT}
    trained = ledger.filtered(lambda result: result.config.given is None and _has_values(result, table.trainer))
    selected = select(trained, rule, last_only)
    index = ResultIndex(selected, table, seeds, images)
    metrics = [SHOWN[name] for name in table.metrics]
    is_of_preset = ledger.newest.preset in sources.FULL_SIZE
    rows, grid = [], []
    for (group, row), reported in zip(table.rows, layout.numbers, strict=True):
        method = index.method_of(row)
        cells = [
            replace(
                index.cell(_method_in(column, row, method), number.settings, metric, row),
                setting=" | ".join(number.settings),
                decimals=max(2, number.decimals),
                reported=(
                    replace(number, is_of_preset=is_of_preset),
                    *(replace(other, is_of_preset=is_of_preset) for other in _differing(number, layout.reference)),
                ),
            )
            for number, (column, metric) in zip(reported, product(table.columns, metrics), strict=True)
        ]
        grid.append(cells)
        heads = (group.name, row.label) if len(table.heads) > 1 else (row.label,)
        runs = [
            index.runs_of(_method_in(column, row, method), number.settings)
            for number, (column, metric) in zip(reported, product(table.columns, metrics), strict=True)
            if metric is not OUT_SHARE
        ]
        own_group = group.name if len(table.heads) == 1 else ""
        rows.append(Row(method, own_group, cells, heads, index.trainer_of(method), notes=of_row(runs)))
    if table.best:
        mark_best(grid, metrics * len(table.columns))
    caption = [table.caption, f"As in {layout.printed_in}.", describe(selected.values(), rule, last_only)]
    return Table(
        suite=ledger.newest.suite_label,
        settings=[column.title for column in table.columns],
        metrics=metrics,
        rows=with_seeds(rows),
        heads=tuple(table.heads),
        layout=layout.name,
        caption=" ".join(filter(None, caption)),
        notes=(*table.notes, *filter(None, [layout.other_setting]), *replaced(ledger.results)),
        reported_notes=(*layout.reported_notes, *other_preset(rows, ledger.newest.preset)),
        marks_best=table.best,
        suite_in_words=suite_in_words(ledger.newest),
    )


def _method_in(column: Columns, row: ReportedRow, method: str) -> str:
    """The row's method as this column has it; otherwise the name under which the row was run."""
    own = column.methods_of(row)
    return method if own == tuple(row.methods) else own[0]


def _has_values(result: Result, wanted: dict[str, str]) -> bool:
    """Whether a trainer that has such hyperparameters had these values; for `auto` the notes say what it was."""
    values = result.config.method.trainer.values
    own = {key: result.notes.get(key) if values[key] == "auto" else values[key] for key in wanted if key in values}
    return all(own[key] == wanted[key] for key in own)


def _differing(number: Number, reference: Reference) -> list[Number]:
    """What quoted sources report for the same cell, where any number of that row of theirs is another."""
    if not reference.source.quotes:
        return []
    row = {(n.settings, n.metric): n.value for n in next(r for r in reference.numbers[number.table] if number in r)}
    theirs = [row for other in reference.quoted for row in other.numbers.get(number.table, [])]
    return [
        other
        for line in theirs
        if line[0].methods == number.methods and any(row.get((n.settings, n.metric), n.value) != n.value for n in line)
        for other in line
        if (other.settings, other.metric) == (number.settings, number.metric)
    ]
