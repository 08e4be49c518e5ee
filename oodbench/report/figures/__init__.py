"""Results of a folder in, figures out. Decides what a figure shows and draws it; prints nothing and writes no files.

A figure is the module of its name. Numbers are those of `tables`. matplotlib is imported when one is drawn.
"""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from oodbench.errors import UserError, unknown

if TYPE_CHECKING:
    from oodbench.report.figures.studies import Drawing, Load, Study
    from oodbench.results.result import Result

FIGURES = {
    "tradeoff": "OOD accuracy against FPR, all methods",
    "ranks": "ranks of all methods, and which of them differ significantly",
    "roc": "ROC curves of semantic OOD, at most six methods",
    "energies": "scores of the three test splits, methods side by side",
    "features": "scores and t-SNE of penultimate features; needs weights and data",
    "training": "loss, constraints and multipliers by epoch",
    "paths": "OOD accuracy against FPR, and the share flagged, while methods train; needs run --path",
    "margin": "accuracies and FPR against the margin, and the curve used to choose it",
    "ratio": "metrics against pi_c",
    "heatmap": "OOD accuracy under every covariate shift",
}
OF_TRAININGS = ("training", "paths", "margin", "ratio")  # what they show depends on a training
COMPARED = "woods,scone"  # the pair of the paper's figures
FORMATS = ("png", "pdf", "svg")
# Inches: a column of a two-column page, and the whole of it (ICML's; those of other venues are close).
WIDTHS = {"column": 3.25, "text": 6.75}
NARROWEST, WIDEST = 2.5, 20.0


def width_in_inches(given: str | float) -> float:
    """`column`, `text` or a number."""
    if given in WIDTHS:
        return WIDTHS[str(given)]
    try:
        width = float(given)
    except ValueError:
        width = math.nan
    if not NARROWEST <= width <= WIDEST:
        raise UserError(
            f"a figure cannot be '{given}' wide; choose column, text or inches from {NARROWEST:g} to {WIDEST:g}"
        )
    return width


def draw(
    name: str,
    study: "Study",
    methods: Sequence[str] = (),
    compared: Sequence[str] = tuple(COMPARED.split(",")),
    width: float = WIDTHS["text"],
    is_titled: bool = False,
    networks: "Load | None" = None,
) -> "Drawing":
    """One of FIGURES. `methods` restricts it, if any are given; `compared` stand beside each other if none are.

    `networks` loads the trained network of a result, for figures of features.
    """
    from oodbench.report.figures import style
    from oodbench.report.figures.studies import Asked, NotDrawn

    if name in OF_TRAININGS and study.is_given:
        raise NotDrawn("it shows how a training went, and these networks were given")
    with style.applied():
        asked = Asked(methods, compared, width, is_titled, networks)
        drawing: Drawing = import_module(f"{__name__}.{name}").draw(study, asked)
    return drawing


def draw_first(
    name: str, results: "Sequence[Result]", methods: Sequence[str], suite: str | None, setting: str | None,
    width: str | float, is_titled: bool | None, networks: "Load",
) -> "Drawing":  # fmt: skip
    """The figure of the first suite and setting that allow it; with a title, unless said, where there are several."""
    from oodbench.report.figures.studies import NotDrawn, studies

    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    if not results:
        raise UserError("there are no results to draw; run some with: oodbench run --suite digits-c")
    for kind, word, known in (
        *(("method of these results", each, {r.method for r in results}) for each in methods),
        ("suite of these results", suite, {r.suite_label for r in results}),
        ("setting of these results", setting, {r.setting for r in results}),
    ):
        if word is not None and word not in known:
            raise unknown(kind, word, known)
    own = [r for r in results if suite in (None, r.suite_label)]
    several = studies(own, [] if setting is None else [setting])
    reasons = []
    for study in several:
        titled = len(several) > 1 if is_titled is None else is_titled
        try:
            return draw(name, study, methods, width=width_in_inches(width), is_titled=titled, networks=networks)
        except NotDrawn as reason:
            reasons.append(f"no {name} figure for {study.suite} / {study.setting}: {reason}")
    raise UserError(reasons[0] if reasons else f"no results of suite '{suite}' in setting '{setting}'")
