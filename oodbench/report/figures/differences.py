"""Methods minus a baseline with their intervals, a panel for each setting and metric."""

from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from oodbench.report.differences import Comparison
from oodbench.report.figures import style
from oodbench.report.figures.studies import Drawing
from oodbench.report.labels import method_name, metric_name, plain, setting_name
from oodbench.results.metrics import Metric

WIDTH, LEAST_WIDTH, ROW = 1.4, 3.25, 0.17  # inches of a panel, of the figure, and of a method


def drawing_of(comparison: Comparison) -> Drawing:
    """Filled markers are differences that hold after Holm; the others' intervals may well leave out zero."""
    with style.applied():
        figure = _figure(comparison)
    name = method_name(comparison.methods[comparison.baseline])
    caption = (
        f"Methods minus {name} on {comparison.suite}, in percentage points, with 95 % intervals. Filled markers: "
        "p < .05 after Holm's correction over the methods of a panel. Arrows point in the better direction. "
        f"{' '.join(comparison.how)}"
    )
    return Drawing(figure, caption, comparison.sources)


def _figure(comparison: Comparison) -> Figure:
    rows, columns = len(comparison.settings), len(comparison.metrics)
    height = rows * (ROW * len(comparison.others) + 0.7) + 0.5
    figure = style.blank_figure(max(LEAST_WIDTH, WIDTH * columns + 1.2), height)
    name = method_name(comparison.methods[comparison.baseline])
    figure.supxlabel(f"difference from {name} (percentage points)", fontsize=8)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for setting, row in zip(comparison.settings, panels, strict=True):
        for metric, axes in zip(comparison.metrics, row, strict=True):
            _panel(axes, comparison, setting, metric)
        row[0].set_ylabel(fill(_setting_name(comparison, setting), 28))
    return figure


def _setting_name(comparison: Comparison, setting: str) -> str:
    """In words, as the results of the setting say."""
    return next((setting_name(result) for result in comparison.sources if result.setting == setting), plain(setting))


def _panel(axes: Axes, comparison: Comparison, setting: str, metric: Metric) -> None:
    colour, marker = (style.BLUE, "o") if metric.higher_is_better else (style.VERMILION, "^")
    for place, method in enumerate(comparison.others):
        difference = comparison.differences[setting, metric.name].get(method)
        if difference is None:
            continue
        found = difference.interval
        mean, low, high = (100 * value for value in (found.mean, found.low, found.high))
        axes.plot([low, high], [place, place], color=colour, linewidth=1)
        fill = colour if difference.is_significant else "white"
        axes.plot(mean, place, marker, color=colour, markerfacecolor=fill, zorder=3)
    axes.axvline(0, color=style.BLACK, linewidth=0.8)
    axes.set_yticks(
        range(len(comparison.others)), [method_name(comparison.methods[each]) for each in comparison.others]
    )
    axes.set_ylim(len(comparison.others) - 0.5, -0.5)  # the first on top
    axes.set_title(f"{metric_name(metric)} {'→' if metric.higher_is_better else '←'} better")
