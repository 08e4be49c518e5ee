"""Figures of results. Decides what a figure shows and draws it; prints nothing and writes no files.

Numbers are those of `tables`. Every figure can be read in black and white: what colour tells, a marker, a line style or
a hatch tells too. torch is imported only by what must pass images through a network again.
"""

import io
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from oodbench.config import suite as suites
from oodbench.config.schema import Misfit
from oodbench.data import splits
from oodbench.errors import UserError
from oodbench.report import tables
from oodbench.report.tables import Cell, Table
from oodbench.results import result as ledger
from oodbench.results.metrics import METRICS, Metric, Scored, fpr95
from oodbench.results.result import Result
from oodbench.seeds import derive

if TYPE_CHECKING:
    from oodbench.learning.networks import Classifier

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
FEATURE_ROWS = 500  # of each split; more only make t-SNE slow and its picture black
SWEPT_MARGIN = re.compile(r",(?:[^,=]+\.)?margin=[^,]*")
SWEPT_RATIO = re.compile(r",pi_c=[^,]*")


class NotDrawn(Exception):
    """Why a folder's results do not make this figure, and what would."""


@dataclass(frozen=True)
class Study:
    """One suite in one setting: what a figure is drawn from."""

    suite: str
    setting: str
    results: list[Result]
    ratios: list[Result]  # of the settings that differ from this one in nothing but pi_c, itself included

    @property
    def folder(self) -> Path:
        """Where its figures go; names come from files and must not lead elsewhere."""
        suite, setting = (re.sub(r"[^\w.,=+-]|^\.", "_", name)[:200] for name in (self.suite, self.setting))
        return Path(suite, setting)


@dataclass(frozen=True)
class Drawing:
    figure: Figure
    caption: str
    sources: list[Result]
    remarks: list[str] = field(default_factory=list)  # what the figure lacks and could have


def studies(results: Sequence[Result], settings: Sequence[str]) -> list[Study]:
    """Of `settings`, or of all in the order of the tables; a ratio of a sweep is then no study of its own."""
    found = []
    for table in tables.build(list(results)):
        own = [r for r in results if r.suite_label == table.suite]
        for setting in [s for s in table.settings if s != tables.AVERAGE]:
            plain = SWEPT_RATIO.sub("", setting)
            if setting in settings or (not settings and (plain == setting or plain not in table.settings)):
                ratios = [r for r in own if SWEPT_RATIO.sub("", r.setting) == plain]
                found.append(Study(table.suite, setting, [r for r in own if r.setting == setting], ratios))
    return found


@contextmanager
def _style() -> Iterator[None]:
    """Ours alone: what a user has set for other figures would change these."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def draw(name: str, study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """One of FIGURES. `methods` restricts it, if any are given; `compared` stand beside each other if none are."""
    with _style():
        return FIGURES[name](study, methods, compared)


def encode(drawing: Drawing, folder: Path) -> dict[str, bytes]:
    """The files of a drawing by suffix, equal bytes for equal drawings; sources are named as seen from `folder`."""
    with _style():
        png, pdf = io.BytesIO(), io.BytesIO()
        drawing.figure.savefig(png, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        drawing.figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    paths = [Path(os.path.relpath(r.path, folder)).as_posix() for r in drawing.sources if r.path is not None]
    text = f"{fill(drawing.caption, 100)}\n\nMade from:\n" + "".join(f"  {path}\n" for path in sorted(set(paths)))
    return {"png": png.getvalue(), "pdf": pdf.getvalue(), "txt": text.encode()}


def _runs(results: Sequence[Result], methods: Sequence[str]) -> dict[str, list[Result]]:
    """By method, the runs a table would count: of the configuration run last, one per seed, successful ones.

    Without `methods`, a method with changed hyperparameters is left out where the method itself is there.
    """
    by_method: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.written, r.key)):
        by_method.setdefault(result.method, []).append(result)
    kept: dict[str, list[Result]] = {}
    for method in methods or by_method:
        runs = by_method.get(method, [])
        newest = {r.seed: r for r in runs if r.variant == runs[-1].variant}
        ok = [newest[seed] for seed in sorted(newest) if newest[seed].status == "ok"]
        base = method.partition(",")[0]
        if ok and (methods or method == base or base not in by_method):
            kept[method] = ok
    return kept


def _table(runs: dict[str, list[Result]], metrics: Sequence[str]) -> Table:
    return tables.build([r for each in runs.values() for r in each], metrics, selection=None)[0]


def _name(result: Result) -> str:
    return tables.printed_name(result.method, tables.display_of(result))


def _percent(cells: Sequence[Cell]) -> tuple[list[float], list[float]]:
    """Means and standard errors; NaN, which is not drawn, for what is missing."""
    means = [math.nan if c.mean is None else 100 * c.mean for c in cells]
    return means, [0.0 if c.standard_error is None else 100 * c.standard_error for c in cells]


def _axis(metric: Metric) -> str:
    return f"{metric.title} {'↑' if metric.higher_is_better else '↓'} (%)"


def _figure(study: Study, details: str, width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    title = tables.plain(f"{study.suite}, {study.setting}: {details}").replace(": ", ":\N{NO-BREAK SPACE}")
    figure.suptitle(fill(title, int(14 * width)).replace("\N{NO-BREAK SPACE}", " "))
    return figure


def _seeds(table: Table) -> str:
    line = table.seeds_line.rstrip(".")
    return line[0].lower() + line[1:]


def _tradeoff(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """OOD accuracy against FPR, all methods."""
    runs = _runs(study.results, methods)
    table = _table(runs, ["covariate_acc", "fpr95"]) if runs else None
    rows = [row for row in table.rows if all(cell.mean is not None for cell in row.cells)] if table else []
    if table is None or len(rows) < 2:
        raise NotDrawn("needs two methods with results; run more, for example --methods all")
    figure = _figure(study, _seeds(table), 5.4, 4.0)
    axes = figure.add_subplot()
    named: dict[tuple[str, ...], list[str]] = {}
    positions: dict[tuple[str, ...], tuple[float, float]] = {}
    bars: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for group in dict.fromkeys(row.group for row in rows):
        colour, marker, fill_ = GROUPS.get(group, (BLACK, "D", "none"))
        of_group = [row for row in rows if row.group == group]
        y, y_error = _percent([row.cells[0] for row in of_group])
        x, x_error = _percent([row.cells[1] for row in of_group])
        axes.errorbar(x, y, y_error, x_error, "none", ecolor="0.75", elinewidth=0.7, capsize=1.5, zorder=1)
        for a, b, da, db in zip(x, y, x_error, y_error, strict=True):
            bars += [((a - da, b), (a + da, b)), ((a, b - db), (a, b + db))]
        axes.plot(x, y, marker, color=colour, fillstyle=fill_, markersize=6, markeredgewidth=1.2, label=group)
        for row, *position in zip(of_group, x, y, strict=True):
            key = tuple(cell.percent for cell in row.cells)  # methods at one point share a label
            named.setdefault(key, []).append(row.name)
            positions[key] = (position[0], position[1])
    axes.set_xlabel(_axis(METRICS["fpr95"]))
    axes.set_ylabel(_axis(METRICS["covariate_acc"]))
    axes.margins(0.12)
    axes.set_xlim(max(axes.get_xlim()[0], -4), min(axes.get_xlim()[1], 104))
    corner = axes.annotate(
        "better", (0.012, 0.988), (0.085, 0.915), "axes fraction", fontstyle="italic", ha="center", va="center",
        arrowprops={"arrowstyle": "-|>", "color": "black", "shrinkA": 1, "shrinkB": 0},
    )  # fmt: skip
    figure.legend(loc="outside lower center", ncols=len(GROUPS), handletextpad=0.2)
    figure.draw_without_rendering()  # the layout settles, so that labels can be placed to the pixel
    figure.set_layout_engine("none")
    _label(axes, [positions[key] for key in named], [", ".join(names) for names in named.values()], [corner], bars)
    left_out = sorted({r.method for r in study.results} - set(runs)) if not methods else []
    caption = (
        f"OOD accuracy against FPR of {len(rows)} methods on {study.suite}, setting {study.setting}; best is top left. "
        f"{table.seeds_line} {table.definitions.removeprefix('In percent, best in bold. ')}"
    )
    remarks = []
    if left_out:
        remarks.append(f"without {len(left_out)} variants, see the caption; --methods names what to show")
        caption += f" Left out: {', '.join(left_out)}."
    return Drawing(figure, caption, [r for each in runs.values() for r in each], remarks)


def _label(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    taken: Sequence[Any],
    bars: Sequence[tuple[tuple[float, float], tuple[float, float]]],
) -> None:
    """Write labels near their points, clear of each other, of markers and `taken`, and if it can be of error bars.

    Every label tries the places around its point against all others, in a few rounds. A line leads to what is not near.
    """
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    unit = axes.figure.dpi / 72  # a point, in pixels; all that follows is in pixels
    centres = axes.transData.transform(points)
    markers = np.hstack([centres - 4 * unit, centres + 4 * unit])  # boxes are left, bottom, right, top
    fixed = np.vstack([markers, *(each.get_window_extent(renderer).extents for each in taken)])
    struck = np.stack([axes.transData.transform(np.linspace(*bar, 60)) for bar in bars])
    inside = axes.get_window_extent(renderer).extents
    angles = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.repeat([5, 9, 14, 20, 28, 38, 50, 64], len(angles))

    tried, ways, costs = [], [], []
    for i, label in enumerate(labels):
        probe = axes.text(0, 0, label, fontsize=7)
        half = np.array(probe.get_window_extent(renderer).size) / 2
        probe.remove()
        middles = centres[i] + np.tile(around, (8, 1)) * (distances[:, None] * unit + half)
        boxes = np.hstack([middles - half, middles + half])
        gaps = np.linalg.norm(np.clip(centres[:, None], boxes[:, :2], boxes[:, 2:]) - centres[:, None], axis=-1)
        way = _ways(centres[i], boxes)
        others = np.delete(markers, i, axis=0)
        tried.append(boxes)
        ways.append(way)
        costs.append(
            distances
            + 1000 * _overlap(_padded(boxes, 1.5 * unit), fixed).sum(axis=1)
            + 1000 * ((boxes[:, :2] < inside[:2]) | (boxes[:, 2:] > inside[2:])).any(axis=1)
            + 100 * _crossed(others, way).sum(axis=0)
            + 10 * (gaps < gaps[i] + 3 * unit).sum(axis=0)  # nearer to another point than to its own
            + 12 * _crossed(boxes, struck).sum(axis=1)
        )
    chosen = [int(cost.argmin()) for cost in costs]
    for _ in range(4):
        for i, boxes in enumerate(tried):
            cost = costs[i].astype(float)
            for j in (j for j in range(len(labels)) if j != i):
                other = tried[j][chosen[j]][None]
                cost += 1000 * _overlap(_padded(boxes, 1.5 * unit), other)[:, 0]
                cost += 100 * _crossed(other, ways[i])[0]
                cost += 100 * _crossed(boxes, ways[j][chosen[j]][None])[:, 0]
            chosen[i] = int(cost.argmin())
    to_data = axes.transData.inverted()
    for i, label in enumerate(labels):
        box, way = tried[i][chosen[i]], ways[i][chosen[i]]
        if np.linalg.norm(way[-1] - way[0]) > 7 * unit:
            axes.plot(*to_data.transform(way[[0, -1]]).T, color="0.5", linewidth=0.5, zorder=1.5)
        x, y = to_data.transform((box[:2] + box[2:]) / 2)
        axes.text(x, y, label, fontsize=7, ha="center", va="center")


def _padded(boxes: NDArray[Any], by: float) -> NDArray[Any]:
    return boxes + np.array([-by, -by, by, by])


def _overlap(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Which boxes of `a` (rows) share ground with which of `b` (columns)."""
    a, b = a[:, None], b[None]
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1)


def _crossed(boxes: NDArray[Any], ways: NDArray[Any]) -> NDArray[Any]:
    """Which boxes (rows) have a point of which ways (columns) in them."""
    boxes = boxes[:, None, None]
    return np.any(np.all((ways >= boxes[..., :2]) & (ways <= boxes[..., 2:]), axis=-1), axis=-1)


def _ways(start: NDArray[Any], boxes: NDArray[Any]) -> NDArray[Any]:
    """Points on the straight way from `start` to the nearest corner or edge of each box."""
    ends = np.clip(start, boxes[:, :2], boxes[:, 2:])
    return start + np.linspace(0, 1, 12)[:, None] * (ends - start)[:, None]


def _beside(study: Study, methods: Sequence[str], compared: Sequence[str]) -> list[Result]:
    """One run of each method, under the lowest seed that all of them have."""
    runs = _runs(study.results, methods or compared)
    if not runs:
        raise NotDrawn(f"no results of {' or '.join(methods or compared)}; choose others with --methods")
    common = set.intersection(*({r.seed for r in each} for each in runs.values()))
    if not common:
        raise NotDrawn(f"{' and '.join(runs)} have no seed in common; run them with the same --seeds")
    return [next(r for r in each if r.seed == min(common)) for each in runs.values()]


def _panels(figure: Figure, count: int) -> list[Axes]:
    columns = min(count, 3)
    grid = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.remove()
    return list(grid[:count])


def _panel_size(count: int) -> tuple[float, float]:
    columns = min(count, 3)
    return max(3.6, 2.9 * columns), 2.4 * -(-count // columns) + 0.5


def _energies(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Distribution of the scores of the three test splits."""
    chosen = _beside(study, methods, compared)
    scored = [_scores(result) for result in chosen]
    figure = _figure(study, f"scores, seed {chosen[0].seed}", *_panel_size(len(chosen)))
    panels = _panels(figure, len(chosen))
    scorers = [result.config.method.scorer.display for result in chosen]
    ranges = [np.quantile(np.concatenate([s.scores for s in each.values()]), [0.002, 0.998]) for each in scored]
    comparable = len(set(scorers)) == 1
    if comparable:  # on one axis a shift of all scores shows
        ranges = [np.array([np.min(ranges), np.max(ranges)])] * len(ranges)
    handles, highest = dict[str, Any](), list[float]()
    for axes, result, parts, scorer, (low, high) in zip(panels, chosen, scored, scorers, ranges, strict=True):
        edges = np.linspace(low, high if high > low else low + 1, 36)
        highest.append(0)
        for split, (colour, line, hatch, _) in SPLITS.items():
            inside = np.clip(parts[split].scores, edges[0], edges[-1])  # the outermost bars hold what lies beyond
            heights = 100 * np.histogram(inside, edges)[0] / len(inside)
            tint, ink = (colour, 0.18), (colour, 0.7)
            area = axes.stairs(heights, edges, fill=True, facecolor=tint, edgecolor=ink, hatch=hatch, linewidth=0)
            outline = axes.stairs(heights, edges, color=colour, linestyle=line, linewidth=1.3)
            handles[TITLES[split]] = (area, outline)
            highest[-1] = max(highest[-1], heights.max())
        threshold = np.quantile(parts["id"].scores, 0.95)
        axes.axvline(threshold, color="0.3", linewidth=0.8)
        side = "right" if threshold > (edges[0] + edges[-1]) / 2 else "left"
        axes.annotate(
            "95 % of ID", (threshold, 0.99), (-2 if side == "right" else 2, 0), ("data", "axes fraction"),
            "offset points", ha=side, va="top", fontsize=6.5,
        )  # fmt: skip
        missed = fpr95(parts["id"].scores, parts["semantic"].scores)
        axes.set_title(f"{_name(result)}: FPR {100 * missed:.1f} %")
        axes.set_xlabel(f"{scorer or 'score'} (higher: more OOD)")
    for axes, height in zip(panels, highest, strict=True):
        axes.set_ylim(0, 1.2 * (max(highest) if comparable else height))
        axes.grid(False)
    panels[0].set_ylabel("rows of the split (%)")
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(SPLITS))
    caption = (
        f"Scores of the three test splits on {study.suite}, setting {study.setting}, seed {chosen[0].seed}: "
        f"{_splits_of(chosen[0])}. Higher is more OOD; left of the vertical line lie 95 % of the ID rows."
    )
    return Drawing(figure, caption, chosen)


def _splits_of(result: Result) -> str:
    parts = result.data.parts
    told = [f"{TITLES[s]} {parts[s].origin} ({parts[s].rows:,} rows)" for s in SPLITS if s in parts]
    return ", ".join(told) or "ID, covariate and semantic OOD"


def _scores(result: Result) -> dict[str, Scored]:
    assert result.path is not None
    try:
        scores = ledger.read_scores(result.path)
        if not set(SPLITS) <= set(scores):
            raise ValueError
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        file = result.path.with_suffix(".npz")
        raise NotDrawn(f"the raw scores '{file}' are missing or damaged; make them again with --force") from None
    return scores


def _features(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """t-SNE of the penultimate features of the three test splits."""
    chosen = _beside(study, methods, compared)
    networks = _networks(chosen)
    parts = _parts(chosen[0], tuple(SPLITS))
    import torch
    from sklearn.manifold import TSNE

    from oodbench.learning.outputs import forward

    rows = {}
    for split in SPLITS:
        part: splits.Part = getattr(parts, split)
        order = np.random.default_rng(derive(chosen[0].seed, "features", split)).permutation(len(part))
        rows[split] = torch.from_numpy(np.asarray(part.take(order[:FEATURE_ROWS]).images))
    figure = _figure(study, f"features, seed {chosen[0].seed}", *_panel_size(len(chosen)))
    panels = _panels(figure, len(chosen))
    belongs = np.repeat(list(SPLITS), [len(images) for images in rows.values()])
    for axes, result, network in zip(panels, chosen, networks, strict=True):
        features = forward(network, torch.cat(list(rows.values()))).features.numpy()
        perplexity = min(30.0, (len(features) - 1) / 3)
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(features)
        for split, (colour, _, _, marker) in SPLITS.items():
            x, y = plane[belongs == split].T
            axes.plot(x, y, marker, color=colour, fillstyle="none", markersize=2.6, markeredgewidth=0.6, alpha=0.8,
                      label=TITLES[split])  # fmt: skip
        axes.set_title(_name(result))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SPLITS), markerscale=1.8)
    caption = (
        f"t-SNE of penultimate features on {study.suite}, setting {study.setting}, seed {chosen[0].seed}: "
        f"{_splits_of(chosen[0])}; at most {FEATURE_ROWS} rows of each, drawn at random, the same for every method. "
        "Distances between far groups mean nothing."
    )
    return Drawing(figure, caption, chosen)


@contextmanager
def _reasons(what: str) -> Iterator[None]:
    """Missing data is no reason to leave out the other figures."""
    try:
        yield
    except (UserError, Misfit) as error:
        raise NotDrawn(f"{what}: {error}") from None


def _check(result: Result) -> None:
    """That its suite and setting make sense: the file may have been edited."""
    suites.check(result.config.suite)
    suites.check_setting(result.config.setting, result.config.suite)


def _parts(result: Result, used: Sequence[str]) -> splits.Parts:
    """The images a result was made with; of the parts in `used` this is certain."""
    with _reasons("needs the images again"):
        _check(result)
        parts = splits.build(result.ran_suite, result.config.setting, result.seed)
    recorded = result.data.parts
    for name in used:
        if name not in recorded or recorded[name].digest != getattr(parts, name).digest:
            raise NotDrawn(f"the part '{name}' is not what '{result.path}' was made with; run again with --force")
    return parts


def _networks(chosen: Sequence[Result]) -> "list[Classifier]":
    """The trained network of each result, all of one suite, found among the stored weights by its hash."""
    with _reasons("needs the images again"):
        from oodbench.running import execution

        _check(chosen[0])
        model = execution.build_model(chosen[0].ran_suite, chosen[0].seed)
    from oodbench.learning.loop import load_tensors
    from oodbench.running.provenance import weights_digest

    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert chosen[0].path is not None
    folder = chosen[0].path.parents[3] / ledger.WEIGHTS
    found: dict[str | None, Classifier] = {}
    for path in sorted(folder.glob("*.pt")):
        if all(result.weights in found for result in chosen):
            break
        state = (load_tensors(path, model.device) or {}).get("model", {})
        if {name: value.shape for name, value in state.items()} == shapes:
            model.load_state_dict(state)
            found[weights_digest(model)] = deepcopy(model).eval().requires_grad_(False)
    for result in chosen:
        if result.weights not in found:
            run = f"'{result.method}', seed {result.seed}"
            raise NotDrawn(f"the weights of {run}, are not in '{folder}'; train them again with --force")
    return [found[result.weights] for result in chosen]


@dataclass(frozen=True)
class _Selection:
    """What the choice of a margin sees under one seed: out% of each margin, and the margin it takes."""

    shares: dict[float, float]
    chosen: float


def _margin(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Metrics against the margin, and out%, from which a margin is chosen."""
    runs, automatic = _margin_sweep(study, methods)
    sources = [r for each in runs.values() for r in each]
    table = _table({each[0].method: each for each in runs.values()}, tables.DEFAULT_METRICS)
    margin_of = {each[0].method: f"{margin:g}".replace("-", "−") for margin, each in runs.items()}
    table = replace(table, rows=[replace(row, heads=(f"margin {margin_of[row.method]}",)) for row in table.rows])
    rows = {row.method: row for row in table.rows}
    name, remarks, selections = _name(replace(sources[0], method=SWEPT_MARGIN.sub("", sources[0].method))), [], []
    try:
        selections = _recorded_selections(automatic) or _repeated_selections(runs)
    except NotDrawn as reason:
        remarks.append(f"without out%: {reason}")
    figure = _figure(study, f"{name}, {_seeds(table)}", 5.0, 4.4 if selections else 3.2)
    heights = [2, 1] if selections else [1]
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False).ravel()
    margins = sorted({*runs, *(m for each in selections for m in each.shares)}, reverse=True)
    for j, name in enumerate(tables.DEFAULT_METRICS):
        cells = [rows[each[0].method].cells[j] for each in runs.values()]
        label = _axis(METRICS[name]).removesuffix(" (%)")
        _line(panels[0], [margins.index(m) for m in runs], cells, j, label)
    panels[0].set_ylabel("%")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    panels[-1].set_xticks(range(len(margins)), [f"{m:g}".replace("-", "−") for m in margins])
    panels[-1].set_xlabel("margin η (not to scale)")
    caption = f"Metrics of {name} against the margin on {study.suite}, setting {study.setting}. {table.seeds_line}"
    if selections:
        _draw_selections(panels[0], panels[1], selections, margins)
        told = ", ".join(f"{each.chosen:g}" for each in selections)
        how = "as noted by the runs that chose" if automatic else "computed again from the stored weights"
        caption += (
            " out%: share of the mixed validation set that is flagged where 95 % of the ID validation rows are kept, "
            f"{how}; the margin chosen just after its largest drop, or the first if none exceeds two standard errors, "
            f"is {told} (dashed; one for each seed)."
        )
    return Drawing(figure, caption, [*sources, *automatic], remarks)


def _margin_sweep(study: Study, methods: Sequence[str]) -> tuple[dict[float, list[Result]], list[Result]]:
    """The runs of the method with most margins, from no margin downwards, and its runs that choose one themselves."""
    sweeps: dict[str, dict[float | str, list[Result]]] = {}
    for method, runs in _runs(study.results, sorted({r.method for r in study.results})).items():
        margin = runs[-1].config.method.trainer.values.get("margin")
        if margin is not None:
            sweeps.setdefault(SWEPT_MARGIN.sub("", method), {})[margin] = runs
    wanted = [sweep for method, sweep in sorted(sweeps.items()) if not methods or method in methods]
    best = max(wanted, key=len, default={})
    numbers = {float(margin): best[margin] for margin in best if margin != "auto"}
    if len(numbers) < 2:
        raise NotDrawn("needs a method under two margins; run it with --set METHOD.margin=VALUE, once for each")
    return dict(sorted(numbers.items(), reverse=True)), best.get("auto", [])


def _recorded_selections(automatic: Sequence[Result]) -> list[_Selection]:
    """From the notes of runs that chose their margin themselves."""
    noted = [r.notes for r in automatic if "out_share" in r.notes and "margin" in r.notes]
    return [
        _Selection({float(step["margin"]): step["share"] for step in notes["out_share"]}, float(notes["margin"]))
        for notes in noted
    ]


def _repeated_selections(runs: dict[float, list[Result]]) -> list[_Selection]:
    """From the networks that were trained one by one, seed by seed."""
    flat = [(margin, result) for margin, each in runs.items() for result in each]
    networks = _networks([result for _, result in flat])
    import torch

    from oodbench.learning.tuning import after_largest_drop, flagged_share

    selections = []
    for seed in sorted({result.seed for _, result in flat}):
        trained = {margin: net for (margin, r), net in zip(flat, networks, strict=True) if r.seed == seed}
        if len(trained) < 2:
            continue
        first = next(result for _, result in flat if result.seed == seed)
        parts = _parts(first, ("id_validation", "mixed_id", "mixed_covariate", "mixed_semantic"))
        id_images = torch.from_numpy(np.asarray(parts.id_validation.images))
        mixed = torch.from_numpy(splits.mixed_validation(parts, first.config.setting))
        shares = {margin: flagged_share(network, id_images, mixed) for margin, network in trained.items()}
        selections.append(_Selection(shares, [*shares][after_largest_drop([*shares.values()], len(mixed))]))
    return selections


def _draw_selections(above: Axes, below: Axes, selections: Sequence[_Selection], margins: list[float]) -> None:
    seen = [m for m in margins if any(m in each.shares for each in selections)]
    shares = [[each.shares[m] for each in selections if m in each.shares] for m in seen]
    cells = [Cell(float(np.mean(s)), _standard_error(s), len(s), "") for s in shares]
    _line(below, [margins.index(m) for m in seen], cells, len(tables.DEFAULT_METRICS), "out%")
    below.set_ylabel("out%")
    below.set_ylim(0, 130 * max(share for each in shares for share in each) or 1)
    for margin in sorted({each.chosen for each in selections}):
        count = sum(each.chosen == margin for each in selections)
        for axes in (above, below):
            axes.axvline(margins.index(margin), color="black", linestyle="--", linewidth=1, zorder=1)
        text = "chosen" if count == len(selections) else f"chosen, {count} of {len(selections)} seeds"
        place = margins.index(margin)
        side, shift = ("left", 3) if place < len(margins) / 2 else ("right", -3)
        below.annotate(
            text, (place, 1), (shift, -1), ("data", "axes fraction"), "offset points", ha=side, va="top", fontsize=7
        )  # fmt: skip


def _standard_error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


def _line(axes: Axes, x: Sequence[float], cells: Sequence[Cell], style: int, label: str) -> None:
    colour = LINES[style % len(LINES)][0]
    _, marker, line = LINES[(style + style // len(LINES)) % len(LINES)]  # the eighth differs from the first
    means, errors = _percent(cells)
    axes.errorbar(x, means, errors, color=colour, marker=marker, linestyle=line, label=label, elinewidth=0.7)


def _ratio(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Metrics against the share of covariate-shifted images in the wild mixture."""
    runs: dict[str, dict[float, list[Result]]] = {}
    for setting in sorted({r.setting for r in study.ratios}):
        for method, each in _runs([r for r in study.ratios if r.setting == setting], methods).items():
            runs.setdefault(method, {})[each[0].config.setting.pi_c] = each
    runs = {method: dict(sorted(by_ratio.items())) for method, by_ratio in runs.items() if len(by_ratio) > 1}
    if not runs:
        raise NotDrawn(f"needs a method under two shares; run it with --setting {study.setting},pi_c=VALUE")
    flat = {method: [r for each in by_ratio.values() for r in each] for method, by_ratio in runs.items()}
    table = _table(flat, tables.DEFAULT_METRICS)
    figure = _figure(study, _seeds(table), 5.8, 4.6)
    panels = figure.subplots(2, 2, sharex=True).ravel()
    for style, row in enumerate(table.rows):
        by_ratio = [_table({row.method: each}, tables.DEFAULT_METRICS) for each in runs[row.method].values()]
        for j, axes in enumerate(panels):
            cells = [one.rows[0].cells[j] for one in by_ratio]
            _line(axes, [*runs[row.method]], cells, style, row.name)
    for axes, name in zip(panels, tables.DEFAULT_METRICS, strict=True):
        axes.set_title(_axis(METRICS[name]))
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


FIGURES: dict[str, Callable[[Study, Sequence[str], Sequence[str]], Drawing]] = {
    "tradeoff": _tradeoff, "energies": _energies, "features": _features, "margin": _margin, "ratio": _ratio,
}  # fmt: skip
