"""OOD accuracy against FPR, all methods, and the crowd among them enlarged."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from oodbench.report.figures.labels import place_labels
from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    need_sets,
    runs_by_method,
    seeds_of,
    table_of,
)
from oodbench.report.figures.style import BLACK, GROUPS, new_figure, panels_of, percent
from oodbench.report.labels import axis_title, method_name, whole_group
from oodbench.report.model import Table
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result

GAP = 0.2  # of the range: what is farther from its neighbor does not belong to the crowd
CROWD, SMALL_RANGE = 0.6, 0.5  # at least this share of the points, within at most this share of the range
LABELS_PER_INCH = 5  # of a panel's width
Box = tuple[tuple[float, float], tuple[float, float]]  # from and to, of FPR and of accuracy


@dataclass(frozen=True)
class Point:
    """Methods of one group that have the same two numbers, percent; what their intervals reach below and above."""

    names: tuple[str, ...]
    group: str
    at: tuple[float, float]
    below: tuple[float, float]
    above: tuple[float, float]

    @property
    def label(self) -> str:
        return ", ".join(self.names[:3]) + (f" +{len(self.names) - 3}" if len(self.names) > 3 else "")

    def is_in(self, box: Box) -> bool:
        return all(low <= value <= high for value, (low, high) in zip(self.at, box, strict=True))


def draw(study: Study, asked: Asked) -> Drawing:
    """OOD accuracy against FPR, all methods, and the crowd among them enlarged."""
    need_sets(study, "covariate", "semantic")
    runs = runs_by_method(study.results, asked.methods)
    table = table_of(runs, ["covariate_acc", "fpr95"]) if runs else None
    points = _points(table, runs) if table is not None else []
    count = sum(len(point.names) for point in points)
    if table is None or count < 2:
        raise NotDrawn("needs two methods with results; run more, for example --methods all")
    if count > 2 and len({point.at[1] for point in points}) == 1:
        raise NotDrawn(f"all {count} methods score the same networks and share one accuracy; ranks shows their FPR")
    crowd = crowded([point.at for point in points])
    is_wide = asked.width > 5
    height = 3.4 if crowd is None else 3.1 if is_wide else 5.4
    figure = new_figure(study, asked, seeds_of(table), height)
    panels = panels_of(figure, 1 if crowd is None else 2, 2 if crowd is not None and is_wide else 1)
    front = pareto_front([point.at for point in points])
    for axes in panels:
        _draw_points(axes, points, front)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4 if is_wide else 2,
                  handletextpad=0.3)  # fmt: skip
    shown = [_settle(panels[0], points)]
    if crowd is not None:
        shown.append(_settle(panels[1], [point for point in points if point.is_in(crowd)], 0.1))
        panels[0].set_title("(a) all methods")
        panels[1].set_title("(b) the box in (a), enlarged")
        (left, bottom), (right, top) = [(view[0], view[1]) for view in zip(*shown[1], strict=True)]
        panels[0].add_patch(Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor="0.4",
                                      linestyle="--", linewidth=0.8, zorder=1.2))  # fmt: skip
    figure.draw_without_rendering()  # the layout settles, so that labels can be placed to the pixel
    figure.set_layout_engine("none")
    named = _named(points, front, crowd, int(LABELS_PER_INCH * asked.width / (2 if is_wide and crowd else 1)))
    for axes, some in zip(panels, named, strict=True):
        labels: dict[tuple[float, float], str] = {}  # ERM and its scorer, of two groups, are one point
        for point in some:
            labels[point.at] = f"{labels[point.at]}, {point.label}" if point.at in labels else point.label
        place_labels(axes, labels, [point.at for point in points], front)
    return Drawing(figure, *_said(study, asked, table, runs, points, named, crowd is not None))


def _said(
    study: Study, asked: Asked, table: Table, runs: dict[str, list[Result]], points: Sequence[Point],
    named: Sequence[Sequence[Point]], has_zoom: bool,
) -> tuple[str, list[Result], list[str]]:  # fmt: skip
    """Caption, sources and remarks."""
    variants = sorted({r.method for r in study.results} - set(runs)) if not asked.methods else []
    nameless = len(points) - len({point for some in named for point in some})
    zoom = " (b) enlarges the box in (a)." if has_zoom else ""
    caption = (
        f"OOD accuracy against FPR of {sum(len(p.names) for p in points)} methods on {study.words}; the best is at the "
        "top left. The dashed line is the Pareto front: no method beats those on it in both metrics."
        f"{zoom} {table.seeds_line} "
        f"{' '.join(table.metric_definitions)}{study.when}"
    )
    remarks = []
    if nameless:
        remarks.append(f"{nameless} points have no label; choose what to show with --methods")
        caption += f" Labels of {nameless} points far from the front are left out."
    if variants:
        remarks.append(f"leaves out {len(variants)} variants, which the caption lists; --methods chooses what to show")
        caption += f" These variants are left out: {', '.join(variants)}."
    return caption, [r for each in runs.values() for r in each], remarks


def _points(table: Table, runs: dict[str, list[Result]]) -> list[Point]:
    """By group; methods at one point share it."""
    found: dict[tuple[str, ...], Point] = {}
    for row in table.rows:
        if any(cell.mean is None for cell in row.cells):
            continue
        (accuracy, fpr), (below, above) = percent(row.cells)
        name, group = method_name(runs[row.method][-1].config.method), whole_group(row.group)
        key = (group, *(cell.percent for cell in row.cells))
        names = (*found[key].names, name) if key in found else (name,)
        found[key] = Point(names, group, (fpr, accuracy), (below[1], below[0]), (above[1], above[0]))
    return list(found.values())


def crowded(points: Sequence[tuple[float, float]]) -> Box | None:
    """Where most points lie, if that is a small part of all that an axis shows; a zoom is no help otherwise."""
    ranges = []
    is_small = False
    for values in zip(*points, strict=True):
        crowd = _largest_cluster(sorted(values))
        whole = max(values) - min(values)
        if len(crowd) >= CROWD * len(values) and whole and crowd[-1] - crowd[0] <= SMALL_RANGE * whole:
            is_small = True
            ranges.append((crowd[0], crowd[-1]))
        else:
            ranges.append((min(values), max(values)))
    box: Box = (ranges[0], ranges[1])
    inside = [point for point in points if all(a <= v <= b for v, (a, b) in zip(point, box, strict=True))]
    return box if is_small and len(inside) >= max(4, len(points) / 2) else None


def _largest_cluster(values: Sequence[float]) -> list[float]:
    """Cut where neighbors lie far apart."""
    clusters = [[values[0]]]
    for before, value in zip(values, values[1:], strict=False):
        if value - before > GAP * (values[-1] - values[0]):
            clusters.append([])
        clusters[-1].append(value)
    return max(clusters, key=len)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of FPR and accuracy: the points that no other one beats in both, from the lowest FPR."""
    front: list[tuple[float, float]] = []
    for fpr, accuracy in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not front or accuracy > front[-1][1]:
            front.append((fpr, accuracy))
    return front


def _draw_points(axes: Axes, points: Sequence[Point], front: Sequence[tuple[float, float]]) -> None:
    axes.plot(*zip(*front, strict=True), color="0.5", linestyle=(0, (4, 2)), linewidth=0.8, drawstyle="steps-post",
              zorder=1.1, label="Pareto front" if len(front) > 1 else None)  # fmt: skip
    for group in dict.fromkeys(point.group for point in points):
        colour, marker, fill = GROUPS.get(group, (BLACK, "D", "none"))
        own = [point for point in points if point.group == group]
        (x, y), below, above = (
            list(zip(*(getattr(p, key) for p in own), strict=True)) for key in ("at", "below", "above")
        )
        axes.errorbar(x, y, (below[1], above[1]), (below[0], above[0]), "none", ecolor="0.82", elinewidth=0.6,
                      capsize=0, zorder=1)  # fmt: skip
        axes.plot(x, y, marker, color=colour, fillstyle=fill, markersize=5, markeredgewidth=1.1, label=group, zorder=2)
    axes.grid(visible=False)  # which intervals would be taken for
    axes.set_xlabel(axis_title(METRICS["fpr95"]))
    axes.set_ylabel(axis_title(METRICS["covariate_acc"]))


def _settle(axes: Axes, points: Sequence[Point], share: float = 0.16) -> Box:
    """Limits by the points, whose intervals may end outside: they would make a crowd of any spread."""
    view = []
    for values in zip(*(point.at for point in points), strict=True):
        margin = share * (max(values) - min(values)) or 1
        view.append((max(min(values) - margin, -4), min(max(values) + margin, 104)))
    axes.set_xlim(view[0])
    axes.set_ylim(view[1])
    _mark_cut_intervals(axes, points, (view[0], view[1]))
    return view[0], view[1]


def _mark_cut_intervals(axes: Axes, points: Sequence[Point], view: Box) -> None:
    """An arrow at the frame where an interval goes on beyond it."""
    ends: dict[str, list[tuple[float, float]]] = {"<": [], ">": [], "v": [], "^": []}
    for point in points:
        for i, (low, high) in enumerate(view):
            if not low <= point.at[i] <= high:
                continue
            for marker, end, is_cut in (
                ("<v"[i], low, point.at[i] - point.below[i] < low),
                (">^"[i], high, point.at[i] + point.above[i] > high),
            ):
                if is_cut:
                    ends[marker].append((end, point.at[1]) if i == 0 else (point.at[0], end))
    for marker, places in ends.items():
        if places:
            axes.plot(*zip(*places, strict=True), marker, color="0.7", markersize=3, clip_on=False, zorder=1)


def _named(
    points: Sequence[Point], front: Sequence[tuple[float, float]], crowd: Box | None, most: int
) -> list[list[Point]]:
    """Which points of each panel have a label: those on the front first, then by their distance from it."""

    def distance(point: Point) -> float:
        return min(max(0.0, point.at[0] - fpr) + max(0.0, accuracy - point.at[1]) for fpr, accuracy in front)

    panels = [[point for point in points if crowd is None or not point.is_in(crowd)]]
    panels += [] if crowd is None else [[point for point in points if point.is_in(crowd)]]
    return [sorted(some, key=lambda point: (point.at not in front, distance(point)))[:most] for some in panels]
