"""Results in the layout of the paper's main table. Reads no files, imports no torch; `render` turns it into text."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from oodbench.errors import UserError, unknown
from oodbench.metrics import METRICS, Metric
from oodbench.results import Result

GROUPS = ("OOD detection", "OOD generalization", "Learning with wild data")
# The paper's rows, in its order and under its names.
NAMES = {
    "msp": "MSP", "odin": "ODIN", "energy": "Energy", "mahalanobis": "Mahalanobis", "vim": "ViM", "knn": "KNN",
    "erm": "ERM", "mixup": "Mixup", "irm": "IRM", "vrex": "VREx",
    "oe": "OE", "energy-oe": "Energy (w. outlier)", "woods": "WOODS", "scone": "SCONE", "bn-adapt": "BN-adapt",
}  # fmt: skip
DEFAULT_METRICS = ("covariate_acc", "id_acc", "fpr95", "auroc")
SELF_EXPLANATORY = ("id_acc", "auroc")
LONGEST_NOTE = 200  # characters of an error message under a table; the result file has all of it


@dataclass(frozen=True)
class Cell:
    """One number, a rate in [0, 1], or the reason why there is none."""

    mean: float | None
    standard_error: float | None  # None below two seeds
    seeds: int
    note: str  # what a reader must know about the number; empty if nothing
    best: bool = False

    @property
    def percent(self) -> str:
        return "–" if self.mean is None else f"{100 * self.mean:.2f}"

    @property
    def error_percent(self) -> str:
        return "" if self.standard_error is None else f"{100 * self.standard_error:.2f}"


@dataclass(frozen=True)
class Row:
    method: str
    group: str
    cells: list[Cell]  # every metric of the first setting, then of the second, ...

    @property
    def name(self) -> str:
        """`mixup+knn,knn.k=5` as the paper would write it: Mixup + KNN (knn.k=5)."""
        method, _, changed = self.method.partition(",")
        name = " + ".join(NAMES.get(part, part) for part in method.split("+"))
        return f"{name} ({changed.replace(',', ', ')})" if changed else name


@dataclass(frozen=True)
class Table:
    """One suite: a row per method, under each setting a column per metric."""

    suite: str
    settings: list[str]
    metrics: list[Metric]
    rows: list[Row]

    @property
    def marks(self) -> dict[str, str]:
        """Footnotes and their letters, in reading order; cells that share a reason share the letter."""
        notes = dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note)
        return {note: _letters(i) for i, note in enumerate(notes)}

    @property
    def seeds_line(self) -> str:
        """How many seeds stand behind the numbers, and which methods differ from most."""
        counts = [{cell.seeds for cell in row.cells if cell.seeds} for row in self.rows]
        tally = Counter(n for row in counts for n in row)
        if not tally:
            return "No run succeeded."
        usual = max(tally, key=lambda n: (tally[n], n))
        line = "One seed" if usual == 1 else f"Mean ± standard error over {usual} seeds"
        for row, seeds in zip(self.rows, counts, strict=True):
            if seeds - {usual}:
                line += f"; {row.name}: {' or '.join(map(str, sorted(seeds)))}"
        return line + (". ±: standard error over seeds." if usual == 1 and len(tally) > 1 else ".")

    @property
    def definitions(self) -> str:
        told = [f"{m.title}: {m.summary}." for m in self.metrics if m.name not in SELF_EXPLANATORY]
        return " ".join(["In percent, best in bold.", *told])

    def opens_group(self, i: int) -> bool:
        return i == 0 or self.rows[i].group != self.rows[i - 1].group


def build(
    results: list[Result], metrics: Sequence[str] = DEFAULT_METRICS, seeds: int | Literal["all"] = "all"
) -> list[Table]:
    """One table per suite; `seeds` keeps that many of the lowest seeds of each method and setting."""
    for name in metrics:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    if not metrics:
        raise UserError(f"no metrics to show; choose from: {', '.join(METRICS)}")
    if isinstance(seeds, int) and seeds < 1:
        raise UserError(f"a table of {seeds} seeds is empty; give a number from 1, or 'all'")
    if not results:
        raise UserError("no results to show; run one with: oodbench run --suite digits-c --methods msp")
    suites: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.written, r.cell)):  # oldest first from here on
        suites.setdefault(result.suite_label, []).append(result)
    shown = [METRICS[name] for name in dict.fromkeys(metrics)]
    return [_table(suite, suites[suite], shown, None if seeds == "all" else seeds) for suite in sorted(suites)]


def _table(suite: str, results: list[Result], metrics: list[Metric], seeds: int | None) -> Table:
    runs: dict[tuple[str, str], list[Result]] = {}
    groups: dict[str, str] = {}
    order: list[str] = []
    for result in results:
        runs.setdefault((result.method, result.setting), []).append(result)
        groups[result.method] = result.group
        order = result.config.get("settings_order") or order
    settings = sorted({r.setting for r in results}, key=lambda s: (_position(s, order), s))
    methods = sorted(groups, key=lambda m: (_position(groups[m], GROUPS), groups[m], _rank(m), m))
    grid = [[c for s in settings for c in _cells(runs.get((m, s), []), metrics, seeds)] for m in methods]
    for column, metric in enumerate(metrics * len(settings)):
        _mark_best(grid, column, metric)
    rows = [Row(method, groups[method], cells) for method, cells in zip(methods, grid, strict=True)]
    return Table(suite, settings, metrics, rows)


def _position(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _rank(method: str) -> int:
    return _position(re.split("[,+]", method)[0], list(NAMES))


def _cells(results: list[Result], metrics: list[Metric], seeds: int | None) -> list[Cell]:
    """One method in one setting, from the configuration that was run last."""
    if not results:
        return [Cell(None, None, 0, "not run in this setting") for _ in metrics]
    variant = results[-1].variant
    newest = {r.seed: r for r in results if r.variant == variant}
    kept = [newest[seed] for seed in sorted(newest)[:seeds]]
    ok = [r for r in kept if r.status == "ok"]
    failed: dict[str, list[Result]] = {}
    for r in kept:
        if r.status != "ok":
            failed.setdefault(_cut(r.error or "no message"), []).append(r)
    notes = [f"failed: {error} ({_seeds(rs)})" for error, rs in failed.items()]
    if ok and failed:
        notes.insert(0, f"only {_seeds(ok)}")
    left_out = sum(r.variant != variant for r in results)
    if left_out:
        notes.append(f"{left_out} result file{'s' * (left_out > 1)} of other configurations left out")
    return [_cell(ok, metric, notes) for metric in metrics]


def _cell(ok: list[Result], metric: Metric, notes: list[str]) -> Cell:
    recorded = {r.seed: float(r.metrics.get(metric.name, math.nan)) for r in ok}
    lacking = [r for r in ok if not math.isfinite(recorded[r.seed])]
    if lacking:
        notes = [*notes, f"{metric.title} not recorded ({_seeds(lacking)})"]
    values = [value for value in recorded.values() if math.isfinite(value)]
    mean = statistics.fmean(values) if values else None
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Cell(mean, error, len(values), "; ".join(notes))


def _mark_best(grid: list[list[Cell]], column: int, metric: Metric) -> None:
    """Means are compared as printed, so that equal figures are equally bold."""
    printed = [float(cells[column].percent) for cells in grid if cells[column].mean is not None]
    if len(printed) > 1:
        best = f"{max(printed) if metric.higher_is_better else min(printed):.2f}"
        for cells in grid:
            if cells[column].percent == best:
                cells[column] = replace(cells[column], best=True)


def _seeds(results: list[Result]) -> str:
    return ("seed " if len(results) == 1 else "seeds ") + ", ".join(str(r.seed) for r in results)


def _cut(text: str) -> str:
    text = plain(text)
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def _letters(i: int) -> str:
    return (_letters(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)


def plain(text: str) -> str:
    """On one line, without what a terminal or TeX would obey."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
