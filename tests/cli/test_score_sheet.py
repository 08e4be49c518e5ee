"""The sheet shows the images that it was given, in their order, with what was said of them."""

import numpy as np
import pytest

from oodbench.cli import score_sheet
from oodbench.cli.score_sheet import ACROSS, TILE
from oodbench.report.contact_sheet import GAP
from oodbench.running.given.predicting import Prediction

COLORS = [(200, 30, 60), (20, 220, 90), (40, 50, 240), (230, 220, 20)]


def flat(color, name="a.png", score=1.0, is_ood=True, side=8, label="cat"):
    pixels = np.empty((3, side, side), dtype=np.uint8)
    pixels[:] = np.array(color, dtype=np.uint8)[:, None, None]
    return Prediction(name, label, score, is_ood, 0.5, pixels=pixels)


def colors_of(sheet):
    """Where each of the test's colors is: the upper left corner of its tile."""
    pixels = np.asarray(sheet)
    found = {}
    for color in COLORS:
        ys, xs = np.nonzero((pixels == np.array(color)).all(axis=-1))
        if len(ys) > 100:
            found[color] = (int(xs.min()), int(ys.min()), len(ys))
    return found


def test_images_stand_in_their_order_the_most_ood_above():
    red, green, blue, yellow = map(flat, COLORS)
    found = colors_of(score_sheet.image("title", [red, green], [blue, yellow]))
    (x0, y0, _), (x1, y1, _), (x2, y2, _), (x3, y3, _) = (found[color] for color in COLORS)
    assert x0 == x2 == GAP and x1 == x3 == GAP + TILE + 2 * GAP
    assert y0 == y1 < y2 == y3
    assert {area for *_, area in found.values()} == {TILE * TILE}


def test_a_row_holds_eight_and_the_ninth_begins_another():
    many = [flat(COLORS[0], side=4)] * ACROSS + [flat(COLORS[1], side=4)]
    found = colors_of(score_sheet.image("title", many, []))
    assert found[COLORS[1]][0] == GAP and found[COLORS[1]][1] > found[COLORS[0]][1]


@pytest.mark.parametrize(("side", "shown"), [(8, 112), (32, 96), (224, 112), (100, 100)])
def test_small_images_grow_by_whole_pixels_and_large_ones_shrink(side, shown):
    found = colors_of(score_sheet.image("title", [flat(COLORS[0], side=side)], []))
    assert found[COLORS[0]][2] == shown * shown


def test_the_verdict_has_its_color():
    ood = np.asarray(score_sheet.image("title", [flat((0, 0, 0), is_ood=True)], []))
    id = np.asarray(score_sheet.image("title", [flat((0, 0, 0), is_ood=False)], []))

    def has(pixels, color):
        return bool((pixels == np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])).all(axis=-1).any())

    assert has(ood, score_sheet.OOD) and not has(ood, score_sheet.ID)
    assert has(id, score_sheet.ID) and not has(id, score_sheet.OOD)


def test_grey_images_and_names_of_any_letters_are_drawn():
    grey = Prediction(
        "x" * 500 + "\n\udcff.png", "λ" * 300, float("nan"), True, 1.0, pixels=np.zeros((1, 8, 8), np.uint8)
    )
    sheet = score_sheet.image("t" * 500, [grey], [grey])
    assert sheet.width == ACROSS * (TILE + 2 * GAP) + GAP


def test_text_is_cut_where_its_tile_ends():
    long = score_sheet.image("title", [flat((0, 0, 0), name="w" * 200 + ".png")], [])
    blank = score_sheet.image("title", [flat((0, 0, 0), name="")], [])
    beyond = slice(GAP + TILE + GAP, None)
    assert (np.asarray(long)[:, beyond] == np.asarray(blank)[:, beyond]).all()
