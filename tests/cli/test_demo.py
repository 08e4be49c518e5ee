"""`oodbench demo`: one command from nothing to a table and a page. Here with the preset smoke, which takes a second."""

import dataclasses
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench
from page_data import chunks_of

from oodbench import read_results
from oodbench.cli import demo
from oodbench.results.folder import collection_of

BROKEN = """from dataclasses import dataclass

from oodbench import Trainer


@dataclass
class Broken(Trainer):
    \"\"\"It cannot learn anything.\"\"\"

    def train(self, model, data, loop):
        raise ArithmeticError("no numbers today")
"""
FAILING = ("msp", "broken")
ROOT = Path(__file__).parents[2]


QUICK = dataclasses.replace(demo.REQUEST, preset="smoke", methods=("msp", "bn-adapt"), seeds=(0,))


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "REQUEST", QUICK)


@pytest.fixture
def first(made_once, tmp_path):
    """What a first call has printed; what it has left is in the working folder."""

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(demo, "REQUEST", QUICK)
            (folder / "home").mkdir()
            patch.chdir(folder / "home")
            outcome = oodbench("demo")
            assert_done(outcome)
            (folder / "printed").write_text(outcome.out)

    folder = made_once("demo", make)
    shutil.copytree(folder / "home", tmp_path, dirs_exist_ok=True)
    return (folder / "printed").read_text()


def test_it_prints_the_table_and_then_the_path_of_the_page(first, tmp_path):
    *table, last = first.splitlines()
    page = tmp_path / last.rpartition(" ")[2]
    assert page == tmp_path / "results" / "demo" / "report" / "index.html"
    assert chunks_of(page)["index"]["title"] == "oodbench demo"
    assert any("OOD Acc." in line for line in table) and any("BN-adapt" in line for line in table)


def test_what_it_leaves_is_a_collection_that_a_run_does_not_count_as_its_own(first, tmp_path):
    assert collection_of(tmp_path / "results" / "demo") == "demo"
    assert {*tmp_path.iterdir()} == {tmp_path / "results"}
    assert_refused(oodbench("table", "results"), "results")
    assert_done(oodbench("table", "results", "--with", "demo"))


@pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")
def test_at_home_it_leaves_what_the_script_of_clean_environments_lets_pass_and_no_more(tmp_path, monkeypatch):
    pytest.importorskip("tomllib")  # which the script needs
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "from_nothing")
    paces = import_module("environments").PACES
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OODBENCH_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert_done(oodbench("demo"))
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == [tmp_path / "home" / paces]


def test_a_second_call_shows_the_same_and_computes_nothing(first):
    second = oodbench("demo")
    assert second.out == first
    assert "nothing to do" in assert_done(second)


def test_force_runs_everything_again(first):
    made = {result.path: result.path.stat().st_mtime_ns for result in read_results("results/demo")}
    assert_done(oodbench("demo", "--force"))
    again = {result.path: result.path.stat().st_mtime_ns for result in read_results("results/demo")}
    assert made.keys() == again.keys() and all(again[path] > made[path] for path in made)


def test_results_go_below_the_folder_of_the_option_or_of_the_environment(tmp_path, monkeypatch):
    assert_done(oodbench("demo", "--results", "elsewhere"))
    monkeypatch.setenv("OODBENCH_RESULTS", str(tmp_path / "mine"))
    assert "OODBENCH_RESULTS" in assert_done(oodbench("demo"))
    assert all((tmp_path / name / "demo" / "report" / "index.html").exists() for name in ("elsewhere", "mine"))


def test_a_failed_cell_is_said_and_the_page_shows_the_others(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.setattr(demo, "REQUEST", dataclasses.replace(demo.REQUEST, plugins=("broken.py",), methods=FAILING))
    outcome = oodbench("demo")
    assert outcome.status == 1 and "no numbers today" in outcome.err
    assert (tmp_path / outcome.out.splitlines()[-1].rpartition(" ")[2]).is_file()


def test_where_nothing_can_be_written_one_line_says_so(tmp_path):
    (tmp_path / "results").write_text("a file, which also stops the superuser")
    assert_refused(oodbench("demo"), "cannot write 'results/demo/COLLECTION'")


def test_wrong_arguments_and_defaults_are_refused_in_one_line(monkeypatch):
    assert_refused(oodbench("demo", "--seeds", "0"), "unrecognized arguments: --seeds 0")
    assert_refused(oodbench("demo", "--device", "abacus"), "abacus", "--device")
    monkeypatch.setenv("OODBENCH_DEVICE", "abacus")
    assert_refused(oodbench("demo"), "abacus", "OODBENCH_DEVICE")
