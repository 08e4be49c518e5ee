"""Tables of our own in, the same with what papers report in their cells out.

A cell has the SCONE paper's number; where that has none, the number of another source, which a line names. Where a
setting of ours is a stand-in for one of the paper's, its numbers stand below ours without a difference, and a line says
how the two differ: they compare in direction alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from oodbench.report import reported as sources
from oodbench.report.labels import ERM
from oodbench.report.lookup import means
from oodbench.report.model import Row, Table
from oodbench.report.notes import lost_by_erm
from oodbench.report.numbers import Number
from oodbench.report.reported import StandIn
from oodbench.results.ledger import Ledger, as_ledger
from oodbench.results.metrics import Metric
from oodbench.results.result import Result

NOTHING_REPORTED = "Nothing is reported for these cells."


def with_reported(tables: list[Table], results: Ledger | Sequence[Result]) -> list[Table]:
    """Tables in our own layout with reported numbers in their cells, none beside networks that were given."""
    reported = _by_cell()
    trained = as_ledger(results).filtered(lambda result: result.config.given is None)
    examples = {(result.suite_label, result.setting): result for result in trained.results}

    def numbers(suite: str, setting: str, row: Row, metric: Metric) -> tuple[Number, ...]:
        example = None if row.network else examples.get((suite, setting))
        candidates = reported.get((example.suite, row.method, metric.name), []) if example else []
        fitting = [number for number in candidates if example and means(number.settings[0], example)]
        if example is not None and example.preset not in sources.FULL_SIZE:
            fitting = [replace(number, is_of_preset=False) for number in fitting]
        if not fitting and example is not None:
            fitting = [replace(number, is_comparable=False) for number in candidates if _stands_for(example, number)]
        return tuple(fitting[:1])

    done = []
    for table in tables:
        metrics = table.metrics * len(table.settings)
        rows = [
            replace(
                row,
                cells=[
                    replace(cell, reported=numbers(table.suite, cell.setting, row, metric))
                    for cell, metric in zip(row.cells, metrics, strict=True)
                ],
            )
            for row in table.rows
        ]
        has_any = any(cell.reported for row in rows for cell in row.cells)
        presets = [each.preset for (suite, _), each in examples.items() if suite == table.suite]
        notes = _differences(table, examples) if has_any else [NOTHING_REPORTED]
        notes += _other_sources(rows)
        notes += other_preset(rows, presets[0] if presets else None)
        done.append(replace(table, rows=rows, reported_notes=tuple(notes)))
    return done


def other_preset(rows: Sequence[Row], preset: str | None) -> list[str]:
    """What to say where reported numbers stand beside results of a preset that their source does not have."""
    numbers = (number for row in rows for cell in row.cells for number in cell.reported)
    if all(number.is_of_preset for number in numbers):
        return []
    return [
        f"These numbers were measured with the preset '{preset}', which the reported numbers were not: network, "
        "training or data differ, so a difference is not due to the method alone."
    ]


def without_reported(tables: list[Table]) -> list[Table]:
    return [
        replace(
            table,
            rows=[replace(row, cells=[replace(cell, reported=()) for cell in row.cells]) for row in table.rows],
            reported_notes=(),
        )
        for table in tables
    ]


def stand_in(suite: str, preset: str | None, semantic: str) -> StandIn | None:
    """What the paper's file says about a semantic set of ours, if it stands in for one of the paper's."""
    stated = sources.reference(sources.PAPER).source.stand_ins
    fitting = (each for each in stated if each.suite == suite and preset in each.presets and semantic in each.settings)
    return next(fitting, None)


def has_stand_ins(suite: str, preset: str | None) -> bool:
    return preset in presets_beside_paper(suite)


def presets_beside_paper(suite: str) -> list[str]:
    """The presets of a suite that show the paper's effect in another setting, the one to begin with first."""
    stated = sources.reference(sources.PAPER).source.stand_ins
    return [preset for each in stated if each.suite == suite for preset in each.presets]


def _by_cell() -> dict[tuple[str, str, str], list[Number]]:
    """The paper's first, then those of other sources; of settings that a suite has."""
    reported: dict[tuple[str, str, str], list[Number]] = {}
    paper = sources.reference(sources.PAPER)
    for source in (paper, *(sources.reference(name) for name in sources.source_files() if name != paper.name)):
        for number in source.all:
            for method in number.methods:
                if len(number.settings) == 1 and number.is_of_suite:
                    reported.setdefault((number.suite, method, number.metric), []).append(number)
    return reported


def _other_sources(rows: Sequence[Row]) -> list[str]:
    """Whose numbers stand in which rows, where they are not the paper's."""
    paper = sources.reference(sources.PAPER).source.label
    named: dict[str, list[str]] = {}
    for row in rows:
        for label in dict.fromkeys(number.label for cell in row.cells for number in cell.reported):
            named.setdefault(label, []).append(row.name)
    return [
        f"Numbers of {label} are reported for: {', '.join(names)}." for label, names in named.items() if label != paper
    ]


def _stands_for(result: Result, number: Number) -> bool:
    """Whether the paper's number is of the setting that this result's stands in for, all else being equal."""
    if number.label != sources.reference(sources.PAPER).source.label:
        return False  # what the paper's file says about a stand-in is about its own numbers
    ours = result.config.setting
    stated = stand_in(result.suite, result.preset, ours.semantic)
    meant = result.ran_suite.read_setting(number.settings[0])
    return stated is not None and meant == replace(ours, semantic=stated.settings[ours.semantic])


def _differences(table: Table, examples: dict[tuple[str, str], Result]) -> list[str]:
    """A line for each setting that stands in for one of the paper's."""
    lines = []
    for setting in table.settings:
        example = examples.get((table.suite, setting))
        stated = example and stand_in(example.suite, example.preset, example.config.setting.semantic)
        if not example or not stated:
            continue
        lost = [lost_by_erm(table).get(setting), _lost_there(example)]
        ours, theirs = (f"; ERM loses {points} points to the shift" if points else "" for points in lost)
        lines.append(
            "The reported numbers come from another setting, so they can be compared in direction only. "
            f"Here: {stated.here}{ours}. Reported: {stated.there}{theirs}."
        )
    return lines


def _lost_there(example: Result) -> str | None:
    """What the covariate shift costs ERM in the setting that this one stands in for."""
    by_cell = _by_cell()
    found = [
        next((n for n in by_cell.get((example.suite, ERM, metric), []) if _stands_for(example, n)), None)
        for metric in ("id_acc", "covariate_acc")
    ]
    return None if found[0] is None or found[1] is None else f"{found[0].percent - found[1].percent:.1f}"
