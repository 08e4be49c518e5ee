"""Where trainings lead: OOD accuracy against FPR, and the share of covariate images flagged against steps."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    at_most,
    in_order,
    need_sets,
    printed_name,
    runs_by_method,
)
from oodbench.report.figures.style import BLACK, LINES, look, new_figure, panels_of
from oodbench.report.labels import CONTROLS, axis_title, listed
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result

MARKERS = dict(zip(CONTROLS, "oD", strict=True))
SHOWN = ("fpr95", "covariate_acc", "covariate_flagged")


def draw(study: Study, asked: Asked) -> Drawing:
    """One line a method, from its first step on; ERM and BN-adapt are points."""
    need_sets(study, "covariate", "semantic")
    runs = in_order(runs_by_method(study.results, asked.methods))
    points = {method: each for method, each in runs.items() if method in MARKERS}
    lines = {method: [r for r in each if _is_whole(r)] for method, each in runs.items() if method not in points}
    # A training from scratch comes from far away, and is shown if it is asked for.
    lines = {m: each for m, each in lines.items() if each and (asked.methods or each[-1].config.method.starts_from)}
    if not lines:
        raise NotDrawn("needs a method with a path; measure one with: oodbench run --path 13 --force")
    lines, remarks = at_most(lines, len(LINES), asked)
    figure = new_figure(study, asked, "paths of trainings", 2.9 if asked.width > 5 else 5.2)
    first, second = panels_of(figure, 2, 2 if asked.width > 5 else 1)
    for place, each in enumerate(lines.values()):
        _draw_path(first, second, each, place)
    for method, each in points.items():
        _draw_point(first, second, method, each)
    first.set_xlabel(axis_title(METRICS["fpr95"]))
    first.set_ylabel(axis_title(METRICS["covariate_acc"]))
    second.set_xlabel("step")
    second.set_ylabel(axis_title(METRICS["covariate_flagged"]))
    second.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), handlelength=3)
    sources = [r for some in (lines, points) for each in some.values() for r in each]
    return Drawing(figure, _caption(study, lines, points), sources, remarks)


def _is_whole(result: Result) -> bool:
    """Whether it has a path, and all numbers of every point."""
    return bool(result.training_path) and all({*SHOWN} <= point.metrics.keys() for point in result.training_path)


def _means(runs: Sequence[Result]) -> tuple[list[int], NDArray[np.float64]]:
    """The steps that all seeds have, and of each the metrics in percent: steps x SHOWN."""
    seeds = [{point.step: [point.metrics[name] for name in SHOWN] for point in r.training_path} for r in runs]
    steps = sorted(set.intersection(*map(set, seeds)))
    return steps, 100 * np.array([[seed[step] for step in steps] for seed in seeds]).mean(axis=0)


def _draw_path(first: Axes, second: Axes, runs: Sequence[Result], place: int) -> None:
    colour, marker, line = look(place)
    steps, values = _means(runs)
    kind = {"color": colour, "linestyle": line, "markersize": 3.5, "label": printed_name(runs[-1])}
    first.plot(values[:, 0], values[:, 1], marker=marker, **kind)
    first.plot(*values[-1, :2], marker=marker, color=colour, markersize=7)  # where it ends
    second.plot(steps, values[:, 2], marker=marker, **kind)


def _draw_point(first: Axes, second: Axes, method: str, runs: Sequence[Result]) -> None:
    """As its path ends or, where none was measured, as its result is."""
    ends = [r.training_path[-1].metrics if _is_whole(r) else r.metrics for r in runs]
    fpr, accuracy, flagged = (100 * float(np.mean([end[name] for end in ends])) for name in SHOWN)
    marker, name = MARKERS[method], printed_name(runs[-1])
    first.plot([fpr], [accuracy], marker, color=BLACK, fillstyle="none", markersize=6, label=name)
    second.plot([0], [flagged], marker, color=BLACK, fillstyle="none", markersize=6, label=name)


def _caption(study: Study, lines: Mapping[str, Sequence[Result]], points: Mapping[str, Sequence[Result]]) -> str:
    counts = sorted({len(each) for each in lines.values()})
    over = f"means over {' or '.join(map(str, counts))} seeds" if counts[-1] > 1 else "one seed"

    words = (
        f"Paths of {listed([printed_name(each[-1]) for each in lines.values()])} on {study.words}: {over}, on a few "
        "thousand test images, by which nothing was chosen. Thresholds are those of ID validation images. Large "
        "markers are the ends of trainings."
    )
    if points:
        words += f" Black: {listed([printed_name(each[-1]) for each in points.values()])}, near which paths begin."
    return words
