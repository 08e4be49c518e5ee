"""Score sheets: the most and the least OOD of many images, with scores and verdicts. Draws them and writes no files."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from oodbench.report.contact_sheet import BACKGROUND, GAP, picture_of
from oodbench.running.given.predicting import Prediction

COUNT = 16  # images of either kind
ACROSS = 8  # in a row
TILE = 112  # pixels: the longer side of an image on the sheet
LONGEST = 200  # letters that a line could show
FRAME = 2  # around an image, in the color of its verdict
OOD, ID = "#b2182b", "#2166ac"  # red and blue that color-blind readers tell apart; the word stands beside it


def image(title: str, highest: Sequence[Prediction], lowest: Sequence[Prediction]) -> Image.Image:
    """The most OOD images above, the least OOD ones below, in the order of their scores."""
    font = ImageFont.load_default(size=11)
    heading = ImageFont.load_default(size=14)
    line = int(font.getbbox("Ay")[3]) + 2
    block = int(heading.getbbox("Ay")[3]) + 2 * GAP
    down, across = TILE + 3 * line + 2 * GAP, TILE + 2 * GAP
    parts = [("most OOD first", highest), ("least OOD first", lowest)]
    rows = sum(-(-len(some) // ACROSS) for _, some in parts)
    sheet = Image.new("RGB", (ACROSS * across + GAP, GAP + 3 * block + rows * down), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), _shortened(title, heading, sheet.width - 2 * GAP), fill="black", font=heading)
    top = GAP + block
    for name, some in parts:
        draw.text((GAP, top + GAP), name, fill="black", font=heading)
        top += block
        for i, each in enumerate(some):
            left, y = GAP + i % ACROSS * across, top + i // ACROSS * down
            colored = OOD if each.is_ood else ID
            draw.rectangle((left - FRAME, y - FRAME, left + TILE + FRAME - 1, y + TILE + FRAME - 1), fill=colored)
            sheet.paste(_tile(each), (left, y))
            draw.text((left, y + TILE + GAP), f"{each.score:.5g}  {each.verdict}", fill=colored, font=font)
            for number, text in enumerate((str(each.label), each.image.rpartition("/")[2]), 1):
                place = (left, y + TILE + GAP + number * line)
                draw.text(place, _shortened(text, font, TILE), fill="black", font=font)
        top += -(-len(some) // ACROSS) * down
    return sheet


def _tile(each: Prediction) -> Image.Image:
    """A square with the image in the middle; each pixel a square of pixels where it is small."""
    assert each.pixels is not None
    picture = picture_of(np.ascontiguousarray(each.pixels)).convert("RGB")
    longest = max(picture.size)
    scale = TILE // longest if longest <= TILE else TILE / longest
    size = tuple(max(1, round(side * scale)) for side in picture.size)
    small = longest <= TILE
    picture = picture.resize((size[0], size[1]), Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
    square = Image.new("RGB", (TILE, TILE), BACKGROUND)
    square.paste(picture, ((TILE - size[0]) // 2, (TILE - size[1]) // 2))
    return square


def _shortened(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, wide: int) -> str:
    """Text of a file name, which may hold anything, that is no wider than this."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST])
    if font.getlength(text) <= wide:
        return text
    while text and font.getlength(f"{text}...") > wide:
        text = text[:-1]
    return f"{text}..."
