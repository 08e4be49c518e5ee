"""How figures look and how they are saved.

Every figure can be read in black and white: what color tells, a marker, a line style or a hatch tells too. Letters
have the size they have on the page: a figure is made as wide as it will be printed.
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
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from oodbench.config import shipped
from oodbench.config.suite import NONE
from oodbench.report.figures.studies import Asked, Drawing, Study
from oodbench.report.labels import in_words, plain, shift_name
from oodbench.report.model import Cell
from oodbench.results.result import Result

# The colors of Okabe and Ito, which color-blind readers tell apart, dark ones first.
BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
)  # fmt: skip
LINES = [(BLUE, "o", "-"), (VERMILION, "^", "--"), (GREEN, "s", "-."), (BLACK, "D", ":"), (PURPLE, "v", (0, (5, 1))),
         (ORANGE, "P", (0, (3, 1, 1, 1, 1, 1))), (SKY, "X", (0, (1, 1)))]  # fmt: skip
GROUPS = dict(zip(shipped.GROUPS, [(BLUE, "o", "none"), (GREEN, "s", "none"), (VERMILION, "^", "full")], strict=True))
# color, line, hatch and marker of each test split
SPLITS = {
    "id": (BLUE, "-", "", "o"),
    "covariate": (VERMILION, "--", "////", "^"),
    "semantic": (BLACK, ":", "....", "x"),
}
TITLES = {"id": "ID", "covariate": "covariate OOD", "semantic": "semantic OOD"}
SMALL = 6.5  # points, of what is written inside a panel
STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "figure.titlesize": 8.5, "legend.frameon": False, "lines.markersize": 4.5,
    "lines.linewidth": 1.2, "hatch.linewidth": 0.5, "errorbar.capsize": 2, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9", "axes.axisbelow": True,
    "axes.linewidth": 0.7, "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "text.parse_math": False,  # names of methods may hold a $
    "pdf.fonttype": 42,  # whole outlines: journals refuse the default
    "svg.fonttype": "path",  # letters as outlines: a text would be set in whatever font a reader has
    "svg.hashsalt": "oodbench",  # names inside the file are else drawn by lot
}  # fmt: skip
DOTS_PER_INCH = 300
# What a file says about when and by what it was made: equal drawings give equal bytes.
WITHOUT_DATES: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}


class Shown(Figure):
    """A figure that a notebook shows, whether or not pyplot was ever imported."""

    def _repr_png_(self) -> bytes:
        with applied():
            return _saved(self, "png", 150)


@contextmanager
def applied() -> Iterator[None]:
    """Ours alone: what a user has set for other figures would change these."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def encode(drawing: Drawing, folder: Path, formats: Sequence[str]) -> dict[str, bytes]:
    """The files of a drawing by suffix, equal bytes for equal drawings; sources are named as seen from `folder`."""
    with applied():
        pictures = {each: _saved(drawing.figure, each, DOTS_PER_INCH) for each in formats}
    paths = [Path(os.path.relpath(r.path, folder)).as_posix() for r in drawing.sources if r.path is not None]
    text = f"{fill(drawing.caption, 100)}\n\nMade from:\n" + "".join(f"  {path}\n" for path in sorted(set(paths)))
    return {**pictures, "txt": text.encode()}


def _saved(figure: Figure, form: str, dots: int) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=dots, metadata=WITHOUT_DATES[form])
    return file.getvalue()


def new_figure(study: Study, asked: Asked, details: str, height: float) -> Figure:
    """As wide as asked, `height` inches high; `details` end its title, if it has one."""
    return blank_figure(asked.width, height, f"{study.words}: {details}" if asked.is_titled else "")


def blank_figure(width: float, height: float, title: str = "") -> Figure:
    figure = Shown(figsize=(width, height + (0.25 if title else 0)), layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(fill(plain(title), int(14 * width)))
    return figure


def columns_that_fit(width: float, count: int, least: float) -> int:
    """How many of `count` panels stand beside each other, each at least so many inches wide; rows are equally long."""
    rows = -(-count // max(1, min(count, int(width / least))))
    return -(-count // rows)


def panels_of(figure: Figure, count: int, columns: int, **shared: Any) -> list[Axes]:
    grid = figure.subplots(-(-count // columns), columns, squeeze=False, **shared).ravel()
    for unused in grid[count:]:
        unused.remove()
    return list(grid[:count])


def look(place: int) -> tuple[str, str, Any]:
    """Colour, marker and line of the first, second, ... of several lines."""
    colour = LINES[place % len(LINES)][0]
    _, marker, line = LINES[(place + place // len(LINES)) % len(LINES)]  # the eighth differs from the first
    return colour, marker, line


def draw_line(
    axes: Axes, x: Sequence[float], cells: Sequence[Cell], place: int, label: str, floor: float | None = None
) -> None:
    """Means with their intervals; what is below `floor`, which a log axis needs, is drawn there."""
    colour, marker, line = look(place)
    means, errors = percent(cells)
    if floor is not None:
        lows = [max(mean - below, floor) for mean, below in zip(means, errors[0], strict=True)]
        highs = [max(mean + above, floor) for mean, above in zip(means, errors[1], strict=True)]
        means = [max(mean, floor) for mean in means]
        errors = (
            [m - low for m, low in zip(means, lows, strict=True)],
            [h - m for m, h in zip(means, highs, strict=True)],
        )
    axes.errorbar(x, means, errors, color=colour, marker=marker, linestyle=line, label=label, elinewidth=0.7)


def floor_of(results: Sequence[Result]) -> float:
    """Where a log axis of FPR shows 0, in percent: at half a row of the semantic test split."""
    rows = [result.data.parts["semantic"].rows for result in results if "semantic" in result.data.parts]
    most = max(rows, default=0)
    return 50 / most if most else 0.005


def log_words(floor: float) -> str:
    return f"FPR is on a log scale, where 0 is drawn at half an image ({floor:.2g} %)."


def log_percent(axes: Axes) -> None:
    """A log axis with numbers as they are said; with more of them where it shows less than a decade or two."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    steps = (
        (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.5 else (1.0, 2.0, 5.0) if decades > 0.5 else range(1, 10)
    )
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(axes.get_ylabel().replace("(%)", "(%, log scale)"))


def percent(cells: Sequence[Cell]) -> tuple[list[float], tuple[list[float], list[float]]]:
    """Means, and what their intervals reach below and above them; NaN, which is not drawn, for what is missing."""
    means = [float("nan") if c.mean is None else 100 * c.mean for c in cells]
    known = [(c.interval.low, c.interval.high) if c.interval is not None else None for c in cells]
    below = [0.0 if each is None else max(0.0, mean - 100 * each[0]) for mean, each in zip(means, known, strict=True)]
    above = [0.0 if each is None else max(0.0, 100 * each[1] - mean) for mean, each in zip(means, known, strict=True)]
    return means, (below, above)


def test_splits_of(result: Result) -> str:
    """Of which images the test splits consist."""
    setting, parts = result.config.setting, result.data.parts
    names = {"id": in_words(result.config.suite.id.dataset), "covariate": shift_name(result)}
    names["semantic"] = in_words(setting.semantic)
    shown = [split for split in SPLITS if split == "id" or getattr(setting, split) != NONE]
    rows = {split: f", {parts[split].rows:,} images" if split in parts else "" for split in shown}
    return "; ".join(f"{TITLES[split]} ({names[split]}{rows[split]})" for split in shown)
