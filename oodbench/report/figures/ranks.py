"""Ranks of all methods, and which of them differ significantly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    by_network,
    in_order,
    runs_by_method,
)
from oodbench.report.figures.style import BLUE, SMALL, VERMILION, new_figure, panels_of
from oodbench.report.labels import listed, method_name, metric_name, network_name
from oodbench.report.tables import DRAWS, FEWER
from oodbench.results import marks, samples, statistics
from oodbench.results.measurement import last_runs
from oodbench.results.metrics import METRICS, Metric
from oodbench.results.resampling import ACCURACIES
from oodbench.results.result import Result
from oodbench.results.statistics import Column

SHOWN = ("covariate_acc", "fpr95")
ROW = 0.155  # inches
TESTS = {  # by what they cover
    "seeds and images": "Student's t, with the variance over seeds plus that from the test images that all seeds share "
    "(bootstrap)",
    "images": "with one seed, a bootstrap of the test images, and McNemar's exact test for accuracies",
    "seeds": "without raw scores, Student's t over seeds only",
}
LANE = 0.035  # between bars, as a share of the ranks' axis


@dataclass(frozen=True)
class Ranking:
    """The methods of one metric, best first."""

    metric: Metric
    ranks: dict[str, list[float]]  # under each seed, of each row by its name
    tied: list[tuple[int, int]]  # from and to which place no two methods differ
    like_best: set[str]
    kinds: set[str]  # what the tests cover
    seeds: list[int]

    def mean(self, method: str) -> float:
        return sum(self.ranks[method]) / len(self.ranks[method])


def draw(study: Study, asked: Asked) -> Drawing:
    """Ranks of all methods, and which of them differ significantly."""
    runs = in_order(runs_by_method(study.results, asked.methods))
    rankings = [each for metric in SHOWN if (each := _ranking(METRICS[metric], runs)) is not None]
    if not rankings:
        raise NotDrawn("needs two methods whose numbers differ and that share a seed; run more of them")
    is_wide = asked.width > 5 and len(rankings) > 1
    rows = [len(each.ranks) for each in rankings]
    height = ROW * (max(rows) if is_wide else sum(rows)) + 0.65 * (1 if is_wide else len(rankings))
    figure = new_figure(study, asked, "ranks", max(height, 1.4))
    if is_wide or len(rankings) == 1:
        panels = panels_of(figure, len(rankings), len(rankings))
    else:
        panels = panels_of(figure, len(rankings), 1, height_ratios=rows)
    for axes, ranking in zip(panels, rankings, strict=True):
        _draw_ranking(axes, ranking)
    _add_legend(figure, rankings, is_wide)
    return Drawing(figure, _caption(study, rankings), [r for each in runs.values() for r in each])


def _ranking(metric: Metric, runs: dict[str, list[Result]]) -> Ranking | None:
    """None where fewer than two methods have the metric, or all of them share their networks and so the accuracy."""
    having = {m: own for m, each in runs.items() if (own := [r for r in each if metric.name in r.metrics])}
    is_accuracy = metric.name in ACCURACIES
    having = by_network(having) if is_accuracy else having
    if len(having) < 2:
        return None
    draws = DRAWS if any(len(each) == 1 for each in having.values()) else FEWER
    column = statistics.columns({m: last_runs(each) for m, each in having.items()}, [metric.name], draws)[metric.name]
    name = network_name if is_accuracy else method_name
    stored = {m: marks.stored_values([each[-1].variant], metric.name) for m, each in having.items()}
    tested = marks.tested(column, stored)
    like_best = {tested.best} | tested.not_shown_worse if tested else set()
    column, first = _distinct(column, {method: name(each[-1].config.method) for method, each in having.items()})
    rows = column.samples
    shared = sorted(set.intersection(*(set(sample.values) for sample in rows.values())))
    if not shared or len(rows) < 2:
        return None
    by_seed = [statistics.ranks(Column(metric, {row: s.of([seed]) for row, s in rows.items()})) for seed in shared]
    ranks = {row: [each[row] for each in by_seed] for row in rows}
    order = sorted(rows, key=lambda row: (sum(ranks[row]), -column.sign * rows[row].mean))
    different = statistics.different_pairs(column)
    kinds = {found.kind for each in rows.values() if (found := samples.interval(each)) is not None}
    best = set() if different is None else {row for row, method in first.items() if method in like_best}
    tied = [] if different is None else _tied(order, different)
    return Ranking(metric, {row: ranks[row] for row in order}, tied, best, set(kinds), shared)


def _distinct(column: Column, names: Mapping[str, str]) -> tuple[Column, dict[str, str]]:
    """By name, and the first method of each row; what nothing tells apart, such as ERM and its scorer, is one row."""
    same: dict[tuple[object, ...], list[str]] = {}
    for method, sample in column.samples.items():
        same.setdefault(sample.content, []).append(method)
    first = {", ".join(dict.fromkeys(names[m] for m in each)): each[0] for each in same.values()}
    return Column(column.metric, {row: column.samples[method] for row, method in first.items()}), first


def _tied(order: Sequence[str], different: set[frozenset[str]]) -> list[tuple[int, int]]:
    """The longest runs of places in which no two methods differ; of those within another, none."""
    found: list[tuple[int, int]] = []
    for start in range(len(order)):
        end = start
        while end + 1 < len(order) and all(
            frozenset((order[i], order[end + 1])) not in different for i in range(start, end + 1)
        ):
            end += 1
        if end > start and (not found or end > found[-1][1]):
            found.append((start, end))
    return found


def _add_legend(figure: Figure, rankings: Sequence[Ranking], is_wide: bool) -> None:
    """What filled and hollow markers and vertical bars say, where they say anything."""
    if not any(each.like_best for each in rankings):
        return
    look: dict[str, Any] = {"linestyle": "none", "color": "0.3", "marker": "o"}
    handles = [Line2D([], [], **look, label="best, or not shown to be worse")]
    handles.append(Line2D([], [], **look, markerfacecolor="white", label="worse than the best"))
    if any(each.tied for each in rankings):
        bar: dict[str, Any] = {"linestyle": "none", "color": "black", "marker": "|", "markeredgewidth": 1.6}
        handles.append(Line2D([], [], **bar, markersize=9, label="no two differ"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3 if is_wide else 1, handletextpad=0.3)


def _draw_ranking(axes: Axes, ranking: Ranking) -> None:
    count = len(ranking.ranks)
    colour, marker = (BLUE, "o") if ranking.metric.higher_is_better else (VERMILION, "^")
    for place, (method, ranks) in enumerate(ranking.ranks.items()):
        axes.plot([min(ranks), max(ranks)], [place, place], color=colour, linewidth=0.8)
        fill = colour if method in ranking.like_best else "white"
        axes.plot(ranking.mean(method), place, marker, color=colour, markerfacecolor=fill, zorder=3)
    lanes: list[int] = []  # where the last bar of each lane ends
    for start, end in ranking.tied:
        lane = next((i for i, last in enumerate(lanes) if last < start), len(lanes))
        lanes[lane : lane + 1] = [end]
        x = count + 0.6 + LANE * count * (lane + 0.5)
        axes.plot([x, x], [start - 0.25, end + 0.25], color="black", linewidth=1.6, solid_capstyle="butt")
    axes.set_yticks(range(count), list(ranking.ranks), fontsize=SMALL)
    axes.set_ylim(count - 0.4, -0.6)  # the best on top
    axes.set_xlim(0.6, count + 0.6 + LANE * count * len(lanes))
    axes.spines["bottom"].set_bounds(0.6, count + 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xticks([1, *[tick for tick in axes.get_xticks() if 1 < tick <= count]])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="y")
    axes.set_title(metric_name(ranking.metric))
    axes.set_xlabel("mean rank (1 is best)")


def _caption(study: Study, rankings: Sequence[Ranking]) -> str:
    titles = listed([metric_name(each.metric) for each in rankings])
    seeds = sorted({len(each.seeds) for each in rankings})
    over = f"over the {' or '.join(map(str, seeds))} seeds that all methods have (marker) and the range (line)"
    words = f"Ranks by {titles} on {study.words}: the mean {over}. " if seeds[-1] > 1 else (
        f"Ranks by {titles} on {study.words}, for the one seed that all methods have. "
    )  # fmt: skip
    if any(each.like_best or each.tied for each in rankings):
        tests = "; ".join(text for kind, text in TESTS.items() if any(kind in each.kinds for each in rankings))
        words += (
            "A vertical bar joins methods of which no two differ significantly (Holm's correction over all pairs of a "
            "panel). Filled markers are the best mean and those that are not shown to be worse, as in tables with "
            "--tests. Tests are paired over the seeds and images that "
            f"both methods have, two-sided, at the 5 % level: {tests}."
        )
    else:
        words += "Differences cannot be tested with one seed and no raw scores."
    if any(each.metric.name == "covariate_acc" for each in rankings):
        words += " Accuracies do not depend on the scorer, so each network has one row, under the name of its trainer."
    return words + study.when
