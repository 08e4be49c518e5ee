"""A short, seeded sample of every campaign behind docs/reliability.md; `make soak` runs them at length."""

import ast
import os
import re
import shutil
import signal
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from oodbench.errors import UserError

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


def test_the_table_names_kinds_as_the_page_does(script):
    soak, campaign = script("soak"), script("campaign")
    kinds = (
        "damaged weights brought",
        "damaged detectors under right seals",
        "ends the process",
        "killed at a checkpoint",
    )
    rows = soak.table([campaign.Tally(kind, 2, 1) for kind in kinds], seed=0).splitlines()
    assert rows[2:] == [
        "| trial | number | passed |",
        "|---|---|---|",
        "| damaged weights (`--weights`) | 2 | 1 |",
        "| damaged detectors with matching seals | 2 | 1 |",
        "| plugin ends the process | 2 | 1 |",
        "| killed at a checkpoint | 2 | 1 |",
    ]
    page = soak.PAGE.read_text(encoding="utf-8")
    assert all(row.rpartition(" | 2")[0] in page for row in rows[4:]) and rows[2] in page


def test_a_sample_of_damaged_files_is_refused_in_one_line_or_read_as_if_whole(script, tmp_path):
    trials = list(script("files").campaign(150, 0, tmp_path))
    assert [(trial.kind, trial.name, trial.problem) for trial in trials if trial.problem] == []
    assert len(trials) == 150 and len({trial.kind for trial in trials}) == 14


def test_a_sample_of_damaged_outputs_weights_and_detectors_is_refused_or_gives_the_same_numbers(script, tmp_path):
    trials = list(script("given").campaign(100, 0, tmp_path))
    assert [(trial.kind, trial.name, trial.problem) for trial in trials if trial.problem] == []
    assert len(trials) == 100 and len({trial.kind for trial in trials}) == 8


def test_a_reader_that_breaks_in_any_way_is_a_problem_of_its_file(script, tmp_path):
    files, originals = script("files"), script("originals")

    def breaks(path):
        match path.name:
            case "raises":
                raise KeyError("x")
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "writes":
                (tmp_path / "elsewhere").touch()
            case "refuses":
                raise UserError("one line")
            case "refuses at length":
                raise UserError("one line\nand another")
            case "grows":
                return str(len(bytearray(700 * 2**20)))[:0] or None

    names = ("raises", "dies", "writes", "refuses", "refuses at length", "grows", "reads")
    kind = originals.Kind("x", 1.0, [(name, b"content") for name in names], (lambda content, chance: content,), breaks)
    problems = {name: trial.problem for name, trial in zip(names, files._trials(kind, 7, 0, tmp_path), strict=True)}
    assert problems["raises"] == "KeyError: 'x'" and problems["dies"] == "the process ended (-9)"
    assert problems["writes"].startswith("wrote outside") and problems["refuses at length"].startswith("refused in 2 l")
    assert problems["refuses"] is problems["reads"] is None and re.fullmatch(r"took \d+ MB", problems["grows"])


def test_runs_that_are_killed_end_as_if_nothing_had_happened(script, tmp_path):
    trials = list(script("kills").campaign(2, seed=3, folder=tmp_path))
    assert [(trial.kind, trial.problem) for trial in trials] == [
        ("killed at a random moment", None),
        ("killed while a temporary file was open", None),
    ]


def test_a_run_that_resumes_may_say_so_and_nothing_else_that_is_new(script, tmp_path, monkeypatch):
    kills = script("kills")
    whole = kills._whole(kills.COMMANDS[1], tmp_path / "whole")
    (tmp_path / "killed").mkdir()
    kills._killed(kills.Run(whole.command, tmp_path / "killed", partial(kills._kill_at_rename, ".ckpt", 1, True)))
    shutil.copytree(tmp_path / "killed", tmp_path / "again")
    assert kills._problem(whole, tmp_path / "killed") is None
    said = re.findall("^note: .*$", (tmp_path / "killed" / "again.txt").read_text(), re.MULTILINE)
    assert said == ["note: erm, seed 0: resumes at epoch 2 of 3"]
    monkeypatch.setattr(kills, "RESUMES", "other words")
    assert kills._problem(whole, tmp_path / "again") == f"the run that went on said: {said[0]}"


def test_every_hostile_plugin_is_python_and_is_like_no_other(script):
    plugins = [*script("hostile").plugins(10_000, seed=0)]
    single = [plugin for plugin in plugins if len(plugin.deeds) == 1]
    assert len({plugin.name for plugin in single}) == len(single) > 100
    for plugin in single:
        tree = ast.parse(plugin.source())
        assert all(deed.code.split("\\")[0] in plugin.source() for deed in plugin.deeds), plugin.name
        assert ast.get_docstring(tree) == "A hostile plugin."


def test_what_deeds_replace_in_the_product_is_there(script):
    """Otherwise one does nothing, and that no number changes shows nothing."""
    replaced = []
    for deed in script("hostile").table():
        *before, change = ast.parse(deed.code).body
        if isinstance(change, ast.Assign) and re.search("(from|import) oodbench", deed.code):
            scope: dict[str, object] = {}
            exec("\n".join(map(ast.unparse, before)), scope)
            replaced += [eval(ast.unparse(target), scope) for target in change.targets]
    assert len(replaced) > 8


def test_a_few_hostile_plugins_are_of_every_kind_and_the_same_for_a_seed(script):
    hostile = script("hostile")
    few = [*hostile.plugins(8, seed=3)]
    assert {plugin.kind for plugin in few} == {deed.kind for deed in hostile.table()}
    assert few == [*hostile.plugins(8, seed=3)] != [*hostile.plugins(8, seed=4)]


def test_a_hostile_plugin_changes_no_number_but_its_own(script, tmp_path):
    trials = [*script("plugins").campaign(4, seed=0, folder=tmp_path)]
    assert [trial for trial in trials if trial.problem is not None] == []
