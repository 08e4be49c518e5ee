"""Metrics against the share of covariate-shifted images in the wild mixture."""

from matplotlib.ticker import MaxNLocator

from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    at_most,
    in_order,
    printed_name,
    runs_by_method,
    seeds_of,
    table_of,
)
from oodbench.report.figures.style import (
    LINES,
    columns_that_fit,
    draw_line,
    floor_of,
    log_percent,
    log_words,
    new_figure,
    panels_of,
)
from oodbench.report.labels import axis_title
from oodbench.results.metrics import METRICS
from oodbench.results.result import Result

FPR = "fpr95"


def draw(study: Study, asked: Asked) -> Drawing:
    """Metrics against the share of covariate-shifted images in the wild mixture."""
    runs: dict[str, dict[float, list[Result]]] = {}
    for ratio in sorted({r.config.setting.pi_c for r in study.ratios}):
        of_ratio = [r for r in study.ratios if r.config.setting.pi_c == ratio]
        for method, each in runs_by_method(of_ratio, asked.methods).items():
            runs.setdefault(method, {})[ratio] = each
    flat = {
        method: [r for each in by_ratio.values() for r in each]
        for method, by_ratio in runs.items()
        if len(by_ratio) > 1
    }
    if not flat:
        raise NotDrawn("needs a method with two values of pi_c; run it with each one: --setting SETTING,pi_c=VALUE")
    flat, remarks = at_most(in_order(flat), len(LINES), asked)
    table = table_of(flat)
    count = len(table.metrics)
    columns = columns_that_fit(asked.width, count, 1.6)
    rows = -(-count // columns)
    figure = new_figure(study, asked, seeds_of(table), 1.55 * rows + 0.4)
    panels = panels_of(figure, count, columns, sharex=True)
    names = [metric.name for metric in table.metrics]
    floor = floor_of([r for each in flat.values() for r in each])
    for place, (method, own) in enumerate(flat.items()):
        by_ratio = [table_of({method: each}, names) for each in runs[method].values()]
        for j, axes in enumerate(panels):
            cells = [one.rows[0].cells[j] for one in by_ratio]
            lowest = floor if names[j] == FPR else None
            draw_line(axes, [*runs[method]], cells, place, printed_name(own[-1]), lowest)
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(axis_title(METRICS[name]))
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_xlim(-0.05, 1.05)
        if name == FPR:
            log_percent(axes)
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    for axes in panels[-columns:]:
        axes.set_xlabel("covariate share $\\pi_c$", parse_math=True)
        axes.tick_params(labelbottom=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), handlelength=3)
    caption = (
        f"Metrics against π_c, the share of covariate-shifted images in the wild mixture, on {study.words}. "
        f"{table.seeds_line}{f' {log_words(floor)}' if FPR in names else ''}"
    )
    return Drawing(figure, caption, [r for each in flat.values() for r in each], remarks)
