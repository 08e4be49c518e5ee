"""Labels beside the points of a scatter plot, so that all can be read."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray


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
