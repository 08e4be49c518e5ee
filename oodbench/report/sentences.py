"""Rows of a table, or the runs behind them, in; sentences that a reader needs beside the numbers out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oodbench.results.ledger import Place
from oodbench.results.measurement import Runs
from oodbench.results.metrics import Metric
from oodbench.results.resampling import ACCURACIES

if TYPE_CHECKING:
    from oodbench.report.tables import Row, Table

BEST = "best, or not distinguishable from the best (paired, Holm, 5 %)"
AVERAGE = "Average"  # begins the title of a column over several settings
ERM = "erm"


def seeds(rows: "Sequence[Row]") -> str:
    """How many stand behind the numbers, and which methods differ from most; empty if none do."""
    counts = [{cell.seeds for cell in row.cells if cell.seeds} for row in rows]
    tally = Counter(n for row in counts for n in row)
    if not tally:
        return ""
    usual = max(tally, key=lambda n: (tally[n], n))
    words = ["One seed" if usual == 1 else f"Mean over {usual} seeds"]
    for row, own in zip(rows, counts, strict=True):
        if own - {usual}:
            words.append(f"{row.name}: {' or '.join(map(str, sorted(own)))}")
    return "; ".join(words)


def intervals(rows: "Sequence[Row]", metrics: Sequence[Metric]) -> str:
    """What stands after ±; empty if nothing does."""
    by_kind: dict[str, dict[str, None]] = {}  # titles of the metrics that have such an interval
    for row in rows:
        for i, cell in enumerate(row.cells):
            if cell.interval is not None:
                by_kind.setdefault(cell.interval.kind, {})[metrics[i % len(metrics)].title] = None
    phrases = []
    if "seeds and images" in by_kind:
        phrases.append("over seeds and images together")
    if "images" in by_kind:
        where = "of one seed " if phrases else ""
        phrases.append(f"{where}over images alone, which leaves out how much trainings vary")
    if "seeds" in by_kind:
        titles = f"of {', '.join(by_kind['seeds'])}, " if len(by_kind["seeds"]) < len(metrics) else ""
        where, why = f"{titles}where no raw scores belong to a number, ", ", since no raw scores belong to the numbers"
        phrases.append(f"{where}over seeds alone" if phrases else f"over seeds alone{why}")
    return f"±: half of the 95 % interval {'; '.join(phrases)}." if phrases else ""


def lost_by_erm(table: "Table") -> dict[str, str]:
    """Points of percent that the covariate shift costs ERM, by setting, where the table shows both accuracies."""
    names = [metric.name for metric in table.metrics]
    rows = sorted((row for row in table.rows if row.trainer == ERM), key=lambda row: row.method != ERM)
    if not rows or not {*ACCURACIES} <= {*names}:
        return {}
    lost = {}
    for i, setting in enumerate(table.settings):
        means = [rows[0].cells[i * len(names) + names.index(name)].mean for name in ("id_acc", "covariate_acc")]
        if means[0] is not None and means[1] is not None and not setting.startswith(AVERAGE):
            lost[setting] = f"{100 * (means[0] - means[1]):.1f}".replace("-", "−")
    return lost


def erm_line(table: "Table") -> str:
    """The size of the covariate shift, without which an OOD accuracy says little; empty if it is not known."""
    lost = lost_by_erm(table)
    if len(set(lost.values())) == 1:
        return f"ERM loses {next(iter(lost.values()))} points to the covariate shift (ID Acc. − OOD Acc.)."
    by_setting = ", ".join(f"{points} in {setting}" for setting, points in lost.items())
    return f"Points that ERM loses to the covariate shift (ID Acc. − OOD Acc.): {by_setting}." if lost else ""


def one_network(names: Mapping[str, str], runs: Mapping[Place, Runs]) -> list[str]:
    """Which rows have the same weights under every seed, and so the same accuracies; `names` as printed, in order."""
    groups: dict[frozenset[tuple[str, int, str]], list[str]] = {}
    for label, name in names.items():
        own = {setting: some for (method, setting), some in runs.items() if method == label}
        weights = frozenset(
            (setting, each.seed, each.result.weights)
            for setting, some in own.items()
            for each in some.ok
            if each.result.weights is not None
        )
        if weights:
            groups.setdefault(weights, []).append(name)
    shared = [each for each in groups.values() if len(each) > 1]
    return [f"One network under each seed, whose accuracies are one comparison: {', '.join(each)}." for each in shared]


def unparted(names: Mapping[str, str], runs: Mapping[Place, Runs]) -> dict[Place, str]:
    """Notes for rows that print another's accuracies, since a selection stops both before the two trainings part.

    IRM trains much like ERM until its penalty sets in, for example.
    """
    first: dict[tuple[str, str], str] = {}
    notes = {}
    order = {label: i for i, label in enumerate(names)}
    for method, setting in sorted(runs, key=lambda place: order[place[0]]):
        some = runs[method, setting]
        path = _path_to_selected(some)
        other = first.setdefault((setting, path), method)
        if path and _trainings(runs[other, setting]).isdisjoint(_trainings(some)):
            notes[method, setting] = (
                f"the same accuracies as {names[other]}: the selection stops both after {_steps(some)} steps, where "
                "the two trainings have not yet parted"
            )
    return notes


def _path_to_selected(runs: Runs) -> str:
    """The accuracies by domain up to the selected epoch, under every seed; empty if none is selected before the end."""
    chosen = [(each, each.choice) for each in runs.ok if each.choice is not None and not each.choice.is_last]
    if len(chosen) < len(runs.measurements):
        return ""
    return repr([
        (each.seed, [known for known in each.result.domain_accuracies if known.epoch <= choice.epoch])
        for each, choice in chosen
    ])  # fmt: skip


def _steps(runs: Runs) -> str:
    """`25 of 501`, or `25 to 50 of 501` where seeds differ."""
    taken = sorted({each.choice.step for each in runs.ok if each.choice is not None})
    first, last = taken[0], taken[-1]
    total = max(each.result.domain_accuracies[-1].step for each in runs.ok)
    return f"{first} of {total}" if first == last else f"{first} to {last} of {total}"


def _trainings(runs: Runs) -> set[str]:
    return {each.result.training for each in runs.ok}
