"""Contact sheets: a few images of a suite, corrupted or part by part. Draws them; prints nothing and writes no files.

Only the images on a sheet are corrupted: the draws of an image follow from its row, so they are the pixels of a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from oodbench.config.families import corruption_kinds, severities
from oodbench.config.suite import NONE, Setting, Suite
from oodbench.data import corruptions, lookup, views
from oodbench.data.jpeg import encoded
from oodbench.data.parts import build_parts
from oodbench.errors import UserError, unknown
from oodbench.seeds import derive

ALL = "all"  # kinds of corruption
TILE = 64  # pixels: smaller images are enlarged to about this side
GAP = 4
BACKGROUND = "#d7d7d7"  # neither black nor white, which fill whole images


@dataclass(frozen=True)
class Sheet:
    title: str
    rows: list[str]
    columns: list[str]
    tiles: np.ndarray  # uint8, rows x columns x C x H x W
    missing: dict[str, str] = field(default_factory=dict)  # kinds that cannot be drawn here, and why

    def image(self) -> Image.Image:
        """Labelled; each pixel a square of pixels where images are small."""
        channels, height, width = self.tiles.shape[2:]
        times = max(1, TILE // height)
        font = ImageFont.load_default()
        line = int(font.getbbox("Ay")[3]) + GAP
        margin = _widest(font, self.rows) + 2 * GAP
        across, down = max(times * width, _widest(font, self.columns)) + GAP, times * height + GAP
        top = 2 * line + GAP
        size = (
            max(margin + across * len(self.columns), _widest(font, [self.title]) + 2 * GAP),
            top + down * len(self.rows),
        )
        sheet = Image.new("L" if channels == 1 else "RGB", size, BACKGROUND)
        draw = ImageDraw.Draw(sheet)
        draw.text((GAP, GAP), self.title, fill="black", font=font)
        for i, name in enumerate(self.columns):
            draw.text((margin + i * across, line + GAP), name, fill="black", font=font)
        for j, name in enumerate(self.rows):
            y = top + j * down
            draw.text((GAP, y + (down - line) // 2), name, fill="black", font=font)
            for i, tile in enumerate(self.tiles[j]):
                large = tile.repeat(times, axis=1).repeat(times, axis=2)
                sheet.paste(picture_of(large), (margin + i * across, y))
        return sheet


def of_corruption(suite: Suite, kind: str, count: int, seed: int) -> Sheet:
    """An image a row: clean, then severity by severity."""
    family = _family(suite, kind)
    clean = _clean(suite, count, seed)
    steps = severities(family)
    copies = [clean.images, *(_corrupted(suite, family, kind, severity, clean) for severity in steps)]
    columns = ["clean", *(f"severity {severity}" for severity in steps)]
    return Sheet(f"{suite.name}: {kind}", clean.classes, columns, np.stack(copies, axis=1))


def of_all_corruptions(suite: Suite, severity: int | None, count: int, seed: int) -> Sheet:
    """A kind a row, all at one severity: by default the suite's own, or the middle one if its settings have none.

    Kinds that cannot be made here are left out and named in `missing`.
    """
    family = _family(suite, ALL)
    kinds, steps = corruption_kinds(family), severities(family)
    if severity is None:
        shared = suite.contents.defaults
        severity = shared.severity if shared.covariate in kinds else steps[len(steps) // 2]
    suite.setting(f"covariate={kinds[0]},severity={severity}")  # refuses a severity that does not exist
    clean = _clean(suite, count, seed)
    copies, missing = {"clean": clean.images}, dict[str, str]()
    for kind in kinds:
        try:
            copies[kind] = _corrupted(suite, family, kind, severity, clean)
        except UserError as error:  # frost, without its photographs
            missing[kind] = str(error)
    if len(copies) == 1:
        raise UserError(next(iter(missing.values())))
    title = f"{suite.name}: severity {severity}"
    return Sheet(title, [*copies], clean.classes, np.stack([*copies.values()]), missing)


def of_parts(suite: Suite, settings: Sequence[Setting], count: int, seed: int) -> Sheet:
    """A row for each test split of the settings, which may share some."""
    shown_parts: dict[tuple[str, str], np.ndarray] = {}
    for setting in settings:
        parts = build_parts(suite, setting, seed)
        corruption = setting.covariate not in suite.contents.covariate
        covariate = f"{setting.covariate}, severity {setting.severity}" if corruption else setting.covariate
        held_out = suite.held_out(setting)
        tests = {"id: without " + ", ".join(held_out) if held_out else "id": parts.id}
        tests[f"covariate: {covariate}"] = parts.covariate
        if setting.semantic != NONE:
            tests[f"semantic: {setting.semantic}"] = parts.semantic
        for name, part in tests.items():
            shown = part.take(_one_per_class(part.labels, count, seed, name))
            shown_parts[name, part.digest] = np.asarray(shown.images)
    return Sheet(
        f"{suite.name}: test splits", [name for name, _ in shown_parts], [""] * count, np.stack([*shown_parts.values()])
    )


def of_data_set(name: str, count: int, seed: int) -> Sheet:
    """A row for each domain of a data set or, where it has none, for its train and its test part."""
    data = lookup.dataset(name)
    if data.domains:
        chosen = {domain: data.part(None, domains=[domain]) for domain in data.domains}
    elif data.has_test_part:
        chosen = {"train": data.part(False), "test": data.part(True)}
    else:
        chosen = {"all": data.part(None)}
    images = data.arrays(None)[0]
    picked = [rows.rows[_one_per_class(rows.labels, count, seed, part)] for part, rows in chosen.items()]
    return Sheet(name, [*chosen], [""] * count, np.stack([np.asarray(images[rows]) for rows in picked]))


@dataclass(frozen=True)
class _Clean:
    """Some ID test images."""

    images: np.ndarray
    rows: np.ndarray
    classes: list[str]


def _clean(suite: Suite, count: int, seed: int) -> _Clean:
    """Of the test part, or of the whole set where it has none."""
    source = suite.contents.id
    data = lookup.dataset(source.dataset)
    part = data.part(True if data.has_test_part else None, source.classes, source.domains)
    chosen = _one_per_class(part.labels, count, seed, "id")
    rows = part.rows[chosen]
    images = np.asarray(data.arrays(source.size)[0][rows])
    if source.jpeg is not None:
        images = encoded(images, source.jpeg)
    names = data.class_names
    return _Clean(images, rows, [names[k] if names else f"class {k}" for k in data.labels()[rows].tolist()])


def _one_per_class(labels: np.ndarray, count: int, seed: int, part: str) -> np.ndarray:
    """Of each class one, in their order, then of each another; the seed says which."""
    if count < 1:
        raise UserError(f"--images {count} leaves nothing to show; choose 1 or more")
    if count > len(labels):
        raise UserError(f"'{part}' has {len(labels):,} images; choose --images {len(labels)} or fewer")
    order = np.random.default_rng(derive(seed, "contact sheet")).permutation(len(labels))
    shuffled = labels[order]
    turn = np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        turn[shuffled == label] = np.arange(np.count_nonzero(shuffled == label))
    return order[np.lexsort((shuffled, turn))][:count]


def _family(suite: Suite, kind: str) -> str:
    """The suite's family of corruptions, which has this kind."""
    family = suite.contents.corruptions
    if family is None:
        raise UserError(f"{suite.name} has no corruptions; leave out --corruption to see its parts")
    kinds = [*corruption_kinds(family), ALL]
    if kind not in kinds:
        raise unknown("corruption", kind, kinds)
    return family


def _corrupted(suite: Suite, family: str, kind: str, severity: int, clean: _Clean) -> np.ndarray:
    """From the published files where a run would take them, otherwise made."""
    published = views.published(suite, suite.setting(f"covariate={kind},severity={severity}"), clean.rows)
    if published is not None:
        files, where = published
        return np.asarray(files.images[where])
    copies: np.ndarray = corruptions.kinds(family)[kind](clean.images, severity, clean.rows)
    return copies


def picture_of(pixels: np.ndarray) -> Image.Image:
    """Grey, or in color; two channels are red and green."""
    if len(pixels) == 1:
        return Image.fromarray(pixels[0])
    colours = np.zeros((3, *pixels.shape[1:]), dtype=np.uint8)
    colours[: len(pixels)] = pixels
    return Image.fromarray(np.ascontiguousarray(colours.transpose(1, 2, 0)))


def _widest(font: ImageFont.FreeTypeFont | ImageFont.ImageFont, words: Sequence[str]) -> int:
    return max(int(font.getlength(word)) + 1 for word in words)
