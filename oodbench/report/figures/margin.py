"""Metrics against the margin, and out%, from which a margin is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from oodbench.data.parts import mixed_validation
from oodbench.report import tables
from oodbench.report.cells import summary
from oodbench.report.figures.networks import networks_of, parts_of
from oodbench.report.figures.studies import Drawing, NotDrawn, Study, printed_name, runs_by_method, seeds_of, table_of
from oodbench.report.figures.style import axis_title, draw_line, titled_figure
from oodbench.report.tables import Table
from oodbench.results.result import MethodRun, Result

MARGIN = "margin"  # the hyperparameter
AUTOMATIC = "auto"  # its value where a run chooses one itself


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
    def results(self) -> list[Result]:
        return [r for each in self.runs.values() for r in each]


def draw(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Metrics against the margin, and out%, from which a margin is chosen."""
    sweep = _longest_sweep(study, methods)
    labels = {each[0].method: _printed(margin) for margin, each in sweep.runs.items()}
    table = table_of({each[0].method: each for each in sweep.runs.values()})
    table = replace(table, rows=[replace(row, heads=(f"margin {labels[row.method]}",)) for row in table.rows])
    choices, how, remarks = _choices(sweep)
    method = printed_name(replace(sweep.results[0], method=sweep.method))
    figure = titled_figure(study, f"{method}, {seeds_of(table)}", 5.0, 4.4 if choices else 3.2)
    heights = [2, 1] if choices else [1]
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False).ravel()
    margins = sorted({*sweep.runs, *(m for each in choices for m in each.shares)}, reverse=True)
    _draw_metrics(panels[0], sweep, table, margins)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(table.metrics))
    panels[-1].set_xticks(range(len(margins)), [_printed(m) for m in margins])
    panels[-1].set_xlabel("margin η (not to scale)")
    caption = f"Metrics of {method} against the margin on {study.suite}, setting {study.setting}. {table.seeds_line}"
    if choices:
        _draw_choices(panels[0], panels[1], choices, margins)
        caption += (
            " out%: share of the mixed validation set that is flagged where 95 % of the ID validation rows are kept, "
            f"{how}; the margin chosen just after its largest drop, or the first if none exceeds two standard errors, "
            f"is {', '.join(f'{each.chosen:g}' for each in choices)} (dashed; one for each seed)."
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
    numbers = {float(margin): runs for margin, runs in by_margin.items() if margin != AUTOMATIC}
    if len(numbers) < 2:
        raise NotDrawn("needs a method under two margins; run it with --set METHOD.margin=VALUE, once for each")
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


def _choices(sweep: Sweep) -> tuple[list[MarginChoice], str, list[str]]:
    """How a margin is chosen, one for each seed, where that comes from, and why there are none."""
    recorded = _recorded_choices(sweep.automatic)
    if recorded:
        return recorded, "as noted by the runs that chose", []
    try:
        return _recomputed_choices(sweep.runs), "computed again from the stored weights", []
    except NotDrawn as reason:
        return [], "", [f"without out%: {reason}"]


def _draw_metrics(axes: Axes, sweep: Sweep, table: Table, margins: list[float]) -> None:
    rows = {row.method: row for row in table.rows}
    for j, metric in enumerate(table.metrics):
        cells = [rows[each[0].method].cells[j] for each in sweep.runs.values()]
        draw_line(axes, [margins.index(m) for m in sweep.runs], cells, j, axis_title(metric).removesuffix(" (%)"))
    axes.set_ylabel("%")


def _recorded_choices(automatic: Sequence[Result]) -> list[MarginChoice]:
    """From the notes of runs that chose their margin themselves."""
    noted = [r.notes for r in automatic if "out_share" in r.notes and "margin" in r.notes]
    return [
        MarginChoice({float(step["margin"]): step["share"] for step in notes["out_share"]}, float(notes["margin"]))
        for notes in noted
    ]


def _recomputed_choices(runs: dict[float, list[Result]]) -> list[MarginChoice]:
    """From the networks that were trained one by one, seed by seed."""
    flat = [(margin, result) for margin, each in runs.items() for result in each]
    networks = networks_of([result for _, result in flat])
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


def _draw_choices(above: Axes, below: Axes, choices: Sequence[MarginChoice], margins: list[float]) -> None:
    seen = [m for m in margins if any(m in each.shares for each in choices)]
    shares = [[each.shares[m] for each in choices if m in each.shares] for m in seen]
    cells = [summary(dict(enumerate(s))) for s in shares]
    draw_line(below, [margins.index(m) for m in seen], cells, len(tables.DEFAULT_METRICS), "out%")
    below.set_ylabel("out%")
    below.set_ylim(0, 130 * max(share for each in shares for share in each) or 1)
    for margin in sorted({each.chosen for each in choices}):
        count = sum(each.chosen == margin for each in choices)
        for axes in (above, below):
            axes.axvline(margins.index(margin), color="black", linestyle="--", linewidth=1, zorder=1)
        text = "chosen" if count == len(choices) else f"chosen, {count} of {len(choices)} seeds"
        place = margins.index(margin)
        side, shift = ("left", 3) if place < len(margins) / 2 else ("right", -3)
        below.annotate(
            text, (place, 1), (shift, -1), ("data", "axes fraction"), "offset points", ha=side, va="top", fontsize=7
        )  # fmt: skip
