"""Where the photographs of frost are. Neither drawn nor made up: without them there is no frost."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from oodbench.data.store import data_folder
from oodbench.errors import UserError

NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg", "frost6.jpg")
GET = "pip install --no-deps imagecorruptions==1.1.2"  # which carries them; its own code is not used


def frost_photographs(folder: Path | None = None) -> list[Path]:
    """The six files, from `frost` in the data folder (or another), or from an installed `imagecorruptions`."""
    folders = [(folder or data_folder()) / "frost"]
    package = find_spec("imagecorruptions")
    folders += [Path(place) / "frost" for place in (package and package.submodule_search_locations) or ()]
    for place in folders:
        if all((place / name).is_file() for name in NAMES):
            return [place / name for name in NAMES]
    raise UserError(f"frost needs six photographs, which are not in '{folders[0]}'; get them with: {GET}")


@lru_cache(maxsize=12)
def photograph(path: Path, small: bool) -> np.ndarray:
    """3 x H x W; for small images every fifth pixel, which is what bilinear resizing by 0.2 comes to."""
    try:
        with Image.open(path) as file:
            pixels = np.asarray(file.convert("RGB")).transpose(2, 0, 1)
    except OSError:
        raise UserError(f"cannot read '{path}'; get it again with: {GET}") from None
    return np.ascontiguousarray(pixels[:, 2::5, 2::5] if small else pixels)
