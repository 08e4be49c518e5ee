"""The pictures that `make readme` takes of the page."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
from page_data import some_of
from PIL import Image

import oodbench

pytestmark = pytest.mark.slow


@pytest.fixture
def script(monkeypatch):
    """benchmarks/readme/write.py, where there is a browser."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks" / "readme")
    module = import_module("write")
    if not module.browsers():
        pytest.skip("no browser here: apt-get install chromium")
    yield module
    del sys.modules["write"]


def test_every_picture_is_taken_in_light_colors_and_without_empty_space_below(script, tmp_path):
    some_of("digits-c", tmp_path / "results", ["msp", "erm", "woods", "scone"], seeds=(0, 1))
    page = oodbench.report(tmp_path / "results", out=tmp_path / "site")
    for picture in script.PICTURES:
        path = tmp_path / picture.name
        script.photograph(page, picture, path)
        with Image.open(path) as image:
            shown = image.convert("RGB")
        assert shown.width == script.WIDE * script.SCALE
        assert script.SCALE * 300 < shown.height <= script.SCALE * picture.height
        assert len(shown.getcolors(shown.width * shown.height)) > 20  # letters and markers were drawn
        assert sum(shown.getpixel((0, 0))) > 3 * 240


def test_without_a_browser_one_line_says_what_to_install(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="no browser here to take the pictures with; install one of chromium"):
        script.photograph(tmp_path / "index.html", script.PICTURES[0], tmp_path / "out.png")
