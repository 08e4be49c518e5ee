"""What several corruptions are made of: blurs, zooms, warps, motion, plasma. Stacks of images; nothing is drawn here.

Whatever acts on rows and columns alike is a matrix per axis: out = A @ image @ A.T.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy import sparse

Pad = str  # "nearest" aaa|abc|ccc, "reflect101" cb|abc|ba or "symmetric" ba|abc|cb


def folded(index: np.ndarray, side: int, pad: Pad) -> np.ndarray:
    """Where in 0..side-1 the padding takes an index from."""
    if pad == "nearest":
        return np.clip(index, 0, side - 1)
    period, mirror = (2 * side, 2 * side - 1) if pad == "symmetric" else (2 * side - 2, 2 * side - 2)
    return np.minimum(index % period, mirror - index % period)


@lru_cache(maxsize=64)
def correlation_matrix(side: int, weights: tuple[float, ...], pad: Pad) -> np.ndarray:
    """Of an odd number of weights, the middle one for the pixel itself."""
    matrix = np.zeros((side, side))
    for offset, weight in enumerate(weights, -(len(weights) // 2)):
        np.add.at(matrix, (np.arange(side), folded(np.arange(side) + offset, side, pad)), weight)
    return matrix


def gaussian_weights(sigma: float, radius: int) -> np.ndarray:
    if radius == 0:
        return np.ones(1)
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def gaussian_matrix(side: int, sigma: float, truncate: float = 4, pad: Pad = "nearest") -> np.ndarray:
    """Of the Gaussian that reaches `truncate` standard deviations."""
    return correlation_matrix(side, tuple(gaussian_weights(sigma, int(truncate * sigma + 0.5)).tolist()), pad)


def along_both(images: np.ndarray, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
    """One matrix applied down the columns and, unless there is another, along the rows; in the images' precision."""
    columns = rows if columns is None else columns
    return rows.astype(images.dtype) @ images @ columns.T.astype(images.dtype)


def blurred(images: np.ndarray, sigma: float) -> np.ndarray:
    return along_both(images, gaussian_matrix(images.shape[-1], sigma))


def correlated(images: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """With a two-dimensional kernel, reflect101: the sum of as many separable filters as the kernel has rank."""
    left, strengths, right = np.linalg.svd(kernel)
    side, total = images.shape[-1], np.zeros_like(images)
    for k in np.flatnonzero(strengths > 1e-8 * strengths[0]):
        factors = tuple((strengths[k] * left[:, k]).tolist()), tuple(right[k].tolist())
        total += along_both(images, *(correlation_matrix(side, weights, "reflect101") for weights in factors))
    return total


@lru_cache(maxsize=8)
def disc(radius: float, softness: float) -> np.ndarray:
    """A kernel with a soft rim, as defocus_blur needs it. The largest are cut off by their array and gain 1 % of light.

    The sizes of the array and of the softening, and the padding between them, are those of the published code.
    """
    reach, taps = (8, 1) if radius <= 8 else (10, 2)
    axis = np.arange(-reach, reach + 1)
    inside = axis**2 + axis[:, None] ** 2 <= radius**2
    weights = tuple(gaussian_weights(softness, taps).tolist())
    return along_both(inside / inside.sum(), correlation_matrix(len(axis), weights, "reflect101"))


@lru_cache(maxsize=64)
def zoom_matrix(side: int, factor: float) -> np.ndarray:
    """Of the clipped zoom: the middle, enlarged bilinearly with corners on corners, and of that the middle again."""
    crop = math.ceil(side / factor)
    enlarged = round(crop * factor)
    source = (np.arange(side) + (enlarged - side) // 2) * (crop - 1) / (enlarged - 1)
    left = np.minimum(np.floor(source).astype(int), crop - 2)
    column = (side - crop) // 2 + left
    matrix = np.zeros((side, side))
    matrix[np.arange(side), column], matrix[np.arange(side), column + 1] = 1 - (source - left), source - left
    return matrix


def sparse_map(matrix: sparse.csr_array, images: np.ndarray) -> np.ndarray:
    """A linear map of whole images. Unlike a dense product's, an image's result never depends on those beside it."""
    flat = images.reshape(-1, matrix.shape[1])
    return (matrix @ flat.T).T.reshape(images.shape)


@lru_cache(maxsize=8)
def box_matrix(side: int, size: int) -> np.ndarray:
    """Down to `size` pixels by means of whole pixels, as Pillow's BOX, and up again by repeating."""

    def box(length: int, out: int) -> np.ndarray:
        scale = length / out
        centre = (np.arange(out)[:, None] + 0.5) * scale
        distance = (np.arange(length) + 0.5 - centre) / max(scale, 1)
        inside = (distance > -0.5) & (distance <= 0.5)
        return inside / inside.sum(axis=1, keepdims=True)

    return (box(size, side) @ box(side, size)).astype(np.float32)


def motion_blurred(images: np.ndarray, degrees: np.ndarray, radius: float, sigma: float) -> np.ndarray:
    """As a 16-bit ImageMagick's MotionBlur: uint8 N x C x S x S, an angle each, taps ahead and at whole pixels."""
    taps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(taps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    taps = taps[weights > 2**-26]  # less is lost in float32
    order = np.argsort(degrees, kind="stable")  # images with the same offset at a tap then lie side by side
    angle = np.deg2rad(degrees[order])[:, None]
    down, right = (np.ceil(taps * ray - 0.5).astype(int) for ray in (np.sin(angle), np.cos(angle)))
    above, left = max(0, -int(down.min())), max(0, -int(right.min()))
    margins = ((0, 0), (0, 0), (above, max(0, int(down.max()))), (left, max(0, int(right.max()))))
    padded = np.pad(images[order].astype(np.float32), margins, mode="edge")
    total = np.zeros(images.shape, dtype=np.float32)
    for tap in taps:
        for start, stop in _runs(down[:, tap], right[:, tap]):
            y, x = above + down[start, tap], left + right[start, tap]
            total[start:stop] += weights[tap] * padded[start:stop, :, y : y + images.shape[2], x : x + images.shape[3]]
    result = np.empty_like(images)
    result[order] = total + np.float32(0.5 / 257)  # floor(floor(257 v + 1/2) / 257)
    return result


def _runs(*columns: np.ndarray) -> Iterator[tuple[int, int]]:
    """Start and stop of every stretch of entries that are equal in all columns."""
    changes = np.any([np.diff(column) != 0 for column in columns], axis=0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]
    return zip(edges[:-1], edges[1:], strict=True)


def plasma(noise: np.ndarray, decay: float) -> np.ndarray:
    """Maps N x S x S in [0, 1] by the diamond-square algorithm on a torus, each point with its own noise in -1..1."""
    noise = np.ascontiguousarray(noise.transpose(1, 2, 0), dtype=np.float32)  # so that every step runs along images
    step, amplitude = len(noise), 100.0
    grid = np.zeros((1, 1, noise.shape[2]), dtype=np.float32)
    while step >= 2:
        half, strength = step // 2, np.float32(amplitude**2)  # squared, in the published code too
        right, below = np.roll(grid, -1, axis=1), np.roll(grid, -1, axis=0)
        centres = (grid + right + below + np.roll(right, -1, axis=0)) / 4 + strength * noise[half::step, half::step]
        tops = (grid + right + centres + np.roll(centres, 1, axis=0)) / 4 + strength * noise[::step, half::step]
        sides = (grid + below + centres + np.roll(centres, 1, axis=1)) / 4 + strength * noise[half::step, ::step]
        finer = np.empty((2 * len(grid), 2 * len(grid), grid.shape[2]), dtype=np.float32)
        finer[::2, ::2], finer[1::2, 1::2], finer[::2, 1::2], finer[1::2, ::2] = grid, centres, tops, sides
        grid, step, amplitude = finer, half, amplitude / decay
    grid -= grid.min(axis=(0, 1))
    grid /= grid.max(axis=(0, 1))
    return np.ascontiguousarray(grid.transpose(2, 0, 1))


def glass_sources(moves: np.ndarray, side: int, reach: int) -> np.ndarray:
    """The pixel whose value each pixel has after one pass of glass blur, N x side^2; `moves` (right, down) come last.

    The pass goes from the lower right to the upper left and copies (a swap was meant), so a pixel below or to the right
    of another may have been overwritten before it is copied; its own source is then the source.
    """
    visited = np.arange(reach + 1, side - reach + 1)
    position = (side * visited[:, None] + visited).ravel()
    everywhere = np.arange(side * side)
    source = np.tile(everywhere, (len(moves), 1))
    source[:, position] += (side * moves[..., 1] + moves[..., 0]).reshape(len(moves), -1)
    if reach == 1:  # every source lies above or to the left
        return source
    inside = np.zeros(side * side, dtype=bool)
    inside[position] = True
    overwritten = (source > everywhere) & inside[source] & inside
    while overwritten.any():
        row, at = np.nonzero(overwritten)
        via = source[row, at]
        source[row, at], overwritten[row, at] = source[row, via], overwritten[row, via]
    return source


def affine_sources(side: int, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Source columns and rows, each N x side x side in 1/32 pixels as in OpenCV, where three corners move by (x, y)."""
    far, near = side // 2 + side // 3, side // 2 - side // 3
    corners = np.array([(far, far), (far, near), (near, near)], dtype=np.float32)
    moved = np.pad(corners + shifts.astype(np.float32), ((0, 0), (0, 0), (0, 1)), constant_values=1).astype(float)
    affine = np.linalg.solve(moved, corners.astype(float))[..., None]  # N x (of x, of y, constant) x (for x, for y)
    grid = np.arange(side)
    along = np.rint(1024 * affine[:, 0] * grid).astype(np.int32)
    down = np.rint(1024 * (affine[:, 1] * grid + affine[:, 2])).astype(np.int32)
    x, y = (along[:, k, None, :] + down[:, k, :, None] + 16 >> 5 for k in range(2))
    return x, y


def sampled(
    images: np.ndarray, y: np.ndarray, x: np.ndarray, down: np.ndarray, right: np.ndarray, pad: Pad
) -> np.ndarray:
    """Bilinear values of images N x S x S x C at whole (y, x) plus the parts `down` and `right`, all N x S x S.

    One sparse matrix for the whole stack, four weights in each row.
    """
    count, side = images.shape[:2]
    table = folded(np.arange(-2 * side, 3 * side), side, pad).astype(np.int32)
    first = np.arange(0, y.size, side**2, dtype=np.int32)[:, None, None]
    upper, lower = (first + side * table.take(y + k, mode="clip") for k in (2 * side, 2 * side + 1))
    before, after = (table.take(x + k, mode="clip") for k in (2 * side, 2 * side + 1))
    up, left = 1 - down, 1 - right
    indices, weights = np.empty((*y.shape, 4), dtype=np.int32), np.empty((*y.shape, 4), dtype=np.float32)
    rows, columns = ((upper, up), (lower, down)), ((before, left), (after, right))
    for k, ((row, vertical), (column, horizontal)) in enumerate((r, c) for r in rows for c in columns):
        np.add(row, column, out=indices[..., k])
        np.multiply(vertical, horizontal, out=weights[..., k])
    starts = np.arange(0, indices.size + 1, 4, dtype=np.int32)
    matrix = sparse.csr_array((weights.ravel(), indices.ravel(), starts), shape=(y.size, y.size))
    return (matrix @ images.reshape(y.size, -1)).reshape(images.shape)
