"""Distribution of the scores of the test splits, methods beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from oodbench.report.figures.scores import values_of
from oodbench.report.figures.studies import Asked, Drawing, NotDrawn, Study, beside_each_other, printed_name
from oodbench.report.figures.style import (
    SMALL,
    SPLITS,
    TITLES,
    columns_that_fit,
    new_figure,
    panels_of,
    test_splits_of,
)
from oodbench.results.metrics import Scored, curve
from oodbench.results.result import Result

BARS = 60
PEAK = 0.71  # of a density, where the next one begins at 1
STRIP = 0.52  # inches
FAR = 5  # times the width of the bulk of ID and covariate scores: what lies beyond is in the outermost bar
HOW = (
    "Every density is scaled to its own peak, and the outermost bars hold the scores beyond the axis. Higher scores "
    "are more OOD; scores to the right of the vertical line, the FPR threshold, are flagged."
)


def draw(study: Study, asked: Asked) -> Drawing:
    """Distribution of the scores of the test splits, methods beside each other."""
    chosen = beside_each_other(study, asked)
    scored = [values_of(result) for result in chosen]
    shown = shown_splits(scored)
    columns = columns_that_fit(asked.width, min(len(chosen), 3), 2.4) if len(chosen) > 1 else 1
    rows = -(-len(chosen) // columns)
    figure = new_figure(study, asked, f"scores, seed {chosen[0].seed}", rows * (STRIP * len(shown) + 0.62))
    panels = panels_of(figure, len(chosen), columns)
    draw_scores(panels, chosen, scored, shown, columns)
    caption = (
        f"Scores of the {len(shown)} test splits on {study.words}, seed {chosen[0].seed}: "
        f"{test_splits_of(chosen[0])}. {HOW}"
    )
    return Drawing(figure, caption, chosen)


def shown_splits(scored: Sequence[Mapping[str, Scored]]) -> list[str]:
    shown = [split for split in SPLITS if all(split in each for each in scored)]
    if len(shown) < 2:
        raise NotDrawn("needs a covariate or a semantic set, and this setting has neither")
    return shown


def draw_scores(
    panels: Sequence[Axes], chosen: Sequence[Result], scored: Sequence[Mapping[str, Scored]], shown: Sequence[str],
    columns: int,
) -> None:  # fmt: skip
    """A panel for each result: its splits one below the other, each as high as the others."""
    scorers = [result.config.method.scorer.display for result in chosen]
    ranges = [_range([parts[split].scores for split in shown]) for parts in scored]
    if len(set(scorers)) == 1:  # on one axis a shift of all scores shows
        ranges = [(min(low for low, _ in ranges), max(high for _, high in ranges))] * len(ranges)
    for place, (axes, result, parts, ends) in enumerate(zip(panels, chosen, scored, ranges, strict=True)):
        _draw_splits(axes, parts, shown, np.linspace(*ends, BARS + 1))
        axes.set_title(printed_name(result))
        axes.set_xlabel(f"{scorers[place] or 'score'} (OOD →)")
        is_first = place % columns == 0
        names = [TITLES[split].replace(" ", "\n") if is_first else "" for split in shown[::-1]]
        axes.set_yticks([base + 0.3 for base in range(len(shown))], names)
        axes.tick_params(axis="y", length=0)


def _range(scores: Sequence[NDArray[Any]]) -> tuple[float, float]:
    """That shows nearly all scores, and does not follow a few, or a semantic set far away, until nothing else shows."""
    low, high = np.quantile(np.concatenate(scores), [0.002, 0.998])
    bulks = [np.quantile(each, [0.05, 0.95]) for each in scores[:2]]
    spread = FAR * max(float(b - a) for a, b in bulks) or high - low or 1.0
    low = max(float(low), min(float(a) for a, _ in bulks) - spread)
    high = min(float(high), max(float(b) for _, b in bulks) + spread)
    return low, high if high > low else low + 1


def _draw_splits(axes: Axes, parts: Mapping[str, Scored], shown: Sequence[str], edges: NDArray[Any]) -> None:
    threshold = _threshold(parts)
    for base, split in enumerate(shown[::-1]):  # ID on top
        colour, line, hatch, _ = SPLITS[split]
        scores = parts[split].scores
        heights = np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0].astype(float)
        tops = base + PEAK * heights / heights.max()
        axes.stairs(tops, edges, baseline=base, fill=True, facecolor=(colour, 0.18), edgecolor=(colour, 0.6),
                    hatch=hatch, linewidth=0)  # fmt: skip
        axes.stairs(tops, edges, baseline=base, color=colour, linestyle=line, linewidth=1)
        flagged = np.mean(scores >= threshold)
        half = BARS // 2
        is_left = tops[:half].max() <= tops[half:].max()
        axes.text(0.01 if is_left else 0.99, base + 0.93, f"{100 * flagged:.1f} % flagged", fontsize=SMALL,
                  transform=axes.get_yaxis_transform(), ha="left" if is_left else "right", va="top")  # fmt: skip
    if np.isfinite(threshold):
        axes.axvline(threshold, color="0.3", linewidth=0.8)
    axes.set_ylim(-0.02, len(shown))
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(False)
    axes.spines["left"].set_visible(False)


def _threshold(parts: Mapping[str, Scored]) -> float:
    """That of FPR; without a semantic set, of which it depends where scores tie, what flags 5 % of ID."""
    if "semantic" in parts:
        return curve(parts["id"].scores, parts["semantic"].scores).fpr95_threshold()
    return float(np.quantile(parts["id"].scores, 0.95))
