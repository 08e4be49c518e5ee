"""docs/design.md is true to the code: every room and its sentence, every module in a room."""

import ast
import re
from pathlib import Path

from oodbench.config.cards import PACKAGE

PAGE = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
DOORS = {"__init__", "__main__", "api", "functional"}  # what users and method files import; they lead into the rooms


def first_sentence(path):
    """Of the docstring, on one line, without the marks of code."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.match(r".*?\.(?= |$)", paragraph)[0]


def rows():
    """The table of rooms: names on the left, the sentence on the right."""
    table = PAGE.partition("## The rooms")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (`.+?`) \| (.+?) \|$", table, flags=re.M)
    return {name: sentence for names, sentence in found for name in re.findall(r"`(.+?)`", names)}


def rooms():
    return {
        str(path.parent.relative_to(PACKAGE)).replace("/", "."): path
        for path in PACKAGE.rglob("__init__.py")
        if path.parent != PACKAGE and "methods" not in path.parts[-2:]
    }


def test_every_room_is_on_the_page_with_its_own_sentence():
    stated = rows()
    for room, path in rooms().items():
        assert stated.get(room) == first_sentence(path), f"docs/design.md says of {room}: {stated.get(room)}"


def test_every_module_at_the_top_is_ground_or_a_door_and_the_page_names_it():
    top = {path.stem for path in PACKAGE.glob("*.py")}
    ground = {name for name in rows() if name not in rooms()}
    assert top - DOORS == ground - DOORS and top >= DOORS


def test_the_modules_that_the_page_names_exist():
    for name in re.findall(r"`((?:config|data|learning|results|running|report|cli)\.[\w.]+)`", PAGE):
        path = PACKAGE.joinpath(*name.split("."))
        assert path.with_suffix(".py").is_file() or path.is_dir(), name
