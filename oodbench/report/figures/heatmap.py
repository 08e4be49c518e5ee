"""OOD accuracy under every covariate shift: kinds of corruption or domains, by method or by severity."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    at_most,
    by_network,
    in_order,
    runs_by_method,
)
from oodbench.report.figures.style import SMALL, columns_that_fit, new_figure, panels_of
from oodbench.report.labels import axis_title, in_words, listed, network_name, suite_in_words
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result

ACCURACY = "covariate_acc"
COLOURS = "cividis"  # as light in gray as in color, and the same to color-blind readers
CELL, HEADS = 0.34, 1.5  # inches: the width of a number, and of the names before the first
MOST_PANELS = 4
Shift = tuple[str, int]  # covariate set and severity


def draw(study: Study, asked: Asked) -> Drawing:
    """OOD accuracy under every covariate shift: kinds of corruption or domains, by method or by severity."""
    if study.first != study.setting:
        raise NotDrawn(f"it is the same as that of {study.first}")
    values, results = _accuracies(study, asked)
    shifts = list(dict.fromkeys(shift for each in values.values() for shift in each))
    kinds, severities = list(dict.fromkeys(kind for kind, _ in shifts)), sorted({severity for _, severity in shifts})
    if len(shifts) < 2:
        raise NotDrawn("needs two covariate sets or severities; run each one with --covariate NAME")
    by_severity = len(severities) > 1
    most = MOST_PANELS if by_severity else max(2, int((asked.width - HEADS) / CELL))
    shown, remarks = at_most({method: results[method] for method in values}, most, asked)
    names = {method: network_name(each[-1].config.method) for method, each in shown.items()}
    heads = [in_words(kind) for kind in kinds]
    if by_severity:
        columns = columns_that_fit(asked.width - HEADS, len(shown), CELL * len(severities))
        rows = -(-len(shown) // columns)
        figure = new_figure(study, asked, "OOD accuracy", rows * (0.17 * len(kinds) + 0.55) + 0.2)
        panels = panels_of(figure, len(shown), columns, sharey=True)
        grids = [
            np.array([[values[m].get((kind, s), np.nan) for s in severities] for kind in kinds]) for m in shown
        ]  # fmt: skip
        ticks = [str(severity) for severity in severities]
    else:
        figure = new_figure(study, asked, "OOD accuracy", 0.17 * len(kinds) + 1.3)
        panels = [figure.add_subplot()]
        grids = [np.array([[values[m].get((kind, severities[0]), np.nan) for m in shown] for kind in kinds])]
        ticks = list(names.values())
    low, high = (f(np.concatenate([grid.ravel() for grid in grids])) for f in (np.nanmin, np.nanmax))
    for axes, grid in zip(panels, grids, strict=True):
        image = _draw_grid(axes, grid, heads, ticks, (float(low), float(high)))
    if by_severity:
        for axes, name in zip(panels, names.values(), strict=True):
            axes.set_title(name)
            axes.set_xlabel("severity")
    else:
        panels[0].tick_params(axis="x", rotation=45)
        for label in panels[0].get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    bar = figure.colorbar(image, ax=panels, aspect=25, pad=0.02)
    bar.set_label(axis_title(METRICS[ACCURACY]))
    bar.outline.set_visible(False)
    sources = [result for method in shown for result in results[method]]
    return Drawing(figure, _caption(study, list(names.values()), sources, severities), sources, remarks)


def _accuracies(study: Study, asked: Asked) -> tuple[dict[str, dict[Shift, float]], dict[str, list[Result]]]:
    """Means over seeds by method and shift, rates; and the results behind them."""
    values: dict[str, dict[Shift, float]] = {}
    sources: dict[str, list[Result]] = {}
    for setting in dict.fromkeys(result.setting for result in study.shifts):
        own = [result for result in study.shifts if result.setting == setting]
        for method, each in runs_by_method(own, asked.methods).items():
            known = [r for r in each if ACCURACY in r.metrics]
            if known:
                ran = known[-1].config.setting
                mean = float(np.mean([r.metrics[ACCURACY] for r in known]))
                values.setdefault(method, {})[ran.covariate, ran.severity] = 100 * mean
                sources.setdefault(method, []).extend(known)
    order = by_network(in_order(sources))
    return {method: values[method] for method in order}, sources


def _draw_grid(
    axes: Axes, grid: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", heads: Sequence[str], ticks: Sequence[str],
    ends: tuple[float, float],
) -> AxesImage:  # fmt: skip
    image = axes.imshow(grid, cmap=COLOURS, vmin=ends[0], vmax=ends[1], aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        is_dark = value < (ends[0] + ends[1]) / 2
        text = f"{value:.1f}" if np.isfinite(value) else "–"
        axes.text(
            column, row, text, ha="center", va="center", fontsize=SMALL - 0.5, color="white" if is_dark else "black"
        )
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_yticks(range(len(heads)), heads)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return image


def _caption(study: Study, names: Sequence[str], sources: Sequence[Result], severities: Sequence[int]) -> str:
    counts: Mapping[int, int] = dict.fromkeys({result.seed for result in sources}, 1)
    of = in_words(study.results[-1].config.setting.semantic)
    wild = f", semantic OOD {of}" if of != "none" else ""
    severity = (
        f", severity {severities[0]}" if len(severities) == 1 and study.results[-1].config.suite.corruptions else ""
    )
    over = f"Mean over up to {len(counts)} seeds" if len(counts) > 1 else "One seed"
    return (
        f"OOD accuracy of {listed(list(names))} under each covariate shift on {suite_in_words(study.results[-1])}{wild}"
        f"{severity}. {over}, in percent; –: not run. Methods that share their networks are shown once, under the "
        f"trainer's name.{study.when}"
    )
