"""Environment variables and oodbench.toml: what a command takes where a flag says nothing."""

import json
from pathlib import Path

import pytest
from command_line import assert_done, assert_refused, oodbench

from oodbench.cli.defaults import find
from oodbench.results.folder import read_folder

SCORER = '''\
"""A plugin."""

from dataclasses import dataclass

from oodbench import Outputs, Scorer


@dataclass
class Mine(Scorer):
    """The first logit, negated."""

    def score(self, out: Outputs):
        return -out.logits[:, 0]
'''
DRY = ("run", "--suite", "digits-c", "--preset", "smoke", "--methods", "msp", "--dry-run")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder of a user whose home is above it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "project" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def write(text, folder="."):
    (Path(folder) / "oodbench.toml").write_text(text)


def test_the_variable_names_the_folder_that_commands_read(results, monkeypatch):
    assert_refused(oodbench("table"), "there is no results folder 'results'; make one with")
    monkeypatch.setenv("OODBENCH_RESULTS", str(results))
    assert assert_done(oodbench("table")) == assert_done(oodbench("table", results))
    assert json.loads(oodbench("status", "--json").out)["done"] == 4
    monkeypatch.setenv("OODBENCH_RESULTS", "")  # as if it were not set
    assert_refused(oodbench("table"), "there is no results folder 'results'")


def test_a_flag_overrides_a_variable_and_a_variable_overrides_the_file(results, monkeypatch):
    write('results = "of the file"')
    message = "there is no results folder 'of the file'; make one with"
    assert_refused(oodbench("table"), message, "; the default for results came from 'oodbench.toml'\n")
    monkeypatch.setenv("OODBENCH_RESULTS", "of the variable")
    message = "there is no results folder 'of the variable'; make one with"
    assert_refused(oodbench("table"), message, "; the default for results came from OODBENCH_RESULTS\n")
    assert_done(oodbench("table", results))
    assert_refused(oodbench("table", "nowhere"), "--results nowhere\n")


def test_an_error_names_the_variable_that_a_device_came_from(monkeypatch):
    monkeypatch.setenv("OODBENCH_DEVICE", "nonsense")
    outcome = oodbench(*DRY)
    assert_refused(outcome, "the device 'nonsense' cannot be used (", "default for device came from OODBENCH_DEVICE\n")
    assert "defaults: device from OODBENCH_DEVICE\n" in outcome.err
    out = assert_done(oodbench(*DRY, "--device", "cpu"))
    assert "OODBENCH_DEVICE" not in out


def test_results_go_where_the_file_says_and_the_run_says_so(here, results):
    write('results = "stored"\nworkers = 1\ndevice = "cpu"\n')
    assert assert_done(oodbench(*DRY)).startswith("defaults: results, workers, device from 'oodbench.toml'\n")
    write('results = "stored"\ndevice = "cpu"\n')
    outcome = oodbench(*DRY[:-1])
    assert outcome.status == 0 and outcome.err.startswith("defaults: results, device from 'oodbench.toml'\n")
    ours = read_folder(Path("stored"))[0]
    theirs = [each for each in read_folder(results)[0] if each.method == "msp"]
    assert [each.key for each in ours] == [each.key for each in theirs]
    assert [each.metrics for each in ours] == [each.metrics for each in theirs]


def test_a_plugin_of_the_file_need_not_be_named(here):
    (here / "mine.py").write_text(SCORER)
    assert "mine " not in assert_done(oodbench("list", "methods"))
    write('plugins = ["mine.py"]')
    assert "mine  " in assert_done(oodbench("list", "methods"))
    assert "mine: The first logit, negated." in assert_done(oodbench("show", "mine"))
    assert " / mine / seed 0" in assert_done(oodbench(*DRY[:5], "--methods", "mine", "--dry-run"))
    (here / "other.py").write_text(SCORER.replace("class Mine", "class Other"))
    out = assert_done(oodbench("list", "methods", "--plugin", "other.py", "--plugin", "mine.py"))
    assert "mine  " in out and "other  " in out
    write('plugins = ["gone.py"]')
    message = "there is no plugin file 'gone.py'"
    assert_refused(oodbench("list"), message, "; the default for plugins came from 'oodbench.toml'\n")


def test_a_file_above_is_found_and_its_paths_are_meant_from_there(here, results):
    write('results = "stored"\nplugins = ["code/mine.py"]', here.parent)
    (here.parent / "code").mkdir()
    (here.parent / "code" / "mine.py").write_text(SCORER)
    assert "mine  " in assert_done(oodbench("list", "methods"))
    source = here.parent / "oodbench.toml"
    message = "there is no results folder '../stored'; make one with"
    assert_refused(oodbench("table"), message, f"; the default for results came from '{source}'\n")


def test_files_above_the_repository_and_the_home_folder_are_not_read(here, tmp_path, monkeypatch):
    write("", tmp_path)
    assert find(here) == tmp_path / "oodbench.toml"  # the home folder itself counts
    (here.parent / ".git").mkdir()
    assert find(here) is None
    write("", here.parent)
    assert find(here) == here.parent / "oodbench.toml"
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert find(here) == here.parent / "oodbench.toml"
    (here.parent / ".git").rmdir()
    assert find(here) is None, "neither in a repository nor below the home folder"
    write("", here)
    assert find(here) == here / "oodbench.toml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("result = 'x'", "oodbench.toml: unknown key 'result'; did you mean 'results'?"),
        ("offline = true", "oodbench.toml: unknown key 'offline'; known: device, plugins, results, workers"),
        ("workers = '2'", "oodbench.toml: 'workers': expected a whole number, got '2'"),
        ("plugins = 'mine.py'", "oodbench.toml: 'plugins': expected a list (text each), got 'mine.py'"),
        ("results = ", "oodbench.toml: not valid TOML: Invalid value (at "),
        (f"workers = {'9' * 5000}", "oodbench.toml: not valid TOML: Exceeds the limit"),
        ("[results]\na = 1", "oodbench.toml: 'results': expected text"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_one_line(text, message):
    write(text)
    assert_refused(oodbench("table"), message)


def test_workers_that_cannot_be_are_blamed_on_the_file():
    write("workers = 0")
    assert_refused(
        oodbench(*DRY), "--workers 0 is out of range; choose", "the default for workers came from 'oodbench.toml'\n"
    )


def test_a_file_that_is_no_text_is_refused(here):
    (here / "oodbench.toml").write_bytes(b"\xff\xfe")
    assert_refused(oodbench("table"), "oodbench.toml: not a text file; expected TOML in UTF-8")


def test_a_request_file_says_everything_and_takes_no_defaults(monkeypatch):
    Path("request.yaml").write_text("suite: digits-c\npreset: smoke\nmethods: msp\n")
    write('results = "stored"\nplugins = ["gone.py"]')
    monkeypatch.setenv("OODBENCH_DEVICE", "nonsense")
    outcome = oodbench("run", "--request", "request.yaml", "--dry-run")
    assert outcome.status == 0 and "defaults: " not in outcome.err


def test_a_saved_request_holds_what_the_defaults_were():
    write('results = "stored"\ndevice = "cpu"')
    assert_done(oodbench(*DRY[:-1], "--save-request", "request.yaml"))
    text = Path("request.yaml").read_text()
    assert "results: stored\n" in text and "device: cpu\n" in text


def test_help_and_mistakes_in_usage_do_not_read_the_file():
    write("nonsense")
    assert_done(oodbench("run", "--help"))
    assert_refused(oodbench("rnu"), "unknown command 'rnu'")
