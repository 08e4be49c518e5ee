"""How spatter's water catches light: OpenCV's Canny edges, chamfer distance and histogram equalization, in stacks.

All on whole numbers, N x S x S, as OpenCV computes them; so the steps that amplify a single gray level agree with it.
"""

import numpy as np
from scipy import ndimage

from oodbench.data.corruptions._filters import folded

WEAK, STRONG = 50, 150  # gradients where an edge may go on, and where it may start
UNIT, DIAGONAL, KNIGHT = 10_000, 14_000, 21_969  # lengths of the steps to near pixels: 1, 1.4 and 2.1969
FARTHEST = 20


def light(layer: np.ndarray) -> np.ndarray:
    """How brightly a drop (uint8) shines at each pixel, 0 to 255: highest just off its edges, on one side of them."""
    distance = np.minimum(chamfer_distance(canny(layer)), FARTHEST * UNIT)
    levels = equalised(box_sum(distance) // (9 * UNIT))
    p = padded(levels, "reflect101")
    lit = 2 * p[:, 2:, 2:] + p[:, 2:, 1:-1] + p[:, 1:-1, 2:] + levels
    lit -= 2 * p[:, :-2, :-2] + p[:, :-2, 1:-1] + p[:, 1:-1, :-2]
    return (2 * box_sum(np.clip(lit, 0, 255)) + 9) // 18


def padded(stack: np.ndarray, pad: str) -> np.ndarray:
    """With one pixel more on each side."""
    side = stack.shape[-1]
    index = folded(np.arange(-1, side + 1), side, pad)
    return stack[:, index[:, None], index]


def box_sum(stack: np.ndarray) -> np.ndarray:
    """Over 3x3 pixels, reflect101."""
    p = padded(stack, "reflect101")
    rows = p[:, :-2] + p[:, 1:-1] + p[:, 2:]
    return rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]


def canny(images: np.ndarray) -> np.ndarray:
    """Which pixels of uint8 images are edges."""
    p = padded(images.astype(np.int16), "nearest")
    across, along = p[:, :, 2:] - p[:, :, :-2], p[:, :, :-2] + 2 * p[:, :, 1:-1] + p[:, :, 2:]
    gx, gy = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:], along[:, 2:] - along[:, :-2]
    size = np.abs(gx) + np.abs(gy)
    around = np.pad(size, ((0, 0), (1, 1), (1, 1)))
    width = around.shape[2]
    # A ridge is higher than its two neighbors along the gradient, in the nearest of four directions.
    at, bold = np.flatnonzero(around > WEAK), np.flatnonzero(size > WEAK)
    x, y, height = gx.ravel()[bold], gy.ravel()[bold], size.ravel()[bold]
    diagonal = np.where((x ^ y) < 0, width - 1, width + 1)
    tangent = np.float32(np.tan(np.pi / 8))
    level, upright = np.abs(y) < tangent * np.abs(x), np.abs(y) > (2 + tangent) * np.abs(x)
    step = np.where(level, 1, np.where(upright, width, diagonal))
    before, after = around.ravel()[at - step], around.ravel()[at + step]
    ridge = np.zeros(size.shape, dtype=bool)
    ridge.ravel()[bold] = (height > before) & ((height > after) | (height == after) & (level | upright))
    in_plane = np.zeros((3, 3, 3), dtype=bool)
    in_plane[1] = True
    component, count = ndimage.label(ridge, in_plane)
    strong = np.zeros(count + 1, dtype=bool)
    strong[component[ridge & (size > STRONG)]] = True
    return strong[component]


def chamfer_distance(edges: np.ndarray) -> np.ndarray:
    """To the nearest edge in steps of 1, 1.4 and 2.1969 (a knight's move), times UNIT; huge if there is none."""
    count, side = edges.shape[:2]
    d = np.full((side + 4, count, side + 4), 1 << 29, dtype=np.int32)
    d[2:-2, :, 2:-2][edges.transpose(1, 0, 2)] = 0
    ramp = UNIT * np.arange(side, dtype=np.int32)
    for grid in (d, d[::-1, :, ::-1]):  # downwards, then upwards
        for y in range(2, side + 2):
            two, one, row = grid[y - 2], grid[y - 1], grid[y, :, 2:-2]
            knights = np.minimum(one[:, :-4], one[:, 4:])
            np.minimum(knights, two[:, 1:-3], out=knights)
            np.minimum(knights, two[:, 3:-1], out=knights)
            diagonals = np.minimum(one[:, 1:-3], one[:, 3:-1])
            near = np.minimum(row, one[:, 2:-2] + UNIT)
            np.minimum(near, diagonals + DIAGONAL, out=near)
            np.minimum(near, knights + KNIGHT, out=near)
            near -= ramp  # then the steps along the row, from left to right
            np.minimum.accumulate(near, axis=1, out=near)
            np.add(near, ramp, out=row)
    return d[2:-2, :, 2:-2].transpose(1, 0, 2)


def equalised(levels: np.ndarray) -> np.ndarray:
    """Each image's levels (0 to FARTHEST) spread over 0..255 by how many pixels have them."""
    count, bins = len(levels), FARTHEST + 1
    index = levels + bins * np.arange(count)[:, None, None]
    histogram = np.bincount(index.ravel(), minlength=count * bins).reshape(count, bins)
    total, lowest = levels[0].size, (histogram > 0).argmax(axis=1)[:, None]
    others = total - np.take_along_axis(histogram, lowest, axis=1)
    above = (histogram.cumsum(axis=1) - (total - others)).astype(np.float32)
    scale = np.float32(255) / np.maximum(others, 1).astype(np.float32)
    table = np.where(others == 0, lowest, np.rint(above * scale)).astype(np.int32)
    return table.ravel()[index]
