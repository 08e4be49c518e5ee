"""Labels beside the points of a scatter plot, so that all can be read.

Written by hand: under each of eight combinations of its forces, adjustText 1.4 left labels upon each other, upon a
marker or outside the axes in at least six of ten figures (six crowds made at random, four of the committed results);
this left none so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

FONT_SIZE = 7
DISTANCES = (5, 9, 14, 20, 28, 38, 50, 64)  # from a point to its label, in points, as are the following
DIRECTIONS = 24
MARKER = 4  # half its side
SPACE = 1.5  # between labels
NEAR = 7  # what is farther is connected by a line
ROUNDS = 4
# What is wrong with a place, in the unit of distances.
OVERLAP, CROSSING, STRUCK_OUT, AMBIGUOUS = 1000, 100, 12, 10


@dataclass(frozen=True)
class _Places:
    """Where one label may go. Boxes are left, bottom, right, top, in pixels."""

    boxes: NDArray[Any]
    leaders: NDArray[Any]  # points on the line from the marker to each box
    costs: NDArray[Any]  # of each place, whatever the other labels do


def place_labels(
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
    pixels = axes.figure.dpi / 72  # of a point; all that follows is in pixels
    centers = axes.transData.transform(points)
    markers = np.hstack([centers - MARKER * pixels, centers + MARKER * pixels])
    fixed = np.vstack([markers, *(each.get_window_extent(renderer).extents for each in taken)])
    bar_points = np.stack([axes.transData.transform(np.linspace(*bar, 60)) for bar in bars])
    inside = axes.get_window_extent(renderer).extents
    places = []
    for i, label in enumerate(labels):
        boxes, distances = _around(centers[i], _size(axes, label, renderer), pixels)
        leaders = _leaders(centers[i], boxes)
        gaps = np.linalg.norm(np.clip(centers[:, None], boxes[:, :2], boxes[:, 2:]) - centers[:, None], axis=-1)
        costs = (
            distances
            + OVERLAP * _overlap(_padded(boxes, SPACE * pixels), fixed).sum(axis=1)
            + OVERLAP * ((boxes[:, :2] < inside[:2]) | (boxes[:, 2:] > inside[2:])).any(axis=1)
            + CROSSING * _crossed(np.delete(markers, i, axis=0), leaders).sum(axis=0)
            + AMBIGUOUS * (gaps < gaps[i] + 3 * pixels).sum(axis=0)  # nearer to another point than to its own
            + STRUCK_OUT * _crossed(boxes, bar_points).sum(axis=1)
        )
        places.append(_Places(boxes, leaders, costs))
    to_data = axes.transData.inverted()
    for label, place, chosen in zip(labels, places, _choose(places, SPACE * pixels), strict=True):
        box, leader = place.boxes[chosen], place.leaders[chosen]
        if np.linalg.norm(leader[-1] - leader[0]) > NEAR * pixels:
            axes.plot(*to_data.transform(leader[[0, -1]]).T, color="0.5", linewidth=0.5, zorder=1.5)
        x, y = to_data.transform((box[:2] + box[2:]) / 2)
        axes.text(x, y, label, fontsize=FONT_SIZE, ha="center", va="center")


def _size(axes: Axes, label: str, renderer: Any) -> NDArray[Any]:
    probe = axes.text(0, 0, label, fontsize=FONT_SIZE)
    size = np.array(probe.get_window_extent(renderer).size)
    probe.remove()
    return size


def _around(center: NDArray[Any], size: NDArray[Any], pixels: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Boxes in every direction at every distance from a point, and those distances."""
    angles = np.linspace(0, 2 * math.pi, DIRECTIONS, endpoint=False)
    directions = np.tile(np.stack([np.cos(angles), np.sin(angles)], axis=1), (len(DISTANCES), 1))
    distances = np.repeat(DISTANCES, DIRECTIONS)
    middles = center + directions * (distances[:, None] * pixels + size / 2)
    return np.hstack([middles - size / 2, middles + size / 2]), distances


def _choose(places: Sequence[_Places], space: float) -> list[int]:
    """A place for each label: at first as if it were alone, then against where the others are."""
    chosen = [int(place.costs.argmin()) for place in places]
    for _ in range(ROUNDS):
        for i, place in enumerate(places):
            costs = place.costs.astype(float)
            for j in (j for j in range(len(places)) if j != i):
                other = places[j].boxes[chosen[j]][None]
                costs += OVERLAP * _overlap(_padded(place.boxes, space), other)[:, 0]
                costs += CROSSING * _crossed(other, place.leaders)[0]
                costs += CROSSING * _crossed(place.boxes, places[j].leaders[chosen[j]][None])[:, 0]
            chosen[i] = int(costs.argmin())
    return chosen


def _padded(boxes: NDArray[Any], by: float) -> NDArray[Any]:
    return boxes + np.array([-by, -by, by, by])


def _overlap(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Which boxes of `a` (rows) share ground with which of `b` (columns)."""
    a, b = a[:, None], b[None]
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1)


def _crossed(boxes: NDArray[Any], lines: NDArray[Any]) -> NDArray[Any]:
    """Which boxes (rows) have a point of which lines (columns) in them."""
    boxes = boxes[:, None, None]
    return np.any(np.all((lines >= boxes[..., :2]) & (lines <= boxes[..., 2:]), axis=-1), axis=-1)


def _leaders(start: NDArray[Any], boxes: NDArray[Any]) -> NDArray[Any]:
    """Points on the straight line from `start` to the nearest corner or edge of each box."""
    ends = np.clip(start, boxes[:, :2], boxes[:, 2:])
    return start + np.linspace(0, 1, 12)[:, None] * (ends - start)[:, None]
