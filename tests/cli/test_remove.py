"""`oodbench remove`: cells go after they are shown, and nothing else does."""

import io
import shutil

import pytest
from command_line import assert_done, assert_refused, oodbench
from made_results import a_result

from oodbench.results.stored import LOCK, write


@pytest.fixture
def folder(tmp_path):
    """Two methods, three seeds, one cell of which failed, with all that lies beside results."""
    home = tmp_path / "results"
    for method in ("msp", "scone"):
        for seed in range(3):
            failed = {"status": "failed", "error": "no"} if (method, seed) == ("scone", 1) else {}
            path = home / "digits-c" / "unseen-digits" / method / f"seed{seed}-{method}.json"
            write(a_result(method=method, seed=seed, **failed), path, {}, [])
            for suffix in (".safetensors", ".jsonl"):
                path.with_suffix(suffix).write_text("")
    (home / "weights").mkdir()
    (home / "weights" / "a.pt").write_text("")
    (home / "digits-c" / "table.md").write_text("")
    shutil.copytree(home / "digits-c", home / "demo" / "digits-c")
    (home / "demo" / "COLLECTION").write_text("demo")
    return home


def files(folder):
    return {path for path in folder.rglob("*") if path.is_file() and path.name != LOCK}


def of(folder, method, seed):
    home = folder / "digits-c" / "unseen-digits" / method
    return {home / f"seed{seed}-{method}{suffix}" for suffix in (".json", ".safetensors", ".jsonl")}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_failed_cells_are_shown_and_go_with_their_scores_and_logs(folder):
    before = files(folder)
    path = folder / "digits-c" / "unseen-digits" / "scone" / "seed1-scone.json"
    out = assert_done(oodbench("remove", folder, "--failed", "--yes"))
    assert out == f"  {path}, failed: no\n1 cell removed: results, raw scores and logs; weights stay\n"
    assert before - files(folder) == of(folder, "scone", 1)
    assert assert_done(oodbench("remove", folder, "--failed", "--yes")).startswith("nothing to remove: no cell in ")


def test_all_that_is_said_must_fit(folder):
    before = files(folder)
    more = ["--suite", "digits-c", "--setting", "unseen-digits", "--seed", "0", "--seed", "2"]
    assert "2 cells removed" in assert_done(oodbench("remove", folder, "--method", "msp", *more, "--yes"))
    assert before - files(folder) == of(folder, "msp", 0) | of(folder, "msp", 2)


def test_folders_go_when_they_are_empty(folder):
    assert_done(oodbench("remove", folder, "--method", "msp", "--yes"))
    assert not (folder / "digits-c" / "unseen-digits" / "msp").exists()
    assert_done(oodbench("remove", folder, "--suite", "digits-c", "--yes"))
    assert {path.name for path in (folder / "digits-c").iterdir()} == {"table.md"}
    (folder / "digits-c" / "table.md").unlink()
    assert (folder / "weights" / "a.pt").exists() and (folder / "demo" / "digits-c" / "unseen-digits" / "msp").exists()
    assert "nothing to remove" in assert_done(oodbench("remove", folder, "--method", "msp", "--yes"))


@pytest.mark.parametrize(("answer", "goes"), [("y", True), ("YES", True), ("", False), ("n", False), ("sure", False)])
def test_on_a_terminal_one_is_asked(folder, answer, goes, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    before = files(folder)
    outcome = oodbench("remove", folder, "--method", "msp")
    assert "Delete 3 cells? [y/N] " in outcome.out and outcome.status == (0 if goes else 1)
    assert (files(folder) != before) == goes and ("nothing removed\n" in outcome.out) != goes


def test_nobody_to_ask_is_a_refusal(folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    before = files(folder)
    outcome = oodbench("remove", folder, "--method", "msp")
    assert_refused(outcome, "3 cells would be deleted, and there is no terminal to ask on; add --yes to delete")
    assert outcome.out.count("/msp/seed") == 3 and files(folder) == before


def test_an_end_of_input_is_no_agreement(folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal(""))
    before = files(folder)
    outcome = oodbench("remove", folder, "--method", "msp")
    assert outcome.status == 1 and files(folder) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "would be deleted; say which cells with --method, --suite, --setting, --seed or --failed"),
        (["--yes"], "would be deleted; say which cells with"),
        (["--method", "scoen"], "unknown method of these results 'scoen'; did you mean 'scone'?"),
        (["--suite", "digits"], "unknown suite of these results 'digits'; did you mean 'digits-c'?"),
        (["--seed", "7"], "unknown seed of these results '7'; known: 0, 1, 2"),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_goes(folder, given, message):
    before = files(folder)
    assert_refused(oodbench("remove", folder, *given), message)
    assert files(folder) == before


def test_a_file_that_is_no_result_is_named_and_stays(folder):
    alien = folder / "digits-c" / "unseen-digits" / "msp" / "notes.json"
    alien.write_text("{}")
    outcome = oodbench("remove", folder, "--method", "msp", "--yes")
    assert outcome.status == 0 and outcome.err == f"oodbench: skipped {alien}: not an oodbench result\n"
    assert list(alien.parent.iterdir()) == [alien]
