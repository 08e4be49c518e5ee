"""Each corruption against its published definition, one image and one pixel at a time, on the same random draws."""

import contextlib
import io
import math
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from sklearn.datasets import load_sample_image

from oodbench.data import store
from oodbench.data.corruptions import _water
from oodbench.data.corruptions._filters import glass_sources, plasma
from oodbench.data.corruptions._frost import frost_photographs
from oodbench.data.corruptions._noise import shot
from oodbench.data.corruptions.cifar_c import KINDS, zoom_factors
from oodbench.errors import UserError

SEVERITIES = (1, 2, 3, 4, 5)
W, M = (175, 238, 238), (63, 42, 20)  # water and mud
CONSTANTS_32 = {
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": (500, 250, 100, 75, 50),
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": (0.06, 0.10, 0.12, 0.16, 0.20),
    "gaussian_blur": (0.4, 0.6, 0.7, 0.8, 1),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((1, 1.06, 0.01), (1, 1.11, 0.01), (1, 1.16, 0.01), (1, 1.21, 0.01), (1, 1.26, 0.01)),  # np.arange
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, W),
        (0.65, 0.1, 0.8, 0.7, 0.5, W),
        (0.65, 0.3, 1, 0.69, 0.5, W),
        (0.65, 0.1, 0.7, 0.69, 0.6, M),
        (0.65, 0.1, 0.5, 0.68, 0.6, M),
    ),
    "brightness": (0.05, 0.10, 0.15, 0.20, 0.30),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "jpeg_compression": (80, 65, 58, 50, 40),
    "pixelate": (30, 28, 27, 24, 20),
    "elastic_transform": ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
}
CONSTANTS_224 = {
    "gaussian_noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": (60, 25, 12, 5, 3),
    "impulse_noise": (0.03, 0.06, 0.09, 0.17, 0.27),
    "speckle_noise": (0.15, 0.20, 0.35, 0.45, 0.60),
    "gaussian_blur": (1, 2, 3, 4, 6),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((1, 1.11, 0.01), (1, 1.16, 0.01), (1, 1.21, 0.02), (1, 1.26, 0.02), (1, 1.31, 0.03)),  # np.arange
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, W),
        (0.65, 0.3, 3, 0.68, 0.6, W),
        (0.65, 0.3, 2, 0.68, 0.5, W),
        (0.65, 0.3, 1, 0.65, 1.5, M),
        (0.67, 0.4, 1, 0.65, 1.5, M),
    ),
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    "jpeg_compression": (25, 18, 15, 10, 7),
    "pixelate": (134, 112, 89, 67, 56),
    "elastic_transform": (
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
}
# Mean |corrupted - clean| and mean shift in gray levels on the first 200 CIFAR-10 test images, by the published code.
PUBLISHED = {
    "gaussian_noise": ((8.0, -0.5), (11.9, -0.5), (15.7, -0.6), (17.6, -0.5), (19.4, -0.6)),
    "shot_noise": ((5.9, -0.6), (8.3, -0.7), (13.0, -0.9), (15.0, -1.0), (18.2, -1.4)),
    "impulse_noise": ((1.3, 0), (2.5, 0.1), (3.8, 0.2), (6.4, 0.2), (9.0, 0.4)),
    "speckle_noise": ((5.7, -0.7), (9.3, -0.9), (11.1, -1.1), (14.7, -1.5), (18.1, -1.9)),
    "gaussian_blur": ((1.3, -0.5), (4.9, -0.5), (6.3, -0.5), (7.4, -0.5), (9.5, -0.5)),
    "glass_blur": ((11.3, 0.3), (11.3, -0.6), (11.2, -0.6), (18.2, -0.3), (17.5, -0.3)),
    "defocus_blur": ((1.4, -0.5), (3.3, -0.5), (5.0, -0.5), (6.5, -0.5), (9.3, -0.5)),
    "motion_blur": ((7.0, -0.6), (10.5, -0.7), (13.3, -0.6), (13.1, -0.6), (15.4, -0.7)),
    "zoom_blur": ((8.9, -0.4), (10.4, -0.6), (12.4, -0.7), (14.5, -0.9), (16.5, -1.0)),
    "fog": ((10.9, -0.8), (21.6, -1.9), (27.5, -2.1), (32.7, -2.3), (39.9, -1.6)),
    "frost": ((30.2, 30.2), (43.8, 43.8), (48.2, 48.2), (43.7, 43.2), (43.3, 41.2)),
    "snow": ((10.6, 10.6), (23.6, 23.6), (25.0, 25.0), (36.3, 36.3), (50.6, 50.6)),
    "spatter": ((1.0, 1.0), (2.8, 2.8), (6.8, 6.8), (3.0, -2.8), (5.1, -4.8)),
    "brightness": ((10.0, 10.0), (20.2, 20.2), (29.9, 29.9), (39.0, 39.0), (55.4, 55.4)),
    "contrast": ((10.9, -0.5), (21.8, -0.5), (26.2, -0.5), (30.6, -0.5), (37.1, -0.5)),
    "saturate": ((11.5, 11.5), (14.8, 14.8), (8.0, -8.0), (20.2, -20.2), (29.5, -29.5)),
    "jpeg_compression": ((5.3, 0), (6.6, 0), (7.0, 0), (7.5, 0), (8.1, 0)),
    "pixelate": ((1.8, 0.1), (3.4, 0.1), (4.2, 0.2), (6.3, 0.2), (8.5, 0.4)),
    "elastic_transform": ((21.8, 0), (20.2, -0.6), (18.3, -0.7), (16.4, -0.7), (13.7, -0.5)),
}
# Four standard deviations of the first number, from repeated seeds; the kinds not named here are deterministic.
SPREAD = {
    **dict.fromkeys(("gaussian_noise", "shot_noise", "speckle_noise", "glass_blur", "snow", "fog"), 0.04),
    **dict.fromkeys(("motion_blur", "elastic_transform", "impulse_noise"), 0.08),
    "spatter": 0.14,
    "frost": 0.18,
}

PHOTOGRAPHS = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg", "frost6.jpg")
DATA = os.environ["OODBENCH_DATA"]  # before `frost_folder` points elsewhere


@pytest.fixture(scope="module")
def frost_folder(tmp_path_factory):
    """Stand-ins for the photographs."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "frost").mkdir()
    rng = np.random.default_rng(0)
    for i, name in enumerate(PHOTOGRAPHS):
        Image.fromarray(rng.integers(0, 256, (315 + 5 * i, 400, 3), dtype=np.uint8)).save(folder / "frost" / name)
    return folder


@pytest.fixture(autouse=True)
def data_folder(frost_folder, monkeypatch):
    monkeypatch.setenv("OODBENCH_DATA", str(frost_folder))


def pictures(side=32):
    """Parts of photographs, random pixels, and what breaks formulas: black, white, grays, pure colors, few drops."""
    rng = np.random.default_rng(0)
    found = []
    for name, top, left in (("china.jpg", 20, 100), ("china.jpg", 180, 380), ("flower.jpg", 80, 230)):
        photo = Image.fromarray(load_sample_image(name)).crop((left, top, left + 240, top + 240))
        found.append(np.asarray(photo.resize((side, side), Image.Resampling.BICUBIC)))
    found.append(rng.integers(0, 256, (side, side, 3)))
    ramp = np.linspace(0, 255, side * side).reshape(side, side, 1).repeat(3, axis=2)
    blocks = np.kron(rng.integers(0, 2, (4, 4, 3)), np.ones((side // 4, side // 4, 1))) * 255
    found += [np.zeros((side, side, 3)), np.full((side, side, 3), 255), ramp, blocks]
    return np.stack(found).astype(np.uint8).transpose(0, 3, 1, 2).copy()


@pytest.fixture(scope="module")
def images():
    return pictures()


ROWS = np.array([0, 3, 9_999, 17, 59_999, 4, 1, 123_456])


# The definitions. Images are H x W x 3 in uint8; results are on 0..255, not yet clipped or truncated.


def truncated(values):
    return np.clip(values, 0, 255).astype(np.uint8)


def smooth(plane, sigma, truncate=4, mode="edge"):
    """G(sigma, t, pad) of one channel."""
    radius = math.floor(truncate * sigma + 0.5)
    if sigma == 0 or radius == 0:
        return plane.astype(float)
    weights = [math.exp(-(k**2) / (2 * sigma**2)) for k in range(-radius, radius + 1)]
    for _ in range(2):
        padded = np.pad(plane.astype(float), ((radius, radius), (0, 0)), mode=mode)
        plane = sum(w * padded[k : k + len(plane)] for k, w in enumerate(weights)) / sum(weights)
        plane = plane.T
    return plane


def per_channel(function, image):
    return np.stack([function(image[..., c]) for c in range(3)], axis=-1)


def uniform(bits):
    return (bits.transpose(1, 2, 0) + 0.5) / 2**32


def gaussian_noise(image, sigma, bits):
    return 255 * (image / 255 + sigma * stats.norm.ppf(uniform(bits)))


def speckle_noise(image, sigma, bits):
    return 255 * (image / 255 + image / 255 * sigma * stats.norm.ppf(uniform(bits)))


def shot_noise(image, photons, bits):
    return np.minimum(stats.poisson.ppf(uniform(bits), photons * (image / 255)) / photons, 1) * 255


def impulse_noise(image, share, bits):
    u = uniform(bits)
    return np.where(u < share / 2, 0, np.where(u > 1 - share / 2, 255, image))


def gaussian_blur(image, sigma):
    return per_channel(lambda plane: smooth(plane, sigma), image)


def glass_blur(image, constants, bits):
    sigma, delta, passes = constants
    u, n = truncated(gaussian_blur(image, sigma) + 1e-4), len(image)
    for i in range(passes):
        for y in range(n - delta, delta, -1):
            for x in range(n - delta, delta, -1):
                dx, dy = (math.floor(b / 65536 * 2 * delta) - delta for b in bits[i, y - delta - 1, x - delta - 1])
                u[y, x] = u[y + dy, x + dx]  # and the partner keeps its value
    return gaussian_blur(u, sigma)


def defocus_kernel(radius, alias):
    axis, taps = (range(-8, 9), 1) if radius <= 8 else (range(-10, 11), 2)
    disc = np.array([[float(x**2 + y**2 <= radius**2) for x in axis] for y in axis])
    disc = np.pad(disc / disc.sum(), taps, mode="reflect")
    weights = [math.exp(-(k**2) / (2 * alias**2)) for k in range(-taps, taps + 1)]
    for _ in range(2):
        disc = sum(w * disc[k : k + len(axis)] for k, w in enumerate(weights)).T / sum(weights)
    return disc


def defocus_blur(image, constants):
    kernel, n = defocus_kernel(*constants), len(image)
    reach = len(kernel) // 2
    padded = np.pad(image.astype(float), ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    total = np.zeros(image.shape)
    for dy, dx in np.argwhere(kernel > 0):
        total += kernel[dy, dx] * padded[dy : dy + n, dx : dx + n]
    return total


def motion_blur(image, constants, degrees):
    radius, sigma = constants
    taps = range(2 * math.ceil(radius) + 1)
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in taps]
    total, at = np.zeros(image.shape), np.arange(len(image))
    for i in taps:
        dx = math.ceil(i * math.cos(math.radians(degrees)) - 0.5)
        dy = math.ceil(i * math.sin(math.radians(degrees)) - 0.5)
        rows, columns = np.clip(at + dy, 0, len(at) - 1), np.clip(at + dx, 0, len(at) - 1)
        total += weights[i] / sum(weights) * image[rows][:, columns]
    return np.floor(np.floor(257 * total + 0.5) / 257)


def clipped_zoom(image, zoom):
    n = len(image)
    size = math.ceil(n / zoom)
    top = (n - size) // 2
    crop = image[top : top + size, top : top + size].astype(float)
    enlarged = round(size * zoom)
    for _ in range(2):
        rows = []
        for i in range(n):
            at = ((enlarged - n) // 2 + i) * (size - 1) / (enlarged - 1)
            low = min(math.floor(at), size - 2)
            rows.append((low + 1 - at) * crop[low] + (at - low) * crop[low + 1])
        crop = np.stack(rows).swapaxes(0, 1)
    return crop


def zoom_blur(image, constants):
    zooms = np.arange(*constants)
    return (image + sum(clipped_zoom(image, zoom) for zoom in zooms)) / (len(zooms) + 1)


def diamond_square(noise, decay):
    n = len(noise)
    grid, step, w = np.zeros((n, n)), n, 100.0

    def put(y, x, neighbours):
        mean = sum(grid[a % n, b % n] for a, b in neighbours) / 4
        grid[y % n, x % n] = mean + w * (w * noise[y % n, x % n])

    while step >= 2:
        h, corners = step // 2, range(0, n, step)
        for y in corners:
            for x in corners:
                put(y + h, x + h, [(y, x), (y, x + step), (y + step, x), (y + step, x + step)])
        for y in corners:
            for x in corners:
                put(y, x + h, [(y, x), (y, x + step), (y - h, x + h), (y + h, x + h)])
                put(y + h, x, [(y, x), (y + step, x), (y + h, x - h), (y + h, x + h)])
        step, w = h, w / decay
    return (grid - grid.min()) / (grid.max() - grid.min())


def fog(image, constants, draws):
    c, decay = constants
    cloud = diamond_square(2.0 * draws - 1, decay)[: len(image), : len(image), None]
    f = image / 255
    return 255 * (f + c * cloud) * f.max() / (f.max() + c)


def frost(image, constants, number, place):
    a, b = constants
    n, folder = len(image), Path(os.environ["OODBENCH_DATA"]) / "frost"
    photo = np.asarray(Image.open(folder / PHOTOGRAPHS[number]).convert("RGB")).astype(float)
    if n == 32:
        photo = np.array([[photo[5 * i + 2, 5 * j + 2] for j in range(80)] for i in range(photo.shape[0] // 5)])
    y, x = math.floor(place[0] * (photo.shape[0] - n)), math.floor(place[1] * (photo.shape[1] - n))
    return a * image + b * photo[y : y + n, x : x + n]


def snow(image, constants, field, degrees):
    mean, spread, zoom, threshold, radius, sigma, k = constants
    layer = clipped_zoom(mean + spread * field.astype(float), zoom)
    layer[layer < threshold] = 0
    layer = motion_blur(truncated(255 * layer), (radius, sigma), degrees)[..., None] / 255
    f = image / 255
    grey = (0.299 * f[..., 0] + 0.587 * f[..., 1] + 0.114 * f[..., 2])[..., None]
    return 255 * (k * f + (1 - k) * np.maximum(f, 1.5 * grey + 0.5) + layer + np.rot90(layer, 2))


def canny(u):
    """Edges, pixel by pixel."""
    n = len(u)
    p = np.pad(u.astype(int), 1, mode="edge")
    gx, gy = np.zeros((n, n), int), np.zeros((n, n), int)
    for k, weight in enumerate((1, 2, 1)):
        gx += weight * (p[k : k + n, 2:] - p[k : k + n, :-2])
        gy += weight * (p[2:, k : k + n] - p[:-2, k : k + n])
    size = np.pad(np.abs(gx) + np.abs(gy), 1)  # outside = 0
    candidates = set()
    for y, x in np.argwhere(size > 50).tolist():
        g, a, b = size[y, x], abs(gx[y - 1, x - 1]), abs(gy[y - 1, x - 1])
        if b < math.tan(math.pi / 8) * a:
            ridge = g > size[y, x - 1] and g >= size[y, x + 1]
        elif b > math.tan(3 * math.pi / 8) * a:
            ridge = g > size[y - 1, x] and g >= size[y + 1, x]
        elif (gx[y - 1, x - 1] < 0) == (gy[y - 1, x - 1] < 0):
            ridge = g > size[y - 1, x - 1] and g > size[y + 1, x + 1]
        else:
            ridge = g > size[y - 1, x + 1] and g > size[y + 1, x - 1]
        if ridge:
            candidates.add((y, x))
    edges = np.zeros((n, n), bool)
    front = [(y, x) for y, x in candidates if size[y, x] > 150]
    while front:
        y, x = front.pop()
        if (y, x) in candidates:
            candidates.remove((y, x))
            edges[y - 1, x - 1] = True
            front += [(y + a, x + b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return edges


def chamfer(edges):
    """Distance to the nearest edge, in 1/10000 so that sums are exact; 20 at most."""
    n, at = len(edges), np.argwhere(edges)
    distance = np.full((n, n), 200_000)
    for y in range(n):
        near = at[np.abs(at[:, 0] - y) <= 20]
        if len(near):
            offsets = np.abs(near[:, None] - np.stack([np.full(n, y), np.arange(n)], axis=-1))
            small, big = offsets.min(axis=-1), offsets.max(axis=-1)
            steps = np.where(
                2 * small <= big,
                10_000 * (big - 2 * small) + 21_969 * small,
                14_000 * (2 * small - big) + 21_969 * (big - small),
            )
            distance[y] = np.minimum(distance[y], steps.min(axis=0))
    return distance


def mean_of_nine(plane):
    p, n = np.pad(plane, 1, mode="reflect"), len(plane)
    return sum(p[a : a + n, b : b + n] for a in range(3) for b in range(3)) / 9


def water(u):
    distance = np.floor(mean_of_nine(chamfer(canny(u))) / 10_000 + 1e-9).astype(int)
    lowest, n = distance.min(), len(u)
    others = (distance != lowest).sum()
    if others:
        table = {v: np.rint(255 * ((distance <= v) & (distance != lowest)).sum() / others) for v in range(21)}
        distance = np.vectorize(table.get)(distance)
    p = np.pad(distance, 1, mode="reflect")
    kernel = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))
    lit = sum(kernel[a][b] * p[a : a + n, b : b + n] for a in range(3) for b in range(3))
    return np.rint(mean_of_nine(np.clip(lit, 0, 255)))


def spatter(image, constants, field):
    mean, spread, sigma, threshold, q, colour = constants
    layer = smooth(mean + spread * field.astype(float), sigma)
    layer[layer < threshold] = 0
    f, colour = image / 255, np.array(colour) / 255
    if tuple(constants[-1]) == M:
        m = smooth(layer > threshold, q)
        m[m < 0.8] = 0
        return 255 * (f * (1 - m[..., None]) + m[..., None] * colour)
    u = np.floor(255 * layer) % 256
    m = u * water(u)
    m = q * m / m.max() if m.max() > 0 else m
    return 255 * (f + m[..., None] * colour)


def brightness(image, c):
    f = image / 255
    value = f.max(axis=-1, keepdims=True)
    raised = np.minimum(value + c, 1)
    return 255 * np.where(value > 0, f * raised / np.where(value > 0, value, 1), raised)


def saturate(image, constants):
    a, b = constants
    f = image / 255
    result = np.zeros(f.shape)
    for y, x in np.ndindex(f.shape[:2]):
        value, spread = f[y, x].max(), f[y, x].max() - f[y, x].min()
        if spread == 0:
            result[y, x] = (value, value * (1 - b), value * (1 - b))
        else:
            saturation = np.clip(a * spread / value + b, 0, 1)
            result[y, x] = value * (1 - saturation * (value - f[y, x]) / spread)
    return 255 * result


def contrast(image, c):
    mean = image.mean(axis=(0, 1))
    return (image - mean) * c + mean


def jpeg_compression(image, quality):
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def pixelate(image, size):
    picture = Image.fromarray(np.ascontiguousarray(image))
    return np.asarray(picture.resize((size, size), Image.Resampling.BOX).resize(picture.size, Image.Resampling.BOX))


def reflect101(i, n):
    while not 0 <= i < n:
        i = -i if i < 0 else 2 * (n - 1) - i
    return i


def symmetric(i, n):
    while not 0 <= i < n:
        i = -1 - i if i < 0 else 2 * n - 1 - i
    return i


def bilinear(image, y, x, pad):
    n, top, left = len(image), math.floor(y), math.floor(x)
    rows, columns = [pad(top, n), pad(top + 1, n)], [pad(left, n), pad(left + 1, n)]
    upper, lower = ((left + 1 - x) * image[r, columns[0]] + (x - left) * image[r, columns[1]] for r in rows)
    return (top + 1 - y) * upper + (y - top) * lower


def elastic_transform(image, constants, corners, field=None):
    alpha, sigma, jitter = constants
    n = len(image)
    far, near = {32: (26, 6), 224: (186, 38)}[n]
    old = np.array([(far, far), (far, near), (near, near)])
    new = (old.astype(np.float32) + ((2 * corners - 1) * jitter).astype(np.float32)).astype(float)
    forward = np.vstack([np.linalg.solve(np.c_[old, np.ones(3)], new).T, (0, 0, 1)])
    source = np.linalg.inv(forward)
    moved = np.zeros(image.shape)
    for y, x in np.ndindex(n, n):
        at = [
            math.floor((np.rint(1024 * a * x) + np.rint(1024 * (b * y + t)) + 16) / 32) / 32 for a, b, t in source[:2]
        ]
        moved[y, x] = bilinear(image.astype(float), at[1], at[0], reflect101)
    if field is None:
        return moved
    dx, dy = (alpha * smooth(2.0 * plane - 1, sigma, 3, "symmetric") for plane in field)
    result = np.zeros(image.shape)
    for y, x in np.ndindex(n, n):
        result[y, x] = bilinear(moved, y + dy[y, x], x + dx[y, x], symmetric)
    return result


def difference_from_definition(name, severity, images, rows, constants):
    """Of the corrupted images, and of what they are before truncation."""
    kind, side = KINDS[name], images.shape[-1]
    draws = kind.draws(rows, severity, side)
    before = kind.apply(images, kind.constants(images.shape[1:], severity), *draws)
    define = globals()[name]
    for i, image in enumerate(images.transpose(0, 2, 3, 1)):
        expected = define(image, constants[name][severity - 1], *(draw[i] for draw in draws)).transpose(2, 0, 1)
        corrupted = kind(images[i : i + 1], severity, rows[i : i + 1])[0]
        yield (
            np.abs(corrupted - truncated(expected).astype(int)),
            np.abs(np.clip(before[i], 0, 255) - np.clip(expected, 0, 255)),
        )


def test_there_are_nineteen_in_the_published_order():
    assert list(KINDS) == list(CONSTANTS_32) == list(CONSTANTS_224)


@pytest.mark.parametrize("name", KINDS)
def test_a_corruption_is_its_definition_to_one_grey_level(name, images):
    for severity in SEVERITIES:
        was_cut = KINDS[name].apply(images[:1], *arguments(name, severity)).dtype == np.uint8
        for levels, before in difference_from_definition(name, severity, images, ROWS, CONSTANTS_32):
            assert levels.max() <= 1, severity
            if was_cut:  # nothing to see before it
                assert (levels > 0).mean() < 0.001, severity
            else:  # glass is truncated in between as well, and a value right on the edge then shows around it
                assert (before > 1e-3).mean() <= (0.01 if name == "glass_blur" else 0), severity


def arguments(name, severity, rows=ROWS[:1], side=32):
    kind = KINDS[name]
    return kind.constants((3, side, side), severity), *kind.draws(rows, severity, side)


@pytest.mark.slow
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", KINDS)
def test_a_large_image_follows_the_constants_of_imagenet_c(name, severity):
    large = pictures(224)[[1, 3]]
    for levels, before in difference_from_definition(name, severity, large, ROWS[:2], CONSTANTS_224):
        assert levels.max() <= 1
        assert (levels > 0).mean() < 0.001 or before.max() < 2e-3


@pytest.mark.parametrize("name", KINDS)
def test_a_subset_in_any_order_has_the_pixels_of_the_whole(name, images):
    many = np.concatenate([images] * 34)  # more than are corrupted at a time
    rows = np.arange(5, 5 + len(many))
    chosen = np.random.default_rng(0).permutation(len(many))
    for severity in (2, 5):
        whole = KINDS[name](many, severity, rows)
        for part in (chosen, chosen[:1], chosen[:7], slice(255, 258)):
            assert np.array_equal(KINDS[name](many[part], severity, rows[part]), whole[part])


@pytest.mark.parametrize("name", KINDS)
def test_what_comes_out_has_the_form_of_what_went_in(name, images):
    kept = images.copy()
    corrupted = KINDS[name](images, 3, ROWS)
    assert corrupted.dtype == np.uint8 and corrupted.shape == images.shape and corrupted.flags.c_contiguous
    assert np.array_equal(images, kept)
    assert KINDS[name](images[:0], 3, ROWS[:0]).shape == (0, 3, 32, 32)
    channels_last = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert np.array_equal(KINDS[name](channels_last, 3, ROWS), corrupted)
    read_only = images.copy()
    read_only.setflags(write=False)
    assert np.array_equal(KINDS[name](read_only, 3, ROWS), corrupted)


def test_a_kind_draws_anew_for_every_row_severity_and_kind():
    grey = np.full((2, 3, 32, 32), 128, dtype=np.uint8)
    drawn = [
        KINDS[name].draws(np.array([row]), severity, 32)[0].tobytes()
        for name in ("gaussian_noise", "shot_noise")
        for severity in SEVERITIES
        for row in (0, 1, 2**32, 2**40)
    ]
    assert len(set(drawn)) == len(drawn)
    a, b = KINDS["gaussian_noise"](grey, 3, np.array([1, 2]))
    assert not np.array_equal(a, b)


CODE = """
import hashlib, numpy as np
from oodbench.data.corruptions.cifar_c import KINDS
images = (np.arange(4 * 3072) * 7919 % 251).astype(np.uint8).reshape(4, 3, 32, 32)
print(*(hashlib.sha256(k(images, s, np.arange(4)).tobytes()).hexdigest() for k in KINDS.values() for s in (2, 5)))
"""


def test_another_process_gets_the_same_pixels():
    ours = io.StringIO()
    with contextlib.redirect_stdout(ours):
        exec(CODE, {})
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    assert ours.getvalue() == other.stdout and len(other.stdout.split()) == 38


def test_the_draws_of_a_row_never_change():
    """Published results rest on them."""
    (bits,) = KINDS["gaussian_noise"].draws(np.array([7]), 3, 32)
    assert bits[0, 0, 0, :3].tolist() == [3215512071, 4228200452, 833703983]
    assert KINDS["motion_blur"].draws(np.array([7]), 3, 32)[0][0] == pytest.approx(20.37260916976078, abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 28, 28), (3, 32, 224), (3, 64, 64), (3, 512, 512), (4, 32, 32)])
def test_other_shapes_are_refused_with_the_shapes_there_are(shape):
    with pytest.raises(UserError, match=r"cannot apply 'fog' to images of .*; it takes color images .* of 32x32, or"):
        KINDS["fog"](np.zeros((1, *shape), dtype=np.uint8), 1, np.arange(1))


def test_other_severities_are_refused(images):
    for name in KINDS:
        for severity in (0, 6, -1):
            with pytest.raises(UserError, match=f"'{name}' has no severity {severity}; choose 1 to 5"):
                KINDS[name](images, severity, ROWS)


def test_floats_and_missing_rows_are_bugs_of_the_caller(images):
    with pytest.raises(ValueError, match="uint8"):
        KINDS["fog"](images / 255, 1, ROWS)
    with pytest.raises(ValueError, match="N rows"):
        KINDS["fog"](images, 1, ROWS[:2])


@pytest.mark.parametrize("name", KINDS)
def test_memory_does_not_grow_with_the_number_of_images(name):
    many = np.random.default_rng(0).integers(0, 256, (1024, 3, 32, 32), dtype=np.uint8)
    KINDS[name](many[:2], 5, np.arange(2))
    tracemalloc.start()
    try:
        KINDS[name](many, 5, np.arange(1024))
        peak = tracemalloc.get_traced_memory()[1] - many.nbytes
    finally:
        tracemalloc.stop()
    assert peak < 60e6


# Traps, one by one.


def test_noise_has_the_mean_the_spread_and_the_independence_of_its_definition():
    grey = np.full((300, 3, 32, 32), 100, dtype=np.uint8)
    for name, constants in CONSTANTS_32.items():
        if not name.endswith("noise"):
            continue
        c = constants[4]
        noisy = KINDS[name](grey, 5, np.arange(300)).astype(float) - 100
        spread = {
            "gaussian_noise": 255 * c,
            "speckle_noise": 100 * c,
            "shot_noise": 255 * math.sqrt(100 / 255 / c),
            "impulse_noise": math.sqrt(c / 2 * (100**2 + 155**2)),
        }[name]
        shift = c / 2 * (155 - 100) if name == "impulse_noise" else -0.5
        error = spread / math.sqrt(noisy.size)
        assert abs(noisy.mean() - shift) < 5 * error + 0.01 * spread  # clipping at 0
        assert noisy.std() == pytest.approx(spread, rel=0.02)
        for a, b in (
            (noisy[..., 1:], noisy[..., :-1]),
            (noisy[:, :, 1:], noisy[:, :, :-1]),
            (noisy[:, 0], noisy[:, 1]),
            (noisy[1:], noisy[:-1]),
        ):
            assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / math.sqrt(a.size)


def test_impulse_noise_colours_its_specks():
    """Channels are hit independently: the share with all three hit is the cube of the share of one."""
    grey = np.full((400, 3, 32, 32), 128, dtype=np.uint8)
    hit = KINDS["impulse_noise"](grey, 5, np.arange(400)) != 128
    assert hit.mean() == pytest.approx(0.07, rel=0.02)
    assert hit.all(axis=1).mean() == pytest.approx(0.07**3, rel=0.25)


@pytest.mark.parametrize("photons", [500, 50, 3])
def test_shot_noise_has_the_probabilities_of_poisson(photons):
    steps = shot(photons).steps.reshape(256, 256) - np.arange(256)[:, None]
    for level in (1, 60, 254):
        counts = np.arange(3 * photons + 60)
        values = truncated(np.minimum(counts / photons, 1) * 255)
        expected = np.bincount(values, stats.poisson.pmf(counts, photons * level / 255), minlength=256)
        assert np.abs(np.diff(steps[level], prepend=0) - expected).max() < 1e-9


def test_zoom_blur_counts_its_zooms_as_arange_does():
    """Where the end falls is a matter of rounding: 7, 12, 16, 21 and 26 zooms, and the image counts twice."""
    point = np.zeros((1, 3, 32, 32), dtype=np.uint8)
    point[:, :, 0, 0] = 255
    kind = KINDS["zoom_blur"]
    for severity, count in zip(SEVERITIES, (7, 12, 16, 21, 26), strict=True):
        assert kind.small[severity - 1] == (0.01, count)
        assert len(np.arange(*CONSTANTS_32["zoom_blur"][severity - 1])) == count
        corner = kind.apply(point, kind.small[severity - 1])[0, 0, 0, 0] / 255 * (count + 1)
        assert corner >= 2  # the image itself, and its zoom by 1
    assert [large[1] for large in kind.large] == [12, 16, 11, 13, 11]


def test_the_last_zoom_is_a_hair_over_one_and_a_quarter():
    """So that its size is rounded to 33 pixels and not 32."""
    last = zoom_factors(0.01, 26)[-1]
    assert last > 1.25 and round(26 * last) == 33 and round(26 * 1.25) == 32
    assert zoom_factors(0.01, 26) == np.arange(1, 1.26, 0.01).tolist()


def test_glass_moves_content_down_and_right_by_half_a_pixel():
    ramp = np.tile(np.arange(32, dtype=np.uint8) * 8, (32, 1))
    image = np.stack([ramp, ramp.T, ramp])[None].repeat(400, axis=0)
    glassy = KINDS["glass_blur"](image, 1, np.arange(400)).astype(float)
    drift = (image - glassy)[:, :2, 2:, 2:].mean(axis=(0, 2, 3)) / 8
    assert drift == pytest.approx([0.5, 0.5], abs=0.02)
    assert np.array_equal(glassy[:, :, :2], image[:, :, :2]) and np.array_equal(glassy[..., :2], image[..., :2])


@pytest.mark.parametrize("reach", [1, 2, 3, 4])
def test_a_pass_of_glass_is_a_walk_from_the_lower_right_that_copies(reach):
    side, rng = 24, np.random.default_rng(reach)
    moves = rng.integers(-reach, reach, (5, side - 2 * reach, side - 2 * reach, 2))
    for i, found in enumerate(glass_sources(moves, side, reach)):
        walked = np.arange(side * side).reshape(side, side)
        for y in range(side - reach, reach, -1):
            for x in range(side - reach, reach, -1):
                dx, dy = moves[i, y - reach - 1, x - reach - 1]
                walked[y, x] = walked[y + dy, x + dx]
        assert np.array_equal(found, walked.ravel())


@pytest.mark.parametrize(("severity", "reach"), [(1, 1), (2, 2), (4, 3), (5, 4)])
def test_glass_never_reaches_as_far_forward_as_back(severity, reach):
    (bits,) = KINDS["glass_blur"].draws(np.arange(3), severity, 224)
    moves = np.floor(bits / 65536 * 2 * reach) - reach
    values, counts = np.unique(moves, return_counts=True)
    assert values.tolist() == list(range(-reach, reach))
    assert counts / counts.sum() == pytest.approx(np.full(2 * reach, 1 / (2 * reach)), rel=0.03)


def test_motion_leaves_a_trail_to_one_side_only():
    point = np.zeros((400, 3, 32, 32), dtype=np.uint8)
    point[:, :, 16, 16] = 255
    blurred = KINDS["motion_blur"](point, 5, np.arange(400))
    assert not blurred[..., 17:].any() and blurred[..., 16].any()  # what lies ahead is seen from behind
    (degrees,) = KINDS["motion_blur"].draws(np.arange(4000), 5, 32)
    assert stats.kstest(degrees, stats.uniform(-45, 90).cdf).pvalue > 1e-4


def test_motion_leaves_flat_images_alone():
    flat = np.arange(256, dtype=np.uint8).repeat(3072).reshape(256, 3, 32, 32)
    assert np.array_equal(KINDS["motion_blur"](flat, 5, np.arange(256)), flat)


def test_defocus_at_224_gains_light_where_the_disc_is_cut_off():
    grey = np.full((1, 3, 224, 224), 100, dtype=np.uint8)
    gained = [KINDS["defocus_blur"].apply(grey, c).mean() / 100 for c in KINDS["defocus_blur"].large]
    assert gained == pytest.approx([1, 1, 1, 1.0130, 1.0108], abs=1e-4)


@pytest.mark.parametrize(
    ("decay", "spread", "step"), [(3, 0.146, 0.020), (2.5, 0.152, 0.021), (2, 0.162, 0.025), (1.75, 0.170, 0.029)]
)
def test_plasma_has_the_published_statistics(decay, spread, step):
    noise = np.random.default_rng(0).uniform(-1, 1, (400, 32, 32))
    maps = plasma(noise, decay)
    assert maps.min(axis=(1, 2)).max() == 0 and maps.max(axis=(1, 2)).min() == 1
    assert maps.mean() == pytest.approx(0.5, abs=0.02)
    assert maps.std(axis=(1, 2)).mean() == pytest.approx(spread, rel=0.04)
    assert np.abs(np.diff(maps, axis=1)).mean() == pytest.approx(step, rel=0.04)


def test_a_corner_of_a_large_plasma_has_the_published_statistics():
    rng = np.random.default_rng(0)
    corners = np.concatenate([plasma(rng.uniform(-1, 1, (20, 256, 256)), 1.4)[:, :28, :28] for _ in range(8)])
    assert corners.mean() == pytest.approx(0.52, abs=0.06)
    assert np.sqrt(corners.var(axis=(1, 2)).mean()) == pytest.approx(0.065, rel=0.1)
    assert corners.mean(axis=(1, 2)).std() == pytest.approx(0.19, rel=0.2)


def test_fog_keeps_the_brightest_value_and_black_black(images):
    assert not KINDS["fog"](images[4:5], 5, ROWS[:1]).any()
    white = np.full((50, 3, 32, 32), 255, dtype=np.uint8)
    assert KINDS["fog"](white, 5, np.arange(50)).max(axis=(1, 2, 3)).min() >= 254


def test_the_sixth_photograph_of_frost_is_never_drawn():
    number, place = KINDS["frost"].draws(np.arange(600), 1, 32)
    assert np.bincount(number, minlength=6)[5] == 0 and np.bincount(number).min() > 80
    assert stats.kstest(place.ravel(), "uniform").pvalue > 1e-4


def test_without_photographs_frost_says_how_to_get_them(tmp_path, monkeypatch, images):
    monkeypatch.setattr("oodbench.data.corruptions._frost.find_spec", lambda name: None)
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path))
    with pytest.raises(
        UserError, match="frost needs six photographs.*; get them with: pip install --no-deps imagecorruptions"
    ):
        KINDS["frost"](images, 1, ROWS)
    (tmp_path / "frost").mkdir()
    for name in PHOTOGRAPHS[:5]:
        (tmp_path / "frost" / name).write_bytes(b"not an image")
    with pytest.raises(UserError, match="frost needs six"):
        frost_photographs(tmp_path)
    (tmp_path / "frost" / PHOTOGRAPHS[5]).write_bytes(b"not an image")
    with pytest.raises(UserError, match="cannot read .*; get it again with: pip install --no-deps imagecorruptions"):
        KINDS["frost"](images, 1, ROWS)


def test_frost_is_also_found_in_an_installed_package(tmp_path, monkeypatch, frost_folder):
    package = tmp_path / "imagecorruptions"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('must not be imported')")
    (package / "frost").symlink_to(frost_folder / "frost")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OODBENCH_DATA", str(tmp_path / "nothing"))
    assert [path.name for path in frost_photographs()] == list(PHOTOGRAPHS)


def test_snow_falls_both_ways():
    black = np.zeros((200, 3, 32, 32), dtype=np.uint8)
    snowy = KINDS["snow"](black, 1, np.arange(200)).astype(int)
    assert np.array_equal(snowy, snowy[..., ::-1, ::-1])
    assert np.median(snowy) == pytest.approx((1 - 0.95) * 127.5, abs=1)  # the paler black between the flakes
    _, degrees = KINDS["snow"].draws(np.arange(4000), 1, 32)
    assert stats.kstest(degrees, stats.uniform(-135, 90).cdf).pvalue > 1e-4


def test_fields_are_normal_and_uncorrelated():
    for name in ("snow", "spatter"):
        field = KINDS[name].draws(np.arange(300), 2, 32)[0].astype(float)
        assert abs(field.mean()) < 0.01 and field.std() == pytest.approx(1, abs=0.01)
        for a, b in ((field[..., 1:], field[..., :-1]), (field[:, 1:], field[:, :-1]), (field[1:], field[:-1])):
            assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.01


@pytest.mark.parametrize(("severity", "cover"), list(zip(SEVERITIES, (2.7, 7.1, 18.8, 4.2, 6.5), strict=True)))
def test_spatter_covers_the_published_share_of_pixels(severity, cover):
    dark = np.full((600, 3, 32, 32), 100, dtype=np.uint8)
    changed = (KINDS["spatter"](dark, severity, np.arange(600)) != 100).any(axis=1)
    assert 100 * changed.mean() == pytest.approx(cover, rel=0.12)


def layers(count=40):
    """What spatter looks for edges in, and plain noise, in which every branch of the rules occurs."""
    kind = KINDS["spatter"]
    (fields,) = kind.draws(np.arange(count), 3, 32)
    drops = np.stack([smooth(0.65 + 0.3 * field, 1) for field in fields])
    drops[drops < 0.69] = 0
    noise = np.random.default_rng(0).integers(0, 256, (4, 32, 32))
    return np.concatenate([np.minimum(255 * drops, 255), noise, noise // 4, np.zeros((1, 32, 32))]).astype(np.uint8)


def test_canny_finds_the_edges_of_the_definition():
    stack = layers()
    found = _water.canny(stack)
    assert found.any() and not found.all()
    for i, layer in enumerate(stack):
        assert np.array_equal(found[i], canny(layer))


def test_weak_edges_count_where_they_touch_a_strong_one():
    bar = np.zeros((1, 32, 32), dtype=np.uint8)
    bar[0, :, 16:] = 20  # gradient 80: weak
    assert not _water.canny(bar).any()
    bar[0, :4, 16:] = 60  # gradient 240: strong
    assert _water.canny(bar)[0].any(axis=1).all()


def test_chamfer_distance_is_the_shortest_way_of_the_three_steps():
    edges = _water.canny(layers())
    found = np.minimum(_water.chamfer_distance(edges), 200_000)
    for i, edge in enumerate(edges):
        assert np.array_equal(found[i], chamfer(edge))


def test_water_shines_as_defined_and_only_where_there_is_an_edge():
    stack = layers()
    for i, layer in enumerate(stack):
        assert np.array_equal(_water.light(stack[i : i + 1])[0], water(layer))
    assert set(np.unique(_water.light(stack[-1:]))) == {20}  # no edge: everything equally far


def test_brightness_makes_black_grey_and_white_stay():
    image = np.zeros((1, 3, 32, 32), dtype=np.uint8)
    image[..., 16:] = 255
    bright = KINDS["brightness"](image, 5, np.arange(1))
    assert set(np.unique(bright[..., :16])) == {76} and set(np.unique(bright[..., 16:])) <= {254, 255}


def test_saturate_tints_grey_red():
    grey = np.full((1, 3, 32, 32), 200, dtype=np.uint8)
    for severity, shift in zip(SEVERITIES, (0, 0, 0, 0.1, 0.2), strict=True):
        tinted = KINDS["saturate"](grey, severity, np.arange(1))[0, :, 0, 0].astype(int)
        assert np.abs(tinted - (200, 200 * (1 - shift), 200 * (1 - shift))).max() <= 1


@pytest.mark.parametrize(("severity", "rms"), list(zip(SEVERITIES, (0, 0.08, 0.35, 0.61, 0.82), strict=True)))
def test_elastic_displaces_as_far_as_published(severity, rms):
    alpha, sigma, jitter = CONSTANTS_32["elastic_transform"][severity - 1]
    corners, *fields = KINDS["elastic_transform"].draws(np.arange(300), severity, 32)
    assert stats.kstest(corners.ravel(), "uniform").pvalue > 1e-4
    if severity == 1:
        assert not fields
        return
    assert stats.kstest(fields[0].ravel(), "uniform").pvalue > 1e-4
    moved = [alpha * smooth(2.0 * plane - 1, sigma, 3, "symmetric") for pair in fields[0][:60] for plane in pair]
    assert np.sqrt(2 * np.mean(np.square(moved))) == pytest.approx(rms, rel=0.1)  # of both coordinates together


@pytest.fixture(scope="module")
def real_images():
    """The first 200 test images of CIFAR-10."""
    if store.entry("cifar10") is None:
        pytest.skip(f"'cifar10' is not in '{store.data_folder()}'; get it with: oodbench data get cifar10")
    decoded = store.load("cifar10")
    found = decoded.images[decoded.in_test][:200]
    assert found.mean() == pytest.approx(122.6, abs=0.05)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", KINDS)
def test_cifar_10_changes_as_much_as_by_the_published_code(name, severity, real_images, monkeypatch):
    if name == "frost":
        monkeypatch.setenv("OODBENCH_DATA", DATA)
        try:
            frost_photographs()
        except UserError as error:
            pytest.skip(str(error))
    change = KINDS[name](real_images, severity, np.arange(200)).astype(float) - real_images
    size, shift = PUBLISHED[name][severity - 1]
    spread = SPREAD.get(name, 0) * size
    assert np.abs(change).mean() == pytest.approx(size, abs=max(spread, 0.1) + 0.05)  # the table has one digit
    wide = 0.15 * size if name == "fog" else spread  # how thick a cloud is on average varies more than its traces
    assert change.mean() == pytest.approx(shift, abs=max(wide, 0.1) + 0.05)
