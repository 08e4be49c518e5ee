"""What the Tab key offers, as bash asks for it."""

import os
import subprocess
import sys

import pytest
from command_line import python

from oodbench.config.registry import Registry
from oodbench.config.suite import suite_files
from oodbench.results.metrics import METRICS

pytest.importorskip("argcomplete")


SHELL = {
    "_ARGCOMPLETE": "1",
    "_ARGCOMPLETE_SHELL": "bash",
    "_ARGCOMPLETE_IFS": "\n",
    "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n",
    "_ARGCOMPLETE_STDOUT_FILENAME": "answer",
}
# Runs `oodbench` once for each line, in a fork, since it ends its process. What all of them read is read before.
FORKING = """
import os, sys
from oodbench.cli import command_line, completion, main
from oodbench.config.registry import Registry

command_line.parser_of()
Registry().cards

for line in sys.stdin:
    child = os.fork()
    if not child:
        line = line.removesuffix("\\n")
        os.environ.update(COMP_LINE=line, COMP_POINT=str(len(line)))
        sys.exit(main())
    os.waitpid(child, 0)
    print("answered", flush=True)
"""


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """A function that gives what is offered after a line."""
    folder = tmp_path_factory.mktemp("shell")
    answer, told = folder / "answer", folder / "told"
    with told.open("w") as err:
        shell = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-c", FORKING],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, cwd=folder,
            env={**os.environ, **SHELL},
        )  # fmt: skip

    def ask(line):
        answer.unlink(missing_ok=True)
        shell.stdin.write(f"{line}\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "answered\n"
        assert "import time:" in told.read_text() and " torch\n" not in told.read_text()
        assert "Traceback" not in told.read_text()
        return answer.read_text().split() if answer.exists() else []

    yield ask
    shell.communicate()


def test_a_new_process_offers_commands_without_torch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = python("-X", "importtime", "-m", "oodbench", COMP_LINE="oodbench r", COMP_POINT="10", **SHELL)
    assert outcome.out == "" and " torch\n" not in outcome.err and "Traceback" not in outcome.err
    assert (tmp_path / "answer").read_text().split() == ["run", "report", "remove", "rescore"]


def test_commands_and_their_flags_are_offered(offered):
    assert offered("oodbench r") == ["run", "report", "remove", "rescore"]
    assert offered("oodbench data re") == ["remove"]
    assert offered("oodbench run --prec") == ["--precision"]


def test_names_of_methods_are_offered_one_after_the_other(offered):
    assert offered("oodbench run --methods mix") == ["mixoe", "mixup"]
    assert offered("oodbench run --methods msp,mixup+kn") == ["msp,mixup+knn"]
    assert {"all", "all-scorers", "all-trainers"} < {*offered("oodbench run --methods a")}


def test_scorers_are_offered_where_nothing_is_trained(offered):
    scorers = {name for name, card in Registry().cards.items() if card.kind == "Scorer"}
    assert {*offered("oodbench evaluate --scorers ")} == {*scorers, "all"}
    assert offered("oodbench fit --scorer be") == ["best"]


def test_suites_and_their_presets_settings_and_corruptions_are_offered(offered):
    assert {*offered("oodbench run --suite ")} >= {*suite_files()}
    assert offered("oodbench run --suite pacs --preset c") == ["cpu"]
    assert offered("oodbench run --suite digits-c --setting un") == ["unseen-digits"]
    assert offered("oodbench data show digits-c --corruption bl") == ["blur"]


def test_data_sets_formats_and_metrics_are_offered(offered):
    assert offered("oodbench data add mni") == ["mnist-c-files", "mnist"]
    assert offered("oodbench data get mnist-") == ["mnist-c-files", "mnist-c"]
    assert offered("oodbench table results --format la") == ["latex"]
    assert offered("oodbench table results --metrics fpr95,aur") == [
        f"fpr95,{name}" for name in METRICS if "aur" in name
    ]
    assert offered("oodbench list da") == ["datasets"]
    assert offered("oodbench show kn") == ["knn"]


def test_what_cannot_be_looked_up_offers_nothing_and_says_nothing(offered):
    assert offered("oodbench run --suite nowhere.yaml --preset ") == []


def test_without_argcomplete_a_shell_gets_no_answer_and_no_traceback(tmp_path):
    (tmp_path / "argcomplete.py").write_text("raise ImportError('not installed')")
    outcome = python("-m", "oodbench", _ARGCOMPLETE="1", COMP_LINE="oodbench r", PYTHONPATH=str(tmp_path))
    assert (outcome.out, outcome.err) == ("", "") and outcome.status == 1


def test_nothing_of_completion_is_imported_unless_a_shell_asks():
    code = "import sys; from oodbench.cli import main; main(['list', 'networks']); print(*sys.modules)"
    loaded = {*python("-c", code).out.split()}
    assert "oodbench.cli.list" in loaded and not {"argcomplete", "oodbench.cli.completion"} & loaded
