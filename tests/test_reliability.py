"""A short, seeded sample of every campaign behind docs/reliability.md; `make soak` runs them at length."""

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


def test_runs_that_are_killed_end_as_if_nothing_had_happened(script, tmp_path):
    trials = list(script("kills").campaign(2, seed=3, folder=tmp_path))
    assert [(trial.kind, trial.problem) for trial in trials] == [
        ("killed at a random moment", None),
        ("killed while a temporary file was open", None),
    ]
