"""Labels beside the points of a scatter plot, so that all can be read.

Written by hand: under each of eight combinations of its forces, adjustText 1.4 left labels upon each other, upon a
marker or outside the axes in at least six of ten figures (six crowds made at random, four of the committed results).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from oodbench.report.figures.style import SMALL

DISTANCES = (4, 8, 13, 19, 26, 35, 46)  # from a point to its label, in points, as are the following
DIRECTIONS = 24
MARKER = 4  # half its side
NEAR = 7  # what is farther is connected by a line
OVERLAP, CROSSING = 1000, 50  # what is wrong with a place, in the unit of distances
Point = tuple[float, float]


def place_labels(axes: Axes, labels: Mapping[Point, str], points: Sequence[Point], line: Sequence[Point]) -> None:
    """Write labels near their points, one after the other, clear of all points, of a line in steps and of other labels.

    A line leads to what is not near. The points that lie closest together choose first.
    """
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    pixels = axes.figure.dpi / 72  # of a point; all that follows is in pixels
    to_pixels = axes.transData.transform
    markers = to_pixels(points)
    boxes = [np.hstack([center - MARKER * pixels, center + MARKER * pixels]) for center in markers]
    inside = axes.get_window_extent(renderer).extents
    steps = [point for (x, y), (x2, y2) in zip(line, line[1:], strict=False) for point in ((x, y), (x2, y), (x2, y2))]
    leaders = [np.linspace(to_pixels(a), to_pixels(b), 60) for a, b in zip(steps, steps[1:], strict=False)]
    leaders.append(np.empty((0, 2)))
    centers = to_pixels(list(labels)) if labels else np.empty((0, 2))
    texts = list(labels.values())
    for i in _crowded_first(centers):
        text = axes.text(0, 0, texts[i], fontsize=SMALL, ha="center", va="center")
        size = np.array(text.get_window_extent(renderer).size) + pixels
        places, distances = _around(centers[i], size, pixels)
        lines = _lines(centers[i], places)
        others = np.vstack([box for box in boxes if not _within(centers[i][None], box[None])] or [np.empty((0, 4))])
        costs = (
            distances
            + OVERLAP * _overlap(places, np.vstack(boxes)).sum(axis=1)
            + OVERLAP * ((places[:, :2] < inside[:2]) | (places[:, 2:] > inside[2:])).any(axis=1)
            + CROSSING * np.array([_within(line, others) for line in lines])
            + CROSSING * np.array([_within(np.vstack(leaders), place[None]) for place in places])
        )
        best = int(costs.argmin())
        boxes.append(places[best])
        middle = (places[best][:2] + places[best][2:]) / 2
        x, y = axes.transData.inverted().transform(middle)
        text.set_position((x, y))
        if np.linalg.norm(lines[best][-1] - centers[i]) > NEAR * pixels:
            leaders.append(lines[best])
            ends = axes.transData.inverted().transform(lines[best][[0, -1]])
            axes.plot(*ends.T, color="0.5", linewidth=0.5, zorder=1.5)


def _crowded_first(centers: NDArray[Any]) -> list[int]:
    """By the distance to the nearest other point."""
    apart = np.linalg.norm(centers[:, None] - centers[None], axis=-1) + np.diag(np.full(len(centers), np.inf))
    return [int(i) for i in np.argsort(apart.min(axis=1), kind="stable")]


def _around(center: NDArray[Any], size: NDArray[Any], pixels: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Boxes in every direction at every distance from a point, and those distances."""
    angles = np.linspace(0, 2 * math.pi, DIRECTIONS, endpoint=False)
    directions = np.tile(np.stack([np.cos(angles), np.sin(angles)], axis=1), (len(DISTANCES), 1))
    distances = np.repeat(DISTANCES, DIRECTIONS)
    middles = center + directions * (distances[:, None] * pixels + size / 2)
    return np.hstack([middles - size / 2, middles + size / 2]), distances


def _lines(start: NDArray[Any], boxes: NDArray[Any]) -> NDArray[Any]:
    """Points on the straight line from `start` to the nearest corner or edge of each box."""
    ends = np.clip(start, boxes[:, :2], boxes[:, 2:])
    return start + np.linspace(0, 1, 12)[:, None] * (ends - start)[:, None]


def _overlap(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Which boxes of `a` (rows) share ground with which of `b` (columns)."""
    a, b = a[:, None], b[None]
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1)


def _within(points: NDArray[Any], boxes: NDArray[Any]) -> int:
    """How many boxes hold a point."""
    inside = (points[:, None] >= boxes[:, :2]) & (points[:, None] <= boxes[:, 2:])
    return int(inside.all(axis=-1).any(axis=0).sum()) if len(points) else 0
