"""Loss, constraints and multipliers of trainings, epoch by epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from oodbench.report.figures.scores import log_of
from oodbench.report.figures.studies import (
    Asked,
    Drawing,
    NotDrawn,
    Study,
    at_most,
    by_network,
    in_order,
    printed_name,
    runs_by_method,
)
from oodbench.report.figures.style import LINES, columns_that_fit, look, new_figure, panels_of
from oodbench.report.labels import in_words, listed
from oodbench.results.result import Result

# What SCONE and WOODS note, in reading order; what stands on one side of zero is met.
KNOWN = {
    "loss": "loss",
    "alarms_constraint": "false alarms over limit",
    "risk_constraint": "cross-entropy over limit",
    "w": "energy weight w",
    "alarms_multiplier": "λ of false alarms",
    "risk_multiplier": "λ of cross-entropy",
}
LIMITED = ("alarms_constraint", "risk_constraint")
NOT_SHOWN = ("epoch", "lr", "margin", "tau")  # constants, and the axis
NOT_SHOWN_ENDS = ("_term", "_gradient", "_weight")
MOST_PANELS = 6


def draw(study: Study, asked: Asked) -> Drawing:
    """Loss, constraints and multipliers of trainings, epoch by epoch."""
    runs = runs_by_method(study.results, asked.methods or asked.compared)
    if not runs and not asked.methods:
        runs = in_order(runs_by_method(study.results, ()))
    runs = by_network(runs)
    if not runs:
        raise NotDrawn(f"no successful results of {' or '.join(asked.methods)}; name others with --methods")
    runs, remarks = at_most(runs, len(LINES), asked)
    logs = {method: [log_of(result) for result in each] for method, each in runs.items()}
    logs = {method: [log for log in each if len(log) > 1] for method, each in logs.items()}
    logs = {method: each for method, each in logs.items() if each}
    if not logs:
        raise NotDrawn("needs trainings of two epochs or more, with their logs")
    shown = _shown(logs)
    columns = columns_that_fit(asked.width, len(shown), 1.6)
    rows = -(-len(shown) // columns)
    figure = new_figure(study, asked, "training", 1.45 * rows + 0.35)
    panels = panels_of(figure, len(shown), columns, sharex=True)
    for axes, key in zip(panels, shown, strict=True):
        for place, (method, each) in enumerate(logs.items()):
            _draw_log(axes, key, each, place, printed_name(runs[method][-1]))
        if key in LIMITED:
            axes.axhline(0, color="0.4", linewidth=0.8)
        axes.set_title(KNOWN.get(key) or in_words(key))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axes in panels[-columns:]:
        axes.set_xlabel("epoch")
        axes.tick_params(labelbottom=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), handlelength=3)
    return Drawing(figure, _caption(study, runs, logs, shown), [r for m in logs for r in runs[m]], remarks)


def _caption(
    study: Study, runs: Mapping[str, Sequence[Result]], logs: Mapping[str, Sequence[Any]], shown: Sequence[str]
) -> str:
    names = listed([printed_name(runs[method][-1]) for method in logs])
    counts = sorted({len(each) for each in logs.values()})
    several = f"means over {' or '.join(map(str, counts))} seeds, with bands from the lowest to the highest seed"
    over = several if counts[-1] > 1 else "of one seed"
    words = f"Training of {names} on {study.words}. Values at the end of every epoch are {over}."
    if any(key in LIMITED for key in shown):
        words += " A constraint is met at or below its zero line."
    if "w" in shown:
        words += " w is the weight of the energy in the sigmoid, and λ is a multiplier."
    return words


def _shown(logs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> list[str]:
    """What the panels are of: numbers that some log has in every epoch."""
    keys: dict[str, None] = {}
    for log in (log for each in logs.values() for log in each):
        numbers = [{key for key, value in record.items() if type(value) in (int, float)} for record in log]
        keys |= dict.fromkeys(key for key in log[0] if key in set.intersection(*numbers))
    own = [key for key in keys if key not in (*KNOWN, *NOT_SHOWN) and not key.endswith(NOT_SHOWN_ENDS)]
    return [*(key for key in KNOWN if key in keys), *own][:MOST_PANELS]


def _draw_log(axes: Axes, key: str, logs: Sequence[Sequence[Mapping[str, Any]]], place: int, label: str) -> None:
    """The mean over seeds, as far as all of them go."""
    colour, marker, line = look(place)
    having = [log for log in logs if all(key in record for record in log)]
    if not having:
        axes.plot([], [], color=colour, linestyle=line, marker=marker, label=label)
        return
    length = min(len(log) for log in having)
    values = np.array([[record[key] for record in log[:length]] for log in having], dtype=float)
    epochs = np.arange(1, length + 1)
    axes.plot(epochs, values.mean(axis=0), color=colour, linestyle=line, marker=marker, label=label,
              markevery=(place % 3, max(1, length // 6)), markersize=3.5)  # fmt: skip
    if len(values) > 1:
        axes.fill_between(epochs, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
