"""Results as tables, by default in the layout of the paper's main one. Reads raw scores, imports no torch.

`layouts` makes the paper's other tables, `render` turns all of them into text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar, Literal

from oodbench.config.registry import GROUPS
from oodbench.errors import UserError, unknown
from oodbench.report import ranking, sentences
from oodbench.report.averages import Groups, averages
from oodbench.report.cells import Cell, mark_best, measured, plain
from oodbench.report.evidence import Evidence
from oodbench.report.groups import by_paper, groups_of, is_given
from oodbench.report.names import method_name, row_names
from oodbench.report.origins import replaced
from oodbench.report.rows import REPORTED, Entry, PrintedRow, Row
from oodbench.report.spelling import suite_in_words
from oodbench.results import selection as model_selection
from oodbench.results.ledger import Ledger, Place, as_ledger, in_order, methods_of
from oodbench.results.measurement import Runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.resampling import ACCURACIES
from oodbench.results.result import MethodRun, Result
from oodbench.results.samples import Sample

__all__ = [
    "DEFAULT_METRICS", "GROUPS", "REPORTED", "Cell", "Entry", "PrintedRow", "Row", "Table", "build", "method_name",
    "plain",
]  # fmt: skip
DEFAULT_METRICS = ("covariate_acc", "id_acc", "fpr95", "auroc", "covariate_flagged")
SELF_EXPLANATORY = ("id_acc", "auroc")
TRANSDUCTIVE = (
    "Methods that learn with wild data saw unlabeled images of the held-out domain, so their rows are transductive."
)


@dataclass(frozen=True)
class Table:
    """One suite: a row per method, under each setting a column per metric."""

    suite: str
    settings: list[str]  # titles of the column groups
    metrics: list[Metric]
    rows: list[Row]
    heads: tuple[str, ...] = ("Method",)
    layout: str = ""  # of the paper; empty for our own
    part: str = ""  # of the suite's results, if they fill two tables
    caption: str = ""
    notes: tuple[str, ...] = ()
    reported_notes: tuple[str, ...] = ()
    marks_best: bool = True
    has_groups: bool = True  # false where rows stand in one order, whatever their groups
    suite_in_words: str = ""
    mark: ClassVar[str] = "•"  # in plain text, behind what is bold elsewhere

    def __repr__(self) -> str:
        counts = f"rows {len(self.rows)}, settings {len(self.settings)}, metrics {len(self.metrics)}"
        return f"<Table {plain(self.title)}: {counts}>"

    def _repr_html_(self) -> str:
        from oodbench.report.render.html import to_html  # which imports this module

        return to_html(self)

    @property
    def title(self) -> str:
        of = self.layout or self.part
        return f"{self.suite}: {of}" if of else self.suite

    @cached_property
    def marks(self) -> dict[str, str]:
        """Footnotes and their letters, in reading order; rows and figures that share a reason share the letter."""
        lines = (line for row in self.rows for line in row.lines)
        notes = dict.fromkeys(
            note for line in lines for some in line.notes_at(range(len(line.entries))) for note in some
        )
        return {note: _letters(i) for i, note in enumerate(notes)}

    @property
    def seeds(self) -> str:
        """How many seeds stand behind the numbers, without a full stop."""
        return sentences.seeds(self.rows) or "No run succeeded"

    @property
    def seeds_line(self) -> str:
        """The same, and what stands after ±."""
        return f"{self.seeds}. {sentences.intervals(self.rows, self.metrics)}".strip()

    @property
    def counts_line(self) -> str:
        """The same for a reader of the rows, which say where they differ."""
        counts = sentences.seeds_beside_rows(self.rows) or "No run succeeded"
        return f"{counts}. {sentences.intervals(self.rows, self.metrics)}".strip()

    def legend(self, mark: str) -> str:
        """What every number and the mark of the best mean; short, so that with the counts it takes one line."""
        has_best = any(cell.best for row in self.rows for cell in row.cells)
        return f"In percent; {mark}: best mean." if has_best else "In percent."

    @property
    def definitions(self) -> str:
        return " ".join(filter(None, [self.legend("bold"), *self.metric_definitions]))

    @property
    def metric_definitions(self) -> list[str]:
        return [f"{m.title}: {m.summary}." for m in self.metrics if m.name not in SELF_EXPLANATORY]

    @property
    def remarks(self) -> list[str]:
        """Sentences below the table, each a line of its own."""
        empty = any(cell.mean is None and not cell.note for row in self.rows for cell in row.cells)
        dash = "–: not run, or not recorded." if empty else ""
        return list(filter(None, [*sentences.shift_lines(self), *self.notes, *self.reported_notes, dash]))

    def heading(self, i: int) -> str:
        """What stands above a row that opens a group; empty above others."""
        return self.group_of_row(i) if self.opens_group(i) else ""

    def opens_group(self, i: int) -> bool:
        return i == 0 or self._group(i) != self._group(i - 1)

    def group_of_row(self, i: int) -> str:
        return self.rows[i].group if self.has_groups else ""

    def _group(self, i: int) -> tuple[str, ...]:
        return (self.group_of_row(i), *self.rows[i].heads[:-1])


def build(
    results: Ledger | Sequence[Result],
    metrics: Sequence[str] | None = None,
    seeds: int | Literal["all"] = "all",
    selection: str | None = model_selection.TRAINING_DOMAIN,
    images: bool = True,
    sort: str | None = None,
    groups: Groups | None = None,
    average: bool = False,
) -> list[Table]:
    """A table per suite, two where domains are held out with and without a semantic set.

    `metrics` are DEFAULT_METRICS, without those that no result of a table has, unless some are asked for, which are
    shown even then. `seeds` keeps that many of the lowest seeds of each method and setting; `selection` chooses a
    checkpoint of results that have several, None takes them as they were at the end. Without `images` no raw scores are
    read, and intervals are over seeds alone. `sort` is a metric, shown or not, by which all rows stand, best first and
    without groups; a table whose results lack it keeps its order. `groups` are those of the suite, where it is at hand.
    With `average`, means over the settings of a table stand in their place.
    """
    for name in (*(metrics or ()), *([] if sort is None else [sort])):
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    if metrics is not None and not metrics:
        raise UserError(f"no metrics to show; choose from: {', '.join(METRICS)}")
    lowest = checked_seeds(seeds)
    shown = None if metrics is None else [METRICS[name] for name in dict.fromkeys(metrics)]
    by = None if sort is None else METRICS[sort]
    tables = []
    for suite, ledger in as_ledger(results).suites.items():
        origins, words = replaced(ledger.results), suite_in_words(ledger.newest)
        if selection is None:
            table = _table(suite, _lowest(ledger.last_runs, lowest), shown, images, by, groups, average)
            caption = sentences.given_networks(ledger.last_runs)
            table = replace(table, caption=caption, suite_in_words=words)
            tables.append(replace(table, notes=(*table.notes, *origins)))
            continue
        kinds = model_selection.by_protocol(ledger)
        for some, last_only in kinds:
            selected = model_selection.select(some, selection, last_only)
            sentence = model_selection.describe(selected.values(), selection, last_only)
            networks = sentences.given_networks(selected)
            caption = " ".join(filter(None, [networks, sentence, TRANSDUCTIVE if last_only else ""]))
            table = _table(suite, _lowest(selected, lowest), shown, images, by, groups, average)
            part = "with a semantic set" if last_only and len(kinds) > 1 else ""
            table = replace(table, part=part, caption=caption, suite_in_words=words)
            tables.append(replace(table, notes=(*table.notes, *origins)))
    if by is not None and all(table.has_groups for table in tables):
        raise UserError(f"no result here has '{by.name}' to sort by; choose another metric")
    return tables


def with_accuracies_above(table: Table) -> Table:
    """Scorers of one network share its accuracies, which one line then says in place of columns of equal numbers."""
    shared = sentences.shared_accuracies(table)
    places = [i for i, metric in enumerate(table.metrics) if metric.name not in ACCURACIES]
    if not shared or not places:
        return table
    count = len(table.metrics)
    kept = [j * count + i for j in range(len(table.settings)) for i in places]
    notes = (*sentences.shift_lines(table), *(note for note in table.notes if note != sentences.OF_GIVEN))
    return replace(
        table,
        metrics=[table.metrics[i] for i in places],
        rows=[replace(row, cells=[row.cells[i] for i in kept]) for row in table.rows],
        caption="\n".join(filter(None, [table.caption, shared])),
        notes=notes,
    )


def checked_seeds(seeds: int | Literal["all"]) -> int | None:
    if isinstance(seeds, int) and seeds < 1:
        raise UserError(f"a table of {seeds} seeds is empty; give a number from 1, or 'all'")
    return None if seeds == "all" else seeds


def _lowest(runs: Mapping[Place, Runs], seeds: int | None) -> dict[Place, Runs]:
    return {place: some.lowest(seeds) for place, some in runs.items()}


def _table(
    suite: str, runs: Mapping[Place, Runs], asked: list[Metric] | None, images: bool, by: Metric | None,
    groups: Groups | None, average: bool,
) -> Table:  # fmt: skip
    metrics = _recorded(runs) if asked is None else asked
    methods = by_paper(methods_of(runs))
    row_groups = groups_of(methods)
    names = row_names(methods)
    settings = in_order(runs)
    means = averages(runs, settings, groups)
    columns = {setting: [setting] for setting in settings} | means
    if average and len(settings) > 1:
        columns = means or {sentences.AVERAGE: settings}
    evidence, twins = Evidence(runs, metrics, images), sentences.unparted(names, runs)

    def cell(label: str, title: str, metric: Metric) -> Cell:
        own = [runs.get((label, setting)) for setting in columns[title]]
        sample = evidence.sample(label, columns[title], metric)
        return _cell(title, own, metric, sample, twins.get((label, title), ""))

    grid = [[cell(label, title, metric) for title, metric in product(columns, metrics)] for label in methods]
    mark_best(grid, metrics * len(columns))
    rows = [
        Row(label, row_groups[label], cells, (names[label],), method.trainer.name, _network(method))
        for (label, method), cells in zip(methods.items(), grid, strict=True)
    ]
    shares = sentences.one_network(names, runs) if any(metric.name in ACCURACIES for metric in metrics) else []
    notes = (*shares, *sentences.larger_base(runs))
    table = Table(suite, list(columns), metrics, sentences.with_seeds(rows), notes=notes)
    return table if by is None else _sorted(table, by, runs, settings)


def _recorded(runs: Mapping[Place, Runs]) -> list[Metric]:
    """Of DEFAULT_METRICS: without a semantic set there are accuracies alone; all if every run failed."""
    recorded = {name for some in runs.values() for each in some.measurements for name in each.metrics}
    return [METRICS[name] for name in DEFAULT_METRICS if name in recorded or recorded.isdisjoint(DEFAULT_METRICS)]


def _network(method: MethodRun) -> str:
    return plain(method.trainer.display) if is_given(method) else ""


def _sorted(table: Table, by: Metric, runs: Mapping[Place, Runs], settings: Sequence[str]) -> Table:
    """All rows by one metric, best first, those without it last, equals by name; the table itself if none has it."""
    standings = ranking.standings(runs, [row.method for row in table.rows], settings, by)
    if not standings:
        return table
    last = (len(settings), 0.0)
    rows = sorted(table.rows, key=lambda row: (*standings.get(row.method, last), row.name))
    return replace(table, rows=rows, has_groups=False, notes=(ranking.sentence(by, settings), *table.notes))


def _cell(title: str, runs: Sequence[Runs | None], metric: Metric, sample: Sample | None, twin: str) -> Cell:
    known = [some for some in runs if some is not None]
    if len(known) < len(runs):
        where = "this" if len(runs) == 1 else "every"
        return Cell(remarks=(f"not run in {where} setting",), setting=title)
    return replace(measured(known, metric, sample), setting=title, twin=twin)


def _letters(i: int) -> str:
    return (_letters(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)
