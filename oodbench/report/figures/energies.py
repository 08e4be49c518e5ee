"""Distribution of the scores of the test splits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oodbench.config.suite import NONE
from oodbench.report.figures.studies import Drawing, NotDrawn, Study, beside_each_other, printed_name
from oodbench.report.figures.style import SPLITS, TITLES, panel_size, panels_of, test_splits_of, titled_figure
from oodbench.results import result as ledger
from oodbench.results.metrics import Scored, fpr95
from oodbench.results.result import Result


def draw(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """Distribution of the scores of the test splits."""
    chosen = beside_each_other(study, methods, compared)
    scored = [_scores(result) for result in chosen]
    shown = [split for split in SPLITS if all(split in each for each in scored)]
    if len(shown) < 2:
        raise NotDrawn("needs a covariate or a semantic set, and neither is there")
    figure = titled_figure(study, f"scores, seed {chosen[0].seed}", *panel_size(len(chosen)))
    panels = panels_of(figure, len(chosen))
    scorers = [result.config.method.scorer.display for result in chosen]
    ranges = [np.quantile(np.concatenate([s.scores for s in each.values()]), [0.002, 0.998]) for each in scored]
    comparable = len(set(scorers)) == 1
    if comparable:  # on one axis a shift of all scores shows
        ranges = [np.array([np.min(ranges), np.max(ranges)])] * len(ranges)
    handles, highest = dict[str, Any](), list[float]()
    for axes, result, parts, scorer, (low, high) in zip(panels, chosen, scored, scorers, ranges, strict=True):
        edges = np.linspace(low, high if high > low else low + 1, 36)
        highest.append(0)
        for split in shown:
            colour, line, hatch, _ = SPLITS[split]
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
        missed = fpr95(parts["id"].scores, parts["semantic"].scores) if "semantic" in parts else None
        axes.set_title(printed_name(result) + (f": FPR {100 * missed:.1f} %" if missed is not None else ""))
        axes.set_xlabel(f"{scorer or 'score'} (higher: more OOD)")
    for axes, height in zip(panels, highest, strict=True):
        axes.set_ylim(0, 1.2 * (max(highest) if comparable else height))
        axes.grid(False)
    panels[0].set_ylabel("rows of the split (%)")
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(shown))
    caption = (
        f"Scores of the {len(shown)} test splits on {study.suite}, setting {study.setting}, seed {chosen[0].seed}: "
        f"{test_splits_of(chosen[0])}. Higher is more OOD; left of the vertical line lie 95 % of the ID rows."
    )
    return Drawing(figure, caption, chosen)


def _scores(result: Result) -> dict[str, Scored]:
    assert result.path is not None
    file, again = result.path.with_suffix(".npz"), "make them again with --force"
    try:
        scores = ledger.read_scores(result.path)
    except FileNotFoundError:
        raise NotDrawn(f"the raw scores '{file}' are missing; {again}") from None
    except ledger.Unreadable as reason:
        raise NotDrawn(f"the raw scores '{file}' cannot be read: {reason}; {again}") from None
    expected = [split for split in SPLITS if getattr(result.config.setting, split, None) != NONE]
    if not set(expected) <= set(scores):
        raise NotDrawn(f"the raw scores '{file}' are not of {', '.join(expected)}; {again}")
    return scores
