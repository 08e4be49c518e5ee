"""Whether the accuracy of a given network on ID images looks like a mistake in how it is fed."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

ABOVE_CHANCE = 0.1  # of the way from chance to 1: less is what a network may have that is fed wrongly
BETTER = 0.2  # accuracy that another order of the classes must add before it is worth a word
ENOUGH = 5  # images for each class: with fewer, some order always looks better


def doubt(predictions: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> str | None:
    """A line that says what to look at; None where the accuracy is what a trained network may have."""
    accuracy = float(np.mean(predictions == labels))
    said = f"{100 * accuracy:.1f} % of {classes} classes on ID"
    if len(labels) >= ENOUGH * classes:
        reordered = _best_order(predictions, labels, classes)
        if reordered >= accuracy + BETTER:
            better = f"{100 * reordered:.1f} %"
            return f"{said}, and {better} if the classes were in another order: is the class order right? see --classes"
    chance = 1 / classes
    if accuracy < chance + ABOVE_CHANCE * (1 - chance):
        return f"{said}: is the class order or the normalization right? see --classes, --mean, --std and --size"
    return None


def _best_order(predictions: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> float:
    """The accuracy if each output stood for the class that fits it best, no two for the same."""
    table = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(table, (predictions, labels), 1)
    outputs, matched = linear_sum_assignment(table, maximize=True)
    return float(table[outputs, matched].sum() / len(labels))
