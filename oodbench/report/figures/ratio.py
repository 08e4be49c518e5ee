"""Metrics against the share of covariate-shifted images in the wild mixture."""

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from oodbench.report import tables
from oodbench.report.figures.studies import Drawing, NotDrawn, Study, runs_by_method, seeds_of, table_of
from oodbench.report.figures.style import axis_title, draw_line, titled_figure
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result


def draw(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Metrics against the share of covariate-shifted images in the wild mixture."""
    runs: dict[str, dict[float, list[Result]]] = {}
    for ratio in sorted({r.config.setting.pi_c for r in study.ratios}):
        of_ratio = [r for r in study.ratios if r.config.setting.pi_c == ratio]
        for method, each in runs_by_method(of_ratio, methods).items():
            runs.setdefault(method, {})[ratio] = each
    runs = {method: by_ratio for method, by_ratio in runs.items() if len(by_ratio) > 1}
    if not runs:
        raise NotDrawn(f"needs a method under two shares; run it with --setting {study.setting},pi_c=VALUE")
    flat = {method: [r for each in by_ratio.values() for r in each] for method, by_ratio in runs.items()}
    table = table_of(flat, tables.DEFAULT_METRICS)
    figure = titled_figure(study, seeds_of(table), 5.8, 4.6)
    panels = figure.subplots(2, 2, sharex=True).ravel()
    for style, row in enumerate(table.rows):
        by_ratio = [table_of({row.method: each}, tables.DEFAULT_METRICS) for each in runs[row.method].values()]
        for j, axes in enumerate(panels):
            cells = [one.rows[0].cells[j] for one in by_ratio]
            draw_line(axes, [*runs[row.method]], cells, style, row.name)
    for axes, name in zip(panels, tables.DEFAULT_METRICS, strict=True):
        axes.set_title(axis_title(METRICS[name]))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    for axes in panels[2:]:
        axes.set_xlabel("covariate share of the wild data, $\\pi_c$", parse_math=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))
    caption = (
        f"Metrics against the share of covariate-shifted images in the wild mixture on {study.suite}, setting "
        f"{study.setting}. {table.seeds_line}"
    )
    return Drawing(figure, caption, [r for each in flat.values() for r in each])
