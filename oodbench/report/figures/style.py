"""How figures look and how they are saved.

Every figure can be read in black and white: what colour tells, a marker, a line style or a hatch tells too.
"""

import io
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from oodbench.report import tables
from oodbench.report.figures.studies import Drawing, Study
from oodbench.report.tables import Cell
from oodbench.results.metrics import Metric
from oodbench.results.result import Result

# The colours of Okabe and Ito, which colour-blind readers tell apart, dark ones first.
BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
)  # fmt: skip
LINES = [(BLUE, "o", "-"), (VERMILION, "^", "--"), (GREEN, "s", "-."), (BLACK, "D", ":"), (PURPLE, "v", (0, (5, 1))),
         (ORANGE, "P", (0, (3, 1, 1, 1, 1, 1))), (SKY, "X", (0, (1, 1)))]  # fmt: skip
GROUPS = dict(zip(tables.GROUPS, [(BLUE, "o", "none"), (GREEN, "s", "none"), (VERMILION, "^", "full")], strict=True))
# colour, line, hatch and marker of each test split
SPLITS = {
    "id": (BLUE, "-", "", "o"),
    "covariate": (VERMILION, "--", "////", "^"),
    "semantic": (BLACK, ":", "....", "x"),
}
TITLES = {"id": "ID", "covariate": "covariate OOD", "semantic": "semantic OOD"}
STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "figure.titlesize": 9, "legend.frameon": False, "lines.markersize": 4.5,
    "lines.linewidth": 1.2, "hatch.linewidth": 0.5, "errorbar.capsize": 2, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9", "axes.axisbelow": True,
    "text.parse_math": False,  # names of methods may hold a $
    "pdf.fonttype": 42,  # whole outlines: journals refuse the default
}  # fmt: skip
DOTS_PER_INCH = 200


@contextmanager
def applied() -> Iterator[None]:
    """Ours alone: what a user has set for other figures would change these."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def encode(drawing: Drawing, folder: Path) -> dict[str, bytes]:
    """The files of a drawing by suffix, equal bytes for equal drawings; sources are named as seen from `folder`."""
    with applied():
        png, pdf = io.BytesIO(), io.BytesIO()
        drawing.figure.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        drawing.figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    paths = [Path(os.path.relpath(r.path, folder)).as_posix() for r in drawing.sources if r.path is not None]
    text = f"{fill(drawing.caption, 100)}\n\nMade from:\n" + "".join(f"  {path}\n" for path in sorted(set(paths)))
    return {"png": png.getvalue(), "pdf": pdf.getvalue(), "txt": text.encode()}


def titled_figure(study: Study, details: str, width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    title = tables.plain(f"{study.suite}, {study.setting}: {details}").replace(": ", ":\N{NO-BREAK SPACE}")
    figure.suptitle(fill(title, int(14 * width)).replace("\N{NO-BREAK SPACE}", " "))
    return figure


def panels_of(figure: Figure, count: int) -> list[Axes]:
    columns = min(count, 3)
    grid = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.remove()
    return list(grid[:count])


def panel_size(count: int) -> tuple[float, float]:
    columns = min(count, 3)
    return max(3.6, 2.9 * columns), 2.4 * -(-count // columns) + 0.5


def draw_line(axes: Axes, x: Sequence[float], cells: Sequence[Cell], style: int, label: str) -> None:
    colour = LINES[style % len(LINES)][0]
    _, marker, line = LINES[(style + style // len(LINES)) % len(LINES)]  # the eighth differs from the first
    means, errors = percent(cells)
    axes.errorbar(x, means, errors, color=colour, marker=marker, linestyle=line, label=label, elinewidth=0.7)


def percent(cells: Sequence[Cell]) -> tuple[list[float], list[float]]:
    """Means and half of their intervals; NaN, which is not drawn, for what is missing."""
    means = [math.nan if c.mean is None else 100 * c.mean for c in cells]
    return means, [0.0 if c.interval is None else 100 * c.interval.margin for c in cells]


def axis_title(metric: Metric) -> str:
    return f"{metric.title} {'↑' if metric.higher_is_better else '↓'} (%)"


def test_splits_of(result: Result) -> str:
    parts = {name: part for name, part in result.data.parts.items() if part.rows}
    parts_read = [f"{TITLES[s]} {parts[s].origin} ({parts[s].rows:,} rows)" for s in SPLITS if s in parts]
    return ", ".join(parts_read) or "ID, covariate and semantic OOD"
