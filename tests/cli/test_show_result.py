"""`oodbench show RESULT.json`: a cell in words, and the command that makes it again."""

import shlex
from dataclasses import replace

import pytest
import torch
from command_line import SUITE_FILE, assert_done, assert_refused, oodbench, smoke
from made_results import a_result, component, config
from result_files import REFERENCE, reference

from oodbench.results.folder import read_folder
from oodbench.results.stored import write
from oodbench.running.repeat import command

PLUGIN = '''"""Author (2026). Title."""
from dataclasses import dataclass
from oodbench import Scorer

@dataclass
class Mine(Scorer):
    """Mine."""

    k: int = 5

    def score(self, batch):
        return -batch.logits.amax(dim=1)
'''


def again(result, folder):
    """What a dry run of the printed command finds in a folder."""
    words, remarks = command(result)
    assert not remarks
    return assert_done(oodbench(*shlex.split(words)[1:], "--results", folder, "--dry-run")).splitlines()[0]


def test_a_result_is_shown_in_words():
    of_digits, _ = read_folder(REFERENCE / "digits-c")
    (result,) = [each for each in of_digits if (each.method, each.setting, each.seed) == ("scone", "unseen-digits", 2)]
    out = assert_done(oodbench("show", result.path))
    assert out.startswith("digits-c / unseen-digits / scone / seed 2: ok\n\nmetrics (version 2), in percent\n")
    for line in (
        f"  auroc                 {100 * result.metrics['auroc']:.2f}  AUROC",
        "  starts from: erm@1",
        "  scorer:      energy@1 temperature 1.0",
        "  network:     small-cnn width 16",
        "  threads:     1, precision fp32",
        "  code:        batches@1, classifier@1, digits_c@1, loop@1, small-cnn@1, outputs@1, parts@1",
        "  device:      cpu (1 threads)",
        f"  seconds:     {', '.join(f'{name} {spent}' for name, spent in sorted(result.seconds.items()))}",
        f"  file:        {result.path}",
    ):
        assert f"\n{line}\n" in out, line
    assert "  trainer:     scone@2 alarms 0.05, bn_mode joint" in out and "(* set by the user)" not in out
    assert "  digits:      fingerprint a2b94ca175e5b3a0, scikit-learn's digits" in out
    assert "torch 2.13.0+cpu" in out and "labelled 505" in out and "epochs 12" in out
    assert out.endswith(
        "\nmake it again with:\n  oodbench run --suite digits-c --methods scone --setting unseen-digits --seeds 2\n"
    )


@pytest.mark.parametrize("method", ["msp", "scone", "energy-oe"])
def test_the_command_of_a_committed_result_finds_it_done(method, tmp_path):
    reference(tmp_path, "digits-c", lambda result: (result.method, result.setting) == (method, "photo-patches"))
    for result in read_folder(tmp_path)[0]:
        assert again(result, tmp_path) == "digits-c: 1 cell, 1 done already, 0 to run"


def test_the_command_of_a_changed_run_finds_it_done(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # two wait for each other on a busy machine
    setting = "unseen-digits,covariate=blur,severity=5"
    changes = ["--set", "knn.k=3", "--set", "recipe.epochs=1", "--set", "splits.labelled=0.4", "--cpu-threads", "2"]
    assert_done(smoke(tmp_path, "irm+knn", "--seeds", "1", "--setting", setting, *changes, "--draws", "2"))
    results, _ = read_folder(tmp_path)
    assert [result.draw for result in sorted(results, key=lambda r: r.draw)] == [0, 1]
    for result in results:
        assert again(result, tmp_path) == f"digits-c-smoke: {result.draw + 1} cell{'s' * result.draw}, " + (
            f"{result.draw + 1} done already, 0 to run"
        )
        assert "k* 3" in assert_done(oodbench("show", result.path))


def test_what_a_command_cannot_say_is_remarked(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    suite = tmp_path / "own.yaml"
    suite.write_text(SUITE_FILE.read_text())
    given = ["run", "--suite", suite, "--preset", "smoke", "--methods", "mine", "--plugin", plugin]
    assert_done(oodbench(*given, "--setting", "unseen-digits", "--results", tmp_path / "results"))
    (result,) = read_folder(tmp_path / "results")[0]
    words, remarks = command(result)
    assert words.endswith(" --setting unseen-digits --seeds 0 --plugin FILE.py")
    assert remarks == [
        "the suite 'own' was not found or has changed; give its file after --suite",
        "'mine' is not shipped with oodbench; FILE.py is its file",
    ]


def test_a_recipe_that_a_suite_no_longer_has_is_remarked():
    ran = config()
    recipes = replace(ran.suite.recipes, scratch=replace(ran.suite.recipes.scratch, epochs=99))
    ran = replace(ran, suite=replace(ran.suite, recipes=recipes))
    assert " --set recipe.epochs=99 " in command(a_result(config=ran))[0]
    later = replace(ran, method=replace(ran.method, starts_from=[component("erm")]))
    words, (remark,) = command(a_result(config=later))
    assert "--set " not in words
    assert remark == "the suite's file has changed since: it ran with recipe.epochs 99 and then 12"


def test_a_gpu_and_given_weights_are_in_the_command():
    ran = replace(config(), init="0123456789abcdef")
    words, remarks = command(a_result(config=ran, device="cuda:0 (A100), deterministic, compiled"))
    assert words.endswith(" --seeds 0 --device cuda --deterministic --compile --init FILE")
    assert remarks == ["FILE holds the weights with the digest 0123456789abcdef"]


def test_a_failed_cell_is_shown_with_its_error_and_traceback(tmp_path):
    write(
        a_result(status="failed", error="the loss became nan", traceback="Trace\n  line"), tmp_path / "a.json", {}, []
    )
    out = assert_done(oodbench("show", tmp_path / "a.json"))
    assert out.startswith(
        "digits-c / unseen-digits / scone / seed 0: failed\n\nfailed: the loss became nan\nTrace\n  line\n\nwhat ran\n"
    )


def test_a_run_that_did_not_converge_is_shown_so(tmp_path):
    write(
        a_result(metrics={"auroc": 0.5}, notes={"not_converged": "the wild term still falls"}),
        tmp_path / "a.json",
        {},
        [],
    )
    out = assert_done(oodbench("show", tmp_path / "a.json"))
    assert "  AUROC\n\ndid not converge: the wild term still falls\n\nwhat ran\n" in out


def test_a_file_that_is_no_result_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    assert_refused(oodbench("show", tmp_path / "a.json"), "is no result to show: not an oodbench result")
    assert_refused(oodbench("show", tmp_path / "b.json"), "is no result to show: cannot be read: No such file")
