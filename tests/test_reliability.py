"""A short, seeded sample of every campaign behind docs/reliability.md; `make soak` runs them at length."""

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "reliability"


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script by name, as if it were run from its folder, and forgets it afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield import_module
    for name in {path.stem for path in FOLDER.glob("*.py")} & (set(sys.modules) - before):
        del sys.modules[name]


def test_trials_are_counted_by_kind_in_the_order_they_came(script):
    module = script("campaign")
    trials = [module.Trial("b", "1"), module.Trial("a", "2", "it broke"), module.Trial("b", "3")]
    assert [(each.kind, each.tried, each.held) for each in module.tallied(trials)] == [("b", 2, 2), ("a", 1, 0)]


def test_only_what_stands_between_the_marks_is_written_anew(script):
    soak = script("soak")
    page = f"before\n{soak.BEGIN}\nold\n{soak.END}\nafter\n"
    assert soak.between_marks(page, "new") == f"before\n{soak.BEGIN}\nnew\n{soak.END}\nafter\n"


def test_every_hostile_plugin_is_python_and_is_like_no_other(script):
    plugins = [*script("hostile").plugins(10_000, seed=0)]
    single = [plugin for plugin in plugins if len(plugin.deeds) == 1]
    assert len({plugin.name for plugin in single}) == len(single) > 100
    for plugin in single:
        tree = ast.parse(plugin.source())
        assert all(deed.code.split("\\")[0] in plugin.source() for deed in plugin.deeds), plugin.name
        assert ast.get_docstring(tree) == "A hostile plugin."


def test_a_few_hostile_plugins_are_of_every_kind_and_the_same_for_a_seed(script):
    hostile = script("hostile")
    few = [*hostile.plugins(8, seed=3)]
    assert {plugin.kind for plugin in few} == {deed.kind for deed in hostile.table()}
    assert few == [*hostile.plugins(8, seed=3)] != [*hostile.plugins(8, seed=4)]


def test_a_hostile_plugin_changes_no_number_but_its_own(script, tmp_path):
    trials = [*script("plugins").campaign(8, seed=0, folder=tmp_path)]
    assert [trial for trial in trials if trial.problem is not None] == []
