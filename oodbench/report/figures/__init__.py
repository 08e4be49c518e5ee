"""Results of a folder in, figures out. Decides what a figure shows and draws it; prints nothing and writes no files.

A figure is the module of its name. Numbers are those of `tables`. matplotlib is imported when one is drawn.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oodbench.report.figures.studies import Drawing, Study

FIGURES = {
    "tradeoff": "OOD accuracy against FPR, all methods",
    "energies": "scores of the three test splits, methods beside each other",
    "features": "t-SNE of penultimate features; needs weights and data",
    "margin": "metrics against the margin, and the curve it is chosen by",
    "ratio": "metrics against pi_c",
}
OF_TRAININGS = ("margin", "ratio")  # what they show depends on a training


def draw(name: str, study: "Study", methods: Sequence[str], compared: Sequence[str]) -> "Drawing":
    """One of FIGURES. `methods` restricts it, if any are given; `compared` stand beside each other if none are."""
    from oodbench.report.figures import style
    from oodbench.report.figures.studies import NotDrawn

    if name in OF_TRAININGS and study.is_given:
        raise NotDrawn("it shows what a training does, and these networks were given")
    with style.applied():
        drawing: Drawing = import_module(f"{__name__}.{name}").draw(study, methods, compared)
    return drawing
