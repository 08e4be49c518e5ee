"""ROC curves of semantic OOD, methods in one panel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from oodbench.report.figures.scores import scores_of
from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    in_order,
    need_sets,
    printed_name,
    runs_by_method,
)
from oodbench.report.figures.style import look, new_figure, test_splits_of
from oodbench.results.metrics import METRICS, curve
from oodbench.results.result import Result

MOST = 6  # curves that can be told apart without color
MOST_BANDS = 3  # more would cover each other
POINTS = 200
FLAGGED = 0.05  # of ID, where FPR is read off


def draw(study: Study, asked: Asked) -> Drawing:
    """ROC curves of semantic OOD, methods in one panel."""
    need_sets(study, "semantic")
    runs = in_order(runs_by_method(study.results, asked.methods))
    if not runs:
        raise NotDrawn("no run of these methods succeeded; name other methods, or run them again")
    remarks = []
    best = sorted(runs, key=lambda method: -_auroc(runs[method]))
    if not asked.methods and len(runs) > MOST:
        remarks.append(f"shows the {MOST} of {len(runs)} methods with the highest AUROC; choose others with --methods")
    shown = best if asked.methods else best[:MOST]
    curves = {method: [_counts(result) for result in runs[method]] for method in shown}
    rows = min(len(scores_of(runs[method][0])["id"].scores) for method in shown)
    grid = np.geomspace(min(max(1 / rows, 1e-3), 0.01), 1, POINTS)
    is_wide, has_bands = asked.width > 5, len(shown) <= MOST_BANDS
    figure = new_figure(study, asked, "ROC", 2.6 if is_wide else 3.0 + 0.13 * len(shown))
    axes = figure.add_subplot()
    for place, method in enumerate(shown):
        colour, marker, line = look(place)
        rates = np.array([np.interp(grid, flagged, found) for flagged, found in curves[method]])
        label = f"{printed_name(runs[method][-1])} ({100 * _auroc(runs[method]):.2f})"
        axes.plot(100 * grid, 100 * rates.mean(axis=0), color=colour, linestyle=line, marker=marker, label=label,
                  markevery=(10 + 4 * place, POINTS // 5))  # fmt: skip
        if len(rates) > 1 and has_bands:
            axes.fill_between(100 * grid, 100 * rates.min(axis=0), 100 * rates.max(axis=0), color=colour, alpha=0.12,
                              linewidth=0)  # fmt: skip
    axes.axvline(100 * FLAGGED, color="0.4", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(100 * grid[0], 100)
    axes.set_ylim(0, 102)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("ID flagged (%, log scale)")
    axes.set_ylabel("semantic OOD flagged (%)")
    figure.legend(
        loc="outside right upper" if is_wide else "outside lower center",
        ncols=1 if is_wide else 2, title="AUROC (%)", title_fontsize=7, handlelength=3,
    )  # fmt: skip
    counts = sorted({len(runs[method]) for method in shown})
    band = ", with bands from the lowest to the highest seed" if has_bands else ""
    several = f"Curves are means over {' or '.join(map(str, counts))} seeds at each share of flagged ID images{band}"
    how = several if counts[-1] > 1 else "One seed"
    caption = (
        f"ROC curves of {len(shown)} methods on {study.words}: {test_splits_of(runs[shown[0]][-1])}. Semantic OOD is "
        f"the positive class; covariate OOD is left out. {how}. Numbers in parentheses are {METRICS['auroc'].title}, "
        f"the mean over seeds. The vertical line marks {100 * FLAGGED:g} % of ID images flagged; the distance of a "
        "curve from 100 % there is its FPR. The horizontal axis is logarithmic."
    )
    if remarks:
        caption += f" The figure shows the {MOST} of {len(runs)} methods with the highest AUROC."
    return Drawing(figure, caption, [r for method in shown for r in runs[method]], remarks)


def _auroc(results: Sequence[Result]) -> float:
    return float(np.mean([each.metrics.get("auroc", np.nan) for each in results]))


def _counts(result: Result) -> tuple[NDArray[Any], NDArray[Any]]:
    """Shares of ID and of semantic OOD flagged at every threshold, the highest first."""
    scores = scores_of(result)
    found = curve(scores["id"].scores, scores["semantic"].scores)
    return found.fps / found.fps[-1], found.tps / found.tps[-1]
