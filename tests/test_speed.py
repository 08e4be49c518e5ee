"""The scripts behind docs/performance.md run and judge rightly; nothing here depends on how fast this machine is."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from oodbench.config import suite
from oodbench.config.schema import Document, text_under

FOLDER = Path(__file__).parent.parent / "benchmarks" / "speed"
SHARED = {"timing", "subject", "report"}
IN_PROCESSES = {"startup", "scale", "scale_out", "data"}  # they start others, which import torch: seconds each


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script by name, as if it were run from its folder, and forgets it afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delenv("PEER", raising=False)
    before = set(sys.modules)
    yield import_module
    for name in {path.stem for path in FOLDER.glob("*.py")} & (set(sys.modules) - before):
        del sys.modules[name]


def scripts():
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem not in SHARED:
            yield pytest.param(path.stem, marks=pytest.mark.slow if path.stem in IN_PROCESSES else ())


@pytest.mark.parametrize("name", list(scripts()))
def test_every_script_prints_rows_of_the_table(name, script):
    rows = [str(row) for row in script(name).rows(True)]
    assert rows
    for row in rows:
        assert re.fullmatch(
            r"\| [^|]+ \| [^|]+ \| [^|]* \| (met|missed by [\d.]+ %|for comparison|not measured) \|", row
        )


def test_the_report_runs_every_script(script):
    assert set(script("report").SCRIPTS) == {path.stem for path in FOLDER.glob("*.py")} - SHARED


def test_a_verdict_says_by_how_much_an_aim_is_missed(script):
    row = script("timing").Row
    assert str(row("a : b", 1.05, 1.05)) == "| a : b | 1.05 × | ≤ 1.05 × | met |"
    assert str(row("a : b", 1.26, 1.05)) == "| a : b | 1.26 × | ≤ 1.05 × | missed by 20 % |"
    assert str(row("a : b", 1.053, 1.05)) == "| a : b | 1.05 × | ≤ 1.05 × | missed by 0.3 % |"
    assert str(row("a : b", 8, 10, at_least=True)) == "| a : b | 8.00 × | ≥ 10.0 × | missed by 20 % |"
    assert str(row("a", 1234, unit="MB")) == "| a | 1,234 MB |  | for comparison |"
    assert str(row("a", None, 5, "s", remark="needs PEER")) == "| a | needs PEER | ≤ 5.00 s | not measured |"


def test_sides_take_turns(script):
    calls = []
    sides = {name: lambda name=name: calls.append(name) for name in "ab"}
    assert set(script("timing").least(sides, turns=3)) == {"a", "b"}
    assert calls == list("ababab")


def test_the_report_leaves_the_remarks_around_its_table(script):
    report = script("report")
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    assert report.between_marks(text, "new") == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    page = report.PAGE.read_text(encoding="utf-8")
    assert page.count(report.BEGIN) == page.count(report.END) == 1


def test_the_bare_scone_loop_is_the_method(script):
    """Otherwise the ratio would compare different work: both multiply, step and pass the same number of times."""
    training = script("training")
    counts = []
    for run in ("bare", "harness"):
        model = training.network("lenet-bn", channels=1).requires_grad_(True)
        passed = []
        model.body.register_forward_hook(lambda _, inputs, __, passed=passed: passed.append(len(inputs[0])))
        split = training.images(256, training.GREY)
        labelled = training.Split(training.as_rows(split.images), training.torch.from_numpy(split.labels))
        wild = [training.torch.from_numpy(training.images(256, training.GREY, seed).whole) for seed in (1, 2, 3)]
        recipe = training.Recipe(epochs=2, batch_size=128, lr=0.001)
        if run == "bare":
            training.bare_scone(model, recipe, labelled, wild)
        else:
            mixture = training.WildMixture(*wild, pi_c=training.PI_C, pi_s=training.PI_S)
            loop = training.Loop(recipe, seed=0, device=training.CPU)
            data = training.Data(labelled, training.CLASSES, mixture)
            training.scorers("scone")[0].make().train_with(training.MARGIN, model, data, loop)
        counts.append(passed)
    assert counts[0] == counts[1] == [256] + 2 * [256, 256, 256]


@pytest.mark.parametrize("path", suite.suite_files().values(), ids=lambda path: path.stem)
def test_a_title_read_alone_is_the_suite_s_title(path):
    assert suite.title(path) == Document(path).values["title"]


def test_text_is_found_under_keys_of_the_top_level_alone_and_the_rest_is_not_read(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("network: {title: inner, list: [title, no]}\ntitle: 'the: one'\nbroken: [")
    assert text_under(path, "title") == "the: one"
    path.write_text("network: {title: inner}\nname: title\n")
    assert text_under(path, "title") is None
