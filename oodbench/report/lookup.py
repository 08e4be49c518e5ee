"""Runs of one suite in, the cells that a table of a paper names out. The grammar of settings is the suite's own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from oodbench.config.suite import NONE, setting_values
from oodbench.report import notes
from oodbench.report.model import Cell
from oodbench.report.numbers import OUT_SHARE, SHOWN
from oodbench.report.reported import ReportedRow, ReportedTable
from oodbench.report.tables import Samples, measured
from oodbench.results.ledger import Place, examples_of
from oodbench.results.measurement import Runs
from oodbench.results.metrics import Metric
from oodbench.results.result import Result
from oodbench.results.samples import Sample

EMPTY = Cell()


class ResultIndex:
    """Runs of one suite and preset, looked up as a table of a paper names them."""

    def __init__(
        self, runs: Mapping[Place, Runs], table: ReportedTable, seeds: int | None, images: bool = True
    ) -> None:
        self.table = table
        named = {method for _, row in table.rows for column in table.columns for method in column.methods_of(row)}
        named |= {table.ablation.method} if table.ablation is not None else set()
        self.runs = {place: some.lowest(seeds) for place, some in runs.items() if place[0] in named}
        self.samples = Samples(self.runs, [SHOWN[name] for name in table.metrics], images)
        self.examples = examples_of(runs)
        self.names: dict[str, list[str]] = {}  # of settings as results have them, by the table's
        self.semantic: dict[str, str | None] = {}  # of each method, where the table leaves the set open

    def method_of(self, row: ReportedRow) -> str:
        """The first of its names that was run."""
        settings = row.settings or [setting for column in self.table.columns for setting in column.settings]
        named = [name for column in self.table.columns for name in column.methods_of(row)]
        run = (name for name in (*row.methods, *named) if any(self._runs(name, setting) for setting in settings))
        return next(run, row.methods[0])

    def cell(self, method: str, settings: Sequence[str], metric: Metric, row: ReportedRow) -> Cell:
        if metric is OUT_SHARE:
            return self._out_share(method, settings[0], row)
        names = self._settings(method, settings)
        if not names:
            return EMPTY
        runs = [self.runs[method, name] for name in names]
        cell = measured(runs, metric, self.samples.of(method, names, metric))
        return replace(cell, of_runs=notes.of_cell(runs))

    def runs_of(self, method: str, settings: Sequence[str]) -> list[Runs]:
        """Behind a cell; none if it was not run in all of the settings."""
        return [self.runs[method, name] for name in self._settings(method, settings)]

    def _settings(self, method: str, settings: Sequence[str]) -> list[str]:
        names = [name for setting in settings if (name := self._name(method, setting)) is not None]
        return names if len(names) == len(settings) else []

    def trainer_of(self, method: str) -> str:
        """Empty if the method was not run."""
        known = (runs.newest.config.method.trainer.name for (name, _), runs in self.runs.items() if name == method)
        return next(known, "")

    def _runs(self, method: str, setting: str) -> Runs | None:
        name = self._name(method, setting)
        return None if name is None else self.runs[method, name]

    def _name(self, method: str, setting: str) -> str | None:
        """Of the setting as results have it."""
        names = self._names(method, setting)
        if _is_open(setting):
            if method not in self.semantic:
                self.semantic[method] = self._usual_semantic(method)
            names = [name for name in names if self._semantic_of(name) == self.semantic[method]]
        return min(names, default=None)

    def _names(self, method: str, setting: str) -> list[str]:
        """Of the settings that a method was run in and that the table may mean."""
        if setting not in self.names:
            self.names[setting] = [name for name, example in self.examples.items() if means(setting, example)]
        return [name for name in self.names[setting] if (method, name) in self.runs]

    def _usual_semantic(self, method: str) -> str | None:
        """One set for all columns of a method: that of most, or else none of all sets, or else the first by name."""
        settings = {s for _, row in self.table.rows for s in row.settings}
        settings |= {s for column in self.table.columns for s in column.settings}
        names = [name for s in settings if _is_open(s) for name in self._names(method, s)]
        counts = Counter(self._semantic_of(name) for name in names)
        return min(counts, key=lambda s: (-counts[s], s != NONE, s), default=None)

    def _semantic_of(self, name: str) -> str:
        return self.examples[name].config.setting.semantic

    def _out_share(self, method: str, setting: str, row: ReportedRow) -> Cell:
        """From the notes of the row's own runs, or else of the runs that tried every value."""
        ablation = self.table.ablation
        if ablation is None:
            return EMPTY
        for name in (method, ablation.method):
            runs = self._runs(name, setting)
            ok = runs.ok if runs is not None else []
            noted = {each.seed: _noted(each.result, ablation.hyperparameter, row.value) for each in ok}
            values = {seed: share for seed, share in noted.items() if share is not None}
            if values:
                return Cell(Sample(values))
        return EMPTY


def means(text: str, result: Result) -> bool:
    """Whether a result was made in the setting that the command line would call so."""
    return result.ran_suite.read_setting(text) == result.config.setting


def _is_open(text: str) -> bool:
    """Whether a setting of a paper leaves open which semantic set it has, if any."""
    return "semantic" not in setting_values(text)


def _noted(result: Result, hyperparameter: str, value: float | None) -> float | None:
    """out% as `tuning.select_at_drop` notes it: a list of values of the hyperparameter with their shares."""
    entries = result.notes.get("out_share")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get(hyperparameter) == value and isinstance(entry.get("share"), float):
            return float(entry["share"])
    return None
