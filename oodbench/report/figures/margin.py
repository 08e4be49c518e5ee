"""Metrics against the margin, and out%, from which a margin is chosen."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes

from oodbench.data import splits
from oodbench.report import tables
from oodbench.report.figures.networks import networks_of, parts_of
from oodbench.report.figures.studies import Drawing, NotDrawn, Study, printed_name, runs_by_method, seeds_of, table_of
from oodbench.report.figures.style import axis_title, draw_line, titled_figure
from oodbench.report.tables import Cell
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result

SWEPT_MARGIN = re.compile(r",(?:[^,=]+\.)?margin=[^,]*")


@dataclass(frozen=True)
class _Selection:
    """What the choice of a margin sees under one seed: out% of each margin, and the margin it takes."""

    shares: dict[float, float]
    chosen: float


def draw(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Metrics against the margin, and out%, from which a margin is chosen."""
    runs, automatic = _margin_sweep(study, methods)
    sources = [r for each in runs.values() for r in each]
    table = table_of({each[0].method: each for each in runs.values()}, tables.DEFAULT_METRICS)
    margin_of = {each[0].method: f"{margin:g}".replace("-", "−") for margin, each in runs.items()}
    table = replace(table, rows=[replace(row, heads=(f"margin {margin_of[row.method]}",)) for row in table.rows])
    rows = {row.method: row for row in table.rows}
    name = printed_name(replace(sources[0], method=SWEPT_MARGIN.sub("", sources[0].method)))
    remarks, selections = [], []
    try:
        selections = _recorded_selections(automatic) or _repeated_selections(runs)
    except NotDrawn as reason:
        remarks.append(f"without out%: {reason}")
    figure = titled_figure(study, f"{name}, {seeds_of(table)}", 5.0, 4.4 if selections else 3.2)
    heights = [2, 1] if selections else [1]
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False).ravel()
    margins = sorted({*runs, *(m for each in selections for m in each.shares)}, reverse=True)
    for j, name in enumerate(tables.DEFAULT_METRICS):
        cells = [rows[each[0].method].cells[j] for each in runs.values()]
        label = axis_title(METRICS[name]).removesuffix(" (%)")
        draw_line(panels[0], [margins.index(m) for m in runs], cells, j, label)
    panels[0].set_ylabel("%")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    panels[-1].set_xticks(range(len(margins)), [f"{m:g}".replace("-", "−") for m in margins])
    panels[-1].set_xlabel("margin η (not to scale)")
    caption = f"Metrics of {name} against the margin on {study.suite}, setting {study.setting}. {table.seeds_line}"
    if selections:
        _draw_selections(panels[0], panels[1], selections, margins)
        told = ", ".join(f"{each.chosen:g}" for each in selections)
        how = "as noted by the runs that chose" if automatic else "computed again from the stored weights"
        caption += (
            " out%: share of the mixed validation set that is flagged where 95 % of the ID validation rows are kept, "
            f"{how}; the margin chosen just after its largest drop, or the first if none exceeds two standard errors, "
            f"is {told} (dashed; one for each seed)."
        )
    return Drawing(figure, caption, [*sources, *automatic], remarks)


def _margin_sweep(study: Study, methods: Sequence[str]) -> tuple[dict[float, list[Result]], list[Result]]:
    """The runs of the method with most margins, from no margin downwards, and its runs that choose one themselves."""
    sweeps: dict[str, dict[float | str, list[Result]]] = {}
    for method, runs in runs_by_method(study.results, sorted({r.method for r in study.results})).items():
        margin = runs[-1].config.method.trainer.values.get("margin")
        if margin is not None:
            sweeps.setdefault(SWEPT_MARGIN.sub("", method), {})[margin] = runs
    wanted = [sweep for method, sweep in sorted(sweeps.items()) if not methods or method in methods]
    best = max(wanted, key=len, default={})
    numbers = {float(margin): best[margin] for margin in best if margin != "auto"}
    if len(numbers) < 2:
        raise NotDrawn("needs a method under two margins; run it with --set METHOD.margin=VALUE, once for each")
    return dict(sorted(numbers.items(), reverse=True)), best.get("auto", [])


def _recorded_selections(automatic: Sequence[Result]) -> list[_Selection]:
    """From the notes of runs that chose their margin themselves."""
    noted = [r.notes for r in automatic if "out_share" in r.notes and "margin" in r.notes]
    return [
        _Selection({float(step["margin"]): step["share"] for step in notes["out_share"]}, float(notes["margin"]))
        for notes in noted
    ]


def _repeated_selections(runs: dict[float, list[Result]]) -> list[_Selection]:
    """From the networks that were trained one by one, seed by seed."""
    flat = [(margin, result) for margin, each in runs.items() for result in each]
    networks = networks_of([result for _, result in flat])
    import torch

    from oodbench.learning.tuning import after_largest_drop, flagged_share

    selections = []
    for seed in sorted({result.seed for _, result in flat}):
        trained = {margin: net for (margin, r), net in zip(flat, networks, strict=True) if r.seed == seed}
        if len(trained) < 2:
            continue
        first = next(result for _, result in flat if result.seed == seed)
        parts = parts_of(first, ("id_validation", "mixed_id", "mixed_covariate", "mixed_semantic"))
        id_images = torch.from_numpy(np.asarray(parts.id_validation.images))
        mixed = torch.from_numpy(splits.mixed_validation(parts, first.config.setting))
        shares = {margin: flagged_share(network, id_images, mixed) for margin, network in trained.items()}
        selections.append(_Selection(shares, [*shares][after_largest_drop([*shares.values()], len(mixed))]))
    return selections


def _draw_selections(above: Axes, below: Axes, selections: Sequence[_Selection], margins: list[float]) -> None:
    seen = [m for m in margins if any(m in each.shares for each in selections)]
    shares = [[each.shares[m] for each in selections if m in each.shares] for m in seen]
    cells = [Cell(float(np.mean(s)), _standard_error(s), len(s), "") for s in shares]
    draw_line(below, [margins.index(m) for m in seen], cells, len(tables.DEFAULT_METRICS), "out%")
    below.set_ylabel("out%")
    below.set_ylim(0, 130 * max(share for each in shares for share in each) or 1)
    for margin in sorted({each.chosen for each in selections}):
        count = sum(each.chosen == margin for each in selections)
        for axes in (above, below):
            axes.axvline(margins.index(margin), color="black", linestyle="--", linewidth=1, zorder=1)
        text = "chosen" if count == len(selections) else f"chosen, {count} of {len(selections)} seeds"
        place = margins.index(margin)
        side, shift = ("left", 3) if place < len(margins) / 2 else ("right", -3)
        below.annotate(
            text, (place, 1), (shift, -1), ("data", "axes fraction"), "offset points", ha=side, va="top", fontsize=7
        )  # fmt: skip


def _standard_error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
