"""OOD accuracy against FPR, all methods."""

from collections.abc import Sequence

from oodbench.report.figures.labels import place_labels
from oodbench.report.figures.studies import Drawing, NotDrawn, Study, need_sets, runs_by_method, seeds_of, table_of
from oodbench.report.figures.style import BLACK, GROUPS, axis_title, percent, titled_figure
from oodbench.report.groups import whole_group
from oodbench.results.metrics import METRICS


def draw(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """OOD accuracy against FPR, all methods."""
    need_sets(study, "covariate", "semantic")
    runs = runs_by_method(study.results, methods)
    table = table_of(runs, ["covariate_acc", "fpr95"]) if runs else None
    rows = [row for row in table.rows if all(cell.mean is not None for cell in row.cells)] if table else []
    if table is None or len(rows) < 2:
        raise NotDrawn("needs two methods with results; run more, for example --methods all")
    figure = titled_figure(study, seeds_of(table), 5.4, 4.0)
    axes = figure.add_subplot()
    named: dict[tuple[str, ...], list[str]] = {}
    positions: dict[tuple[str, ...], tuple[float, float]] = {}
    bars: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for group in dict.fromkeys(whole_group(row.group) for row in rows):
        colour, marker, fill_ = GROUPS.get(group, (BLACK, "D", "none"))
        of_group = [row for row in rows if whole_group(row.group) == group]
        y, y_error = percent([row.cells[0] for row in of_group])
        x, x_error = percent([row.cells[1] for row in of_group])
        axes.errorbar(x, y, y_error, x_error, "none", ecolor="0.75", elinewidth=0.7, capsize=1.5, zorder=1)
        for a, b, da, db in zip(x, y, x_error, y_error, strict=True):
            bars += [((a - da, b), (a + da, b)), ((a, b - db), (a, b + db))]
        axes.plot(x, y, marker, color=colour, fillstyle=fill_, markersize=6, markeredgewidth=1.2, label=group)
        for row, *position in zip(of_group, x, y, strict=True):
            key = tuple(cell.percent for cell in row.cells)  # methods at one point share a label
            named.setdefault(key, []).append(row.name)
            positions[key] = (position[0], position[1])
    axes.set_xlabel(axis_title(METRICS["fpr95"]))
    axes.set_ylabel(axis_title(METRICS["covariate_acc"]))
    axes.margins(0.12)
    axes.set_xlim(max(axes.get_xlim()[0], -4), min(axes.get_xlim()[1], 104))
    corner = axes.annotate(
        "better", (0.012, 0.988), (0.085, 0.915), "axes fraction", fontstyle="italic", ha="center", va="center",
        arrowprops={"arrowstyle": "-|>", "color": "black", "shrinkA": 1, "shrinkB": 0},
    )  # fmt: skip
    figure.legend(loc="outside lower center", ncols=len(GROUPS), handletextpad=0.2)
    figure.draw_without_rendering()  # the layout settles, so that labels can be placed to the pixel
    figure.set_layout_engine("none")
    texts = [", ".join(names) for names in named.values()]
    place_labels(axes, [positions[key] for key in named], texts, [corner], bars)
    left_out = sorted({r.method for r in study.results} - set(runs)) if not methods else []
    caption = (
        f"OOD accuracy against FPR of {len(rows)} methods on {study.suite}, setting {study.setting}; best is top left. "
        f"{table.seeds_line} {' '.join(table.metric_definitions)}"
    )
    remarks = []
    if left_out:
        remarks.append(f"without {len(left_out)} variants, see the caption; --methods names what to show")
        caption += f" Left out: {', '.join(left_out)}."
    return Drawing(figure, caption, [r for each in runs.values() for r in each], remarks)
