"""Accuracies and FPR against the margin, and out%, from which a margin is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from oodbench.data.parts import mixed_validation
from oodbench.report.figures.networks import networks_of, parts_of
from oodbench.report.figures.studies import Asked, Drawing, Load, NotDrawn, Study, runs_by_method, seeds_of, table_of
from oodbench.report.figures.style import (
    SMALL,
    columns_that_fit,
    draw_line,
    floor_of,
    log_percent,
    log_words,
    new_figure,
    panels_of,
)
from oodbench.report.labels import axis_title, method_name, metric_name
from oodbench.report.model import Cell, Table
from oodbench.results.result import MethodRun, Result
from oodbench.results.samples import Sample

MARGIN = "margin"  # the hyperparameter
AUTOMATIC = "auto"  # its value where a run chooses one itself
PANELS = (("covariate_acc", "id_acc"), ("fpr95",))  # the metrics of each


@dataclass(frozen=True)
class MarginChoice:
    """What the choice of a margin sees under one seed: out% of each margin, and the margin it takes."""

    shares: dict[float, float]
    chosen: float


@dataclass(frozen=True)
class Sweep:
    """A method under several margins."""

    method: str  # as it is called under its default margin
    runs: dict[float, list[Result]]  # from no margin downwards
    automatic: list[Result]  # runs that choose a margin themselves

    @property
    def display(self) -> str:
        """The method in words, without its margin."""
        method = self.results[0].config.method
        changed = {key: value for key, value in method.trainer.changed.items() if key != MARGIN}
        return method_name(replace(method, trainer=replace(method.trainer, changed=changed)))

    @property
    def results(self) -> list[Result]:
        return [r for each in self.runs.values() for r in each]


def draw(study: Study, asked: Asked) -> Drawing:
    """Accuracies and FPR against the margin, and out%, from which a margin is chosen."""
    sweep = _longest_sweep(study, asked.methods)
    labels = {each[0].method: _printed(margin) for margin, each in sweep.runs.items()}
    table = table_of({each[0].method: each for each in sweep.runs.values()})
    table = replace(table, rows=[replace(row, heads=(f"η = {labels[row.method]}",)) for row in table.rows])
    choices, how, remarks = _choices(sweep, asked.networks)
    method = sweep.display
    shown = [panel for panel in PANELS if any(metric.name in panel for metric in table.metrics)]
    count = len(shown) + bool(choices)
    columns = columns_that_fit(asked.width, count, 2.0)
    figure = new_figure(study, asked, f"{method}, {seeds_of(table)}", 1.75 * -(-count // columns) + 0.3)
    panels = panels_of(figure, count, columns, sharex=True)
    margins = sorted({*sweep.runs, *(m for each in choices for m in each.shares)}, reverse=True)
    floor = floor_of(sweep.results)
    for axes, panel in zip(panels, shown, strict=False):
        _draw_metrics(axes, panel, sweep, table, margins, floor)
    for axes in panels:
        axes.set_xticks(range(len(margins)), [_printed(m) for m in margins], rotation=45 if len(margins) > 6 else 0)
    for axes in panels[-columns:]:
        axes.set_xlabel("margin η (not to scale)")
        axes.tick_params(labelbottom=True)
    caption = f"{method} against the margin on {study.words}. {table.seeds_line}"
    if "fpr95" in {metric.name for metric in table.metrics}:
        caption += f" {log_words(floor)}"
    if choices:
        _draw_choices(panels[:-1], panels[-1], choices, margins)
        caption += (
            " out%: share of the mixed validation set that is flagged at the threshold that keeps 95 % of the ID "
            f"validation images, {how}. The margin is chosen just after the largest drop of out%, or is the first one "
            "if no drop exceeds two standard errors. The chosen margins are "
            f"{', '.join(_printed(each.chosen) for each in choices)} (dashed; one for each seed)."
        )
    return Drawing(figure, caption, [*sweep.results, *sweep.automatic], remarks)


def _printed(margin: float) -> str:
    return f"{margin:g}".replace("-", "−")


def _longest_sweep(study: Study, methods: Sequence[str]) -> Sweep:
    """Of the method with most margins."""
    sweeps: dict[str, dict[float | str, list[Result]]] = {}
    for runs in runs_by_method(study.results, sorted({r.method for r in study.results})).values():
        ran = runs[-1].config.method
        if ran.trainer.values.get(MARGIN) is not None:
            sweeps.setdefault(_without_margin(ran), {})[ran.trainer.values[MARGIN]] = runs
    wanted = {method: sweep for method, sweep in sorted(sweeps.items()) if not methods or method in methods}
    longest = max(wanted, key=lambda method: len(wanted[method]), default="")
    by_margin = wanted.get(longest, {})
    numbers = {float(margin): runs for margin, runs in by_margin.items() if not isinstance(margin, str)}
    if len(numbers) < 2:
        raise NotDrawn("needs a method with two margins; run it with each one: --set METHOD.margin=VALUE")
    return Sweep(longest, dict(sorted(numbers.items(), reverse=True)), by_margin.get(AUTOMATIC, []))


def _without_margin(method: MethodRun) -> str:
    """The method and what was changed of it besides the margin, as results name it."""
    words = [method.name]
    for part in (method.trainer, method.scorer):
        prefix = "" if part.name == method.name else f"{part.name}."
        changed = {key: value for key, value in part.changed.items() if part is method.scorer or key != MARGIN}
        words += [f"{prefix}{key}={_spelled(value)}" for key, value in sorted(changed.items())]
    return ",".join(words)


def _spelled(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _choices(sweep: Sweep, load: Load | None) -> tuple[list[MarginChoice], str, list[str]]:
    """How a margin is chosen, one for each seed, where that comes from, and why there are none."""
    recorded = _recorded_choices(sweep.automatic)
    if recorded:
        return recorded, "as recorded by the runs that chose the margin", []
    try:
        return _recomputed_choices(sweep.runs, load), "recomputed from the stored weights", []
    except NotDrawn as reason:
        return [], "", [f"without out%: {reason}"]


def _draw_metrics(
    axes: Axes, names: Sequence[str], sweep: Sweep, table: Table, margins: list[float], floor: float
) -> None:
    rows = {row.method: row for row in table.rows}
    shown = [(j, metric) for j, metric in enumerate(table.metrics) if metric.name in names]
    for place, (j, metric) in enumerate(shown):
        cells = [rows[each[0].method].cells[j] for each in sweep.runs.values()]
        lowest = floor if metric.name == "fpr95" else None
        draw_line(axes, [margins.index(m) for m in sweep.runs], cells, place, metric_name(metric), lowest)
    if len(shown) > 1:
        axes.set_ylabel("accuracy ↑ (%)")
        axes.legend(loc="best")
    else:
        axes.set_ylabel(axis_title(shown[0][1]))
    if names == ("fpr95",):
        log_percent(axes)


def _recorded_choices(automatic: Sequence[Result]) -> list[MarginChoice]:
    """From the notes of runs that chose their margin themselves."""
    noted = [r.notes for r in automatic if "out_share" in r.notes and "margin" in r.notes]
    return [
        MarginChoice({float(step["margin"]): step["share"] for step in notes["out_share"]}, float(notes["margin"]))
        for notes in noted
    ]


def _recomputed_choices(runs: dict[float, list[Result]], load: Load | None) -> list[MarginChoice]:
    """From the networks that were trained one by one, seed by seed."""
    flat = [(margin, result) for margin, each in runs.items() for result in each]
    networks = networks_of([result for _, result in flat], load)
    import torch

    from oodbench.learning.tuning import after_largest_drop, flagged_share

    choices = []
    for seed in sorted({result.seed for _, result in flat}):
        trained = {margin: net for (margin, r), net in zip(flat, networks, strict=True) if r.seed == seed}
        if len(trained) < 2:
            continue
        first = next(result for _, result in flat if result.seed == seed)
        parts = parts_of(first, ("id_validation", "mixed_id", "mixed_covariate", "mixed_semantic"))
        id_images = torch.from_numpy(np.asarray(parts.id_validation.images))
        mixed = torch.from_numpy(mixed_validation(parts, first.config.setting))
        shares = {margin: flagged_share(network, id_images, mixed) for margin, network in trained.items()}
        choices.append(MarginChoice(shares, [*shares][after_largest_drop([*shares.values()], len(mixed))]))
    return choices


def _draw_choices(above: Sequence[Axes], below: Axes, choices: Sequence[MarginChoice], margins: list[float]) -> None:
    seen = [m for m in margins if any(m in each.shares for each in choices)]
    shares = [[each.shares[m] for each in choices if m in each.shares] for m in seen]
    cells = [Cell(Sample(dict(enumerate(s)))) for s in shares]
    draw_line(below, [margins.index(m) for m in seen], cells, 3, "out%")
    below.set_ylabel("out% of mixed validation")
    below.set_ylim(0, 130 * max(share for each in shares for share in each) or 1)
    for margin in sorted({each.chosen for each in choices}):
        count = sum(each.chosen == margin for each in choices)
        for axes in (*above, below):
            axes.axvline(margins.index(margin), color="black", linestyle="--", linewidth=0.8, zorder=1)
        text = "chosen" if count == len(choices) else f"chosen ({count} of {len(choices)})"
        below.annotate(
            text, (margins.index(margin), 0.03), (2, 0), ("data", "axes fraction"), "offset points", fontsize=SMALL,
            rotation=90, ha="left", va="bottom",
        )  # fmt: skip
