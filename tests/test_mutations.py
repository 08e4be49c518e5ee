"""The faults of benchmarks/mutations can be planted, one in each place, and its script tells who catches them."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "mutations"


@pytest.fixture
def plant(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield import_module("plant")
    del sys.modules["plant"]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A package of one function, which adds, and a test of it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which take longer than the tests
    files = {
        "oodbench/sums/toy.py": "def add(a, b):\n    # why\n    total = a + b\n    return total\n",
        "tests/sums/test_toy.py": "from oodbench.sums.toy import *\n\ndef test_it_adds():\n    assert add(2, 2) == 4\n",
        "pytest.ini": "[pytest]\nmarkers =\n    slow: x\n    gpu: x\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def fault(plant, find, replace, where="toy.add"):
    return plant.Fault(f"{find} {replace}", "method", where, find, replace, "It adds.")


def test_every_fault_has_one_place_and_makes_other_code_that_compiles(plant):
    found = plant.faults()
    assert [sum(each.group == group for each in found) for group in ("method", "rest")] == [40, 20]
    assert len({each.id for each in found}) == 60
    for each in found:
        path, after = each.planted(plant.ROOT)
        assert after != path.read_text(encoding="utf-8")
        compile(after, path, "exec")


def test_a_fault_finds_its_code_in_another_file_and_in_other_spelling(plant, toy):
    (toy / "oodbench" / "moved.py").write_text(
        "class A:\n    def add(self, a, b):\n        return (a +\n            b)\n"
    )
    path, after = fault(plant, "a+b", "a - b", "A.add").planted(toy)
    assert path.name == "moved.py" and after.endswith("return ((a - b))\n")
    _, after = fault(plant, "total = a + b\nreturn total", "if a:\n    return a").planted(toy)
    assert after == "def add(a, b):\n    # why\n    if a:\n        return a\n"


def test_a_fault_without_its_one_place_is_an_error(plant, toy):
    with pytest.raises(plant.Lost, match="0 places"):
        fault(plant, "a * b", "a").planted(toy)
    with pytest.raises(plant.Lost, match="the same"):
        fault(plant, "a + b", "(a + b)").planted(toy)
    (toy / "oodbench" / "toy.py").write_text((toy / "oodbench" / "sums" / "toy.py").read_text())
    with pytest.raises(plant.Lost, match="2 places"):
        fault(plant, "a + b", "a - b").planted(toy)


def test_planted_faults_are_caught_or_missed_and_the_tree_stays_as_it_is(plant, toy):
    before = (toy / "oodbench" / "sums" / "toy.py").read_text()
    caught, missed = fault(plant, "a + b", "a - b"), fault(plant, "a + b", "b + a")
    found = plant.run([caught, missed], toy, toy / "out.json", jobs=1, workers=0, timeout=60, near=True)
    assert found[caught.id]["by"] == "tests/sums/test_toy.py::test_it_adds" and found[caught.id]["caught"]
    assert not found[missed.id]["caught"] and json.loads((toy / "out.json").read_text()) == found
    assert (toy / "oodbench" / "sums" / "toy.py").read_text() == before


def test_a_test_that_fails_without_the_fault_too_catches_nothing(plant, toy, monkeypatch):
    path = toy / "oodbench" / "sums" / "toy.py"

    def fails(tree, files, not_counted=()):
        broken = None if "broken" in not_counted or "broken" not in files else "broken"
        return broken or ("other" if "other" in files and "a - b" in path.read_text() else None)

    monkeypatch.setattr(plant.Tree, "fails", fails)
    tree, wrong = plant.Tree(toy, 0, 60), fault(plant, "a + b", "a - b")
    assert tree.catches(wrong, ["broken", "other"]) == "other" and tree.catches(wrong, ["broken"]) is None
